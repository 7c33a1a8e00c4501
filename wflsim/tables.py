"""Rows -> tables: what a finished (or half-finished) run folder says, with intervals. Reads files only, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import yaml

from wflsim.errors import StoreError
from wflsim.folders import AGAIN, SCENARIO, about, ended, read_rows, read_table, sealed_file, status
from wflsim.interval import Interval as Interval
from wflsim.record import Leg
from wflsim.seal import Damaged
from wflsim.target import reached_in
from wflsim.world.facts import world_facts

COSTS = {
    "rounds": "rounds",
    "energy_j": "energy_j",
    "paper_energy_j": "paper_energy_j",
    "time_s": "time_s",
    "up_bits": "up_bits",
    "down_bits": "down_bits",
}
FINALS = ("average", "worst", "std", "worst10", "jain")
FACTS = (
    "reached", *COSTS, *(f"final_{final}" for final in FINALS), "latency_p50_s", "latency_p95_s", "asked", "delivered",
)  # fmt: skip
"""The columns of `run_facts`."""


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
    latency_s = rounds["end_s"] - rounds["start_s"]
    return {
        "reached": float(at is not None),
        **facts,
        **finals,
        "latency_p50_s": float(latency_s.quantile(0.5)),
        "latency_p95_s": float(latency_s.quantile(0.95)),
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
        row |= _spread("p_reach", Interval.of_share(int(runs["reached"].sum()), len(runs)))
        whole = runs["reached"] > 0
        row["reached_energy_j"] = Interval.of(runs["energy_j"][whole].tolist()).mean
    for name in COSTS:
        cost = Interval.of_costs(runs[name].tolist())
        row |= _spread(name, cost if whole.all() else Interval(cost.mean, np.nan, np.nan))
    for name in ("latency_p50_s", "latency_p95_s"):
        row |= _spread(name, Interval.of_costs(runs[name].dropna().tolist()))
    for name in (f"final_{final}" for final in FINALS):
        row |= _spread(name, Interval.of(runs[name].dropna().tolist(), lowest=0.0, highest=1.0))
    return row


def diverged(runs: pd.DataFrame) -> pd.Series:
    """Which runs ended because they diverged, as far as the table says how they ended."""
    return runs["status"] == "diverged" if "status" in runs else pd.Series(False, index=runs.index)


class Results:
    """A run folder as pandas frames: `rounds`, `clients`, `legs`, `runs` (a line per seed) and `summary`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.about, self._marks = about(self.folder)
        path = sealed_file(self.folder, SCENARIO, self._marks)
        try:
            self.scenario: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
            self.target: dict[str, Any] | None = self.scenario["stop"].get("target")
            self.labels = [str(entry) for entry in self.about["labels"]]
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError) as error:
            raise StoreError(f"{self.folder} is not a run folder of wflsim: {type(error).__name__}: {error}") from error

    @cached_property
    def cells(self) -> dict[tuple[str, int], Path]:
        """(policy, seed) -> folder of that run, in the scenario's order of policies, each verified.

        StoreError if a run that run.json announces is not finished, or if a file of a finished run was damaged.
        """
        if self.unfinished:
            named = ", ".join(self.unfinished[:4]) + (", ..." if len(self.unfinished) > 4 else "")
            raise StoreError(
                f"{self.folder}: {len(self.unfinished)} of {len(self.unfinished) + len(self.ended)} runs are not "
                f"finished ({named}); the same `wflsim run` goes on with them, and `wflsim report {self.folder}` shows "
                f"what there is"
            )
        if not self.ended:
            raise StoreError(f"{self.folder} holds no finished run yet")
        return self.ended

    @cached_property
    def ended(self) -> dict[tuple[str, int], Path]:
        """(policy, seed) -> folder of every run that has ended, each verified, whatever became of the others."""
        found = {}
        for label in dict.fromkeys(self.labels):
            there = {int(path.name[5:]) for path in (self.folder / label).glob("seed-*") if path.name[5:].isdecimal()}
            for seed in sorted({*self._announced, *there}):
                path = self.folder / label / f"seed-{seed}"
                try:
                    if ended(path) is not None:
                        found[label, seed] = path
                except Damaged as error:
                    raise Damaged(f"{error}; {AGAIN}") from error
        return found

    @property
    def unfinished(self) -> list[str]:
        """The runs that run.json announces and that have not ended, as "drdm seed 1"."""
        announced = [(label, seed) for label in dict.fromkeys(self.labels) for seed in self._announced]
        return [f"{label} seed {seed}" for label, seed in announced if (label, seed) not in self.ended]

    @property
    def _announced(self) -> list[int]:
        held = self.about.get("seeds")
        return [seed for seed in held if isinstance(seed, int)] if isinstance(held, list) else []

    def _table(self, name: str) -> pd.DataFrame:
        frames = []
        for (label, seed), path in self.cells.items():
            frame = read_rows(path / f"{name}.csv")
            frame.insert(0, "policy", label)
            frame.insert(1, "seed", seed)
            frames.append(frame)
        return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        return self._table("rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        return self._table("clients")

    @cached_property
    def legs(self) -> pd.DataFrame:
        return self._table("legs")

    @cached_property
    def status(self) -> pd.DataFrame:
        """How each run ended."""
        rows = [
            {"policy": label, "seed": seed, **status(path)}
            for (label, seed), path in self.cells.items()
        ]
        return pd.DataFrame(rows)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One line per (policy, seed): costs, last accuracies, and how the run ended."""
        groups = dict(cast("Any", list(self.rounds.groupby(["policy", "seed"], sort=False))))
        endings = {(row["policy"], row["seed"]): row["status"] for row in self.status.to_dict("records")}
        empty = self.rounds.iloc[:0]
        rows = [
            {"policy": key[0], "seed": key[1], **run_facts(groups.get(key, empty), self.target),
             "status": endings.get(key, "")}
            for key in self.cells
            if key in groups or endings.get(key) == "diverged"
        ]  # fmt: skip
        return pd.DataFrame(rows)

    @cached_property
    def test_samples(self) -> list[int]:
        """Test images of each client with the first seed; empty if the folder does not say."""
        names = {path.name for path in self.folder.glob("partition-seed-*.csv")} | set(self._marks or ())
        for name in sorted(name for name in names if name.startswith("partition-seed-")):
            table = read_table(sealed_file(self.folder, name, self._marks), ("client", "test_samples"))
            return [int(count) for count in table.groupby("client")["test_samples"].sum()]
        return []

    @cached_property
    def world(self) -> pd.DataFrame:
        """One line per (policy, seed) about time and radio: straggler, failures, lifetime, joules by cause."""
        rows = []
        for (label, seed), legs in cast("Any", self.legs.groupby(["policy", "seed"], sort=False)):
            facts = world_facts([], [Leg(*row) for row in legs[list(Leg._fields)].itertuples(index=False)])
            by_cause = {f"{cause}_j": joules for cause, joules in sorted(facts.energy_j.items())}
            rows.append(
                {
                    "policy": label,
                    "seed": seed,
                    "straggler": facts.straggler,
                    "straggler_share": facts.straggler_share,
                    "lifetime_rounds": facts.lifetime_rounds,
                    "dead_clients": facts.dead,
                    "failed_orders": sum(facts.failures.values()),
                    "failures": " ".join(f"{why}:{times}" for why, times in sorted(facts.failures.items())),
                    **by_cause,
                }
            )
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
        return str(self.summary.to_html(index=False, float_format="{:.4g}".format, escape=True))

    def __repr__(self) -> str:
        return f"Results({str(self.folder)!r})\n{self.summary.to_string(index=False, float_format='{:.4g}'.format)}"


def read_cells(folder: Path) -> pd.DataFrame:
    """The verified cells.csv of a finished sweep; StoreError with the cure if it is not finished or was damaged."""
    held, marks = about(folder)
    if held.get("status") != "done":
        said = held.get("status")
        raise StoreError(f"{folder}: the sweep is not finished (status: {said}); run it again, it goes on")
    return read_table(sealed_file(folder, "cells.csv", marks), ("regime", "policy", "seed", *FACTS, "status"))


def _spread(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
