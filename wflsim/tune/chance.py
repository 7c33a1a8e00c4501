"""How sure a choice is: which candidate would win on parts of the seeds, and what the winner costs on seeds it did not
see.

Both answers rest on one ranking, `analysis.ranking.scores`: fewer missed targets first, then the mean cost of the runs
that reached. A run that diverged or was cut off has no cost, only a lower bound, so it never wins by being short.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wflsim.analysis.ranking import scores
from wflsim.analysis.tables import Interval
from wflsim.rng import stream
from wflsim.tune.fit import Smoother

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
FEWEST = 3
"""Seeds below which no probability of being best is given."""
ALL_SUBSETS_UP_TO = 12
"""Seeds up to which every subset is looked at; beyond, so many are drawn."""
DRAWN = 4096
TIE = 1e-12
"""Relative difference up to which two mean costs count as equal: sums of the same numbers differ by their order."""


class Chances(NamedTuple):
    """Probability of being the best candidate, per candidate; NaN with fewer than three seeds."""

    least: Floats
    """If every other run that was cut off had reached its target at once, with what it had spent."""
    most: Floats
    """If its own runs that were cut off had; the same as `least` where nothing was cut off."""


def chances(cost: Floats, reached: Flags, cut: Flags, fitted: Smoother | None = None) -> Chances:
    """Share of the subsets of seeds on which a candidate comes out best (Hartigan 1969, typical values).

    All are [candidate, seed]; `cut` marks runs that stop.rounds or early stopping ended before the target, whose cost
    is a lower bound. Every subset of the seeds is looked at and the empty one is won by nobody: for two candidates
    this is the sign-flip test, exact at any number of seeds when they are equal, whereas drawing seeds with
    replacement claims 95 % in a fifth of such studies with five seeds. It only falls if a rival gets cheaper. So the
    lower bounds of rivals give a lower bound of the winner's chance, and stopping early cannot raise it. Along a
    `fitted` curve the smoothed costs are compared.
    """
    candidates, seeds = cost.shape
    if seeds < FEWEST:
        nothing = np.full(candidates, np.nan)
        return Chances(nothing, nothing)
    if candidates == 1:
        return Chances(np.ones(1), np.ones(1))
    subsets = _subsets(seeds)
    smooth = fitted.smooth if fitted is not None else None
    known, hoped = (scores(cost, missed, subsets, smooth) for missed in (~reached, ~(reached | cut)))
    least, most = _wins(known, hoped), _wins(hoped, known)
    return Chances(least / (len(subsets) + 1), most / (len(subsets) + 1))


def _subsets(seeds: int) -> Floats:
    if seeds <= ALL_SUBSETS_UP_TO:
        members = (np.arange(1, 2**seeds)[:, None] >> np.arange(seeds)) & 1
    else:
        members = stream(0, "tune", "subsets", seeds).integers(0, 2, (DRAWN, seeds))
        members = members[members.any(axis=1)]
    return members.astype(np.float64)


def _wins(own: Floats, others: Floats) -> Floats:
    """On how many subsets each candidate's own score beats the best of the others'; equals share the win."""
    wins = np.zeros(len(own))
    for i, mine in enumerate(own):
        rivals = np.delete(others, i, axis=0)
        near = TIE * np.where(np.isfinite(mine), np.abs(mine), 0.0)
        beaten = np.isfinite(mine) & (mine <= rivals.min(axis=0) + near)
        equals = (rivals <= mine + near).sum(axis=0)
        wins[i] = (beaten / (1 + equals)).sum()
    return wins


class Unseen(NamedTuple):
    """What the chosen candidate costs on seeds that did not choose it."""

    cost: Interval
    missed: int
    """Seeds on which the candidate that the others chose missed the target."""


def on_unseen_seeds(
    cost: Floats, reached: Flags, diverged: Flags, given_up: Flags, own: Interval, fitted: Smoother | None = None
) -> Unseen:
    """Leave one seed out: choose on the others, pay on this one; the mean over all seeds is free of the choice's luck.

    `own` is the winner's cost on the seeds that chose it. The interval spans its lower limit and the upper limit of the
    left-out costs, whose factor is raised to the power sqrt(1 + n/(n - 1)) because any two of them share n - 2 seeds
    that chose (the correction of Nadeau and Bengio 2003). Of equal candidates it covers the true cost in 95 to 99 % of
    studies, the winner's own interval in 77 to 95 % (reports/statistics/winner.md).
    Where the candidate that the others chose missed the target, the mean is a lower bound and has no interval.
    """
    candidates, seeds = cost.shape
    if candidates == 1 or seeds < 2:
        return Unseen(own if seeds > 1 else Interval(np.nan, np.nan, np.nan), 0)
    found = scores(cost, ~reached, 1.0 - np.eye(seeds), fitted.smooth if fitted is not None else None)
    found[given_up] = np.inf
    chosen = np.argmin(found, axis=0)
    everyone = np.arange(seeds)
    known = np.isfinite(found[chosen, everyone])
    missed = int((~known | ~reached[chosen, everyone]).sum())
    paid = cost[chosen, everyone][known & ~diverged[chosen, everyone]]
    left_out = Interval.of_costs(paid.tolist())
    if missed or not left_out.mean > 0:
        return Unseen(Interval(left_out.mean, np.nan, np.nan), missed)
    factor = (left_out.high / left_out.mean) ** np.sqrt(1 + seeds / (seeds - 1))
    low, high = min(left_out.low, own.low), max(left_out.mean * factor, own.high)
    return Unseen(Interval(left_out.mean, float(low), float(high)), missed)
