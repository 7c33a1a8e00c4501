"""The server's patience: when a phase is over, and what then counts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import simpy
from pydantic import Field, model_validator

from wflsim.exchange import Outcome, Until
from wflsim.units import Seconds, Spec, choices

Selector = Annotated[
    Literal["by_lambda", "best_channel", "least_energy", "availability"],
    choices(
        by_lambda="those whom the policy draws",
        best_channel="those with the highest SNR on the uplink",
        least_energy="those who need the least energy to compute and send",
        availability="those with the longest time left in their window",
    ),
]
Count = Annotated[int, Field(ge=1)]


class ServerSpec(Spec):
    """Rules for the phases of a synchronous round; a policy may set its own for one phase. Of these, asynchronous
    policies know the deadline only."""

    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """Whoever has not delivered this long after the phase began is interrupted: late. Of an asynchronous policy's
    orders, each has this long."""
    first: Count | None = None
    """Go on as soon as this many replies are in; the rest is late."""
    quorum: Count | None = None
    """With fewer replies the phase is void: nobody's reply counts."""
    aggregation: Seconds = 0.0
    """Time the server takes at the end of each round."""
    loss_detection: Literal["at_once", "deadline"] = "at_once"
    """When the server learns that a reply will not come."""
    selector: Selector = "by_lambda"
    """Which clients are asked; `wflsim list selector` describes each."""
    over_selection: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Ask so many times more clients than the policy wants; with `first`, the slowest are left behind."""
    idle: Literal["participants", "all"] = "participants"
    """Whose waiting is charged: those who wait for others in a phase, or every client at all times."""

    @model_validator(mode="after")
    def _deadline_to_detect_at(self) -> ServerSpec:
        if self.loss_detection == "deadline" and self.deadline is None:
            raise ValueError("loss_detection: deadline needs a deadline, or the server waits for ever")
        return self

    @property
    def chooser(self) -> str | None:
        """The key by which the world draws cohorts instead of the policy's scheme; None: the policy draws."""
        if self.selector != "by_lambda":
            return "server.selector"
        return "server.over_selection" if self.over_selection > 1 else None

    def until(self) -> Until:
        """The rule of a phase whose policy says nothing."""
        return Until(self.deadline, self.first, self.quorum)


class Phase:
    """One gather as the server lives it: replies come in until there are enough, or time is up."""

    def __init__(self, env: simpy.Environment, orders: int, until: Until, blind: bool) -> None:
        self.outcomes: list[Outcome | None] = [None] * orders
        self.over = env.event()
        self._env = env
        self._until = until
        self._blind = blind and until.deadline_s is not None
        """Losses go unnoticed until the deadline."""
        self._awaited = orders
        self._delivered = 0
        if not orders:
            self.over.succeed()
        elif until.deadline_s is not None:
            env.process(self._wait_until(until.deadline_s))

    def report(self, slot: int, outcome: Outcome) -> None:
        """A device has ended its order."""
        self.outcomes[slot] = outcome
        if outcome.fate == "delivered":
            self._delivered += 1
        elif self._blind:
            return
        self._awaited -= 1
        if not self.over.triggered and (self._awaited == 0 or self._delivered == self._until.first):
            self.over.succeed()

    def verdict(self) -> list[Outcome]:
        """One outcome per order; without a quorum, what was delivered is thrown away."""
        outcomes = [outcome for outcome in self.outcomes if outcome is not None]
        if self._until.quorum is not None and self._delivered < self._until.quorum:
            return [o._replace(fate="dropped") if o.fate == "delivered" else o for o in outcomes]
        return outcomes

    def _wait_until(self, deadline_s: float) -> Any:
        yield self._env.timeout(deadline_s)
        # Once more around the queue: a reply that arrives at this very instant is in time.
        yield self._env.timeout(0)
        if not self.over.triggered:
            self.over.succeed()
