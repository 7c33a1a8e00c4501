"""Step sizes that decay over rounds, and the average of all server models: what convergence theorems ask for.

A step is a number, or `{start: 5.0e-4, power: 0.5, after: 200}`, which is start / (1 + s/after)^power in round s. The
schedule is agreed in advance, so it costs no bits: the server hands the value to the client half when it asks.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wflsim.policies.base import Coefficient, Count, Step, Tensor
from wflsim.spec import Spec


class Decay(Spec):
    """A step size that decays over rounds s as start / (1 + s/after)^power."""

    start: Step
    """Step size of round 0."""
    power: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Exponent of the decay."""
    after: Count = 200
    """Number of rounds after which the step size has fallen by the factor 2^power."""


DecayingStep = Step | Decay
DecayingCoefficient = Coefficient | Decay
Evaluated = Literal["server", "average"]
"""Which model is evaluated: the server's last one, or the mean of those of all rounds."""


def step_at(step: float | Decay, s: int) -> float:
    """Step size of round s."""
    return step.start / (1 + s / step.after) ** step.power if isinstance(step, Decay) else step


def evaluated(which: Evaluated, mean: Tensor, w: Tensor, s: int) -> Tensor:
    """Model to evaluate after round s: the new server model w, or the mean of all, of which `mean` has those before."""
    return w if which == "server" else mean + (w - mean) / (s + 1)
