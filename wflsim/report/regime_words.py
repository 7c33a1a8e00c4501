"""The answer of a sweep and of a tuning map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from wflsim.answer import goal_text, percent, si
from wflsim.ranking import pair
from wflsim.report.regimes import Sweep, Tune, best_in_regimes, best_policies, name_of, short_key
from wflsim.report.source import Folder
from wflsim.report.wording import Fact, Opening, cost_text


def sweep_opening(folder: Folder, sweep: Sweep) -> Opening:
    """Who wins in how many regimes, and where it costs least and most."""
    facts = [
        Fact("regimes", str(sweep.summary["regime"].nunique())),
        Fact("policies", str(len(sweep.policies))),
        Fact("runs", str(len(sweep.cells))),
        Fact("over", ", ".join(map(short_key, sweep.keys)) or "-"),
    ]
    winners = best_policies(sweep.summary)
    regimes = len(winners)
    if folder.target:
        winners = winners[winners["p_reach"] > 0]
    if not len(winners):
        return Opening(f"No policy reaches {goal_text(folder.target)} in any of {regimes} regimes.", "", facts)
    counts = winners["policy"].value_counts()
    verb = f"reaches {goal_text(folder.target)}" if folder.target else "ends"
    least = " with the least energy" if len(sweep.policies) > 1 else ""
    text = f"{counts.index[0]} {verb}{least} in {counts.iloc[0]} of {regimes} regimes"
    low, high = (winners.loc[winners["energy_j"].agg(pick)] for pick in ("idxmin", "idxmax"))
    text += f", from {si(low['energy_j'], 'J')} ({name_of(low, sweep.keys)})"
    if len(winners) > 1:
        text += f" to {si(high['energy_j'], 'J')} ({name_of(high, sweep.keys)})"
    others = [f"{policy} in {count}" for policy, count in counts.iloc[1:].items()]
    if len(winners) < regimes:
        others.append(f"nobody in {regimes - len(winners)}")
    return Opening("; ".join([text, ", ".join(others)] if others else [text]) + ".", _told_apart(sweep, winners), facts)


def _told_apart(sweep: Sweep, winners: pd.DataFrame) -> str:
    """In how many regimes the winner's saving over each rival has an interval that excludes zero, on common seeds."""
    seeds = int(sweep.summary["seeds"].max())
    if seeds < 2:
        return "How sure: one seed is an anecdote. Run several to get intervals."
    if len(sweep.policies) < 2:
        return f"How sure: {seeds} seeds in each regime."
    clear = 0
    for row in winners.to_dict("records"):
        here = sweep.cells[sweep.cells["regime"] == row["regime"]]
        rivals = [str(policy) for policy in here["policy"].unique() if policy != row["policy"]]
        pairs = [pair(here, str(row["policy"]), rival, "p_reach" in row) for rival in rivals]
        clear += all(found.common > 1 and found.told_apart for found in pairs)
    return (
        f"How sure: {seeds} seeds in each regime. The winner is told apart from every rival (95 % interval of the "
        f"paired difference) in {clear} of {len(winners)} regimes."
    )


def sweep_warnings(sweep: Sweep) -> list[str]:
    """Censored seeds and cells that did not end well."""
    found = []
    if "p_reach" in sweep.summary:
        for policy, rows in sweep.summary.groupby("policy", sort=False):
            if missed := int((rows["p_reach"] < 1).sum()):
                found.append(
                    f"{policy} missed the target on some seed in {missed} of {len(rows)} regimes; those count with all "
                    f"they spent, so its costs there are lower bounds"
                )
    bad = sweep.cells[~sweep.cells["status"].isin(["done", ""])]
    found += [f"{count} cells ended as “{status}”" for status, count in bad["status"].value_counts().items()]
    return found


def tune_opening(folder: Folder, tune: Tune) -> Opening:
    """The best tau and what it costs; over a map, how far tau* moves."""
    chosen = tune.map[tune.map["cost"].notna() & (tune.map["p_reach"] != 0)]
    objective = str(folder.about.get("objective", "energy"))
    goal = goal_text(_target(folder))
    if not len(chosen):
        return Opening(f"No τ reaches {goal}{_nearest(tune)}.", "", [])
    winners = best_in_regimes(tune.map)
    best = winners.iloc[int(winners["cost"].to_numpy().argmin())]
    unit = str(best.get("unit", ""))
    if chosen["regime"].nunique() == 1:
        text = f"{best['policy']} with τ = {best['tau_star']:.0f} reaches {goal} with {_cost(best, unit)}"
        for _, row in chosen[chosen["policy"] != best["policy"]].iterrows():
            text += f", {_less(best, row)} {row['policy']} at its best τ = {row['tau_star']:.0f}"
    else:
        policy = str(winners["policy"].value_counts().index[0])
        rows = chosen[chosen["policy"] == policy]
        low, high = (rows.loc[rows["tau_star"].agg(pick)] for pick in ("idxmin", "idxmax"))
        span = f"τ = {low['tau_star']:.0f} everywhere"
        if low["tau_star"] != high["tau_star"]:
            ends = (f"{row['tau_star']:.0f} ({name_of(row, tune.keys)})" for row in (low, high))
            span = f"τ from {' to '.join(ends)}"
        count = int((winners["policy"] == policy).sum())
        wins = f" in {count} of {len(winners)} regimes" if len(tune.policies) > 1 else ""
        text = f"{policy} reaches {goal} at the least {objective}{wins} with {span}; cheapest at "
        text += f"{name_of(best, tune.keys)}: {_cost(best, unit)} with τ = {best['tau_star']:.0f}"
        if best["policy"] != policy:
            text += f" of {best['policy']}"
    facts = [
        Fact("objective", objective),
        Fact("accounting", str(folder.about.get("accounting", "full"))),
        Fact(
            "τ*", f"{best['tau_star']:.0f}", f"within 5 %: {best['within5']}" if pd.notna(best.get("within5")) else ""
        ),
        Fact("its cost", cost_text(best["cost"], unit), _range(best, unit)),
    ]
    if np.isfinite(best["cost_unseen"]):
        facts.append(Fact("on unseen seeds", cost_text(best["cost_unseen"], unit), _range(best, unit, "cost_unseen")))
    return Opening(text + ".", _tune_sure(tune, best), facts)


