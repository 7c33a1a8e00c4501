"""DR-DSGD. C. Ben Issaid, A. Elgabli, M. Bennis, "DR-DSGD: A Distributionally Robust Decentralized Learning Algorithm
over Graphs", TMLR 2022, arXiv:2208.13810.

The worst mixture of the nodes' losses, held near the uniform one by a KL divergence of weight mu, has a closed form:

    max_lambda sum_i lambda_i f_i - mu sum_i lambda_i log(N lambda_i)  =  mu log (1/N) sum_i exp(f_i / mu),

so that the nodes minimise (1/N) sum_i exp(f_i / mu), each by weighting its own gradient:

    h_i = exp(l_i(theta_i) / mu)                             on the minibatch of the gradient
    phi_i = theta_i - (eta / mu) h_i grad l_i(theta_i)       adapt
    theta_i = sum_j W_ij phi_j                               combine, over the neighbours that were heard

The implied lambda is softmax(f_i / mu). W: Metropolis weights (dsgd.py). Large mu with eta / mu fixed is
decentralised SGD. Deviations: l_i / mu is cut at 20 against overflow; tau steps between two exchanges, by default 1.
Not verified: the paper's own settings (mu = 6 is what a public reimplementation uses; theory wants mu > 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from wflsim.exchange import Me
from wflsim.policies.base import About, Step, Tensor
from wflsim.policies.dsgd import DSGD

LARGEST_EXPONENT = 20.0
"""l / mu above this counts as this: exp(20) is half a billion already."""


class DRDSGD(DSGD):
    """Decentralised SGD against the worst mixture of the nodes: those with a large loss take larger steps."""

    name: Literal["drdsgd"] = "drdsgd"  # type: ignore[assignment]
    about = About("Ben Issaid et al. 2022, arXiv:2208.13810", down="0v", up="1v",
                  needs="links between clients (d2d); all take part, none is a server")

    eta: Step = 0.3
    """Learning rate; a node's step is eta / mu times exp(loss / mu)."""
    mu: Annotated[float, Field(gt=0, le=1e6)] = 6.0
    """Weight of the KL divergence that holds the worst mixture near the uniform one; the smaller, the more the worst
    node counts."""

    def adapt(self, me: Me, theta: Tensor) -> Mapping[str, Tensor]:
        phi = me.copies_of(theta[list(me.clients)])
        for _ in range(self.tau):
            g, l = me.gf(phi)
            h = (l / self.mu).clamp(max=LARGEST_EXPONENT).exp()
            phi -= (self.eta / self.mu) * h.unsqueeze(-1) * g
        return {"phi": phi}
