"""Ditto. T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: Fair and Robust Federated Learning Through Personalization",
ICML 2021, arXiv:2012.04221, Algorithm 1 with FedAvg as its solver of the global problem.

Each client keeps a model v_i of its own, which stays on the device: it moves only when the client is drawn, and it has
moved when the computation has ended, whether or not the upload arrives. The global path is FedAvg's, whatever lambda.
Readings: as in the released code, both models take each of the tau steps on the same minibatch, m clients are drawn in
proportion to their samples, the mean is plain, and v_i starts as the initial model w^0, which every device can make
from the seed (no bits). A client that was never drawn is evaluated with that. `lam` is the paper's lambda.
Deviations: no robust aggregation (median, Krum, clipping); lambda is one constant, not chosen by validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import About, Coefficient, Policy, Rng, Round, Step, Tensor, weighted


@dataclass(frozen=True)
class State:
    """What the server remembers: the global model and the initial one."""

    w: Tensor
    w_0: Tensor
    """The initial model, with which every v_i starts."""
    d: tuple[int, ...]


class Ditto(Policy):
    """A personal model for every client, trained beside FedAvg's global one and held near it by a proximal term."""

    name: Literal["ditto"] = "ditto"
    about = About("Li et al. 2021, arXiv:2012.04221", down="1v", up="1v",
                  needs="personal model of 1v per client; twice the work")

    eta: Step = 0.05
    """Learning rate of both models."""
    lam: Coefficient = 1.0
    """Strength of the term lambda/2 |v_i - w|^2 that holds a personal model near the global one; 0: local training
    alone."""
    sampling: Literal["data", "uniform"] = "data"
    """How clients are drawn: in proportion to their samples, or uniformly."""
    eval_model: Literal["personal", "server"] = "personal"
    """Model that is evaluated: each client's own v_i, or the server's w."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, w, tuple(d))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        D, a = yield Draw(self.m or len(x.d), by=x.d if self.sampling == "data" else None)
        got = yield Gather([Ask(D, partial(self.local_steps, w_0=x.w_0), shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        return replace(x, w=x.w + weighted(x.w, got, "du", a))

    def model(self, x: State, me: Me) -> Tensor:
        if self.eval_model == "server":
            return x.w
        v: Tensor = me.personal.get("v", x.w_0)
        return v

    def local_steps(self, me: Me, w: Tensor, w_0: Tensor) -> Mapping[str, Tensor]:
        u, v = me.copies_of(w), me.personal.get("v", w_0)
        for _ in range(self.tau):
            xi = me.batch()
            me.descend(u, self.eta, on=xi)
            # v <- v - eta (grad(v) + lambda (v - w))
            me.descend(v, self.eta, w, pull=self.eta * self.lam, on=xi)
        me.personal["v"] = v
        return {"du": u - w}
