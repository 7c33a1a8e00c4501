"""Sizes and numbers of local steps: sizes that decay over rounds, numbers that differ between the clients of a round.

A step is a number, or `{start: 5.0e-4, power: 0.5, after: 200}`, which is start / (1 + s/after)^power in round s. The
schedule is agreed in advance, so it costs no bits: the server hands the value to the client half when it asks.
Theorems that ask for decaying steps also ask for the average of all server models, which `evaluated` gives.

    tau = yield Allot(self.allotted(D, len(x.d), rng))                              # the server's half
    got = yield Gather([Ask([*tau], partial(self.local_steps, tau=tau), ...)])
    for _ in me.steps([tau[i] for i in me.clients], y):                             # the client's half

A client counts its own steps: their number costs no bits, unless the policy sends it up. Where the world limits the
time of computing (`server.compute_budget`), `Allot` is answered by fewer steps, and without the clients for whom none
fits: they take no part, and their weights go to the others as those of lost replies do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from wflsim.policies.adaptive import adaptation
from wflsim.policies.base import Coefficient, Count, Policy, Rng, Step, Tensor
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


def local_step(policy: Policy, s: int) -> float | None:
    """Learning rate of the clients' local steps in round s, by the key eta or eta_l; None if it has neither."""
    eta = getattr(policy, "eta", getattr(policy, "eta_l", None))
    return None if eta is None else step_at(eta, s)


def evaluated(which: Evaluated, mean: Tensor, w: Tensor, s: int) -> Tensor:
    """Model to evaluate after round s: the new server model w, or the mean of all, of which `mean` has those before."""
    return w if which == "server" else mean + (w - mean) / (s + 1)


class UnequalWork(Policy):
    """A policy whose equations say what to do when clients take different numbers of local steps."""

    unequal_steps = True

    tau_min: Count | None = None
    """Fewest local steps. Each client's number is drawn uniformly from tau_min..tau, anew in every round; none: tau for
    all."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.tau_min is not None and adaptation(self.tau) is not None:
            raise ValueError("tau_min draws steps up to tau, which tau: adapt chooses for all alike; remove one")
        if self.tau_min is not None and self.tau_min > self.tau:
            raise ValueError(f"tau_min: {self.tau_min} exceeds tau: {self.tau}; a client takes tau_min to tau steps")
        return self

    def allotted(self, D: Sequence[int], N: int, rng: Rng) -> dict[int, int]:
        """tau_i of each client of D, the same whoever else is drawn."""
        if self.tau_min is None:
            return dict.fromkeys(D, self.tau)
        drawn = rng("steps").integers(self.tau_min, self.tau + 1, size=N)
        return {i: int(drawn[i]) for i in D}
