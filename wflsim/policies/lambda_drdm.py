"""Lambda-consistent DRDM: ours, no paper has it; the lines are those of DRDM's Algorithm 1.

DRDM's fixed points solve sum grad f_i = 0 whatever lambda is, because every client's memory enters c with weight 1/N:
lambda only changes how often clients are visited. Here lambda_i stands in the local objective, D is uniform, and
everything else is DRDM: a fixed point has g_i = N lambda_i grad f_i(w) and c = 0, that is sum lambda_i grad f_i(w) = 0.
Two things keep it stable. N lambda_i may reach N, so client i steps with eta_i = eta min(1, kappa/(N lambda_i)), which
bounds N lambda_i eta_i by kappa eta and moves no fixed point; and gamma decays, a constant one oscillates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import (
    About,
    Rng,
    Round,
    Step,
    Tensor,
    average_models,
    received,
    sum_of_updates,
)
from wflsim.policies.dual import Floor, ModelAndMixture, TwoPhases
from wflsim.policies.steps import Decay, DecayingCoefficient, DecayingStep, Evaluated, evaluated, step_at


@dataclass(frozen=True)
class State(ModelAndMixture):
    """What the server remembers: the model, lambda, and the correction c."""

    c: Tensor
    """Mean of the clients' memories g_i."""


class LambdaDRDM(TwoPhases):
    """DRDM with lambda in the local objectives instead of in the draw, so that its limit is the worst mixture's."""

    name: Literal["lambda_drdm"] = "lambda_drdm"
    about = About("ours, after DRDM", down="1v+2s / 1v", up="2v / 1s", needs="memory of 1v per client")

    eta: DecayingStep = 0.05
    """Learning rate."""
    kappa: Step = 2.0
    """Largest N lambda_i with which a client takes full steps."""
    mu: Annotated[float, Field(gt=0, le=1e6)] = 0.5
    """Strength of the dynamic regularisation; keep mu*eta*tau <= 1."""
    gamma: DecayingCoefficient = Decay(start=5e-4)
    """Step of the dual variable lambda."""
    floor: Floor = 0.0
    """Least value of the dual variable, in parts of 1/N: lambda_i >= floor/N; by default none is needed."""
    eval_model: Evaluated = "server"
    """Model that is evaluated: the server's last one, or the average of those of all rounds."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, np.full(len(d), 1 / len(d)), w, c=w.new_zeros(w.shape))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        N, mu = len(x.lam), self.mu
        D, a = yield Draw(self.m)                                                                  # line 5, uniform
        t = int(rng("snapshot").integers(1, self.tau + 1))                                         # line 6
        work, rows = partial(self.local_steps, eta=step_at(self.eta, s)), {"Nlam": x.w.new_tensor(N * x.lam[D])}
        got = yield Gather([Ask(D, work, shared={"w": x.w, "t": t}, each=rows, models_up=2)])      # lines 7-12
        if not got:
            return x
        w_s = received(got, "w")
        c_t, c = (x.c - mu / N * sum_of_updates(w_s, got, name) for name in ("z", "y"))            # lines 17, 18
        w_t = average_models(w_s, got, "z", a) - c_t / mu                                          # line 19
        w = average_models(w_s, got, "y", a) - c / mu                                              # line 20
        lam = yield from self.dual_update(x.lam, w_t, step=self.tau * step_at(self.gamma, s))      # line 21
        return State(w, lam, evaluated(self.eval_model, x.shown, w, s), c)

    def model(self, x: State, me: Me) -> Tensor:
        return x.shown

    def local_steps(self, me: Me, w: Tensor, t: int, Nlam: Tensor, eta: float) -> Mapping[str, Tensor]:
        g = me.memory["g"]
        y = me.copies_of(w)
        anchor = w + g / self.mu
        eta_i = (eta * (self.kappa / Nlam).clamp(max=1.0)).unsqueeze(-1)
        pull, push = eta_i * self.mu, eta_i * Nlam.unsqueeze(-1)
        for k in range(1, self.tau + 1):
            # y <- y - eta_i (N lambda_i grad - g - mu (w - y))
            grad = me.g(y)
            y.lerp_(anchor, pull).addcmul_(grad, push, value=-1)
            if k == t:
                z = y if t == self.tau else y.clone()  # the last iterate is y itself: sent, and paid for, once
        y, z = me.sent(y, z, near=w)
        me.memory["g"] = g - self.mu * (y - w)                                                     # line 10
        return {"y": y, "z": z}
