"""Which tau, and how sure: from costs per seed to an optimum with intervals, and the set that is as good.

A run that misses the target is censored, never dropped: it counts with all it spent, as a lower bound, and the share
that reaches comes before the cost. A run that diverged has no cost at all. Where no run of any tau reaches the target
there is no winner, only the tau that came nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wflsim.analysis.ranking import scores
from wflsim.analysis.tables import Interval
from wflsim.tune.chance import Flags, Floats, chances, on_unseen_seeds

SLACK = 0.05
"""Regret up to which a tau counts as good as the best: optima are flat."""


@dataclass(frozen=True)
class Candidate:
    """One tau in one regime."""

    tau: int
    cost: Interval
    """Over the seeds that did not diverge; NaN if all did. A run that was cut off counts with all it had spent: then
    the mean is a lower bound and has no interval."""
    p_reach: float
    p_best: float
    """Probability of being the best of the candidates, at least; NaN with fewer than three seeds."""
    p_best_most: float
    """The same, at most: if its own runs that were cut off had reached the target with what they had spent."""
    regret: float
    """How much more it costs than the best, as a share; NaN where it reaches less surely than the best."""
    stopped: bool
    """Given up early, because it had already spent too much: its cost is a lower bound."""
    censored: int
    """Seeds on which it missed the target without diverging; with any of them its cost is a lower bound."""
    diverged: int
    """Seeds on which the training diverged before the target."""
    could_win: bool
    """Cut off by stop.rounds while it was still cheaper than the best, or surer: more rounds may make it the best."""
    attained: float
    """Accuracy at the last evaluation, in the target's metric: mean over seeds, diverged ones counting 0."""


@dataclass(frozen=True)
class Choice:
    """The answer in one regime."""

    best: Candidate | None
    """None: no tau brought any seed to the target."""
    nearest: Candidate
    """The best; where there is none, the tau with the highest accuracy at the end."""
    candidates: tuple[Candidate, ...]
    within5: tuple[int, ...]
    edge: str
    """low or high: the best sits at that end of the candidates, so a better one may lie beyond; else empty."""
    unseen: Interval
    """What the best costs on seeds that did not choose it; see `chance.on_unseen_seeds`."""
    unseen_missed: int
    """Seeds on which the tau that the other seeds chose missed the target."""
    seeds: int

    @property
    def could_win(self) -> tuple[int, ...]:
        """Candidates that stop.rounds cut off and that may win with more rounds."""
        return tuple(one.tau for one in self.candidates if one.could_win)


def choose(
    taus: Sequence[int],
    cost: Floats,
    reached: Flags,
    stopped: Sequence[bool] | None = None,
    diverged: Flags | None = None,
    exhausted: Flags | None = None,
    attained: Floats | None = None,
) -> Choice:
    """The best tau of one regime. Arrays are [tau, seed], taus in ascending order.

    `cost` is what a run spent until the target, or at all. `diverged` and `exhausted` (an energy or time budget is
    spent, or no client is left) mark runs that more rounds cannot bring to the target; other runs that missed were cut
    off by stop.rounds or, where `stopped`, by early stopping.
    """
    nobody = np.zeros(cost.shape, dtype=np.bool_)
    diverged = nobody if diverged is None else diverged & ~reached
    over = diverged if exhausted is None else diverged | (exhausted & ~reached)
    given_up = np.zeros(len(taus), dtype=np.bool_) if stopped is None else np.asarray(stopped, dtype=np.bool_)
    cut = ~reached & ~over
    whole = np.ones((1, cost.shape[1]))
    score, hoped = (scores(cost, missed, whole)[:, 0] for missed in (~reached, ~(reached | cut)))
    best = int(np.argmin(np.where(given_up, np.inf, score)))
    won = bool(np.isfinite(score[best]) and not given_up[best])
    could_win = cut.any(axis=1) & ~given_up & ((hoped < score[best]) if won else np.isfinite(hoped))
    if won:
        could_win[best] = False
    share = reached.mean(axis=1)
    regret = _regret(cost, reached, given_up, best) if won else np.full(len(taus), np.nan)
    chance = chances(cost, reached, cut)
    ends = np.zeros(len(taus)) if attained is None else np.where(diverged, 0.0, attained).mean(axis=1)
    candidates = tuple(
        Candidate(
            tau, _spent(cost[i], diverged[i], reached[i]), float(share[i]),
            float(chance.least[i]), float(chance.most[i]), float(regret[i]), bool(given_up[i]),
            int((~reached[i] & ~diverged[i]).sum()), int(diverged[i].sum()), bool(could_win[i]), float(ends[i]),
        )
        for i, tau in enumerate(taus)
    )  # fmt: skip
    if not won:
        nearest = max(candidates, key=lambda one: one.attained)
        return Choice(None, nearest, candidates, (), "", Interval(*[np.nan] * 3), cost.shape[1], cost.shape[1])
    eligible = (share == share[best]) & ~given_up
    within5 = tuple(tau for i, tau in enumerate(taus) if eligible[i] and regret[i] <= SLACK)
    edge = "" if len(taus) == 1 else "low" if best == 0 else "high" if best == len(taus) - 1 else ""
    unseen = on_unseen_seeds(cost, reached, diverged, given_up, candidates[best].cost)
    winner = candidates[best]
    return Choice(winner, winner, candidates, within5, edge, unseen.cost, unseen.missed, cost.shape[1])


def _spent(cost: Floats, diverged: Flags, reached: Flags) -> Interval:
    found = Interval.of_costs(cost[~diverged].tolist())
    return found if reached.all() else Interval(found.mean, np.nan, np.nan)


def _regret(cost: Floats, reached: Flags, given_up: Flags, best: int) -> Floats:
    """Of runs that reached, against the best's; of a tau that was given up, of all it had spent (a lower bound)."""
    counted = reached | given_up[:, None]
    mean = np.where(counted, cost, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    comparable = given_up | (reached.sum(axis=1) == reached[best].sum())
    ratio = mean / mean[best] - 1 if mean[best] > 0 else np.zeros(len(cost))
    return np.where(comparable, ratio, np.nan)
