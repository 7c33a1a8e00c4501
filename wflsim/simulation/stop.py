"""When a run ends: rounds, a target accuracy, energy or simulated time, whichever first."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from wflsim.records import RoundRow
from wflsim.spec import Spec
from wflsim.target import Watch
from wflsim.units import Joules, Seconds, Share

ALL_ROUNDS = "all rounds done"
"""The reason of a run that stop.rounds ended."""


class Target(Spec):
    """An accuracy to reach, and what counts as having reached it."""

    metric: Literal["worst", "average"] = "worst"
    """Whose accuracy must reach the target: that of the worst client, or the average over clients."""
    accuracy: Annotated[Share, Field(gt=0)]
    """Accuracy to reach, on each client's own test samples."""
    hold: Annotated[int, Field(ge=1, le=1000)] = 1
    """Evaluations in a row that must show the accuracy; the target counts as reached at the first of them."""
    window: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Rounds over which evaluations are averaged before the mean is held against the accuracy; the target counts as
    reached in the middle of the first window whose mean shows it. Unlike a single evaluation or `hold`, this does not
    depend on `evaluate_every` when the accuracy is noisy."""

    @model_validator(mode="after")
    def _one_cure(self) -> Self:
        if self.hold > 1 and self.window > 1:
            raise ValueError(
                f"hold: {self.hold} and window: {self.window} are two cures for one noise; keep the window (rounds) "
                f"and remove hold (evaluations)"
            )
        return self

    def watch(self) -> Watch:
        """A new `Watch` of this target, for one run."""
        return Watch(self.accuracy, self.hold, self.window)


class StopSpec(Spec):
    """When a run ends: the first of these rules that applies."""

    rounds: Annotated[int, Field(ge=1, le=1_000_000)]
    """Number of rounds after which a run ends at the latest."""
    target: Target | None = None
    """Accuracy to reach; null: none."""
    at_target: bool = True
    """Whether a run ends when it has reached the target; false: it only measures when it did."""
    energy: Joules | None = None
    """Energy of all clients together (`full` accounting) after which a run ends; null: no limit."""
    time: Seconds | None = None
    """Simulated time after which a run ends; null: no limit."""


class Stop:
    """A StopSpec at work: fed one round row after the other."""

    def __init__(self, spec: StopSpec) -> None:
        self._spec = spec
        self._watch = spec.target.watch() if spec.target else None
        self._energy_j = 0.0

    def __call__(self, row: RoundRow) -> str | None:
        """The reason to stop after this round, or None."""
        spec = self._spec
        self._energy_j += row.energy_j
        if spec.target and self._watch and spec.at_target:
            value = row.worst if spec.target.metric == "worst" else row.average
            if self._watch.see(row.round, value):
                return "target reached"
        if spec.energy is not None and self._energy_j >= spec.energy:
            return "energy spent"
        if spec.time is not None and row.end_s >= spec.time:
            return "time is up"
        if row.round + 1 >= spec.rounds:
            return ALL_ROUNDS
        return None
