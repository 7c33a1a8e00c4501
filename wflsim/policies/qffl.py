"""q-FFL: q-FedAvg and q-FedSGD. T. Li, M. Sanjabi, A. Beirami, V. Smith, "Fair Resource Allocation in Federated
Learning", ICLR 2020, arXiv:1905.10497, Algorithms 2 and 1.

Minimises sum_k F_k^(q+1)/(q+1): the larger q, the more the clients with large losses count; q = 0 is FedAvg (FedSGD)
with equal weights. F_k is the loss of the received w on all local samples, a forward pass of its own in q-FedAvg. The
Lipschitz constant L is 1/eta, with the eta that is right for q = 0.
Deviations: clients send G_k and F_k, and the server forms Delta_k and h_k from them, which costs the same bits. Both
are divided by max_k F_k^q, which cancels and keeps F^q finite. tau local steps instead of epochs. 1e-10 is added to
F_k, and clients are drawn in proportion to their samples (`sampling: data`), both as in the released code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import About, Coefficient, ModelAndCounts, Policy, Rng, Round, Step, Tensor, weighted


class QFedAvg(Policy):
    """FedAvg in which clients with larger losses weigh more, and the step adapts itself."""

    name: Literal["q_fedavg"] = "q_fedavg"
    about = About("Li et al. 2020, arXiv:1905.10497, Algorithm 2", down="1v", up="1v+1s",
                  needs="loss of w on all local samples")

    eta: Step = 0.05
    """Learning rate that is right for q = 0; the Lipschitz constant L is 1/eta."""
    q: Coefficient = 1.0
    """Exponent q of the losses: 0 is FedAvg, and the larger q, the more the clients with large losses count."""
    sampling: Literal["data", "uniform"] = "data"
    """How clients are drawn: in proportion to their samples, or uniformly."""

    def round(self, x: ModelAndCounts, s: int, rng: Rng) -> Round[ModelAndCounts]:
        D, _ = yield Draw(self.m or len(x.d), by=x.d if self.sampling == "data" else None)
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        F = {reply.client: float(reply["F"]) + 1e-10 for reply in got}
        Fq = {k: (F[k] / max(F.values())) ** self.q for k in F}
        # Delta_k = F_k^q G_k,  h_k = q F_k^(q-1) |G_k|^2 + L F_k^q,  both over max F^q
        delta = weighted(x.w, got, "G", Fq)
        h = sum(
            Fq[reply.client] * (self.q * float(reply["G"].square().sum()) / F[reply.client] + 1 / self.eta)
            for reply in got
        )
        return replace(x, w=x.w - delta / h)

    def local_steps(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        y = me.copies_of(w)
        F = me.f(y, on=me.everything)
        for _ in range(self.tau):
            me.descend(y, self.eta)
        return {"G": (w - y) / self.eta, "F": F}


class QFedSGD(QFedAvg):
    """q-FedAvg whose clients send the gradient of all local samples instead of local steps."""

    name: Literal["q_fedsgd"] = "q_fedsgd"  # type: ignore[assignment]
    about = About("Li et al. 2020, arXiv:1905.10497, Algorithm 1", down="1v", up="1v+1s",
                  needs="gradient and loss of w on all local samples")

    tau: Literal[1] = 1
    """One gradient per round."""

    def local_steps(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        G, F = me.gf(me.copies_of(w), on=me.everything)
        return {"G": G, "F": F}
