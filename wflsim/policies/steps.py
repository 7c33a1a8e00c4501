"""Step sizes that decay, and the average iterate: what convergence theory asks for and practice often leaves out.

A step is a number, or `{start: 5.0e-4, power: 0.5, after: 200}`, which is start / (1 + s/after)^power in round s. The
schedule is agreed in advance, so it costs no bits: the server hands the value to the client half when it asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from wflsim.policies.base import Coefficient, Count, Step
from wflsim.units import Spec

if TYPE_CHECKING:
    from torch import Tensor


class Decay(Spec):
    """start / (1 + s/after)^power."""

    start: Step
    """The step of round 0."""
    power: Annotated[float, Field(ge=0, le=1)] = 0.5
    after: Count = 200
    """Rounds until the decay sets in."""


DecayingStep = Step | Decay
DecayingCoefficient = Coefficient | Decay
Evaluated = Literal["server", "average"]
"""Which model is evaluated: the server's last one, or the mean of those of all rounds."""


def at(step: float | Decay, s: int) -> float:
    """The step of round s."""
    return step.start / (1 + s / step.after) ** step.power if isinstance(step, Decay) else step


def evaluated(which: Evaluated, mean: Tensor, w: Tensor, s: int) -> Tensor:
    """What to evaluate after round s, given that of the round before and the new server model."""
    return w if which == "server" else mean + (w - mean) / (s + 1)
