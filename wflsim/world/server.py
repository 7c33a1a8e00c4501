"""The server block of a scenario, and the phase: when the server stops waiting for replies, and which of them count."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import simpy
from pydantic import Field, model_validator

from wflsim.exchange import Outcome, Until
from wflsim.spec import Spec, choices
from wflsim.units import Seconds
from wflsim.world.fedcs import FedcsSpec
from wflsim.world.oort import OortSpec

Selector = Annotated[
    Literal["by_lambda", "best_channel", "least_energy", "availability", "fedcs", "oort"],
    choices(
        by_lambda="those whom the policy draws",
        best_channel="those with the highest SNR on the uplink",
        least_energy="those who need the least energy to compute and send",
        availability="those with the longest time left in their window",
        fedcs="of those whom the policy draws, as many as fit into the planned server.fedcs.deadline",
        oort="those with a large loss that are fast enough, and some new ones, by server.oort",
    ),
]
Count = Annotated[int, Field(ge=1)]
NO_STEP = "no_step"
"""Outcome in the tables of a client that was drawn and for whom no local step fits into server.compute_budget."""


class ServerSpec(Spec):
    """The server's rules for each phase, unless the policy sets its own; asynchronous ones have only the deadline."""

    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """Time from the beginning of a phase (of an asynchronous policy: of an order) after which clients that have not
    delivered are interrupted and count as late; null: none."""
    first: Count | None = None
    """Number of replies after which the server goes on, all others being late; null: it waits for all."""
    quorum: Count | None = None
    """Least number of replies; with fewer, none of a phase counts. Null: none needed."""
    compute_budget: Annotated[Seconds, Field(gt=0)] | None = None
    """Time for which each client may compute in a phase of local steps: it takes as many of the policy's tau steps as
    fit on its own device, and no part where none fits. Null: all take tau steps, however long that takes."""
    aggregation: Seconds = 0.0
    """Time that the server takes to aggregate at the end of each round."""
    loss_detection: Literal["at_once", "deadline"] = "at_once"
    """When the server learns that a reply is lost: at once, or only at the deadline."""
    selector: Selector = "by_lambda"
    """Rule by which clients are selected; `wflsim list selector` describes each."""
    fedcs: FedcsSpec = FedcsSpec()
    """Plan of the selector fedcs; has an effect only with it."""
    oort: OortSpec = OortSpec()
    """Parameters of the selector oort; have an effect only with it."""
    over_selection: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Factor by which more clients are asked than the policy wants; with `first`, the slowest are left behind."""
    idle: Literal["participants", "all"] = "participants"
    """Whose waiting is charged: that of participants who wait for others in a phase, or that of all clients always."""

    @model_validator(mode="after")
    def _deadline_to_detect_at(self) -> ServerSpec:
        if self.loss_detection == "deadline" and self.deadline is None:
            raise ValueError("loss_detection: deadline needs a deadline, or the server waits for ever")
        return self

    @property
    def chooser(self) -> str | None:
        """Name of the key by which the world selects clients instead of the policy's scheme; None: the policy does."""
        if self.selector != "by_lambda":
            return "server.selector"
        return "server.over_selection" if self.over_selection > 1 else None

    def until(self) -> Until:
        """When the server stops waiting in a phase for which the policy sets no rule."""
        return Until(self.deadline, self.first, self.quorum)


class Phase:
    """One phase on the server's side: replies come in until there are enough, or until the deadline."""

    def __init__(self, env: simpy.Environment, orders: int, until: Until, blind: bool) -> None:
        self.outcomes: list[Outcome | None] = [None] * orders
        """Outcome of each order; None as long as it is under way."""
        self.over = env.event()
        """Happens when the server stops waiting."""
        self._env = env
        self._until = until
        self._blind = blind and until.deadline_s is not None
        """Whether losses go unnoticed until the deadline."""
        self._awaited = orders
        self._delivered = 0
        if not orders:
            self.over.succeed()
        elif until.deadline_s is not None:
            env.process(self._wait_until(until.deadline_s))

    def report(self, slot: int, outcome: Outcome) -> None:
        """Take in the outcome of the order at this position."""
        self.outcomes[slot] = outcome
        if outcome.fate == "delivered":
            self._delivered += 1
        elif self._blind:
            return
        self._awaited -= 1
        if not self.over.triggered and (self._awaited == 0 or self._delivered == self._until.first):
            self.over.succeed()

    def verdict(self) -> list[Outcome]:
        """One outcome per order; where the quorum is missed, delivered replies become dropped ones."""
        outcomes = [outcome for outcome in self.outcomes if outcome is not None]
        if self._until.quorum is not None and self._delivered < self._until.quorum:
            return [o._replace(fate="dropped") if o.fate == "delivered" else o for o in outcomes]
        return outcomes

    def _wait_until(self, deadline_s: float) -> Any:
        yield self._env.timeout(deadline_s)
        # One more event at the same time: a reply that arrives at this very instant is in time.
        yield self._env.timeout(0)
        if not self.over.triggered:
            self.over.succeed()
