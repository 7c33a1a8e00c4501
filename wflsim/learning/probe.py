"""What clients measure for the controller of tau: the gradient at the received model, and two Lipschitz constants.

    beta_i = |grad F_i(w_i) - grad F_i(w)| / |w_i - w|          rho_i = |F_i(w_i) - F_i(w)| / |w_i - w|

w is the model that the client has just received, w_i its own at the end of its last local steps (S. Wang et al. 2019,
Algorithm 3). Both are evaluated on the first minibatch of the order, the one on which the policy's first local step is
taken, too. Each evaluation is metered as the gradient that it is: a device that keeps the gradient of its first step
could save that at w. A client without local steps so far, or with w_i = w, has no estimate and sends zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wflsim.learning.clients import Chunk

GRADIENT, BETA, RHO = "adapt.gradient", "adapt.beta", "adapt.rho"
"""Names under which clients send up what the controller needs."""
LOCAL, STARTED = "adapt.w_i", "adapt.started"
"""Names under which a client keeps its last local model, and whether it has one."""


def probe(me: Chunk, w: Tensor) -> dict[str, Tensor]:
    """What the clients of a chunk send up for the controller, one row each. `me` stands before its first minibatch."""
    here = me.copies_of(w)
    local, started = me.personal.get(LOCAL, here), me.personal.get(STARTED, here.new_zeros(1))[:, 0] > 0
    first = me.batch()
    gradient, loss = me.gf(here, on=first)
    beta, rho = torch.zeros_like(loss), torch.zeros_like(loss)
    for _ in me.steps(started.long().tolist()):
        before, earlier = me.gf(local, on=first)
        apart = (local - here).norm(dim=1)
        known = started & (apart > 0)
        beta[known] = (before - gradient).norm(dim=1)[known] / apart[known]
        rho[known] = (earlier - loss).abs()[known] / apart[known]
    return {GRADIENT: gradient, BETA: beta, RHO: rho}


def received_model(payload: Mapping[str, Any]) -> Tensor:
    """The model that clients were sent, by its name w; a ValueError where there is none."""
    w = payload.get("w")
    if not isinstance(w, Tensor):
        raise ValueError("tau: adapt needs the model that clients are sent under the name w: shared={'w': x.w}")
    return w


def keep_local(me: Chunk) -> None:
    """Let the clients keep their local models until they are asked again."""
    if me.local is None or me.local._version == me.local_version:
        raise ValueError(
            "tau: adapt needs local models that are updated in place: y = me.copies_of(w), then me.descend(y, eta)"
        )
    me.personal[LOCAL] = me.local
    me.personal[STARTED] = me.local.new_ones(len(me.clients), 1)
