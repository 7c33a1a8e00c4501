"""DualVariableUpdate: Algorithm 3 of DRDM, which is DRFA's second phase (Deng et al. 2020, arXiv:2102.12660).

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
    if floor >= 1:
        left = "only the uniform lambda" if floor == 1 else "no lambda at all"
        raise ValueError(
            f"every lambda_i is at least floor/N and they sum to 1, so {floor:g} leaves {left}; give less than 1 "
            f"(0.03 is usual), or keep lambda uniform with gamma (afl: eta_lambda) of 0"
        )
    return floor


Floor = Annotated[float, Field(ge=0), AfterValidator(_leaves_room)]
"""The least lambda_i is floor/N."""


def dual_update(lam: Vector, w: Tensor, step: float, m: int, floor: float, full: bool = False) -> Round[Vector]:
    """Ask m uniform clients for their loss at w; v_i = (N/m) loss_i for those who answered, else 0 (lines 3-8)."""
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
    return {"loss": me.f(w)}


def full_loss(me: Me, w: Tensor) -> Mapping[str, Tensor]:
    return {"loss": me.f(w, on=me.everything)}
