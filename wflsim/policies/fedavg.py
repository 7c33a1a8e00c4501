"""FedAvg. H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, arXiv:1602.05629, Algorithm 1.
Local SGD. S. U. Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, arXiv:1805.09767: the same with
all clients and uniform weights.

Deviations: tau local steps instead of epochs. Weights are uniform by default, as in the DRDM paper's comparison;
`weights: data` gives n_k over the sum of the *received* n_k, the normalisation that the printed algorithm lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import Policy, Rng, Round, Step, moved, received

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class State:
    w: Tensor
    d: tuple[int, ...]


class FedAvg(Policy):
    """Average the models of m clients after tau local SGD steps each."""

    paper: ClassVar[str] = "McMahan et al. 2017, arXiv:1602.05629"
    down: ClassVar[str] = "1v"
    up: ClassVar[str] = "1v"

    name: Literal["fedavg"] = "fedavg"
    eta: Step = 0.05
    """Learning rate."""
    weights: Literal["uniform", "data"] = "uniform"
    """Mean of the received models, or by their sample counts."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, tuple(d))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        D, a = yield Draw(self.m or len(x.d))
        if self.weights == "data":
            a = {i: x.d[i] / sum(x.d[j] for j in D) for i in D}
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        return replace(x, w=moved(received(got, "w"), got, "y", a))

    def local_steps(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        y = me.fresh(w)
        for _ in range(self.tau):
            me.descend(y, self.eta)
        return {"y": y}


class LocalSGD(FedAvg):
    """FedAvg with everybody in every round."""

    paper: ClassVar[str] = "Stich 2019, arXiv:1805.09767"
    name: Literal["local_sgd"] = "local_sgd"  # type: ignore[assignment]
    m: None = None
    """All clients, always."""
    weights: Literal["uniform"] = "uniform"
