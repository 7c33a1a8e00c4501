"""FedNova. J. Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
NeurIPS 2020, arXiv:2007.07481, Algorithm 1; x of the paper is w here.

Clients take tau_i steps of their own (`tau_min`). The sum of their gradients is divided by |a_i|_1, the weight with
which the local solver counts them, before it is averaged: otherwise clients that do more would count for more.
Local solvers: plain SGD, momentum `rho` (its buffer begins anew in every round) or the proximal term `mu`. With the
latter tau_eff is sum p_i tau_i, as in the released code, not sum p_i |a_i|_1: with equal tau_i its step is therefore
tau/|a|_1 > 1 times FedProx's, while without it equal tau_i are FedAvg. Momentum with a proximal term is refused: the
released code counts the gradients of that combination twice.
Deviations: tau steps instead of epochs; m < N with p_i renormalised over those heard (the paper has m = N); none of the
released code's server momentum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from wflsim.exchange import Allot, Ask, Draw, Gather, Me
from wflsim.policies.base import About, Coefficient, ModelAndCounts, Rng, Round, Step, Tensor, weighted
from wflsim.policies.sampling import shares
from wflsim.policies.steps import UnequalWork


class FedNova(UnequalWork):
    """Averages each client's mean local step, so that clients that take more steps do not count for more."""

    name: Literal["fednova"] = "fednova"
    about = About("Wang et al. 2020, arXiv:2007.07481", down="1v", up="1v+1s")

    eta: Step = 0.05
    """Learning rate."""
    rho: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Local momentum; 0: plain SGD."""
    mu: Coefficient = 0.0
    """Strength of the proximal term mu/2 |y - w|^2 of the local objective; keep eta*mu <= 1, and rho at 0."""
    weights: Literal["data", "uniform"] = "data"
    """Weights p_i of the clients heard: in proportion to their samples, or uniform."""

    @model_validator(mode="after")
    def _one_local_solver(self) -> Self:
        if self.rho and self.mu:
            raise ValueError(
                f"rho: {self.rho:g} with mu: {self.mu:g}: it is not settled how momentum and a proximal term together "
                f"weigh the gradients; set one of them to 0"
            )
        if self.eta * self.mu > 1:
            raise ValueError(
                f"eta*mu = {self.eta * self.mu:g}: a proximal step beyond w gives gradients negative weights, of which "
                f"|a|_1 is not the sum; keep eta*mu <= 1"
            )
        return self

    def round(self, x: ModelAndCounts, s: int, rng: Rng) -> Round[ModelAndCounts]:
        D, p = yield Draw(self.m or len(x.d))
        if self.weights == "data":
            p = shares(D, x.d)
        tau = yield Allot(self.allotted(D, len(x.d), rng))
        got = yield Gather([Ask([*tau], partial(self.local_steps, tau=tau), shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        tau_eff = weighted(x.w.new_zeros(()), got, "tau", p)
        return replace(x, w=x.w - tau_eff * weighted(x.w, got, "d", p))

    def local_steps(self, me: Me, w: Tensor, tau: Mapping[int, int]) -> Mapping[str, Tensor]:
        y, taken = me.copies_of(w), [tau[i] for i in me.clients]
        if self.rho:
            v = y.new_zeros(y.shape)
            for _ in me.steps(taken, y, v):
                v.mul_(self.rho).add_(me.g(y))
                y.sub_(v, alpha=self.eta)
        else:
            for _ in me.steps(taken, y):
                # y <- y - eta (grad + mu (y - w))
                me.descend(y, self.eta, w if self.mu else None, pull=self.eta * self.mu)
        a = y.new_tensor([self.a_norm(steps) for steps in taken])
        # already times eta: d = eta sum_k a_k grad_k / |a|_1
        return {"d": (w - y) / a[:, None], "tau": y.new_tensor(taken) if self.mu else a}

    def a_norm(self, tau: int) -> float:
        """|a_i|_1: the weights with which tau gradients enter w - y = eta sum_k a_k grad_k, added up."""
        if self.rho:
            return sum((1 - self.rho**k) / (1 - self.rho) for k in range(1, tau + 1))
        kept = 1 - self.eta * self.mu
        return sum(kept**k for k in range(tau))
