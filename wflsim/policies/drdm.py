"""DRDM: "Distributionally Robust Federated Learning with Client Drift Minimization", Algorithms 1 and 2.

Readings where the text is ambiguous: "sum w_i - w" is the sum of the differences; grad f_i(w_i^(s tau)) is a memory g_i
from i's last participation, zero at first; v carries N/m (Algorithm 3, see dual.py); t' is sent down; lambda keeps a
floor, because without one it has exact zeros after a round and m distinct clients cannot be drawn. W = R^P.
Ablations: `gamma: 0` (lambda stays), `freeze_g` (g_i stays 0), `freeze_c` (no c/mu, the only way to run mu = 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from wflsim.exchange import Ask, Draw, Gather, Me, Scheme
from wflsim.policies.base import (
    About,
    Coefficient,
    Rng,
    Round,
    Step,
    Tensor,
    Vector,
    average_models,
    received,
    sum_of_updates,
)
from wflsim.policies.dual import TwoPhases


@dataclass(frozen=True)
class State:
    """What the server remembers: the model w, the correction c = mean of the g_i, and lambda."""

    w: Tensor
    c: Tensor
    lam: Vector


class DRDM(TwoPhases):
    """Dynamic regularisation against client drift, clients drawn by the dual variable of the worst mixture."""

    name: Literal["drdm"] = "drdm"
    about = About("DRDM, Algorithm 1 (the source paper)", down="1v+1s / 1v", up="2v / 1s",
                  needs="memory of 1v per client")

    eta: Step = 0.05
    """Learning rate."""
    mu: Coefficient = 0.5
    """Strength of the dynamic regularisation; keep mu*eta*tau <= 1."""
    gamma: Coefficient = 5e-4
    """Step of the dual variable lambda."""
    scheme: Scheme = "sequential"
    """How clients are drawn by lambda; `wflsim list scheme` describes each."""
    snapshot: Literal["post_step", "pre_step"] = "post_step"
    """Snapshot z_i: the iterate after the random step t' (the paper) or before it (FedTorch's DRFA)."""
    freeze_g: bool = False
    """Ablation: the clients' gradient memories g_i stay 0."""
    freeze_c: bool = False
    """Ablation: the server does not correct the model by c/mu."""

    @model_validator(mode="after")
    def _divisors(self) -> Self:
        if self.mu == 0 and not self.freeze_c:
            raise ValueError("mu: 0 would divide c by zero; set freeze_c: true as well")
        return self

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, w.new_zeros(w.shape), np.full(len(d), 1 / len(d)))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        N, mu = len(x.lam), self.mu
        D, a = yield Draw(self.m, by=x.lam, scheme=self.scheme)                                    # line 5
        t = int(rng("snapshot").integers(1, self.tau + 1))                                         # line 6
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w, "t": t}, models_up=2)])     # lines 7-12
        if not got:
            return x
        w_s = received(got, "w")
        c_t, c = (x.c - mu / N * sum_of_updates(w_s, got, name) for name in ("z", "y"))            # lines 17, 18
        w_t = self.corrected(average_models(w_s, got, "z", a), c_t)                                # line 19
        w = self.corrected(average_models(w_s, got, "y", a), c)                                    # line 20
        lam = yield from self.dual_update(x.lam, w_t, step=self.tau * self.gamma)                  # line 21
        return State(w, c, lam)

    def corrected(self, mean: Tensor, c: Tensor) -> Tensor:
        """The mean of the received models, corrected by c/mu."""
        return mean if self.freeze_c else mean - c / self.mu

    def local_steps(self, me: Me, w: Tensor, t: int) -> Mapping[str, Tensor]:                      # Algorithm 2
        g = me.memory["g"]
        y = me.copies_of(w)
        anchor = w + g / self.mu if self.mu else w
        for k in range(1, self.tau + 1):
            if k == t and self.snapshot == "pre_step":
                z = y.clone()
            # y <- y - eta (grad - g - mu (w - y)), gathered around the anchor w + g/mu to save passes over memory
            me.descend(y, self.eta, anchor, pull=self.eta * self.mu)
            if k == t and self.snapshot == "post_step":
                z = y if t == self.tau else y.clone()  # the last iterate is y itself: sent, and paid for, once
        y, z = me.sent(y, z, near=w)
        if not self.freeze_g:
            me.memory["g"] = g - self.mu * (y - w)                                                 # line 10
        return {"y": y, "z": z}
