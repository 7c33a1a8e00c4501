"""What the server knows for the controller of tau: beta, rho and delta, from what the clients sent with their replies.

    beta, rho = mean of the beta_i, rho_i of those who have an estimate
    delta     = mean of |grad F_i(w) - mean of grad F_j(w)|

Means are weighted by the clients' samples, as in S. Wang et al. 2019, Algorithm 2, and are those of the latest round in
which a reply arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wflsim.errors import PolicyError
from wflsim.learning.learner import Result
from wflsim.learning.probe import BETA, GRADIENT, RHO
from wflsim.policies.adaptive import AdaptSpec
from wflsim.policies.base import Policy
from wflsim.policies.steps import local_step
from wflsim.questions import Pace


class Pacing:
    """Asks for the tau of every round, and learns from the replies of every round."""

    def __init__(self, policy: Policy, spec: AdaptSpec, samples: Sequence[int]) -> None:
        self._policy = policy
        self._spec = spec
        self._samples = samples
        self._known: dict[str, float | None] = {"beta": None, "rho": None, "delta": None}

    def question(self, s: int) -> Pace:
        """What to ask the world before round s."""
        eta = local_step(self._policy, s)
        if eta is None:
            name = self._policy.name
            raise PolicyError(f"tau: adapt needs the learning rate of local steps: {name} has no key eta or eta_l")
        return Pace(self._spec.budget, self._spec.phi, eta, **self._known)

    def hear(self, arrived: Sequence[Result]) -> None:
        """Take in what the clients whose replies arrived have sent for the controller."""
        if not arrived:
            return
        d = [self._samples[result.client] for result in arrived]
        rows = [result.items[GRADIENT].double() for result in arrived]
        mean = sum(share * row for share, row in zip(d, rows, strict=True)) / sum(d)
        self._known["delta"] = _mean(d, [float((row - mean).norm()) for row in rows])
        estimates = [(float(result.items[BETA]), float(result.items[RHO])) for result in arrived]
        known = [(share, *pair) for share, pair in zip(d, estimates, strict=True) if any(pair)]
        if known:
            shares, betas, rhos = zip(*known, strict=True)
            self._known["beta"], self._known["rho"] = _mean(shares, betas), _mean(shares, rhos)

    def snapshot(self) -> dict[str, Any]:
        """What is known, to be saved."""
        return dict(self._known)

    def restore(self, saved: dict[str, Any]) -> None:
        """Inverse of `snapshot`."""
        self._known = dict(saved)


def _mean(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
