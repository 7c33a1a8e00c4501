"""Which taus to try where tau is a range: outwards from a start until the optimum lies inside, then between neighbours.

Taus come from a ladder of round numbers, 1, 2, 3, 5, 10, 20, ..., neighbours at most a factor 2 apart, whatever the
question: what was trained for one map serves the next. A regime is settled when its best tau has tried neighbours on
both sides and no untried whole number can be 5 % better by the fitted curve, or when the seeds would not resolve it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wflsim.scenario.knobs import TauRange
from wflsim.tune.choice import NO_LIMITS, SLACK, Runs, fitted_to, leader
from wflsim.tune.costs import Kept, Limits
from wflsim.tune.fit import Curve, Floats
from wflsim.tune.search import Candidates, runs_of, search

RUNGS = (1, 2, 3, 5)
LARGEST = 1_000_000
FIRST = 5
"""Taus that are tried first, around the start: the fewest through which a curve is smoothed."""
GIVEN_UP_ABOVE = 1.0
"""Share above the best at which a tau is given up in a search over a range: nearer ones are part of the curve."""
CLEARLY = 0.25
"""Share above the best at which the end of the tried taus closes a side, however noisy the seeds are."""
APART = 1.1
"""Factor between the fitted optimum and the nearest tried tau above which it is tried as well."""
SPENT = "tune.trainings is spent"
LEVELS_OFF = "more local steps hardly lower the rounds to target"
NO_FEWER = "there are no fewer steps than 1"
UNMET = "no tau that was tried keeps to tune.subject_to"
UNREACHED = "no tau that was tried reaches the target"


class Explored(NamedTuple):
    """The taus that a search over a range tried."""

    taus: list[int]
    """In ascending order."""
    given_up: set[int]
    why: list[str]
    """Per regime, why the search ended there; empty: the optimum lies inside, and no untried tau promises 5 %."""
    unresolved: float
    """Largest share that an untried tau promises in some regime and that the seeds could not tell from noise."""


class _Next(NamedTuple):
    """What a regime asks for."""

    tau: int | None = None
    why: str = ""
    needed: bool = True
    """Without it the search has not done what it should; otherwise it is tried as long as trainings are left."""
    unresolved: float = 0.0


def ladder(span: TauRange) -> list[int]:
    """Round numbers of the range and its ends, neighbours at most a factor 2 apart."""
    most = LARGEST if span.most is None else span.most
    numbers = {digit * 10**power for power in range(7) for digit in RUNGS}
    ends = {span.least} if span.most is None else {span.least, span.most}
    return sorted({number for number in numbers if span.least <= number <= most} | ends)


def first_taus(rungs: Sequence[int], start: int, allowed: int) -> list[int]:
    """The rungs nearest to the start, with which a search begins; no more than are allowed."""
    at = int(np.argmin(np.abs(np.log(np.asarray(rungs) / start))))
    near = sorted(range(len(rungs)), key=lambda i: (abs(i - at), i))[: max(1, min(FIRST, allowed))]
    return [rungs[i] for i in sorted(near)]


def dearest_taus(span: TauRange, start: int, allowed: int) -> list[int]:
    """The taus of the search that costs most: the first ones, then ever larger ones as long as they are allowed."""
    rungs = ladder(span)
    first = first_taus(rungs, start, allowed)
    return [*first, *[rung for rung in rungs if rung > first[-1]][: max(0, allowed - len(first))]]


def explore(
    span: TauRange,
    start: int,
    candidates: Candidates[int],
    allowed: int,
    limits: Limits = NO_LIMITS,
    slack: float = GIVEN_UP_ABOVE,
) -> Explored:
    """Try taus of the range, beginning around `start`, no more than `allowed` of them; for `slack` see `search`."""
    rungs = ladder(span)
    taus = first_taus(rungs, start, allowed)
    while True:
        given_up = search(taus, candidates, np.inf if limits.exclude else slack)
        states = [candidates.progress(tau) for tau in taus]
        stopped = [tau in given_up for tau in taus]
        rows = (runs_of(states, stopped, row).within(limits) for row in range(len(states[0].cost)))
        asked = [_next(taus, runs, rungs, span, stand) for runs, stand in rows]
        needed = any(one.needed for one in asked if one.tau is not None)  # first; then what trainings are left for
        votes = Counter(one.tau for one in asked if one.tau is not None and one.needed == needed)
        new = sorted(votes, key=lambda tau: (-votes[tau], tau))[: max(0, allowed - len(taus))]
        if not new:
            why = [SPENT if one.tau is not None and one.needed else one.why for one in asked]
            return Explored(taus, given_up, why, max(one.unresolved for one in asked))
        taus = sorted([*taus, *new])


def _next(taus: Sequence[int], runs: Runs, rungs: Sequence[int], span: TauRange, stand: Kept) -> _Next:
    """What one regime asks for: a tau beyond the best at an edge, one that promises 5 % inside, or nothing."""
    fitted = fitted_to(taus, runs)
    best = leader(runs, fitted)
    if best is None:
        kept = np.isfinite(stand.excess).any()
        promise = -stand.excess if kept else np.where(runs.diverged, 0.0, runs.attained).mean(axis=1)
        return _towards(taus, promise, rungs, UNMET if kept else UNREACHED)
    why = ""
    if _open(runs, fitted, best, 0):
        below = [rung for rung in rungs if rung < taus[0]]
        if below:
            return _Next(below[-1])
    if _open(runs, fitted, best, len(taus) - 1):
        above = [rung for rung in rungs if rung > taus[-1]]
        if fitted is not None and fitted.members[-3:].all() and fitted.levels_off(SLACK):
            why = LEVELS_OFF
        elif above:
            return _Next(above[0])
    if best == 0:
        why = NO_FEWER if span.least == 1 else f"tune.knobs.tau.least is {span.least}"
    elif best == len(taus) - 1:
        why = why or f"tune.knobs.tau.most is {taus[-1]}"
    else:
        why = ""
    if fitted is None or not fitted.members[best]:
        return _Next(why=why)
    tau, gain = fitted.promising(taus)
    share = float(1 - np.exp(-gain))
    resolved = gain > fitted.resolution
    if share > 1 - 1 / (1 + SLACK) and resolved:
        return _Next(tau)
    unresolved = share if share > 1 - 1 / (1 + SLACK) else 0.0
    optimum = fitted.optimum()
    apart = min(max(optimum / tau, tau / optimum) for tau in taus)
    return _Next(optimum if apart > APART else None, why, False, unresolved)


def _open(runs: Runs, fitted: Curve | None, best: int, end: int) -> bool:
    """Whether the optimum may lie beyond an end: it is the best, or not dearer by more than the seeds' noise."""
    if best == end:
        return True
    if fitted is None or not (fitted.members[end] and fitted.members[best]):
        return False  # given up, or less sure than the best
    place = np.cumsum(fitted.members) - 1
    cost = fitted.rounds * fitted.per_round
    dearer = cost[place[end]] / cost[place[best]] - 1
    return bool(dearer <= max(SLACK, min(fitted.resolution, CLEARLY)))


def _towards(taus: Sequence[int], promise: Floats, rungs: Sequence[int], why: str) -> _Next:
    """Where no tau will do: beyond the one that comes nearest, if it is the first or the last."""
    at = int(np.argmax(promise))
    beyond = [rung for rung in rungs if rung < taus[0]][-1:] if at == 0 else []
    beyond = [rung for rung in rungs if rung > taus[-1]][:1] if at == len(taus) - 1 else beyond
    return _Next(beyond[0], why) if beyond and promise[at] != 0 else _Next(why=why)
