"""Questions of a training to its carrier that take no time: neighbours, steps that fit, the tau of a round, reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Allotment(NamedTuple):
    """One question to the world: how many of these local steps fit into the time that each client may compute."""

    round: int
    phase: int
    """Ordinal of the Gather that will follow."""
    steps: Mapping[int, int]
    """Most local steps of each client."""
    samples: Mapping[int, int]
    """Samples of one step of each client."""


class Pace(NamedTuple):
    """One question to the world before a round: how many local steps shall the clients take? Answered by their number.

    Asked where a policy's tau adapts (`world/pacer.py`); part of the trace, because the world must hear it again when a
    run is resumed.
    """

    budget_s: float
    """Simulated time for the whole run."""
    phi: float
    """Control parameter of the policy's key tau.adapt.phi."""
    eta: float
    """Learning rate of the local steps."""
    beta: float | None
    """Estimate of the Lipschitz constant of the clients' gradients; None: not known yet."""
    rho: float | None
    """Estimate of the Lipschitz constant of the clients' losses; None: not known yet."""
    delta: float | None
    """Estimate of the mean distance of the clients' gradients from their mean; None: not known yet."""


class Neighbours(NamedTuple):
    """A question to the carrier before the nodes of a gossip work: who are neighbours? Answered by `Edges`."""


class Reports(NamedTuple):
    """A question to the carrier before clients work: shall those that train report their loss with the upload? A report
    is one scalar, and it is paid."""
