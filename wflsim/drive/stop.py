"""When a run ends: rounds, a target accuracy held for some evaluations, energy or simulated time, whichever first."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wflsim.record import RoundRow
from wflsim.units import Joules, Seconds, Spec


class Target(Spec):
    """An accuracy to reach, and hold."""

    metric: Literal["worst", "average"] = "worst"
    accuracy: Annotated[float, Field(gt=0, le=1)]
    hold: Annotated[int, Field(ge=1, le=1000)] = 1
    """Evaluations in a row that must show it; the target counts as reached at the first of them."""


class StopSpec(Spec):
    """The first rule that applies ends the run."""

    rounds: Annotated[int, Field(ge=1, le=1_000_000)]
    target: Target | None = None
    at_target: bool = True
    """Stop when the target is held; false: only measure when it was."""
    energy: Joules | None = None
    """Whole-device joules of all clients together (`full` accounting)."""
    time: Seconds | None = None
    """Simulated seconds."""


class Stop:
    """A StopSpec at work: fed one round row after the other."""

    def __init__(self, spec: StopSpec) -> None:
        self._spec = spec
        self._held = 0
        self._energy_j = 0.0

    def __call__(self, row: RoundRow) -> str | None:
        """The reason to stop after this round, or None."""
        spec = self._spec
        self._energy_j += row.energy_j
        if spec.target and row.worst is not None:
            value = row.worst if spec.target.metric == "worst" else row.average
            self._held = self._held + 1 if value is not None and value >= spec.target.accuracy else 0
            if spec.at_target and self._held >= spec.target.hold:
                return "target reached"
        if spec.energy is not None and self._energy_j >= spec.energy:
            return "energy spent"
        if spec.time is not None and row.end_s >= spec.time:
            return "time is up"
        if row.round + 1 >= spec.rounds:
            return "all rounds done"
        return None
