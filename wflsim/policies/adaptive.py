"""Adaptive tau: the keys by which a policy leaves its number of local steps to a controller beside the world.

S. Wang et al., "Adaptive Federated Learning in Resource Constrained Edge Computing Systems", IEEE JSAC 37(6), 2019,
arXiv:1804.05271. A policy knows no clock: before each round, who drives it asks the world for the round's tau
(`world/pacer.py`, with the formula), and the policy then computes with that whole number. The clients send up what the
controller needs: the gradient at the received model, and what they estimate of beta and rho.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from wflsim.spec import Spec
from wflsim.units import Seconds


class AdaptSpec(Spec):
    """The controller of tau by Wang et al. 2019."""

    budget: Annotated[Seconds, Field(gt=0)]
    """Simulated time for the whole run (the paper's R). tau is chosen for it in every round, and the run ends when no
    further round fits into it."""
    phi: Annotated[float, Field(gt=0, le=1e6)] = 0.025
    """Weight phi of the progress that a local step makes against the divergence of the clients: the larger, the fewer
    local steps (the paper: 0.025 for its linear models, 5e-5 for CNNs)."""


class AdaptiveTau(Spec):
    """Local steps that are chosen anew in every round: `tau: {adapt: {budget: 15 s}}`."""

    adapt: AdaptSpec
    """Controller that chooses tau; runs are then trained in their own world, because time decides what is learnt."""


if TYPE_CHECKING:
    Tau = int
else:  # in a round it is a whole number: the training has asked the world by then
    Tau = Annotated[int, Field(ge=1, le=1_000_000)] | AdaptiveTau


def adaptation(tau: Any) -> AdaptSpec | None:
    """The controller that a policy's tau names; None where tau is a number."""
    return tau.adapt if isinstance(tau, AdaptiveTau) else None


def why_not_adaptive(asynchronous: bool, decentralised: bool, phases: int, one_model: bool) -> str | None:
    """Why a policy like this cannot have an adaptive tau, as the rest of a sentence about it; None if it can."""
    if asynchronous:
        return "is asynchronous: it has no rounds of tau steps and one aggregation into which a budget is divided"
    if decentralised:
        return "has no server, which alone could collect the gradients by which tau is chosen"
    if phases > 1:
        return f"has {phases} phases in a round, and the controller's law c tau + b knows one aggregation per round"
    if not one_model:
        return "gives its clients different models, so that there is no common gradient from which theirs could differ"
    return None
