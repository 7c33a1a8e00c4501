"""What is drawn as one line: a policy of a folder over its seeds, and its accuracy against what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wflsim.analysis.tables import Folder, cumulated, hit
from wflsim.report.style import Style, style

Floats = NDArray[np.float64]

METRICS = {"worst": "worst client", "average": "average", "std": "spread (std over clients)"}
# energy first: it is what the answer is about, and rounds mean different things to different policies
AXES = {"energy_j": "energy", "time_s": "simulated time", "rounds": "rounds", "bits": "bits sent and received"}
POINTS = 150
"""Points that a curve has at most."""
BUDGET = 100_000
"""Numbers that all curves of a page may hold together; they take about 700 kB."""


@dataclass(frozen=True)
class Series:
    """One policy of one folder, over its seeds."""

    policy: str
    folder: Folder
    where: str
    """The folder's name among several; empty if there is only one."""
    style: Style
    """Colour, dash and marker that it has in every chart."""

    @property
    def label(self) -> str:
        """What it is called in legends: the policy, and the folder if there are several."""
        return f"{self.policy} · {self.where}" if self.where else self.policy

    @property
    def markup(self) -> str:
        """The label for plotly, which would read markup in it."""
        return escape(self.label, quote=False)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The policy's row of the summary: means and intervals over seeds."""
        return self.folder.policies[self.policy]

    @property
    def seeds(self) -> list[int]:
        """The seeds of those runs that can be read."""
        return [seed for policy, seed in self.folder.run_folders if policy == self.policy]

    @cached_property
    def rounds(self) -> dict[int, pd.DataFrame]:
        """The rounds of each run, by seed."""
        mine = self.folder.rounds[self.folder.rounds["policy"] == self.policy]
        return {int(str(seed)): rounds.reset_index(drop=True) for seed, rounds in mine.groupby("seed")}

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Costs and final accuracies, one row per seed."""
        return self.folder.runs[self.folder.runs["policy"] == self.policy]

    @cached_property
    def costs(self) -> dict[int, pd.DataFrame]:
        """Running sums of the costs of each run, by seed; `bits` are those of both directions together."""
        sums = {seed: cumulated(rounds) for seed, rounds in self.rounds.items()}
        return {seed: frame.assign(bits=frame["up_bits"] + frame["down_bits"]) for seed, frame in sums.items()}

    def last_round(self, seed: int) -> int:
        """The round of one run that reached the target, or its last round if none did."""
        rounds = self.rounds[seed]
        at = hit(rounds, self.folder.target) if self.folder.target else None
        return int(rounds["round"].iloc[-1 if at is None else at])


def series_of(folders: Sequence[Folder]) -> list[Series]:
    """Every policy of every run folder; the same policy keeps its colour in all of them."""
    policies = list(dict.fromkeys(policy for folder in folders for policy, _ in folder.run_folders))
    names = short_names(folders)
    return [
        Series(policy, folder, names[i] if len(folders) > 1 else "", style(policies.index(policy), i))
        for i, folder in enumerate(folders)
        for policy in dict.fromkeys(policy for policy, _ in folder.run_folders)
    ]


def short_names(folders: Sequence[Folder]) -> list[str]:
    """Scenario names if they tell the folders apart, folder names if those do, else both with a number."""
    for names in ([folder.name for folder in folders], [folder.folder.resolve().name for folder in folders]):
        if len(set(names)) == len(names):
            return names
    return [f"{folder.folder.resolve().name} ({i + 1})" for i, folder in enumerate(folders)]


@dataclass(frozen=True)
class Curve:
    """One metric of one policy against one cost: the mean, the lowest and the highest over seeds at each x."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def points_per_curve(series: int) -> int:
    """How many points each curve may have on a page with so many series.

    A curve and its band are six numbers a point, for every metric and axis.
    """
    return int(np.clip(BUDGET // max(1, series * len(METRICS) * len(AXES) * 6), 16, POINTS))


def curve(series: Series, metric: str, axis: str, points: int) -> Curve | None:
    """Mean and range over seeds of what each seed had reached by x, which is its last evaluation so far.

    A run that has ended keeps its last value: it stopped because it was there, or because it could go no further.
    """
    runs = []
    for seed, rounds in series.rounds.items():
        y = rounds[metric].to_numpy(float)
        seen = ~np.isnan(y)
        if seen.any():
            runs.append((series.costs[seed][axis].to_numpy(float)[seen], y[seen]))
    if not runs:
        return None
    start, end = max(x[0] for x, _ in runs), max(x[-1] for x, _ in runs)
    x = _grid(runs, start, end, points)
    values = np.stack([y[np.searchsorted(at, x, side="right") - 1] for at, y in runs])
    return Curve(x, values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def decimated(series: Sequence[Series], points: int) -> bool:
    """Whether some run has more evaluations than its curve has points."""
    counts = (int(rounds["worst"].notna().sum()) for each in series for rounds in each.rounds.values())
    return max(counts, default=0) > points


def _grid(runs: Sequence[tuple[Floats, Floats]], start: float, end: float, points: int) -> Floats:
    """The x of a curve: all evaluations of all seeds where they are few, else evenly spaced points."""
    own = np.unique(np.concatenate([x for x, _ in runs]))
    own = own[own >= start]
    return own if len(own) <= points else np.linspace(start, end, points)
