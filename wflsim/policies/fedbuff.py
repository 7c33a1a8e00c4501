"""FedBuff. J. Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022,
arXiv:2106.06639, Algorithm 1.

m (the paper's concurrency M_c) tasks are under way; K arrivals make a server version, which is a round here. Divided by
K, not by the sum of s; s is not normalised (the released code divides by s(1)). New tasks go to idle clients only.
`dispatch: after_flush` starts them only when a version is made, which with K = m and equal durations is FedAvg.
A lost upload frees its slot. After m losses in one round the round ends without a new version, its buffer is kept:
otherwise a world that loses everything would never end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wflsim.exchange import Ask, Draw, Lost, Me, Receive, Send
from wflsim.policies.base import About, Coefficient, Count, Rng, Round, Step, Tensor
from wflsim.policies.fedasync import AsynchronousPolicy


@dataclass(frozen=True)
class State:
    """What the server remembers: the model, its version, the buffer, and how many orders are under way."""

    w: Tensor
    t: int
    """Number of versions of the model so far."""
    buffer: Tensor
    n: int
    """Number of updates in the buffer."""
    busy: int
    """Number of orders under way."""


class FedBuff(AsynchronousPolicy):
    """Asynchronous clients, whose updates are collected in a buffer of K before the server moves."""

    name: Literal["fedbuff"] = "fedbuff"
    about = About("Nguyen et al. 2022, arXiv:2106.06639", down="1v+1s", up="1v+1s",
                  needs="asynchronous: a world with a clock")

    K: Count = 5
    """Updates that the buffer holds before the server moves."""
    eta: Step = 0.05
    """Learning rate of the clients."""
    eta_g: Step = 1.0
    """Learning rate of the server."""
    a: Coefficient = 0.5
    """Exponent a of the weight s(k) = (1 + k)^-a of an update that is k versions old."""
    dispatch: Literal["immediate", "after_flush"] = "immediate"
    """When the next order is sent after a reply: at once, or after the server has moved."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, 0, w.new_zeros(w.shape), n=0, busy=0)

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        buffer, n, busy = x.buffer.clone(), x.n, x.busy
        lost, due = 0, True
        while n < self.K and lost < self.m:
            if due and busy < self.m:
                D, _ = yield Draw(self.m - busy)
                if D:
                    yield Send(Ask(D, self.local_steps, shared={"w": x.w, "t": x.t}, models_up=1))
                busy += len(D)
            if not busy:
                break
            reply = yield Receive()
            busy -= 1
            due = self.dispatch == "immediate" or not busy
            if isinstance(reply, Lost):
                lost += 1
                continue
            k = x.t - int(reply["t"])
            buffer.add_(reply["delta"], alpha=(1 + k) ** -self.a)
            n += 1
        if n < self.K:
            return State(x.w, x.t, buffer, n, busy)
        return State(x.w - self.eta_g / self.K * buffer, x.t + 1, x.w.new_zeros(x.w.shape), 0, busy)

    def local_steps(self, me: Me, w: Tensor, t: int) -> Mapping[str, Tensor]:
        y = me.copies_of(w)
        for _ in range(self.tau):
            me.descend(y, self.eta)
        return {"delta": w - y, "t": y.new_full((len(y),), t)}
