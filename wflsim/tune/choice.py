"""Which tau, and how sure: from costs per seed to an optimum with intervals, and the set that is as good.

A run that misses the target is censored, never dropped: it counts with all it spent, as a lower bound, and the share
that reaches comes before the cost. A run that diverged has no cost at all. Where no run of any tau reaches the target
there is no winner, only the tau that came nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wflsim.analysis.ranking import scores
from wflsim.analysis.tables import Interval
from wflsim.tune.chance import Flags, Floats, chances, on_unseen_seeds
from wflsim.tune.costs import Kept, Limits, kept
from wflsim.tune.fit import Curve, curve

NO_LIMITS = Limits()
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
    why_edge: str = ""
    """Why a search over a range of tau went no further than the edge; empty inside, and where a list was given."""
    unmet: str = ""
    """Where no tau keeps to tune.subject_to: the limit that the nearest misses, in words."""

    @property
    def could_win(self) -> tuple[int, ...]:
        """Candidates that stop.rounds cut off and that may win with more rounds."""
        return tuple(one.tau for one in self.candidates if one.could_win)


class Runs(NamedTuple):
    """All runs of one regime; arrays are [tau, seed], taus in ascending order."""

    cost: Floats
    """To the target, or all that was spent."""
    reached: Flags
    given_up: Flags
    """[tau]: stopped early, because it had already spent too much."""
    diverged: Flags
    """Before the target; like `exhausted`, more rounds would not help."""
    exhausted: Flags
    """An energy or time budget was spent, or no client was left, before the target."""
    attained: Floats
    """Accuracy at the last evaluation, in the target's metric."""
    rounds: Floats | None = None
    """Rounds to the target, or all of them. Where they are known, neighbouring taus tell of each other (see `fit`)."""
    time_s: Floats | None = None
    """Simulated time to the target, or all of it; None: not known."""
    client_j: Floats | None = None
    """Energy of the whole devices over the number of clients, likewise."""

    def within(self, limits: Limits) -> tuple[Runs, Kept]:
        """The runs with what misses a limit given up, and how the candidates stand with the limits.

        With a limit on P(reach), a candidate that keeps to it is compared by cost alone: its runs that were cut off
        count with all they spent, as if they had reached the target.
        """
        stand = kept(limits, self.reached, self.time_s, self.client_j)
        if limits == Limits():
            return self, stand
        excused = stand.allowed[:, None] & ~self.diverged & (limits.reach > 0)
        return self._replace(given_up=self.given_up | ~stand.allowed, reached=self.reached | excused), stand


def choose(
    taus: Sequence[int],
    cost: Floats,
    reached: Flags,
    stopped: Sequence[bool] | None = None,
    diverged: Flags | None = None,
    exhausted: Flags | None = None,
    attained: Floats | None = None,
) -> Choice:
    """The best tau of one regime, each judged by its own runs; the arguments are the fields of `Runs`."""
    nobody = np.zeros(cost.shape, dtype=np.bool_)
    given_up = np.zeros(len(taus), dtype=np.bool_) if stopped is None else np.asarray(stopped, dtype=np.bool_)
    return choose_from(
        taus,
        Runs(
            cost, reached, given_up, nobody if diverged is None else diverged,
            nobody if exhausted is None else exhausted, np.zeros(cost.shape) if attained is None else attained,
        ),
    )  # fmt: skip


def fitted_to(taus: Sequence[int], runs: Runs) -> Curve | None:
    """The curve of rounds to target, along which costs are smoothed; None where rounds are not known."""
    return None if runs.rounds is None else curve(taus, runs.cost, runs.reached, runs.rounds, runs.given_up)


def leader(runs: Runs, fitted: Curve | None) -> int | None:
    """Position of the best tau: the surest, then the cheapest; None where none reached the target on any seed."""
    score = _scores(runs.cost, ~runs.reached, fitted)
    best = int(np.argmin(np.where(runs.given_up, np.inf, score)))
    return best if np.isfinite(score[best]) and not runs.given_up[best] else None


