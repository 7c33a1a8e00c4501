"""FedAvg. H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, arXiv:1602.05629, Algorithm 1.
Local SGD. S. U. Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, arXiv:1805.09767: the same with
all clients and uniform weights.

Deviations: tau local steps instead of epochs (with `tau_min`, a number of its own for each client). Weights are uniform
by default, as in the DRDM paper's comparison; `weights: data` gives n_k over the sum of the *received* n_k, the
normalisation that the printed algorithm lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from wflsim.exchange import Allot, Ask, Draw, Gather, Me, Reply, Weights
from wflsim.policies.base import About, ModelAndCounts, Rng, Round, Step, Tensor, average_models, received
from wflsim.policies.sampling import shares
from wflsim.policies.steps import UnequalWork


class FedAvg(UnequalWork):
    """Average the models of m clients after tau local SGD steps each."""

    name: Literal["fedavg"] = "fedavg"
    about = About("McMahan et al. 2017, arXiv:1602.05629", down="1v", up="1v")

    eta: Step = 0.05
    """Learning rate."""
    weights: Literal["uniform", "data"] = "uniform"
    """Weights of the received models in the average: uniform, or in proportion to the clients' samples."""

    def round(self, x: ModelAndCounts, s: int, rng: Rng) -> Round[ModelAndCounts]:
        got, a = yield from self.updates(x, rng)
        return replace(x, w=average_models(received(got, "w"), got, "y", a)) if got else x

    def updates(self, x: ModelAndCounts, rng: Rng) -> Round[tuple[list[Reply], Weights]]:
        """The models that a cohort sent back, and the weight of each client."""
        D, a = yield Draw(self.m or len(x.d))
        if self.weights == "data":
            a = shares(D, x.d)
        tau = yield Allot(self.allotted(D, len(x.d), rng))
        got = yield Gather([Ask([*tau], partial(self.local_steps, tau=tau), shared={"w": x.w}, models_up=1)])
        return got, a

    def local_steps(self, me: Me, w: Tensor, tau: Mapping[int, int]) -> Mapping[str, Tensor]:
        """Client half: local steps from w, and what is sent up. Row i of a tensor belongs to client i of `me`."""
        y = me.copies_of(w)
        for _ in me.steps([tau[i] for i in me.clients], y):
            me.descend(y, self.eta)
        return {"y": me.sent(y, near=w)}


class LocalSGD(FedAvg):
    """FedAvg with everybody in every round."""

    name: Literal["local_sgd"] = "local_sgd"  # type: ignore[assignment]
    about = About("Stich 2019, arXiv:1805.09767", down="1v", up="1v")

    m: None = None
    """All clients, always."""
    weights: Literal["uniform"] = "uniform"
