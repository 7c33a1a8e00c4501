"""The second phase of DRFA and DRDM, which updates the dual variable lambda (DRDM's Algorithm 3; Deng et al. 2020).

    lam = yield from dual_update(lam, w_t, step=tau * gamma, m=m, floor=floor / N)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AfterValidator, Field

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import Round, Vector
from wflsim.policies.simplex import project

if TYPE_CHECKING:
    from torch import Tensor


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


def dual_update(lam: Vector, w: Tensor, step: float, m: int, floor: float, full: bool = False) -> Round[Vector]:
    """Ask m uniformly drawn clients for their loss at w, and move lambda along v (lines 3-8).

    v_i = (N/answers) loss_i for clients that answered, 0 for the others. `full`: losses on all training samples.
    """
    N = len(lam)
    U, _ = yield Draw(m)
    got = yield Gather([Ask(U, full_loss if full else minibatch_loss, shared={"w": w})])
    if not got:
        return lam
    v = np.zeros(N)
    for reply in got:
        v[reply.client] = N / len(got) * float(reply["loss"])
    return project(lam + step * v, floor)


def minibatch_loss(me: Me, w: Tensor) -> Mapping[str, Tensor]:
    """Client half: the loss at w on one minibatch."""
    return {"loss": me.f(w)}


def full_loss(me: Me, w: Tensor) -> Mapping[str, Tensor]:
    """Client half: the loss at w on all training samples."""
    return {"loss": me.f(w, on=me.everything)}
