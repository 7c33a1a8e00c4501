"""What a reader of a tuning map should know: edges, missed targets, and candidates that were cut off."""

from __future__ import annotations

from wflsim.report.tuning import Tune


def tune_warnings(tune: Tune) -> list[str]:
    """Sentences about optima at the edge of the candidates, missed targets and candidates that were cut off."""
    found = list(tune.notes)
    for policy, rows in tune.map.groupby("policy", sort=False):
        where = f"in {{}} of {len(rows)} regimes" if len(rows) > 1 else "here"
        if edge := int(rows["edge"].sum()):
            found.append(
                f"{policy}: τ* lies at the edge of the τ grid {where.format(edge)}; a wider grid may find a cheaper one"
            )
        for why, times in rows.loc[rows["why_edge"] != "", "why_edge"].value_counts().items():
            found.append(f"{policy}: the search over τ ended {where.format(times)} because {why}")
        if missed := int(((rows["p_reach"] < 1) & (rows["p_reach"] > 0)).sum()):
            found.append(
                f"{policy}: some seeds miss the target at τ* {where.format(missed)}; the cost is a restricted mean"
            )
        if never := int((rows["cost"].isna() | (rows["p_reach"] == 0)).sum()):
            found.append(f"{policy}: no τ reaches the target {where.format(never)}")
        if len(cut := rows[rows["could_win"] != ""]):
            gap = "; " if tune.knobs else " "
            names = {name for words in cut["could_win"] for name in words.split(gap)}
            listed = ("; " if tune.knobs else ", ").join(sorted(names, key=lambda name: (len(name), name)))
            found.append(
                f"{policy}: stop.rounds cut off {'' if tune.knobs else 'τ = '}{listed} {where.format(len(cut))}, which "
                f"may still win (hollow): raise stop.rounds"
            )
    return found
