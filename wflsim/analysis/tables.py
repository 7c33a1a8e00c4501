"""Rows -> tables: what a finished (or half-finished) run folder says, with intervals. Reads files only, no torch.

`Folder` reads what is there, whole, half-finished or damaged: reports are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from wflsim.analysis.formats import COLUMNS, cost, interval, percent
from wflsim.analysis.formats import FINALS as ACCURACIES
from wflsim.analysis.intervals import Interval as Interval
from wflsim.analysis.legs import latency_s, world_facts
from wflsim.results.reader import METRICS as FINALS
from wflsim.results.reader import FolderReader
from wflsim.target import reached_in

COSTS = {
    "rounds": "rounds",
    "energy_j": "energy_j",
    "paper_energy_j": "paper_energy_j",
    "time_s": "time_s",
    "up_bits": "up_bits",
    "down_bits": "down_bits",
}
FACTS = (
    "reached", *COSTS, *(f"final_{final}" for final in FINALS), "latency_p50_s", "latency_p95_s", "asked", "delivered",
)  # fmt: skip
"""Columns of one run in one line, as `run_facts` makes them."""


def cumulated(rounds: pd.DataFrame) -> pd.DataFrame:
    """One run's costs as running sums: what it had taken to get to the end of each round."""
    sums = rounds[["energy_j", "paper_energy_j", "up_bits", "down_bits"]].cumsum()
    return sums.assign(rounds=rounds["round"] + 1, time_s=rounds["end_s"])


def hit(rounds: pd.DataFrame, target: Mapping[str, Any]) -> int | None:
    """Position of the round in which the target was reached, by the rule that stops runs; None if it never was."""
    seen = rounds[target["metric"]].dropna()
    numbers = rounds["round"]
    reached = reached_in(zip(numbers[seen.index].tolist(), seen.tolist(), strict=True), target)
    return None if reached is None else int((numbers >= reached).to_numpy().argmax())


def run_facts(rounds: pd.DataFrame, target: Mapping[str, Any] | None) -> dict[str, float]:
    """One run in one line: costs to target (of the whole run, if it missed) and the last evaluation.

    A run that diverged in its first round has no rows: it missed, its costs are 0 (a lower bound), the rest is NaN.
    """
    if not len(rounds):
        return {**dict.fromkeys(FACTS, np.nan), **dict.fromkeys(("reached", *COSTS, "asked", "delivered"), 0.0)}
    rounds = rounds.reset_index(drop=True)
    costs = cumulated(rounds)
    at = hit(rounds, target) if target else None
    facts = {name: float(costs[column].iloc[-1 if at is None else at]) for name, column in COSTS.items()}
    evaluated = rounds.dropna(subset=["worst"])
    finals = {f"final_{name}": float(evaluated[name].iloc[-1]) if len(evaluated) else np.nan for name in FINALS}
    p50_s, p95_s = latency_s(rounds)
    return {
        "reached": float(at is not None),
        **facts,
        **finals,
        "latency_p50_s": p50_s,
        "latency_p95_s": p95_s,
        "asked": float(rounds["asked"].sum()),
        "delivered": float(rounds["delivered"].sum()),
    }


def over_seeds(runs: pd.DataFrame, has_target: bool) -> dict[str, Any]:
    """Lines of one policy in one regime, a line per seed, as one: how many, and mean, low and high of everything.

    A run that missed its target, or diverged before an end without target, has no cost, only a lower bound: a mean that
    contains one is a lower bound too and has no interval. `reached_energy_j` is the mean over runs that did reach it.
    """
    row: dict[str, Any] = {"seeds": len(runs)}
    whole = ~diverged(runs)
    row["diverged"] = int((~whole).sum())
    if has_target:
        row |= Interval.of_share(int(runs["reached"].sum()), len(runs)).columns("p_reach")
        whole = runs["reached"] > 0
        row["reached_energy_j"] = Interval.of(runs["energy_j"][whole].tolist()).mean
    for name in COSTS:
        cost = Interval.of_costs(runs[name].tolist())
        row |= (cost if whole.all() else Interval(cost.mean, np.nan, np.nan)).columns(name)
    for name in ("latency_p50_s", "latency_p95_s"):
        row |= Interval.of_costs(runs[name].dropna().tolist()).columns(name)
    for name in (f"final_{final}" for final in FINALS):
        row |= Interval.of(runs[name].dropna().tolist(), lowest=0.0, highest=1.0).columns(name)
    return row


