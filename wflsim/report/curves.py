"""Accuracy against what it cost, seeds as a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wflsim.report.series import Series

Floats = NDArray[np.float64]

METRICS = {"worst": "worst client", "average": "average", "std": "spread (std over clients)"}
# energy first: it is what the answer is about, and rounds mean different things to different policies
AXES = {"energy_j": "energy", "time_s": "simulated time", "rounds": "rounds", "bits": "bits sent and received"}
POINTS = 150
BUDGET = 100_000
"""Numbers that all curves of a page may hold together; about 700 kB."""


@dataclass(frozen=True)
class Curve:
    """Mean, lowest and highest seed at each x."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def points_per_curve(series: int) -> int:
    """As many as the page's budget allows: a curve and its band are six numbers a point, for every metric and axis."""
    return int(np.clip(BUDGET // max(1, series * len(METRICS) * len(AXES) * 6), 16, POINTS))


def curve(series: Series, metric: str, axis: str, points: int) -> Curve | None:
    """What each seed had reached by x (its last evaluation so far), and the mean and range of that over seeds.

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
    """The evaluations themselves where they are few and common to all seeds, else evenly spaced."""
    own = np.unique(np.concatenate([x for x, _ in runs]))
    own = own[own >= start]
    return own if len(own) <= points else np.linspace(start, end, points)
