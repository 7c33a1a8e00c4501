"""FedCS. T. Nishio, R. Yonetani, "Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge",
ICC 2019, arXiv:1804.08333, Algorithm 3: as many clients as fit into a planned deadline.

The clients whom the policy draws are asked for their times (the paper's resource request). One after the other, the
one that adds least to the planned duration joins if the plan stays within the deadline. The plan: one download for all
at the rate of the slowest, computing side by side, uploads one after the other,

    Theta <- Theta + t_UL + max(0, t_UD - Theta),        duration = t_down(S) + Theta + t_aggregation.

Times are those of the channel as it is when the plan is made and of the typical order, that is the heaviest so far;
before the first order nothing is known of the work, and all who were drawn are asked. The plan binds nobody: fading,
other access than turns or another amount of work make the phase longer or shorter, and the rows of a run show both
durations. Ties: the order in which the policy drew, then the lower number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from wflsim.spec import Spec
from wflsim.units import Seconds

EMPTY_AT_MOST = 3
"""Rounds in a row into which nobody fits, after which a run ends."""


class FedcsSpec(Spec):
    """Plan of the selector fedcs."""

    deadline: Annotated[Seconds, Field(gt=0)] = 180.0
    """Planned duration of a phase, from the download to the aggregation, into which as many clients as possible are to
    fit (the paper: 3 minutes). A plan only; server.deadline is what interrupts clients."""


class Times(NamedTuple):
    """Seconds that a client is expected to take."""

    client: int
    down_s: float
    """To receive the model alone; a broadcast lasts as long as that of the slowest."""
    compute_s: float
    """t_UD: to update the model."""
    up_s: float
    """t_UL: to upload it."""


def greedy(candidates: Sequence[Times], deadline_s: float, aggregation_s: float) -> tuple[list[int], float]:
    """The selected clients in the order in which they joined, and the planned duration in seconds.

    Candidates come in the order that breaks ties.
    """
    chosen: list[int] = []
    left, down_s, theta_s = list(candidates), 0.0, 0.0
    while left:
        added_s = [max(0.0, one.down_s - down_s) + _then(theta_s, one) - theta_s for one in left]
        one = left.pop(added_s.index(min(added_s)))
        then_s, heard_s = _then(theta_s, one), max(down_s, one.down_s)
        if heard_s + then_s + aggregation_s <= deadline_s:
            chosen.append(one.client)
            down_s, theta_s = heard_s, then_s
    return chosen, down_s + theta_s + aggregation_s if chosen else 0.0


def planned_s(order: Sequence[Times], aggregation_s: float) -> float:
    """Planned duration in seconds when these clients upload in this order."""
    theta_s = 0.0
    for one in order:
        theta_s = _then(theta_s, one)
    return max(one.down_s for one in order) + theta_s + aggregation_s


def _then(theta_s: float, one: Times) -> float:
    return theta_s + one.up_s + max(0.0, one.compute_s - theta_s)
