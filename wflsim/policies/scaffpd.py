"""SCAFF-PD. Y. Yu, S. P. Karimireddy, Y. Ma, M. I. Jordan, "Scaff-PD: Communication Efficient Fair and Robust
Federated Learning", 2023, arXiv:2307.13381, Algorithms 1 and 2; x of the paper is w here, J is tau.

Readings, the paper being silent or unavailable: squared Euclidean distance for the Bregman term; tau_x = J eta_l eta_g;
psi = rho/(2N) sum (N lambda_i - 1)^2 for chi2; theta constant.
m < N (the paper has m = N): D uniform, both phases on the same clients; of the absent the last known loss counts (at
first: the mean of those heard), `absent: ipw` takes zeros and N/m instead; lambda is renormalised over those heard.
Lost in phase A: absent. Lost in phase B: its loss counts, its step does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import About, Coefficient, Policy, Rng, Round, Step, Tensor, Vector, weighted
from wflsim.policies.dual import ModelAndMixture, project
from wflsim.policies.steps import DecayingCoefficient, DecayingStep, Evaluated, evaluated, step_at


@dataclass(frozen=True)
class State(ModelAndMixture):
    """What the server remembers: the model, lambda, and the losses it knows."""

    L: Vector
    """Last known losses; empty before anybody was heard."""


class SCAFFPD(Policy):
    """Accelerated primal-dual steps: extrapolated losses move lambda, drift-corrected local steps move the model."""

    name: Literal["scaffpd"] = "scaffpd"
    about = About("Yu et al. 2023, arXiv:2307.13381", down="1v / 1v", up="1v+1s / 1v",
                  needs="scratch of 2v per client between phases")

    eta_l: DecayingStep = 0.05
    """Local learning rate."""
    eta_g: Step = 1.0
    """Global learning rate: the server's step is tau_x = J eta_l eta_g, J being tau."""
    sigma: DecayingCoefficient = 5e-3
    """Step of the dual variable lambda."""
    theta: Coefficient = 1.0
    """Factor theta by which the losses are extrapolated."""
    psi: Literal["none", "chi2"] = "none"
    """Regularisation of the dual variable lambda: none, or chi-squared around uniform weights."""
    rho: Coefficient = 0.1
    """Strength of the regularisation chi2."""
    loss: Literal["full", "minibatch"] = "full"
    """Samples on which the losses are taken: all of each client's (a pass of its own), or the minibatch of c_i."""
    absent: Literal["stale", "ipw"] = "stale"
    """Losses of clients that were not heard (m < N): their last ones, or weighted by inverse probability (ipw)."""
    eval_model: Evaluated = "server"
    """Model that is evaluated: the server's last one, or the average of those of all rounds."""

    def start(self, w: Tensor, d: Sequence[int]) -> State:
        return State(w, np.full(len(d), 1 / len(d)), w, np.empty(0))

    def round(self, x: State, s: int, rng: Rng) -> Round[State]:
        N, eta_l = len(x.lam), step_at(self.eta_l, s)
        D, _ = yield Draw(self.m or N)
        heard = yield Gather([Ask(D, self.loss_and_gradient, shared={"w": x.w})])
        if not heard:
            return x
        L = self.losses(x.L, {reply.client: float(reply["L"]) for reply in heard}, N)
        before = x.L if len(x.L) else L
        lam = self.ascent(x.lam, (1 + self.theta) * L - self.theta * before, step_at(self.sigma, s))
        x = replace(x, lam=lam, L=L)
        R = [reply.client for reply in heard]
        if not lam[R].sum() > 0:  # none of those heard counts: there is no direction to go
            return x
        a = {i: float(lam[i] / lam[R].sum()) for i in R}
        c = weighted(x.w, heard, "c", a)
        got = yield Gather([Ask(R, partial(self.local_steps, eta_l=eta_l), shared={"c": c}, models_up=1)])
        if not got:
            return x
        w = x.w - self.tau * eta_l * self.eta_g * weighted(x.w, got, "du", a)
        return replace(x, w=w, shown=evaluated(self.eval_model, x.shown, w, s))

    def losses(self, last: Vector, heard: Mapping[int, float], N: int) -> Vector:
        """The N losses that the dual step uses, from those heard now and the last known ones of the others."""
        if self.absent == "ipw":
            return np.array([N / len(heard) * heard.get(i, 0.0) for i in range(N)])
        first = sum(heard.values()) / len(heard)
        return np.array([heard.get(i, last[i] if len(last) else first) for i in range(N)])

    def ascent(self, lam: Vector, s: Vector, sigma: float) -> Vector:
        """argmax over the simplex of <s, l> - psi(l) - |l - lam|^2 / (2 sigma)."""
        N, rho = len(lam), self.rho if self.psi == "chi2" else 0.0
        return project((lam + sigma * (s + rho)) / (1 + sigma * rho * N))

    def model(self, x: State, me: Me) -> Tensor:
        return x.shown

    def loss_and_gradient(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        """Client half of phase A: loss and gradient at w."""
        y = me.copies_of(w)
        c, L = me.gf(y) if self.loss == "minibatch" else (me.g(y), me.f(y, on=me.everything))
        c = me.sent(c)
        me.scratch["w"], me.scratch["c"] = y, c
        return {"c": c, "L": L}

    def local_steps(self, me: Me, c: Tensor, eta_l: float) -> Mapping[str, Tensor]:
        w, correction = me.scratch["w"], c - me.scratch["c"]
        u = w.clone()
        for _ in range(self.tau):
            me.descend(u, eta_l)
            u.sub_(correction, alpha=eta_l)
        return {"du": (w - u) / (eta_l * self.tau)}
