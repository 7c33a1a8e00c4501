"""FedDyn. D. A. E. Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, arXiv:2111.04263,
Algorithm 1; alpha of the paper is mu here.

Deviations: tau local steps instead of an exact local minimum. "sum theta_k - theta" is the sum of the differences, as
in the released code. m clients without replacement; `sampling: bernoulli` is the code's way (each by itself with
probability m/N, at least one). The code reports the mean of the received models, `eval_model: mean`; here the
corrected server model is evaluated by default. `freeze_g` and `freeze_c` are ablations: both together are FedProx.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import About, Policy, Rng, Round, Step, Tensor, average_models, received, sum_of_updates


@dataclass(frozen=True)
class State:
    """What the server remembers: the model w and the correction c = mean of the g_i."""

    w: Tensor
    c: Tensor
    N: int
    mean: Tensor
    """Of the models received last: what the released code reports."""


class FedDyn(Policy):
    """Each client's loss is tilted by a memory of its gradient, so that local and global optima agree."""

    name: Literal["feddyn"] = "feddyn"
    about = About("Acar et al. 2021, arXiv:2111.04263", down="1v", up="1v", needs="memory of 1v per client")

    eta: Step = 0.05
    """Learning rate."""
    mu: Annotated[float, Field(gt=0, le=1e6)] = 0.5
    """Strength of the dynamic regularisation, the paper's alpha; keep mu*eta*tau <= 1."""
    sampling: Literal["uniform", "bernoulli"] = "uniform"
    """How clients are drawn: exactly m, or each with probability m/N."""
    eval_model: Literal["server", "mean"] = "server"
    """Model that is evaluated: the server's w, or the mean of the received models before the correction by c."""
    freeze_g: bool = False
    """Ablation: the clients' gradient memories g_i stay 0."""
    freeze_c: bool = False
    """Ablation: the server does not correct the model by c/mu."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, w.new_zeros(w.shape), len(d), w)

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        D, a = yield Draw(self.m or x.N, scheme="bernoulli" if self.sampling == "bernoulli" else "sequential")
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        w = received(got, "w")
        c = x.c - self.mu / x.N * sum_of_updates(w, got, "y")
        mean = average_models(w, got, "y", a)
        w = mean if self.freeze_c else mean - c / self.mu
        return State(w, c, x.N, mean)

    def model(self, x: State, me: Me) -> Tensor:
        return x.w if self.eval_model == "server" else x.mean

    def local_steps(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        g = me.memory["g"]
        y = me.copies_of(w)
        anchor = w + g / self.mu
        for _ in range(self.tau):
            # y <- y - eta (grad - g + mu (y - w)), gathered around the anchor w + g/mu to save passes over memory
            me.descend(y, self.eta, anchor, pull=self.eta * self.mu)
        y = me.sent(y, near=w)
        if not self.freeze_g:
            me.memory["g"] = g - self.mu * (y - w)
        return {"y": y}
