"""What is minimised: joules by either accounting, seconds, or money; and when a run reaches its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wflsim.answer import duration, si
from wflsim.drive.stop import Target
from wflsim.learning.metrics import metrics
from wflsim.record import TraceRound
from wflsim.scenario.blocks import TuneSpec

UNITS = {"energy": "J", "time": "s", "cost": "cost"}


def energy_column(spec: TuneSpec) -> str:
    """Which joules."""
    return "paper_energy_j" if spec.accounting == "paper" else "energy_j"


def cost_of(spec: TuneSpec, energy_j: float, time_s: float) -> float:
    """One number from joules (of the accounting that was chosen) and seconds."""
    if spec.objective == "energy":
        return energy_j
    if spec.objective == "time" or spec.cost is None:
        return time_s
    return spec.cost.per_joule * energy_j + spec.cost.per_second * time_s


def cost_of_facts(spec: TuneSpec, facts: Mapping[str, Any]) -> float:
    """The same from a finished cell."""
    return cost_of(spec, float(facts[energy_column(spec)]), float(facts["time_s"]))


def shown(spec: TuneSpec, value: float) -> str:
    """A cost with its unit."""
    if spec.objective == "time":
        return duration(value)
    return si(value, "J") if spec.objective == "energy" else f"{value:.4g}"


class Reach(NamedTuple):
    """Where a curve stands with its target."""

    first: int | None
    """The round whose evaluation began to show the target; None if the latest does not show it."""
    held: bool
    """Shown by as many evaluations in a row as asked: it was reached, in that first round."""


def reach(trace: Sequence[TraceRound], target: Target) -> Reach:
    """At the first round where the target is held, or else at the end of the trace."""
    first: int | None = None
    held = 0
    for entry in trace:
        if entry.evaluation is None:
            continue
        value = metrics(entry.evaluation.accuracy)[target.metric]
        if value is None or value < target.accuracy:
            first, held = None, 0
            continue
        first = entry.round if first is None else first
        held += 1
        if held == target.hold:
            return Reach(first, True)
    return Reach(first, False)
