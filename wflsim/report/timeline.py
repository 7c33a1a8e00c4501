"""Which moments of a run to show leg by leg: a page cannot hold them all, a reader wants the telling ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MAX_LEGS = 600
"""Of one window; beyond it a Gantt chart is a wall of colour."""
BUDGET = 3_000
"""Legs that all windows of a page may hold together; about 400 kB with their hover texts."""
ASYNCHRONOUS_ORDERS = 3
"""Orders per client that a window of an asynchronous run takes in: its single round is one arrival."""


@dataclass(frozen=True)
class Window:
    """The legs of one round, or of consecutive versions of an asynchronous run."""

    title: str
    seed: int
    start_s: float
    end_s: float
    legs: pd.DataFrame
    versions: int
    cut: bool
    """Legs were left out."""


def lanes(legs: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centre and thickness of every leg's bar, in rows of a Gantt chart with one row per client, counted downwards.

    The radio's tail runs beside computing and waiting, so it has a thin lane of its own below the client's other bars.
    """
    clients = sorted(legs["client"].unique())
    row = legs["client"].map({client: number for number, client in enumerate(clients)}).to_numpy(float)
    tail = (legs["activity"] == "tail").to_numpy()
    return row + np.where(tail, 0.42, 0.0), np.where(tail, 0.13, 0.66)


def windows(legs: pd.DataFrame, rounds: pd.DataFrame, seed: int, last: int, asynchronous: bool) -> list[Window]:
    """The first round, the slowest, the one that lost most, and the one at the target; each once."""
    first, numbers = int(rounds["round"].iloc[0]), rounds["round"].to_numpy()
    wide = _versions(legs) if asynchronous else 1
    picks = {first: ["first"]}
    spans = (rounds["end_s"] - rounds["start_s"]).rolling(wide, min_periods=1).sum().to_numpy()
    if spans.max() > np.median(spans) * 1.001:
        picks.setdefault(max(int(numbers[spans.argmax()]) - wide + 1, first), []).append("slowest")
    vain = legs.loc[legs["outcome"] != "ok", "at"]
    if len(vain):
        picks.setdefault(int(vain.mode().iloc[0]), []).append("most losses")
    picks.setdefault(max(last - wide + 1, first), []).append("at the end")
    return [_window(legs, rounds, seed, at, wide, why) for at, why in sorted(picks.items())]


def within_budget(per_series: list[list[Window]]) -> list[list[Window]]:
    """Drop later moments, evenly over policies, until the page can hold the rest; cut the first ones if need be."""
    kept = [list(windows) for windows in per_series]
    while _legs(kept) > BUDGET:
        longest = max(kept, key=len)
        if len(longest) < 2:
            share = BUDGET // len(kept)
            return [[replace(w, legs=w.legs.head(share), cut=len(w.legs) > share) for w in each] for each in kept]
        longest.pop()
    return kept


def _legs(per_series: list[list[Window]]) -> int:
    return sum(len(window.legs) for windows in per_series for window in windows)


def _versions(legs: pd.DataFrame) -> int:
    """Consecutive rounds that make about ASYNCHRONOUS_ORDERS orders per client."""
    per_round = max(1.0, len(legs) / 3 / max(1, legs["round"].nunique()))
    return max(2, round(ASYNCHRONOUS_ORDERS * legs["client"].nunique() / per_round))


def _window(legs: pd.DataFrame, rounds: pd.DataFrame, seed: int, at: int, wide: int, why: list[str]) -> Window:
    span = rounds[(rounds["round"] >= at) & (rounds["round"] < at + wide)]
    start_s, end_s = float(span["start_s"].min()), float(span["end_s"].max())
    overlap = (legs["end_s"] > start_s) & (legs["start_s"] < end_s)
    inside = legs[overlap if wide > 1 else legs["at"] == at]
    name = f"round {at + 1}" if wide == 1 else f"versions {at + 1} to {int(span['round'].max()) + 1}"
    cut = len(inside) > MAX_LEGS
    return Window(f"{name} ({', '.join(why)})", seed, start_s, end_s, inside.head(MAX_LEGS), wide, cut)
