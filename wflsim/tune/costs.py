"""What is minimised: joules by either accounting, seconds, or money; when a run reaches its target; and what
the answer must keep to (`tune.subject_to`): time, energy of a client, and how surely the target is reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wflsim.analysis.formats import duration, percent, si
from wflsim.records import TraceRound
from wflsim.scenario.blocks import SubjectTo, TuneSpec
from wflsim.simulation.stop import Target
from wflsim.target import metrics

UNITS = {"energy": "J", "pareto": "J", "time": "s", "cost": "cost"}


def energy_column(spec: TuneSpec) -> str:
    """Name of the energy column that the chosen accounting minimises."""
    return "paper_energy_j" if spec.accounting == "paper" else "energy_j"


def cost_of(spec: TuneSpec, energy_j: float, time_s: float) -> float:
    """One number from joules (of the accounting that was chosen) and seconds."""
    if spec.objective in ("energy", "pareto"):
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
    return si(value, "J") if spec.objective in ("energy", "pareto") else f"{value:.4g}"


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


Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MISSED, BEYOND = 1e3, 50.0
"""By how much a seed that misses the target, and a limit that is missed by a factor e, raise a penalised cost."""


class Limits(NamedTuple):
    """Limits on what a candidate takes to the target, on average over the seeds that reached it."""

    time_s: float = np.inf
    """Simulated time, at most."""
    client_j: float = np.inf
    """Energy of the whole devices divided by the number of clients, at most."""
    reach: float = 0.0
    """Share of seeds that reach the target, at least; 0: the surest candidate is preferred instead."""

    @property
    def exclude(self) -> bool:
        """Whether the cheapest candidate may be excluded, so that none can be given up for being dearer."""
        return bool(np.isfinite(self.time_s) or np.isfinite(self.client_j))

    @classmethod
    def of(cls, given: SubjectTo | None) -> Limits:
        """From the scenario."""
        if given is None:
            return cls()
        time_s = np.inf if given.time is None else given.time
        client_j = np.inf if given.energy_per_client is None else given.energy_per_client
        return cls(time_s, client_j, given.reach or 0.0)


class Kept(NamedTuple):
    """How every candidate stands with the limits."""

    allowed: Flags
    excess: Floats
    """By what factor its worst limit is missed; 1 or less if all are kept, inf if it never reaches the target."""
    worst: tuple[str, ...]
    """The limit that is missed most, in words, with what the candidate takes."""


def kept(limits: Limits, reached: Flags, time_s: Floats | None, client_j: Floats | None) -> Kept:
    """Compare candidates with the limits; arrays are [candidate, seed], None where nothing is known or asked."""
    share = reached.mean(axis=1)
    ratios = [np.divide(limits.reach, share, out=np.full(len(share), np.inf), where=share > 0)]
    words = [[f"P(reach) {percent(one)} instead of at least {percent(limits.reach)}" for one in share]]
    for values, limit, name, shown in (
        (time_s, limits.time_s, "time", duration),
        (client_j, limits.client_j, "energy per client", lambda value: si(value, "J")),
    ):
        if values is not None and np.isfinite(limit):
            mean = np.where(reached, values, 0.0).sum(axis=1) / np.maximum(reached.sum(axis=1), 1)
            ratios.append(np.where(share > 0, mean / max(limit, 1e-300), np.inf))
            words.append([f"{name} {shown(float(one))} instead of at most {shown(limit)}" for one in mean])
    table = np.array(ratios)
    worst = table.argmax(axis=0)
    excess = table.max(axis=0)
    return Kept(excess <= 1.0, excess, tuple(words[int(limit)][i] for i, limit in enumerate(worst)))


def penalised(limits: Limits, cost: Floats, reached: Flags, time_s: Floats, client_j: Floats) -> float:
    """Logarithm of one candidate's mean cost over the seeds that reached, raised by every miss and beyond a limit.

    Arrays are [seed]. It puts candidates in the order of the rule: the surest first, then the cheapest.
    """
    mean = float(cost[reached].mean() if reached.any() else cost.mean())
    excess = float(kept(limits, reached[None, :], time_s[None, :], client_j[None, :]).excess[0])
    beyond = BEYOND * float(np.log(excess)) if 1 < excess < np.inf else 0.0
    return float(np.log(max(mean, 1e-300)) + MISSED * int((~reached).sum()) + beyond)
