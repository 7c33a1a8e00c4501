"""Which tau, and how sure: from costs per seed to an optimum with intervals, and the set that is as good.

A run that misses the target is censored, never dropped: it counts with all it spent (the restricted mean), and the
share that reaches comes before the cost. A tau that sometimes misses is not cheaper, it is unfinished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wflsim.rng import stream
from wflsim.tables import Interval

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
SLACK = 0.05
"""Regret up to which a tau counts as good as the best: optima are flat."""
RESAMPLES = 2000


@dataclass(frozen=True)
class Candidate:
    """One tau in one regime."""

    tau: int
    cost: Interval
    p_reach: float
    p_best: float
    """Share of paired bootstrap resamples of the seeds in which it wins; NaN with one seed."""
    regret: float
    """How much more it costs than the best, as a share."""
    stopped: bool
    """Given up early, because it had already spent too much: its cost is a lower bound."""


@dataclass(frozen=True)
class Choice:
    """The answer in one regime."""

    best: Candidate
    candidates: tuple[Candidate, ...]
    within5: tuple[int, ...]
    edge: str
    """low or high: the best sits at that end of the candidates, so a better one may lie beyond; else empty."""


def choose(taus: Sequence[int], cost: Floats, reached: Flags, stopped: Sequence[bool] | None = None) -> Choice:
    """`cost` and `reached` are [tau, seed]; taus in ascending order."""
    given_up = np.zeros(len(taus), dtype=np.bool_) if stopped is None else np.asarray(stopped, dtype=np.bool_)
    mean, share = cost.mean(axis=1), reached.mean(axis=1)
    best = _winner(mean, share, given_up)
    eligible = (share == share[best]) & ~given_up
    regret = mean / mean[best] - 1 if mean[best] > 0 else np.zeros(len(taus))
    wins = _wins(cost, reached, given_up)
    candidates = tuple(
        Candidate(
            tau, Interval.of(cost[i].tolist(), lowest=0.0), float(share[i]), float(wins[i]), float(regret[i]),
            bool(given_up[i]),
        )
        for i, tau in enumerate(taus)
    )  # fmt: skip
    within5 = tuple(tau for i, tau in enumerate(taus) if eligible[i] and regret[i] <= SLACK)
    edge = "" if len(taus) == 1 else "low" if best == 0 else "high" if best == len(taus) - 1 else ""
    return Choice(candidates[best], candidates, within5, edge)


def _winner(mean: Floats, share: Floats, given_up: Flags) -> int:
    """The surest first, then the cheapest."""
    alive = np.where(given_up, -1.0, share)
    return int(np.argmin(np.where(alive == alive.max(), mean, np.inf)))


def _wins(cost: Floats, reached: Flags, given_up: Flags) -> Floats:
    """Seeds are drawn again, all taus on the same ones: what they have in common cancels."""
    seeds = cost.shape[1]
    if seeds < 2:
        return np.full(len(cost), np.nan)
    draws = stream(0, "tune", "bootstrap").integers(0, seeds, (RESAMPLES, seeds))
    means, shares = cost[:, draws].mean(axis=2), reached[:, draws].mean(axis=2)
    shares[given_up] = -1.0
    winners = np.argmin(np.where(shares == shares.max(axis=0), means, np.inf), axis=0)
    return np.bincount(winners, minlength=len(cost)) / RESAMPLES
