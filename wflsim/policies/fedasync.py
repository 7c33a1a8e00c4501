"""FedAsync. C. Xie, S. Koyejo, I. Gupta, "Asynchronous Federated Optimization", OPT workshop 2020, arXiv:1903.03934,
Algorithm 1; x of the paper is w here.

The scheduler keeps m tasks under way: whenever one ends, an idle client gets the newest model. A round is one arrival.
Staleness counts server versions, not seconds. A lost upload changes nothing, and its slot is free again.
The client returns the version it was given beside its model: one scalar up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from wflsim.exchange import Ask, Draw, Lost, Me, Receive, Send
from wflsim.policies.base import About, Coefficient, Count, Policy, Rng, Round, Step, Tensor
from wflsim.units import Share


@dataclass(frozen=True)
class State:
    """What the server remembers: the model, its version, and how many orders are under way."""

    w: Tensor
    t: int
    """Number of versions of the model so far."""
    busy: int
    """Number of orders under way."""


class AsynchronousPolicy(Policy):
    """A policy that keeps m orders under way; each client returns the version of the model that it was given."""

    asynchronous = True

    m: Count
    """Orders under way at once."""


class FedAsync(AsynchronousPolicy):
    """Every arriving model is mixed into the server's at once, the less the staler it is."""

    name: Literal["fedasync"] = "fedasync"
    about = About("Xie et al. 2020, arXiv:1903.03934", down="1v+1s", up="1v+1s",
                  needs="asynchronous: a world with a clock")

    eta: Step = 0.05
    """Learning rate."""
    rho: Coefficient = 0.005
    """Strength of the proximal term rho/2 |y - w_t|^2 of the local objective."""
    alpha: Annotated[Share, Field(gt=0)] = 0.6
    """Weight of a model without staleness in the server's mix."""
    staleness: Literal["constant", "polynomial", "hinge"] = "polynomial"
    """Factor s(k) on that weight at a staleness of k versions: 1 (constant), (k+1)^-a (polynomial), or 1 up to b and
    1/(a(k-b)+1) beyond (hinge)."""
    a: Coefficient = 0.5
    """Parameter a of the staleness factor; the paper's hinge has 10."""
    b: Coefficient = 4.0
    """Staleness in versions up to which the hinge leaves the weight as it is."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, t=0, busy=0)

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        busy = x.busy
        if busy < self.m:
            D, _ = yield Draw(self.m - busy)
            if D:
                yield Send(Ask(D, self.local_steps, shared={"w": x.w, "t": x.t}, models_up=1))
            busy += len(D)
        if not busy:
            return x
        reply = yield Receive()
        if isinstance(reply, Lost):
            return replace(x, busy=busy - 1)
        alpha_k = self.alpha * self.s(x.t - int(reply["t"]))
        return State(x.w.lerp(reply["y"], alpha_k), x.t + 1, busy - 1)

    def s(self, k: int) -> float:
        """Factor on the weight of a model that is k versions old."""
        if self.staleness == "polynomial":
            return float((k + 1) ** -self.a)
        return 1.0 if self.staleness == "constant" or k <= self.b else 1 / (self.a * (k - self.b) + 1)

    def local_steps(self, me: Me, w: Tensor, t: int) -> Mapping[str, Tensor]:
        y = me.copies_of(w)
        for _ in range(self.tau):
            # y <- y - eta (grad + rho (y - w_t))
            me.descend(y, self.eta, w, pull=self.eta * self.rho)
        return {"y": me.sent(y, near=w), "t": y.new_full((len(y),), t)}