def choose_from(taus: Sequence[int], given: Runs, limits: Limits = NO_LIMITS) -> Choice:
    """The best tau of one regime. Runs that missed without diverging or exhausting a budget were cut off."""
    runs, stand = given.within(limits)
    cost, reached, given_up = runs[:3]
    diverged = runs.diverged & ~reached
    cut = ~reached & ~diverged & ~runs.exhausted
    fitted = fitted_to(taus, runs)
    best = leader(runs, fitted)
    score, hoped = (_scores(cost, missed, fitted) for missed in (~reached, ~(reached | cut)))
    could_win = cut.any(axis=1) & ~given_up & (np.isfinite(hoped) if best is None else hoped < score[best])
    if best is not None:
        could_win[best] = False
    share = given.reached.mean(axis=1)
    regret = np.full(len(taus), np.nan) if best is None else _regret(runs, best, fitted)
    if limits.exclude:  # what misses a limit of time or energy is no rival: it counts as if it never reached
        allowed = stand.allowed[:, None]
        reached, cut, regret = reached & allowed, cut & allowed, np.where(stand.allowed, regret, np.nan)
    chance = chances(cost, reached, cut, fitted)
    ends = np.where(diverged, 0.0, runs.attained).mean(axis=1)
    candidates = tuple(
        Candidate(
            tau, _spent(cost[i], diverged[i], given.reached[i]), float(share[i]),
            float(chance.least[i]), float(chance.most[i]), float(regret[i]), bool(given.given_up[i]),
            int((~given.reached[i] & ~diverged[i]).sum()), int(diverged[i].sum()), bool(could_win[i]), float(ends[i]),
        )
        for i, tau in enumerate(taus)
    )  # fmt: skip
    if best is None:
        nearest, unmet = max(candidates, key=lambda one: one.attained), ""
        if np.isfinite(stand.excess).any() and limits != NO_LIMITS:
            at = int(np.argmin(stand.excess))
            nearest, unmet = candidates[at], stand.worst[at]
        nothing = Interval(*[np.nan] * 3)
        return Choice(None, nearest, candidates, (), "", nothing, cost.shape[1], cost.shape[1], unmet=unmet)
    eligible = ((share == share[best]) | (limits.reach > 0)) & ~given_up
    within5 = tuple(tau for i, tau in enumerate(taus) if eligible[i] and regret[i] <= SLACK)
    edge = "" if len(taus) == 1 else "low" if best == 0 else "high" if best == len(taus) - 1 else ""
    winner = candidates[best]
    unseen = on_unseen_seeds(cost, reached, diverged, given_up, winner.cost, fitted)
    return Choice(winner, winner, candidates, within5, edge, unseen.cost, unseen.missed, cost.shape[1])


def _scores(cost: Floats, missed: Flags, fitted: Curve | None) -> Floats:
    """The rank of every tau on all seeds, the lowest best."""
    return scores(cost, missed, np.ones((1, cost.shape[1])), fitted.smooth if fitted is not None else None)[:, 0]


def _spent(cost: Floats, diverged: Flags, reached: Flags) -> Interval:
    found = Interval.of_costs(cost[~diverged].tolist())
    return found if reached.all() else Interval(found.mean, np.nan, np.nan)


def _regret(runs: Runs, best: int, fitted: Curve | None) -> Floats:
    """Of runs that reached, against the best's; of a tau that was given up, of all it had spent (a lower bound)."""
    counted = runs.reached | runs.given_up[:, None]
    mean = np.where(counted, runs.cost, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    if fitted is not None:
        mean = fitted.smooth(mean[:, None])[:, 0]
    comparable = runs.given_up | (runs.reached.sum(axis=1) == runs.reached[best].sum())
    ratio = mean / mean[best] - 1 if mean[best] > 0 else np.zeros(len(mean))
    return np.where(comparable, ratio, np.nan)