def _nearest(tune: Tune) -> str:
    """; nearest: drdm with τ = 5 at 71.2 %"""
    if tune.costs is None or "attained" not in tune.costs or not tune.costs["attained"].notna().any():
        return ""
    row = tune.costs.iloc[int(np.nanargmax(tune.costs["attained"].to_numpy(float)))]
    return f"; nearest: {row['policy']} with τ = {row['tau']:.0f} at {percent(row['attained'])}"


def _less(best: Any, row: Any) -> str:
    """How the best compares with another policy's best τ: by its cost, or by how surely it reaches."""
    if row["p_reach"] < best["p_reach"]:
        return f"more surely ({percent(best['p_reach'])} of seeds) than the {percent(row['p_reach'])} of"
    return f"{100 * (1 - best['cost'] / row['cost']):.0f} % less than"


def _tune_sure(tune: Tune, best: Any) -> str:
    parts = []
    if np.isfinite(best["cost_unseen"]):
        unit = str(best.get("unit", ""))
        parts.append(
            f"on seeds that did not choose it τ = {best['tau_star']:.0f} costs {cost_text(best['cost_unseen'], unit)} "
            f"[{_range(best, unit, 'cost_unseen').replace(' to ', ', ')}]: a winner looks cheaper than it is on the "
            f"seeds that chose it"
        )
    if tune.costs is not None and "p_best" in tune.costs:
        row = tune.costs[
            (tune.costs["policy"] == best["policy"]) & (tune.costs["regime"] == best["regime"])
            & (tune.costs["tau"] == best["tau_star"])
        ]  # fmt: skip
        if len(row) and pd.notna(row["p_best"].iloc[0]):
            most = row["p_best_most"].iloc[0] if "p_best_most" in row else row["p_best"].iloc[0]
            least = "at least " if most - row["p_best"].iloc[0] > 0.0005 else ""
            parts.append(
                f"τ = {best['tau_star']:.0f} is the best of the grid with probability "
                f"{least}{percent(row['p_best'].iloc[0])}"
            )
        elif len(row) and np.isfinite(best["cost_low"]):
            parts.append("two seeds cannot say which τ is best")
    if pd.notna(best.get("within5")):
        parts.append(f"within 5 % of the least cost: τ = {', '.join(str(best['within5']).split())}")
    if not np.isfinite(best["cost_low"]):
        parts.append("no interval, there is only one curve per τ")
    elif pd.notna(best.get("p_reach")):
        parts.append(f"P(reach) {percent(best['p_reach'])}")
    return f"How sure: {'; '.join(parts)}." if parts else ""


def tune_warnings(tune: Tune) -> list[str]:
    """Optimum at the edge, targets missed."""
    found = list(tune.notes)
    for policy, rows in tune.map.groupby("policy", sort=False):
        where = f"in {{}} of {len(rows)} regimes" if len(rows) > 1 else "here"
        if edge := int(rows["edge"].sum()):
            found.append(
                f"{policy}: τ* lies at the edge of the τ grid {where.format(edge)}; a wider grid may find a cheaper one"
            )
        if missed := int(((rows["p_reach"] < 1) & (rows["p_reach"] > 0)).sum()):
            found.append(
                f"{policy}: some seeds miss the target at τ* {where.format(missed)}; the cost is a restricted mean"
            )
        if never := int((rows["cost"].isna() | (rows["p_reach"] == 0)).sum()):
            found.append(f"{policy}: no τ reaches the target {where.format(never)}")
        if len(cut := rows[rows["could_win"] != ""]):
            taus = sorted({tau for words in cut["could_win"] for tau in words.split()}, key=lambda tau: (len(tau), tau))
            found.append(
                f"{policy}: stop.rounds cut off τ = {', '.join(taus)} {where.format(len(cut))}, which may "
                f"still win (hollow): raise stop.rounds"
            )
    return found


def _target(folder: Folder) -> dict[str, Any] | None:
    held = folder.about.get("target", folder.target)
    if isinstance(held, int | float):
        return {"metric": (folder.target or {}).get("metric", "worst"), "accuracy": float(held)}
    return held if isinstance(held, dict) and "accuracy" in held and "metric" in held else folder.target


def _cost(row: Any, unit: str) -> str:
    bounds = f" [{cost_text(row['cost_low'], unit)}, {cost_text(row['cost_high'], unit)}]"
    return cost_text(row["cost"], unit) + (bounds if np.isfinite(row["cost_low"]) else "")


def _range(row: Any, unit: str, name: str = "cost") -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{cost_text(low, unit)} to {cost_text(high, unit)}" if np.isfinite(low) else ""
