"""FedAvgM. T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated
Visual Classification", 2019, arXiv:1909.06335: FedAvg with momentum on the server.

Delta is the mean of y_i - w here and the mean of w - y_i in the paper, whose w <- w - v is w <- w + eta_g v with eta_g
of 1. Clients are FedAvg's, with its options and deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from wflsim.policies.base import About, ModelAndCounts, Rng, Round, Step, Tensor, average_models, received
from wflsim.policies.fedavg import FedAvg


@dataclass(frozen=True)
class State(ModelAndCounts):
    """What the server remembers: FedAvg's state and its momentum."""

    v: Tensor
    """Momentum of the server: decayed sum of the mean updates."""


class FedAvgM(FedAvg):
    """FedAvg whose server keeps moving in the direction of earlier rounds."""

    name: Literal["fedavgm"] = "fedavgm"  # type: ignore[assignment]
    about = About("Hsu et al. 2019, arXiv:1909.06335", down="1v", up="1v")

    eta_g: Step = 1.0
    """Server learning rate."""
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Server momentum; 0, with eta_g of 1, is FedAvg."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, tuple(d), w.new_zeros(w.shape))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:  # type: ignore[override]
        got, a = yield from self.updates(x, rng)
        if not got:
            return x
        w = received(got, "w")
        delta = average_models(w, got, "y", a) - w
        v = self.beta * x.v + delta
        return replace(x, w=x.w + self.eta_g * v, v=v)
