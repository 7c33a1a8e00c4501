"""Knobs that change only time and energy, minimised by replay: for one candidate in one regime, over all its seeds.

On logarithmic axes a cost over power, clock or band is smooth with one minimum (energy per bit: the circuit's share
falls with the rate, the amplifier's rises with the power). It is bracketed on a coarse grid, then narrowed by Brent's
method, key by key; several keys are finished by Nelder and Mead's simplex. What is found is rounded to four digits, so
that a scenario can write it, and what is printed about it is replayed at that value by the event simulation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from wflsim.errors import ReplayRefused
from wflsim.experiments.plan import Run
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.tune.carry import Carried, Replays
from wflsim.tune.costs import MISSED, Limits, penalised
from wflsim.tune.setting import DIGITS, Knobs, encoded, quantity
from wflsim.tune.space import PhysicalKnob
from wflsim.tune.walk import End

GRID = 9
"""Values of a range that are tried before the best of them is narrowed."""
TOLERANCE = 1e-6
"""Relative precision of a value before it is rounded."""
PASSES = 6
"""Times that all keys are gone through in turn, at most."""
COSTS = ("cost", "time_s", "client_j")
PRICES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Prices of time of the points of a front between its ends, in units of the slope between these."""


class Wanted(NamedTuple):
    """One candidate in one regime, whose physical knobs are to be minimised."""

    root: str
    """Folder of the store with the traces."""
    runs: tuple[Run, ...]
    """Its trainings, one per seed."""
    carried: tuple[Carried, ...]
    """How far each of them is replayed."""
    regime: Scenario
    spec: TuneSpec
    knobs: tuple[PhysicalKnob, ...]


class Optimum(NamedTuple):
    """Values of the physical knobs, and what the candidate costs with them."""

    knobs: Knobs
    ends: list[End]
    """One per seed, by the event simulation."""


def minimised(wanted: Wanted, wait: bool) -> list[Optimum]:
    """The best values of the physical knobs first; for the objective pareto, points of the front behind it.

    The worker's half: `wait` is there for the pool, nothing is waited for.
    """
    replays = Replays(wanted.root, wanted.runs, wanted.carried, wanted.regime, wanted.spec)
    limits = Limits.of(wanted.spec.subject_to)
    first = _best(replays, wanted.knobs, _by_cost(limits))
    if wanted.spec.objective != "pareto":
        return [first]
    last = _best(replays, wanted.knobs, _by_price(np.inf))
    (low_j, long_s), (high_j, short_s) = (_means(one.ends) for one in (first, last))
    if not (high_j > low_j and long_s > short_s):
        return [first, last]
    slope = (high_j - low_j) / (long_s - short_s)
    return [first, *(_best(replays, wanted.knobs, _by_price(price * slope)) for price in PRICES), last]


Score = Callable[[Sequence[End]], float]
"""What is minimised, from the runs of all seeds."""


def _by_cost(limits: Limits) -> Score:
    """The logarithm of the mean cost of the runs that reach the target, higher for every miss and beyond a limit."""

    def score(ends: Sequence[End]) -> float:
        cost, time_s, client_j = (np.array([getattr(end, name) for end in ends]) for name in COSTS)
        return penalised(limits, cost, np.array([end.reached for end in ends]), time_s, client_j)

    return score


def _by_price(price: float) -> Score:
    """The logarithm of energy plus so many joules for a second; inf: of time alone."""

    def score(ends: Sequence[End]) -> float:
        energy_j, time_s = _means(ends)
        value = time_s if np.isinf(price) else energy_j + price * time_s
        return float(np.log(max(value, 1e-300)) + MISSED * sum(not end.reached for end in ends))

    return score


def _means(ends: Sequence[End]) -> tuple[float, float]:
    """Mean cost (energy, where a front is asked for) and mean time."""
    return float(np.mean([end.cost for end in ends])), float(np.mean([end.time_s for end in ends]))


def _best(replays: Replays, knobs: Sequence[PhysicalKnob], score: Score) -> Optimum:
    """The best values: every combination of listed ones, and within each the minimum over the ranges."""
    ranges = [knob for knob in knobs if not knob.values]
    lists = [[(knob.key, value) for value in knob.values] for knob in knobs if knob.values]
    found: list[tuple[float, Knobs]] = []
    refusal: ReplayRefused | None = None

    def value_of(setting: Knobs) -> float:
        nonlocal refusal
        try:
            return score(replays.ends(setting))
        except ReplayRefused as error:  # with such a value an order fails: the trace says nothing about it
            refusal = error
            return np.inf

    for listed in itertools.product(*lists):

        def at(logs: Sequence[float], listed: Knobs = listed) -> float:
            ends = zip(ranges, logs, strict=True)
            return value_of((*listed, *((knob.key, encoded(float(np.exp(log)))) for knob, log in ends)))

        box = [(float(np.log(knob.low)), float(np.log(knob.high))) for knob in ranges]
        logs = _minimum(at, box)
        around = [_rounded(knob, float(np.exp(log))) for knob, log in zip(ranges, logs, strict=True)]
        for values in itertools.product(*around):
            written = tuple((knob.key, encoded(value)) for knob, value in zip(ranges, values, strict=True))
            found.append((value_of((*listed, *written)), (*listed, *written)))
    value, best = min(found, key=lambda one: one[0])
    if refusal is not None and np.isinf(value):
        raise refusal
    order = {knob.key: place for place, knob in enumerate(knobs)}
    best = tuple(sorted(best, key=lambda pair: order[pair[0]]))
    return Optimum(best, replays.simulated(best))


def _rounded(knob: PhysicalKnob, value: float) -> list[str | float]:
    """The numbers of four digits next to a value, within the range."""
    step = 10.0 ** (np.floor(np.log10(value)) - DIGITS + 1)
    near = (min(knob.high, max(knob.low, whole(value / step) * step)) for whole in (np.floor, np.ceil))
    return list(dict.fromkeys(quantity(knob.key, float(one)) for one in near))


def _minimum(function: Callable[[Sequence[float]], float], box: Sequence[tuple[float, float]]) -> list[float]:
    """Where a function is least within a box; the best of all points that were looked at."""
    seen: dict[tuple[float, ...], float] = {}

    def at(point: Sequence[float]) -> float:
        place = tuple(map(float, point))
        if place not in seen:
            seen[place] = function(place)
        return min(seen[place], 1e300)

    here = [(low + high) / 2 for low, high in box]
    before = np.inf
    for _ in range(PASSES if len(box) > 1 else min(len(box), 1)):
        for axis, ends in enumerate(box):

            def along(value: float, axis: int = axis) -> float:
                return at([*here[:axis], value, *here[axis + 1 :]])

            here[axis] = _along(along, *ends)
        now = at(here)
        if before - now < TOLERANCE:
            break
        before = now
    if len(box) > 1:
        minimize(at, here, bounds=box, method="Nelder-Mead", options={"xatol": TOLERANCE, "fatol": TOLERANCE / 100})
    best: tuple[float, ...] = min(seen, key=seen.get, default=())  # type: ignore[arg-type]
    return list(best)


def _along(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one number is least: the best of a grid, narrowed between its neighbours."""
    grid = np.linspace(low, high, GRID).tolist()
    values = [function(value) for value in grid]
    best = int(np.argmin(values))
    between = grid[max(0, best - 1)], grid[min(GRID - 1, best + 1)]
    found = minimize_scalar(function, bounds=between, method="bounded", options={"xatol": TOLERANCE})
    return float(found.x) if found.fun < values[best] else grid[best]
