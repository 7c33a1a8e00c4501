"""What is minimised: joules by either accounting, seconds, or money; and when a run reaches its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wflsim.analysis.formats import duration, si
from wflsim.learning.metrics import metrics
from wflsim.records import TraceRound
from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.stop import Target

UNITS = {"energy": "J", "time": "s", "cost": "cost"}


def energy_column(spec: TuneSpec) -> str:
    """Name of the energy column that the chosen accounting minimises."""
    return "paper_energy_j" if spec.accounting == "paper" else "energy_j"


def cost_of(spec: TuneSpec, energy_j: float, time_s: float) -> float:
    """One number from joules (of the accounting that was chosen) and seconds."""
    if spec.objective == "energy":
        return energy_j
    if spec.objective == "time" or spec.cost is None:
        return time_s
    return spec.cost.per_joule * energy_j + spec.cost.per_second * time_s


def cost_of_facts(spec: TuneSpec, facts: Mapping[str, Any]) -> float:
    """Cost of a finished run, from its line of costs and accuracies."""
    return cost_of(spec, float(facts[energy_column(spec)]), float(facts["time_s"]))


def shown(spec: TuneSpec, value: float) -> str:
    """A cost with its unit."""
    if spec.objective == "time":
        return duration(value)
    return si(value, "J") if spec.objective == "energy" else f"{value:.4g}"


class Reach(NamedTuple):
    """Where a curve stands with its target."""

    first: int | None
    """The round that reached it, or the earliest one that can still prove to have done so; None if that lies ahead."""
    held: bool
    """It was reached, in that first round."""


def reach(trace: Sequence[TraceRound], target: Target) -> Reach:
    """At the round that reached the target, or else at the end of the trace."""
    watch = target.watch()
    for entry in trace:
        if entry.evaluation is not None and watch.see(entry.round, metrics(entry.evaluation.accuracy)[target.metric]):
            return Reach(watch.reached, True)
    first = watch.earliest(len(trace))
    return Reach(first if first < len(trace) else None, False)
