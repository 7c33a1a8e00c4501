"""FedRobust. A. Reisizadeh, F. Farnia, R. Pedarsani, A. Jadbabaie, "Robust Federated Learning: The Case of Affine
Distribution Shifts", NeurIPS 2020, arXiv:2006.08907, Algorithm 1.

Every client trains against the affine change of its inputs that hurts most, within what the penalties allow:

    min over w of the mean over i of max over Lambda_i, delta_i of
    mean loss(w; Lambda_i x + delta_i) - lambda_1 |Lambda_i - I|^2 - lambda_0 |delta_i|^2

Each of the tau steps takes one gradient of all three on one minibatch, all at the old point. Lambda_i and delta_i stay
on the device; they begin at I and 0, and those of absent clients stay as they are. The inputs are those of the model:
pixels, or the features of a fixed backbone. `affine` makes Lambda_i a full matrix (q x q values, q inputs), a diagonal,
or leaves the shift delta_i alone.
Deviations: losses are means over the minibatch. The released code ascends on sums over 50 samples; its constants,
divided by 50 (penalties) or multiplied (steps), are the defaults. It computes x Gamma, so Lambda is its Gamma
transposed. m < N, of which the paper does not speak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from wflsim.exchange import Ask, Draw, Gather, Me
from wflsim.policies.base import (
    About,
    Coefficient,
    ModelAndCounts,
    Policy,
    Rng,
    Round,
    Step,
    Tensor,
    average_models,
    received,
)


class FedRobust(Policy):
    """FedAvg on inputs that each client shifts and stretches against itself, for robustness to such changes."""

    name: Literal["fedrobust"] = "fedrobust"
    about = About("Reisizadeh et al. 2020, arXiv:2006.08907", down="1v", up="1v",
                  needs="gradients of inputs; personal perturbation per client")

    eta: Step = 0.05
    """Learning rate of the model."""
    affine: Literal["shift", "diag", "full"] = "full"
    """Change of the inputs: a shift delta, with a diagonal Lambda as well, or with a full matrix Lambda."""
    eta_delta: Coefficient = 1.0
    """Step of the shift delta; keep eta_delta*lambda_0 < 1."""
    eta_lambda: Coefficient = 0.05
    """Step of Lambda; keep eta_lambda*lambda_1 < 1."""
    lambda_0: Coefficient = 0.08
    """Penalty on the squared length of delta: the smaller, the larger the shifts that are trained against."""
    lambda_1: Coefficient = 2.0
    """Penalty on the squared distance of Lambda from the identity."""

    def start(self, w: Tensor, d: Sequence[int]) -> ModelAndCounts:
        return ModelAndCounts(w, tuple(d))

    def round(self, x: ModelAndCounts, s: int, rng: Rng) -> Round[ModelAndCounts]:
        D, a = yield Draw(self.m or len(x.d))
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w}, models_up=1)])
        return ModelAndCounts(average_models(received(got, "w"), got, "y", a), x.d) if got else x

    def local_steps(self, me: Me, w: Tensor) -> Mapping[str, Tensor]:
        y = me.copies_of(w)
        for _ in range(self.tau):
            xi = me.batch()
            x = me.inputs(xi)
            q = x.shape[-1]
            delta = me.personal.get("delta", x.new_zeros(q))
            L = self.matrix(me, q, x)  # Lambda - I
            g, g_x = me.g_inputs(y, x + self.stretched(x, L) + delta.unsqueeze(1), on=xi)
            me.personal["delta"] = delta + self.eta_delta * (g_x.sum(1) - 2 * self.lambda_0 * delta)
            if L is not None:
                # d/dLambda of loss(Lambda x + delta) is the sum over samples of (gradient of the input) x^T
                g_L = g_x.mT @ x if self.affine == "full" else (g_x * x).sum(1)
                new = L + self.eta_lambda * (g_L - 2 * self.lambda_1 * L)
                me.personal["Lambda - I"] = new.flatten(1)
            y.sub_(g, alpha=self.eta)
        return {"y": me.sent(y, near=w)}

    def matrix(self, me: Me, q: int, x: Tensor) -> Tensor | None:
        """Lambda_i - I of each client: [k, q, q], the diagonal [k, q], or None where only a shift is made."""
        if self.affine == "shift":
            return None
        kept: Tensor = me.personal.get("Lambda - I", x.new_zeros(q * q if self.affine == "full" else q))
        return kept.view(-1, q, q) if self.affine == "full" else kept

    def stretched(self, x: Tensor, L: Tensor | None) -> Tensor:
        """(Lambda_i - I) x for the inputs x [k, b, q]."""
        if L is None:
            return x.new_zeros(())
        return x @ L.mT if self.affine == "full" else x * L.unsqueeze(1)
