"""AFL. M. Mohri, G. Sivek, A. T. Suresh, "Agnostic Federated Learning", ICML 2019, arXiv:1902.00146, Stochastic-AFL.

A domain is a client. Both updates use the old (w, lambda); evaluated is the running average, the algorithm's output
(`eval_model: server` for the last iterate). Dual after primal is DRFA with tau = 1 and scheme uniform_weighted.
Deviations: the paper's stochastic version samples domains; with m < N here, m clients are drawn uniformly and w moves
by (N/m) sum_D lambda_i g_i, lambda by v_i = (N/m) loss_i on those heard: unbiased, and the algorithm itself if m = N.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import About, Policy, Rng, Round, Tensor, weighted
from wflsim.policies.dual import Floor, ModelAndMixture, project, scaled_losses
from wflsim.policies.steps import DecayingCoefficient, DecayingStep, Evaluated, evaluated, step_at


class AFL(Policy):
    """Gradient descent on the model against gradient ascent on the mixture of clients."""

    name: Literal["afl"] = "afl"
    about = About("Mohri et al. 2019, arXiv:1902.00146", down="1v", up="1v+1s")

    tau: Literal[1] = 1
    """One gradient per round: AFL has no local steps."""
    eta_w: DecayingStep = 0.1
    """Learning rate of the model."""
    eta_lambda: DecayingCoefficient = 5e-3
    """Step of the dual variable lambda; the released code's 0.1 moves lambda onto one client within a round."""
    floor: Floor = 0.0
    """Least value of the dual variable, in parts of 1/N: lambda_i >= floor/N."""
    eval_model: Evaluated = "average"
    """Model that is evaluated: the server's last one, or the average of those of all rounds."""

    def start(self, w: Tensor, d: Sequence[int]) -> ModelAndMixture:
        return ModelAndMixture(w, np.full(len(d), 1 / len(d)), w)

    def round(self, x: ModelAndMixture, s: int, rng: Rng) -> Round[ModelAndMixture]:
        N = len(x.lam)
        D, _ = yield Draw(self.m or N)
        got = yield Gather([Ask(D, self.gradient, shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        a = {i: N / len(D) * float(x.lam[i]) for i in D}
        w = x.w - step_at(self.eta_w, s) * weighted(x.w, got, "g", a)
        lam = project(x.lam + step_at(self.eta_lambda, s) * scaled_losses(got, N), self.floor / N)
        return ModelAndMixture(w, lam, evaluated(self.eval_model, x.shown, w, s))

    def model(self, x: ModelAndMixture, me: Me) -> Tensor:
        return x.shown

    def gradient(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        g, loss = me.gf(me.copies_of(w))
        return {"g": g, "loss": loss}
