"""Rounds to target as a curve over tau: freed from the seeds' noise, and how low it can lie between the tried taus.

A round's cost is known exactly, the number of rounds S(tau) only up to the luck of the seeds, and the optimum is flat:
with a coefficient of variation of 0.2 and five seeds the cheapest of the tried taus by its own mean is often not within
5 % of the true optimum. Neighbouring taus tell of each other, so log S is smoothed by the simplest polynomial in log
tau (of degree two or more) that the seeds do not contradict. Where they contradict every one, nothing is smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
CONTRADICTED = 0.05
"""Probability of so bad a fit by chance, below which a polynomial counts as contradicted (F test of lack of fit)."""
LEVEL = 0.95
"""Confidence of the smallest difference between two taus that counts as resolved."""
GRID = 4001
"""Number of untried taus that are looked at, at most; up to a range of about a thousand that is every whole number."""


class Smoother(Protocol):
    """Whatever frees mean costs from the seeds' noise."""

    def smooth(self, cost: Floats) -> Floats:
        """Smoothed costs [candidate, subset] from mean costs."""


class Curve(NamedTuple):
    """Rounds to target over tau in one regime, from the taus that reached it on every seed."""

    members: Flags
    """Which of the candidates these taus are."""
    taus: Floats
    """In ascending order."""
    rounds: Floats
    """Smoothed mean rounds to target."""
    raw_rounds: Floats
    """Mean rounds to target as the runs of each tau have it."""
    per_round: Floats
    """Mean cost of one round of each tau."""
    matrix: Floats
    """[tau, tau] smoother of log rounds."""
    resolution: float
    """Smallest difference of two taus' log costs that the seeds resolve; inf with one seed, which tells no noise."""

    def smooth(self, cost: Floats) -> Floats:
        """Smoothed costs [candidate, subset] from mean costs; those of candidates outside the curve stay."""
        found = cost.copy()
        per_round = self.per_round[:, None]
        found[self.members] = per_round * np.exp(self.matrix @ np.log(cost[self.members] / per_round))
        return found

    def promising(self, tried: Sequence[int]) -> tuple[int, float]:
        """The untried whole number that could be cheapest, and by how much its log cost could be less than the best's.

        Between two taus, log S lies at least on the lines through their outer neighbours if it is convex in log tau,
        as a power law is, and one that levels off. A round's cost is interpolated in a straight line.
        """
        if len(self.taus) < 2:
            return 0, -np.inf
        untried = _whole_numbers(self.taus)
        untried = untried[~np.isin(untried, np.asarray(tried))]
        if not len(untried):
            return 0, -np.inf
        cost = _lowest(np.log(self.taus), np.log(self.rounds), np.log(untried))
        cost += np.log(np.interp(untried, self.taus, self.per_round))
        best = int(np.argmin(cost))
        return int(untried[best]), float(np.log(self.rounds * self.per_round).min() - cost[best])

    def optimum(self) -> int:
        """The whole number with the least fitted cost, tried or not."""
        between = _whole_numbers(self.taus)
        cost = np.interp(np.log(between), np.log(self.taus), np.log(self.rounds))
        cost += np.log(np.interp(between, self.taus, self.per_round))
        return int(between[int(np.argmin(cost))])

    def levels_off(self, share: float) -> bool:
        """Whether the largest tau needs hardly fewer rounds than the third largest: fewer by less than this share."""
        return len(self.taus) > 2 and all(
            rounds[-1] > (1 - share) * rounds[-3] for rounds in (self.rounds, self.raw_rounds)
        )


class Arms(NamedTuple):
    """Curves over tau side by side, one for each setting of the other knobs; candidates of one tau stay as they are."""

    curves: tuple[tuple[NDArray[np.intp], Curve], ...]
    """Each with the positions of its candidates."""

    def smooth(self, cost: Floats) -> Floats:
        """Smoothed costs [candidate, subset] from mean costs."""
        found = cost.copy()
        for members, one in self.curves:
            found[members] = one.smooth(cost[members])
        return found


def curve(taus: Sequence[int], cost: Floats, reached: Flags, rounds: Floats, left_out: Flags) -> Curve | None:
    """The curve through the taus that reached the target on every seed; None if there is none.

    Arrays are [tau, seed], `left_out` [tau] marks taus that were given up; `rounds` are those to the target.
    """
    members = reached.all(axis=1) & ~left_out & (cost.mean(axis=1) > 0)
    if not members.any():
        return None
    own, needed = np.asarray(taus, dtype=np.float64)[members], rounds[members]
    matrix, noise = _smoother(np.log(own), np.log(needed))
    mean = needed.mean(axis=1)
    freedom = (len(own) - 1) * (needed.shape[1] - 1)
    resolution = np.inf
    if freedom > 0:
        resolution = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * noise * np.sqrt(2 / needed.shape[1])
    smoothed = np.exp(matrix @ np.log(mean))
    return Curve(members, own, smoothed, mean, cost[members].mean(axis=1) / mean, matrix, float(resolution))


def _whole_numbers(taus: Floats) -> Floats:
    """Whole numbers from the smallest to the largest tau."""
    return np.unique(np.round(np.geomspace(taus[0], taus[-1], GRID)))


def _smoother(at: Floats, values: Floats) -> tuple[Floats, float]:
    """The matrix that turns means into fitted values, and the noise: what neither tau nor seed explains of a value."""
    count, seeds = values.shape
    if seeds < 2 or count < 2:
        return np.eye(count), np.nan
    means = values.mean(axis=1)
    left = values - means[:, None] - values.mean(axis=0) + values.mean()
    freedom = (count - 1) * (seeds - 1)
    variance = float((left**2).sum()) / freedom
    for degree in range(2, count - 1):
        basis = np.linalg.qr(np.vander((at - at.mean()) / np.ptp(at), degree + 1))[0]
        misfit = seeds * float(((means - basis @ (basis.T @ means)) ** 2).sum())
        spare = count - 1 - degree
        if variance > 0 and stats.f.sf(misfit / spare / variance, spare, freedom) >= CONTRADICTED:
            return np.asarray(basis @ basis.T, dtype=np.float64), float(np.sqrt(variance))
    return np.eye(count), float(np.sqrt(variance))


def _lowest(at: Floats, values: Floats, between: Floats) -> Floats:
    """The least that a convex function through these points can be in between; where they are not convex, the chord."""
    slope = np.diff(values) / np.diff(at)
    left = np.clip(np.searchsorted(at, between) - 1, 0, len(at) - 2)
    chord = values[left] + slope[left] * (between - at[left])
    before, after = np.maximum(left - 1, 0), np.minimum(left + 1, len(slope) - 1)
    from_left = np.where(left > 0, values[left] + slope[before] * (between - at[left]), -np.inf)
    from_right = np.where(
        left < len(slope) - 1, values[left + 1] + slope[after] * (between - at[left + 1]), -np.inf
    )
    low = np.maximum(from_left, from_right)
    return np.asarray(np.where(np.isfinite(low), np.minimum(low, chord), chord), dtype=np.float64)
