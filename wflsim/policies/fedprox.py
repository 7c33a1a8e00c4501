"""FedProx. T. Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, arXiv:1812.06127, Algorithm 2.

Deviations: tau local steps instead of a gamma-inexact solution. The paper draws by p_k and takes the plain mean, its
released code draws uniformly and weights by n_k: the code's way is the default, `sampling: data` with `weights:
uniform` is the paper's. Partial work, which the paper aggregates and FedAvg would drop: with `tau_min` every client
takes tau_min..tau steps (the code: 1 to E - 1 epochs for a part of the cohort). Who is late is late all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from wflsim.exchange import Allot, Ask, Draw, Gather, Me
from wflsim.policies.base import About, Coefficient, ModelAndCounts, Rng, Round, Step, Tensor, average_models, received
from wflsim.policies.sampling import shares
from wflsim.policies.steps import UnequalWork


class FedProx(UnequalWork):
    """FedAvg whose clients are held near the global model by a proximal term."""

    name: Literal["fedprox"] = "fedprox"
    about = About("Li et al. 2020, arXiv:1812.06127", down="1v", up="1v")

    eta: Step = 0.05
    """Learning rate."""
    mu: Coefficient = 0.1
    """Strength of the proximal term mu/2 |y - w|^2 of the local objective."""
    weights: Literal["data", "uniform"] = "data"
    """Weights of the received models in the average: in proportion to the clients' samples, or uniform."""
    sampling: Literal["uniform", "data"] = "uniform"
    """How clients are drawn: uniformly, or in proportion to their samples."""

    def round(self, x: ModelAndCounts, s: int, rng: Rng) -> Round[ModelAndCounts]:
        D, a = yield Draw(self.m or len(x.d), by=x.d if self.sampling == "data" else None)
        if self.weights == "data":
            a = shares(D, x.d)
        tau = yield Allot(self.allotted(D, len(x.d), rng))
        got = yield Gather([Ask([*tau], partial(self.local_steps, tau=tau), shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        return replace(x, w=average_models(received(got, "w"), got, "y", a))

    def local_steps(self, me: Me, w: Tensor, tau: Mapping[int, int]) -> Mapping[str, Tensor]:
        y = me.copies_of(w)
        for _ in me.steps([tau[i] for i in me.clients], y):
            # y <- y - eta (grad + mu (y - w))
            me.descend(y, self.eta, w, pull=self.eta * self.mu)
        return {"y": me.sent(y, near=w)}
