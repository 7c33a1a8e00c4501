"""A sweep on the page: its runs, means over seeds, who wins in which regime, and what to know about it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from wflsim.analysis.answer import goal_text
from wflsim.analysis.formats import joules
from wflsim.analysis.ranking import against_best, ranked, records_of, winners
from wflsim.analysis.regimes import name_of, short_key
from wflsim.analysis.tables import COSTS, FACTS, Folder, over_seeds
from wflsim.report.wording import ANECDOTE, Fact, Opening
from wflsim.results.folders import runs_table
from wflsim.results.rows import HUGE


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, and their means over seeds."""

    keys: list[str]
    """Scenario keys that the sweep varies."""
    runs: pd.DataFrame
    """One row per regime, policy and seed that has a result."""
    summary: pd.DataFrame
    """One row per regime and policy: means and intervals over seeds."""

    @property
    def policies(self) -> list[str]:
        """Names of the policies in the order of the table."""
        return list(dict.fromkeys(self.runs["policy"]))

    @property
    def winners(self) -> pd.DataFrame:
        """The best row of the summary in each regime."""
        return winners(self.summary, self.summary["regime"], ranked)


def read_sweep(folder: Folder) -> Sweep | None:
    """Read runs.csv, aggregated as `Results` does it; runs that failed are counted in `missing`, not shown."""
    keys = keys_of(folder)
    table = runs_table(folder.folder)
    runs = folder.table(table, ["regime", "policy", "seed", *keys, *COSTS])
    if runs is None:
        return None
    runs = runs.reindex(columns=[*dict.fromkeys([*runs.columns, *FACTS, "status", "reason"])])
    runs[list(FACTS)] = runs[list(FACTS)].apply(numbers)
    runs["reached"] = (runs["reached"] > 0).astype(float)
    texts = ["policy", *keys, "status", "reason"]
    runs[texts] = runs[texts].astype(object).fillna("").astype(str)  # a damaged column may hold numbers
    failed = runs[list(COSTS)].isna().any(axis=1)
    if failed.any():
        why = "; ".join(dict.fromkeys(reason for reason in runs[failed]["reason"] if reason))[:200]
        folder.missing.append(
            f"{table}: {int(failed.sum())} of {len(runs)} runs have no result{f' ({why})' if why else ''}"
        )
    runs = runs[~failed]
    if not len(runs):
        return None
    rows = [
        {"regime": regime, **{name: own[name].iloc[0] for name in keys}, "policy": policy,
         **over_seeds(own, folder.target is not None)}
        for (regime, policy), own in runs.groupby(["regime", "policy"], sort=False)
    ]  # fmt: skip
    return Sweep(keys, runs, pd.DataFrame(rows))


def sweep_opening(folder: Folder, sweep: Sweep) -> Opening:
    """Say which policy wins in how many regimes, and where it costs least and most."""
    facts = [
        Fact("regimes", str(sweep.summary["regime"].nunique())),
        Fact("policies", str(len(sweep.policies))),
        Fact("runs", str(len(sweep.runs))),
        Fact("over", ", ".join(map(short_key, sweep.keys)) or "-"),
    ]
    won = sweep.winners
    regimes = len(won)
    if folder.target:
        won = won[won["p_reach"] > 0]
    if not len(won):
        return Opening(f"No policy reaches {goal_text(folder.target)} in any of {regimes} regimes.", "", facts)
    counts = won["policy"].value_counts()
    verb = f"reaches {goal_text(folder.target)}" if folder.target else "ends"
    least = " with the least energy" if len(sweep.policies) > 1 else ""
    text = f"{counts.index[0]} {verb}{least} in {counts.iloc[0]} of {regimes} regimes"
    low, high = (won.loc[won["energy_j"].agg(pick)] for pick in ("idxmin", "idxmax"))
    text += f", from {joules(low['energy_j'])} ({name_of(low, sweep.keys)})"
    if len(won) > 1:
        text += f" to {joules(high['energy_j'])} ({name_of(high, sweep.keys)})"
    others = [f"{policy} in {count}" for policy, count in counts.iloc[1:].items()]
    if len(won) < regimes:
        others.append(f"nobody in {regimes - len(won)}")
    return Opening("; ".join([text, ", ".join(others)] if others else [text]) + ".", _told_apart(sweep, won), facts)


def _told_apart(sweep: Sweep, won: pd.DataFrame) -> str:
    """Say in how many regimes the winner's saving over each rival has an interval that excludes zero."""
    seeds = int(sweep.summary["seeds"].max())
    if seeds < 2:
        return ANECDOTE
    if len(sweep.policies) < 2:
        return f"How sure: {seeds} seeds in each regime."
    clear = 0
    for regime in won["regime"]:
        here = sweep.runs[sweep.runs["regime"] == regime]
        rows = records_of(sweep.summary[sweep.summary["regime"] == regime])
        pairs = against_best(rows, here, "p_reach" in sweep.summary)
        clear += all(found.common > 1 and found.told_apart for found in pairs)
    return (
        f"How sure: {seeds} seeds in each regime. The winner is told apart from every rival (95 % interval of the "
        f"paired difference) in {clear} of {len(won)} regimes."
    )


def sweep_warnings(sweep: Sweep) -> list[str]:
    """Sentences about seeds that missed the target and about runs that did not end well."""
    found = []
    if "p_reach" in sweep.summary:
        for policy, rows in sweep.summary.groupby("policy", sort=False):
            if missed := int((rows["p_reach"] < 1).sum()):
                found.append(
                    f"{policy} missed the target on some seed in {missed} of {len(rows)} regimes; those count with all "
                    f"they spent, so its costs there are lower bounds"
                )
    bad = sweep.runs[~sweep.runs["status"].isin(["done", ""])]
    found += [f"{count} runs ended as “{status}”" for status, count in bad["status"].value_counts().items()]
    return found


def keys_of(folder: Folder) -> list[str]:
    """Scenario keys that the regimes of a sweep or tuning folder vary, by its run.json."""
    held = folder.about.get("keys")
    return [str(key) for key in held] if isinstance(held, list) else []


def numbers(column: pd.Series) -> pd.Series:
    """A column as floats; NaN for what is no number, or too large to be one of ours."""
    values = pd.to_numeric(column, errors="coerce")
    return values.where(values.abs() <= HUGE)
