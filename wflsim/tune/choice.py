"""Which candidate, and how sure: from costs per seed to an optimum with intervals, and the set that is as good.

A run that misses the target is censored, never dropped: it counts with all it spent, as a lower bound, and the share
that reaches comes before the cost. A run that diverged has no cost at all. Where no run of any tau reaches the target
there is no winner, only the tau that came nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wflsim.analysis.ranking import scores
from wflsim.analysis.tables import Interval
from wflsim.tune.candidate import Beside, Candidate, Choice
from wflsim.tune.chance import Flags, Floats, chances, on_unseen_seeds
from wflsim.tune.costs import Kept, Limits, kept
from wflsim.tune.fit import Arms, Curve, Smoother, curve

NO_LIMITS = Limits()
SLACK = 0.05
"""Regret up to which a tau counts as good as the best: optima are flat."""


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


def _smoother(taus: Sequence[int], runs: Runs, beside: Sequence[Beside]) -> Smoother | None:
    """Curves over tau, one for each setting of the other learning knobs; None where rounds are not known."""
    arms = list(dict.fromkeys(one.learning for one in beside))
    if runs.rounds is None or len(arms) < 2:
        return fitted_to(taus, runs)
    found = []
    for arm in arms:
        members = np.flatnonzero([one.learning == arm for one in beside])
        order = members[np.argsort(np.asarray(taus)[members])]
        own = Runs(*(None if field is None else field[order] for field in runs))  # type: ignore[arg-type]
        if (one := fitted_to([taus[i] for i in order], own)) is not None:
            found.append((order, one))
    return Arms(tuple(found)) if found else None


def leader(runs: Runs, fitted: Smoother | None) -> int | None:
    """Position of the best tau: the surest, then the cheapest; None where none reached the target on any seed."""
    score = _scores(runs.cost, ~runs.reached, fitted)
    best = int(np.argmin(np.where(runs.given_up, np.inf, score)))
    return best if np.isfinite(score[best]) and not runs.given_up[best] else None


def choose_from(
    taus: Sequence[int], given: Runs, limits: Limits = NO_LIMITS, beside: Sequence[Beside] | None = None
) -> Choice:
    """The best candidate of one regime. Runs that missed without diverging or exhausting a budget were cut off.

    `beside`: the other knobs of each candidate; None: tau is the only one.
    """
    beside = beside or [Beside(())] * len(taus)
    runs, stand = given.within(limits)
    cost, reached, given_up = runs[:3]
    diverged = runs.diverged & ~reached
    cut = ~reached & ~diverged & ~runs.exhausted
    fitted = _smoother(taus, runs, beside)
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
            beside[i].learning + beside[i].physical,
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
    as_good = tuple(one for i, one in enumerate(candidates) if eligible[i] and regret[i] <= SLACK)
    arm = [tau for tau, one in zip(taus, beside, strict=True) if one.learning == beside[best].learning]
    edge = "" if len(arm) == 1 else "low" if taus[best] == min(arm) else "high" if taus[best] == max(arm) else ""
    winner = candidates[best]
    unseen = on_unseen_seeds(cost, reached, diverged, given_up, winner.cost, fitted)
    return Choice(winner, winner, candidates, as_good, edge, unseen.cost, unseen.missed, cost.shape[1])


def _scores(cost: Floats, missed: Flags, fitted: Smoother | None) -> Floats:
    """The rank of every tau on all seeds, the lowest best."""
    return scores(cost, missed, np.ones((1, cost.shape[1])), fitted.smooth if fitted is not None else None)[:, 0]


def _spent(cost: Floats, diverged: Flags, reached: Flags) -> Interval:
    found = Interval.of_costs(cost[~diverged].tolist())
    return found if reached.all() else Interval(found.mean, np.nan, np.nan)


def _regret(runs: Runs, best: int, fitted: Smoother | None) -> Floats:
    """Of runs that reached, against the best's; of a tau that was given up, of all it had spent (a lower bound)."""
    counted = runs.reached | runs.given_up[:, None]
    mean = np.where(counted, runs.cost, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    if fitted is not None:
        mean = fitted.smooth(mean[:, None])[:, 0]
    comparable = runs.given_up | (runs.reached.sum(axis=1) == runs.reached[best].sum())
    ratio = mean / mean[best] - 1 if mean[best] > 0 else np.zeros(len(mean))
    return np.where(comparable, ratio, np.nan)
