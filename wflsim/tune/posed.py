"""Whether a question about physical knobs has an answer: less power or a slower clock must cost something.

Radiated energy per bit falls for ever with the power, and the energy of a computation with the clock. Only circuit or
idle power, a price of time or a deadline makes an optimum; without any of them the least of a range is no answer.
"""

from __future__ import annotations

import numpy as np

from wflsim.errors import ReplayRefused, ScenarioError
from wflsim.exchange import Order
from wflsim.records import Step, TraceRound
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.tune.setting import encoded, with_knobs
from wflsim.tune.space import PhysicalKnob, Space
from wflsim.tune.walk import Walk
from wflsim.world.fleet.compute import REFERENCE_FLOPS

SLOWING = ("power", "radiated_power", "frequency")
"""Last parts of the keys of which less saves energy and takes time."""
SMALLER = (1.0, 1e-1, 1e-2, 1e-3)
"""Shares of the least value at which the energy is looked at: falling over all of them, it falls for ever."""
BITS, SAMPLES, STEPS = 1_000_000, 320, 10
"""Size of the order that is looked at."""


def refuse_ill_posed(spec: TuneSpec, space: Space, worlds: list[Scenario], policy: int) -> None:
    """Raise a ScenarioError that says so if less of some knob always costs less, whatever its range."""
    prices_time = spec.objective in ("time", "pareto") or (spec.cost is not None and spec.cost.per_second > 0)
    limited = spec.subject_to is not None and spec.subject_to.time is not None
    if (prices_time and spec.objective != "energy") or limited or worlds[0].stop.time is not None:
        return
    for knob in space.physical:
        if knob.key.rsplit(".", 1)[-1] in SLOWING and not knob.values:
            for world in worlds:
                if _falls_for_ever(knob, world, policy, spec):
                    raise ScenarioError(
                        f"tune.knobs.{knob.key}: less of it always takes less energy here, however slow, because "
                        f"nothing prices time: there is no deadline, no price of a second, and no circuit or idle "
                        f"power that a longer transfer or computation would cost. The only answer is the slowest "
                        f"allowed. Give tune.subject_to.time, tune.objective cost with per_second, or pareto; or "
                        f"devices with circuit and idle power (a named modem and processor), and tune.accounting full"
                    )


def _falls_for_ever(knob: PhysicalKnob, world: Scenario, policy: int, spec: TuneSpec) -> bool:
    """Whether one order costs ever less energy down to a thousandth of the least value."""
    costs = []
    for share in SMALLER:
        try:
            changed = with_knobs(world, policy, ((knob.key, encoded(knob.low * share)),))
            walk = Walk(changed, world.seeds[0], REFERENCE_FLOPS, spec)
            walk.advance([_round()])
        except (ReplayRefused, ScenarioError):  # so slow a device cannot be simulated, so there is an end to it
            return False
        costs.append(walk.cost)
    return bool(np.all(np.diff(costs) < 0))


def _round() -> TraceRound:
    """A round in which client 0 computes and sends."""
    order = Order(0, 0, 0, 0, BITS, 0, BITS, SAMPLES, SAMPLES, BITS, STEPS, STEPS)
    return TraceRound(0, [Step("gather", [order], None)], None)