def summary_html(summary: pd.DataFrame) -> str:
    """A summary for notebooks: a line per policy (and regime), what it costs and how accurate it is at the end.

    Each mean stands with its 95 % interval, as on the terminal; a cost that a run missed to pay is "at least" one.
    """
    rows = cast("list[dict[str, Any]]", summary.to_dict("records"))
    shown = pd.DataFrame(index=summary.index)
    for name in map(str, summary.columns[: list(summary.columns).index("seeds") + 1]):
        shown[name] = [str(row[name]) for row in rows]
    if "p_reach" in summary:
        shown["P(reach)"] = [interval(row, "p_reach", percent) for row in rows]
    for name, heading, show in COLUMNS:
        shown[heading] = [cost(row, name, show) for row in rows]
    for name, heading in ACCURACIES:
        shown[f"{heading}, last"] = [interval(row, name, percent) for row in rows]
    return str(shown.to_html(index=False, escape=True, border=0, justify="left"))


def diverged(runs: pd.DataFrame) -> pd.Series:
    """Which runs ended because they diverged, as far as the table says how they ended."""
    return runs["status"] == "diverged" if "status" in runs else pd.Series(False, index=runs.index)


class Results(FolderReader):
    """A run folder as pandas frames: `rounds`, `clients`, `legs`, `fleet`, `runs` (a line per seed), `summary`.

    `wflsim.run` returns one; `Results(folder)` opens what was run earlier. Raises StoreError if the folder is none, has
    unfinished runs, or a file has changed since it was finished. Columns: docs, "Tables and their columns".

    >>> import tempfile, wflsim
    >>> folder = tempfile.mkdtemp() + "/small"
    >>> _ = wflsim.run({
    ...     "name": "small", "clients": 4, "data": {"name": "digits"}, "partition": {"alpha": 0.5},
    ...     "model": {"name": "linear"}, "policies": [{"name": "fedavg", "m": 2}], "stop": {"rounds": 3},
    ... }, folder, workers=1)
    >>> results = wflsim.Results(folder)
    >>> sorted(results.legs["activity"].unique())
    ['compute', 'receive', 'transmit']
    """

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per round of every run: time, energy, bits and accuracies."""
        return self.all_rows("rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per client and evaluation of every run."""
        return self.all_rows("clients")

    @cached_property
    def legs(self) -> pd.DataFrame:
        """One row per activity of every device in every run."""
        return self.all_rows("legs")

    @cached_property
    def fleet(self) -> pd.DataFrame:
        """One row per client of every run: its device, its battery, its distance and its samples."""
        return self.all_rows("fleet")

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One line per (policy, seed): costs, last accuracies, and how the run ended."""
        groups = dict(cast("Any", list(self.rounds.groupby(["policy", "seed"], sort=False))))
        endings = {(row["policy"], row["seed"]): row["status"] for row in self.status.to_dict("records")}
        empty = self.rounds.iloc[:0]
        rows = [
            {"policy": key[0], "seed": key[1], **run_facts(groups.get(key, empty), self.target),
             "status": endings.get(key, "")}
            for key in self.run_folders
            if key in groups or endings.get(key) == "diverged"
        ]  # fmt: skip
        return pd.DataFrame(rows)

    @cached_property
    def world(self) -> pd.DataFrame:
        """One line per (policy, seed) about time and radio: straggler, failures, lifetime, joules by cause."""
        rows = []
        for (label, seed), legs in cast("Any", self.legs.groupby(["policy", "seed"], sort=False)):
            rows.append({"policy": label, "seed": seed, **world_facts(legs).row()})
        return pd.DataFrame(rows)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One line per policy: mean, low and high over seeds; lower bounds where a run missed the target."""
        rows = []
        for label, runs in self.runs.groupby("policy", sort=False):
            rows.append({"policy": label, **over_seeds(runs, self.target is not None)})
        return pd.DataFrame(rows)

    @property
    def policies(self) -> dict[str, dict[str, Any]]:
        """The summary's lines by policy."""
        rows = [{str(key): value for key, value in row.items()} for row in self.summary.to_dict("records")]
        return {row["policy"]: row for row in rows}

    def _repr_html_(self) -> str:
        return summary_html(self.summary)

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r})\n{self.summary.to_string(index=False, float_format='{:.4g}'.format)}"


WORLD = ("policy", "seed", "failed_orders", "failures", "dead_clients", "lifetime_rounds")


class Folder(Results):
    """A result folder of any kind, read as far as it goes. `missing` says in sentences what was not there."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder, strict=False)
        self.world = pd.DataFrame(columns=list(WORLD))
        """Failed orders and dead batteries of each run; filled in by whoever reads the legs."""
