"""FedAdagrad, FedAdam and FedYogi. S. Reddi et al., "Adaptive Federated Optimization", ICLR 2021, arXiv:2003.00295,
Algorithm 2; x of the paper is w here, its eta_l is eta, its eta is eta_g, its tau is eps.

The mean update of FedAvg's clients takes the place of a gradient in an adaptive optimiser on the server; no bias
correction, as in the paper. v begins at v_0, for which the paper asks at least eps^2. FedAdagrad has no momentum by
default (b1: 0), as in the paper's experiments. Clients are FedAvg's, with its options and deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from wflsim.policies.base import About, Coefficient, ModelAndCounts, Rng, Round, Step, Tensor, average_models, received
from wflsim.policies.fedavg import FedAvg


@dataclass(frozen=True)
class State(ModelAndCounts):
    """What the server remembers: FedAvg's state and two moments of the updates."""

    m: Tensor
    """First moment of the updates."""
    v: Tensor
    """Second moment of each entry of the updates."""


class FedAdagrad(FedAvg):
    """FedAvg whose server divides each entry of the mean update by the root of all its squares so far."""

    name: Literal["fedadagrad"] = "fedadagrad"  # type: ignore[assignment]
    about = About("Reddi et al. 2021, arXiv:2003.00295", down="1v", up="1v")

    eta_g: Step = 0.1
    """Server learning rate."""
    b1: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Decay of the first moment; 0: no momentum."""
    eps: Annotated[float, Field(gt=0, le=1e3)] = 1e-3
    """Adaptivity eps (the paper's tau): the larger, the less the step sizes of the entries differ."""
    v_0: Coefficient = 1e-6
    """Second moment before the first round."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, tuple(d), w.new_zeros(w.shape), w.new_full(w.shape, self.v_0))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:  # type: ignore[override]
        got, a = yield from self.updates(x, rng)                                                   # lines 3-9
        if not got:
            return x
        w = received(got, "w")
        delta = average_models(w, got, "y", a) - w                                                          # line 10
        m = self.b1 * x.m + (1 - self.b1) * delta                                                  # line 11
        v = self.second_moment(x.v, delta**2)                                                      # lines 12-14
        return replace(x, w=x.w + self.eta_g * m / (v.sqrt() + self.eps), m=m, v=v)                # line 15

    def second_moment(self, v: Tensor, squares: Tensor) -> Tensor:
        """Second moment v after a round with these squares of the mean update."""
        return v + squares                                                                         # line 12


class FedAdam(FedAdagrad):
    """FedAvg whose server takes Adam's step along the mean update: both moments decay."""

    name: Literal["fedadam"] = "fedadam"  # type: ignore[assignment]

    b1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of the first moment."""
    b2: Annotated[float, Field(ge=0, le=1)] = 0.99
    """Decay of the second moment; 1 leaves it at v_0."""

    def second_moment(self, v: Tensor, squares: Tensor) -> Tensor:
        return self.b2 * v + (1 - self.b2) * squares                                               # line 14


class FedYogi(FedAdam):
    """FedAdam whose second moment moves by (1 - b2) delta^2, up or down, however large it is itself."""

    name: Literal["fedyogi"] = "fedyogi"  # type: ignore[assignment]

    def second_moment(self, v: Tensor, squares: Tensor) -> Tensor:
        return v - (1 - self.b2) * squares * (v - squares).sign()                                  # line 13
