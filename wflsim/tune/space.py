"""What the knobs may be set to: which change the learning and are trained, which only time and energy and are replayed.

A key of the world (radio, cell, devices, server, d2d) is physical as long as no value of it lets the world change what
is learnt; a trace then stands in for training, and such a knob costs milliseconds. Otherwise it is a learning knob.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wflsim.errors import ScenarioError
from wflsim.experiments.plan import why_live
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.scenario.knobs import KnobRange, TauRange
from wflsim.tune.setting import Knobs, Setting, encoded, quantity, value_at, with_knobs
from wflsim.world.spec import WorldSpec

VALUES = 5
"""Number of values of a range that are tried where the knob changes the learning."""
BELOW_MOST = {"power": 1e-3, "radiated_power": 1e-3, "frequency": 0.1}
"""By the last part of a key: the smallest value of `auto`, as a share of the largest."""


class PhysicalKnob(NamedTuple):
    """A knob that changes only time and energy."""

    key: str
    low: float = 0.0
    """Smallest value in SI units, of a range."""
    high: float = 0.0
    """Largest value in SI units, of a range."""
    values: tuple[str, ...] = ()
    """Values as JSON, where a list is given instead of a range."""


class Space(NamedTuple):
    """What the knobs of one policy may be set to."""

    taus: list[int] | TauRange
    learning: dict[str, tuple[str, ...]]
    """Learning knobs besides tau: their values as JSON, by key."""
    physical: tuple[PhysicalKnob, ...]
    """Knobs that are minimised by replay, for every candidate in every regime."""
    because: str | None
    """Why the world can change the learning, so that all its knobs are learning knobs; None: it cannot."""

    @property
    def arms(self) -> list[Knobs]:
        """Every combination of the learning knobs besides tau; a single empty one if there are none."""
        return list(itertools.product(*([(key, value) for value in values] for key, values in self.learning.items())))

    @property
    def settings(self) -> list[Setting]:
        """Every combination of the learning knobs where tau is a list, too; tau changes slowest."""
        taus = self.taus if isinstance(self.taus, list) else []
        return [Setting(tau, arm) for tau in taus for arm in self.arms]


def candidate_taus(spec: TuneSpec) -> list[int] | TauRange:
    """The values of tau that are compared, in ascending order; or the range in which the search chooses them."""
    table, given = spec.rounds_to_target, spec.knobs.tau
    if isinstance(given, tuple):
        return sorted(given)
    if isinstance(given, TauRange):
        return given
    return list(range(min(table), max(table) + 1)) if table else TauRange()


def space_of(
    spec: TuneSpec, scenario: Scenario, policy: int, worlds: Sequence[Scenario], because: str | None = None
) -> Space:
    """The space of one policy's knobs. ScenarioError where a knob has no such value or range.

    `because`: why the world changes the learning, where that was found out; None: it is looked for.
    """
    taus, others = candidate_taus(spec), spec.knobs.others
    of_world = [key for key in others if key.split(".")[0] in WorldSpec.model_fields]
    physical = [_physical(key, others[key], scenario, policy) for key in of_world]
    because = because or next(_why_live(worlds, policy, physical), None)
    left = others if because else {key: given for key, given in others.items() if key not in of_world}
    learning = {key: _values(key, given, scenario, policy) for key, given in left.items()}
    return Space(taus, learning, () if because else tuple(physical), because)


def _why_live(worlds: Sequence[Scenario], policy: int, knobs: Sequence[PhysicalKnob]) -> Iterator[str]:
    """Why some regime, with some value of some knob, can change the learning."""
    for world in worlds:
        if words := why_live(world.world, world.policies[policy]):
            yield words
    for knob in knobs:
        ends = knob.values or tuple(encoded(quantity(knob.key, end)) for end in (knob.low, knob.high))
        for world in worlds:
            for value in ends:
                tried = with_knobs(world, policy, ((knob.key, value),))
                if words := why_live(tried.world, tried.policies[policy]):
                    yield words


def _physical(key: str, given: Any, scenario: Scenario, policy: int) -> PhysicalKnob:
    if isinstance(given, tuple):
        return PhysicalKnob(key, values=_checked(key, given, scenario, policy))
    low, high = _ends(key, given, scenario, policy)
    return PhysicalKnob(key, low, high)


def _values(key: str, given: Any, scenario: Scenario, policy: int) -> tuple[str, ...]:
    """The values of a learning knob that are trained, as JSON."""
    if isinstance(given, tuple):
        return _checked(key, given, scenario, policy)
    low, high = _ends(key, given, scenario, policy)
    between = np.geomspace(low, high, VALUES)
    whole = isinstance(value_at(scenario, policy, key), int) or key == "m"
    if whole:
        tried: list[Any] = sorted({round(value) for value in between.tolist()})
    else:
        tried = [quantity(key, value) for value in between.tolist()]
    return _checked(key, tried, scenario, policy)


def _checked(key: str, values: Sequence[Any], scenario: Scenario, policy: int) -> tuple[str, ...]:
    """The values as JSON, each of them tried in the scenario."""
    found = tuple(map(encoded, values))
    for value in found:
        with_knobs(scenario, policy, ((key, value),))
    return found


def _ends(key: str, given: Any, scenario: Scenario, policy: int) -> tuple[float, float]:
    """The range of a knob in SI units."""
    least, most = (given.least, given.most) if isinstance(given, KnobRange) else (None, None)
    high = _end(key, most, scenario, policy) if most is not None else _largest(key, scenario, policy)
    low = _end(key, least, scenario, policy) if least is not None else _smallest(key, high)
    if not 0 < low < high:
        raise ScenarioError(f"tune.knobs.{key}: no value is between {low:g} and {high:g}; least must be below most")
    return low, high


def _end(key: str, given: Any, scenario: Scenario, policy: int) -> float:
    number = value_at(with_knobs(scenario, policy, ((key, encoded(given)),)), policy, key)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ScenarioError(f"tune.knobs.{key}: its values are no numbers, so it has no range; give a list of them")
    return float(number)


def _largest(key: str, scenario: Scenario, policy: int) -> float:
    """The largest value that `auto` allows: that of the modem, the processor, or all clients."""
    found: float | None = None
    if key == "m":
        found = float(scenario.clients)
    elif key == "radio.power":
        limits = [device.max_power for device in scenario.devices]
        found = min((limit for limit in limits if limit is not None), default=None)
    elif key.startswith("devices.") and key.endswith(".frequency"):
        found = value_at(scenario, policy, key.removesuffix("frequency") + "max_frequency")
    if found is None:
        raise ScenarioError(
            f"tune.knobs.{key}: nothing in the scenario limits it; give {{least: ..., most: ...}} or a list of values"
        )
    return found


def _smallest(key: str, high: float) -> float:
    if key == "m":
        return 1.0
    share = BELOW_MOST.get(key.rsplit(".", 1)[-1])
    if share is None:
        raise ScenarioError(f"tune.knobs.{key}: give its least value, too, or a list of values")
    return share * high
