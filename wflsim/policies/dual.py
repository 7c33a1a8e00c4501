"""The second phase of DRFA and DRDM, which updates the dual variable lambda (DRDM's Algorithm 3; Deng et al. 2020).

    lam = yield from self.dual_update(lam, w_t, step=tau * gamma)

`project` keeps lambda on the simplex with a floor, {lam : lam_i >= floor, sum lam = 1}, exactly: J. Duchi et al.,
"Efficient projections onto the l1-ball for learning in high dimensions", ICML 2008. With a floor eps the problem is the
same one after lam = eps + u, where u lies on a simplex of radius 1 - N eps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from wflsim.exchange import Ask, Draw, Gather, Me, Reply
from wflsim.policies.base import Count, Policy, Round, Tensor, Vector


def project(v: Vector, floor: float = 0.0) -> Vector:
    """The nearest point to v with every entry at least `floor` and sum 1."""
    N = len(v)
    radius = 1.0 - N * floor
    if radius < -1e-12:
        raise ValueError(f"floor={floor} leaves no simplex for N={N} clients; it must be below 1/N={1 / N:.3g}")
    if not np.isfinite(v).all():
        return np.full(N, np.nan)  # a loss is not finite; the simulation ends the run and says so
    if radius < 1e-12:  # to rounding, a single point
        return np.full(N, 1 / N)
    # Any constant added to v changes nothing; near its maximum the differences keep all their digits.
    v = v - v.max()
    u = np.sort(v)[::-1]
    kappa = (np.cumsum(u) - radius) / np.arange(1, N + 1)
    rho = np.flatnonzero(u > kappa)[-1]  # the first entry is always above: u_1 - (u_1 - radius) > 0
    lam: Vector = floor + np.maximum(v - kappa[rho], 0.0)
    return lam


def _leaves_room(floor: float) -> float:
    """The floor itself, provided that other than uniform lambdas remain."""
    if floor >= 1:
        left = "only the uniform lambda" if floor == 1 else "no lambda at all"
        raise ValueError(
            f"every lambda_i is at least floor/N and they sum to 1, so {floor:g} leaves {left}; give less than 1 "
            f"(0.03 is usual), or keep lambda uniform with gamma (afl: eta_lambda) of 0"
        )
    return floor


Floor = Annotated[float, Field(ge=0), AfterValidator(_leaves_room)]
"""Least lambda_i, in units of 1/N."""


@dataclass(frozen=True)
class ModelAndMixture:
    """What the server of a minimax policy remembers."""

    w: Tensor
    """Parameters of the global model."""
    lam: Vector
    """Dual variable lambda: the weight of each client in the worst mixture found so far."""
    shown: Tensor
    """Parameters that are evaluated: w, or the average of all so far."""


class TwoPhases(Policy):
    """A policy whose second phase asks clients for their losses and moves the dual variable lambda by them."""

    m: Count
    """Clients drawn per round, in either phase."""
    floor: Floor = 0.03
    """Least value of the dual variable, in parts of 1/N: lambda_i >= floor/N."""
    dual_loss: Literal["minibatch", "full"] = "minibatch"
    """Samples on which the second phase takes the losses that move lambda: a minibatch, or all of each client's."""

    def dual_update(self, lam: Vector, w: Tensor, step: float) -> Round[Vector]:
        """Ask m uniformly drawn clients for their loss at w, and move lambda along v (lines 3-8).

        v_i = (N/answers) loss_i for clients that answered, 0 for the others.
        """
        N = len(lam)
        U, _ = yield Draw(self.m)
        loss = full_loss if self.dual_loss == "full" else minibatch_loss
        got = yield Gather([Ask(U, loss, shared={"w": w})])
        return project(lam + step * scaled_losses(got, N), self.floor / N) if got else lam


def scaled_losses(got: Sequence[Reply], N: int) -> Vector:
    """Unbiased estimate of the N clients' losses: v_i = (N/answers) loss_i where client i answered, else 0."""
    v = np.zeros(N)
    for reply in got:
        v[reply.client] = N / len(got) * float(reply["loss"])
    return v


def minibatch_loss(me: Me, w: Tensor) -> Mapping[str, Tensor]:
    """Client half: the loss at w on one minibatch."""
    return {"loss": me.f(w)}


def full_loss(me: Me, w: Tensor) -> Mapping[str, Tensor]:
    """Client half: the loss at w on all training samples."""
    return {"loss": me.f(w, on=me.everything)}
