"""One stepping loop for rehearse, live and replay.

*Demands* say what the server wants next, round by round: `training.Training` steps a policy with torch,
`replay.Replay` reads a trace. A *carrier* carries them out: `Instant` delivers everything at once, `world.World` takes
simulated time and joules, and may lose things. The loop passes demands from one to the other and outcomes back, and
hands every finished round to a *sink*.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cache
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wflsim.errors import Exhausted, ReplayRefused
from wflsim.exchange import Draw, Edges, Order, Outcome, Until, Weights
from wflsim.policies.sampling import pick
from wflsim.questions import Allotment, Neighbours, Pace, Reports
from wflsim.records import (
    ClientRow,
    Evaluation,
    FinishedRound,
    Leg,
    RoundRow,
    Step,
    TraceRound,
)
from wflsim.rng import stream
from wflsim.target import metrics
from wflsim.world.access.graph import ring

Demand = Draw | Allotment | Neighbours | Pace | Reports | Step
Flow = Generator[Demand, Any, Evaluation | None]


Sink = Callable[[FinishedRound], None]
"""Keeps what it needs of a finished round."""


class Demands(Protocol):
    """What the server wants, one round at a time: by training, or by a trace."""

    def round(self, s: int) -> Flow:
        """Round s: yields Steps and questions (Draw, Allotment, Neighbours, Pace, Reports), resumes with their answers,
        and returns the evaluation after it, if any."""


class Carrier(Protocol):
    """Carries out the server's demands: at once (`Instant`) or in simulated time (`world.World`)."""

    @property
    def now_s(self) -> float: ...
    @property
    def reports(self) -> bool: ...
    @property
    def planned_s(self) -> float | None: ...
    def eligible(self) -> list[int]: ...
    def select(
        self, draw: Draw, race: NDArray[np.float64], eligible: list[int]
    ) -> tuple[list[int], Weights] | None: ...
    def allot(self, asked: Allotment) -> dict[int, int]: ...
    def pace(self, asked: Pace) -> int: ...
    def gather(self, orders: Sequence[Order], until: Until | None) -> list[Outcome]: ...
    def send(self, orders: Sequence[Order]) -> None: ...
    def receive(self) -> Outcome: ...
    def neighbours(self) -> Edges: ...
    def gossip(self, orders: Sequence[Order], edges: Edges) -> list[Outcome]: ...
    def end_round(self) -> None: ...
    def take_legs(self) -> list[Leg]: ...


class Instant:
    """A carrier without time: everybody is there, everything arrives at once."""

    now_s = 0.0
    reports = False
    planned_s = None

    def __init__(self, clients: int, edges: Edges | None = None) -> None:
        """`edges`: the graph of peers, where a policy has no server; None: a ring."""
        self._everybody = list(range(clients))
        self._edges = edges

    def eligible(self) -> list[int]:
        return self._everybody

    def select(self, draw: Draw, race: NDArray[np.float64], eligible: list[int]) -> None:
        return None

    def allot(self, asked: Allotment) -> dict[int, int]:
        return dict(asked.steps)

    def pace(self, asked: Pace) -> int:
        raise ReplayRefused("tau: adapt chooses local steps by what rounds take, and nothing takes time here; run live")

    def gather(self, orders: Sequence[Order], until: Until | None) -> list[Outcome]:
        return [Outcome(order.client, "delivered", computed=True) for order in orders]

    def send(self, orders: Sequence[Order]) -> None:
        raise ReplayRefused("an asynchronous policy has no order of replies without a world: run it live")

    def receive(self) -> Outcome:
        raise ReplayRefused("an asynchronous policy has no order of replies without a world: run it live")

    def neighbours(self) -> Edges:
        return ring(len(self._everybody)) if self._edges is None else self._edges

    def gossip(self, orders: Sequence[Order], edges: Edges) -> list[Outcome]:
        return [Outcome(sender, "delivered", computed=True, peer=receiver) for sender, receiver in edges]

    def end_round(self) -> None:
        return None

    def take_legs(self) -> list[Leg]:
        return []


def drive(
    demands: Demands,
    carrier: Carrier,
    sink: Sink,
    stop: Callable[[RoundRow], str | None],
    clients: int,
    seed: int,
    start: int = 0,
) -> str:
    """Round after round until `stop` gives a reason, which is returned; or the world's, if nobody is left to serve.

    `start`: the first round, for demands and a carrier that stand there already.
    """
    for s in count(start):
        start_s = carrier.now_s
        steps: list[Step] = []
        delivered = draws = 0
        pace: tuple[Pace, int] | None = None
        evaluation: Evaluation | None = None
        exhausted: str | None = None
        flow = demands.round(s)
        answer: Any = None
        try:
            while True:
                try:
                    demand = flow.send(answer)
                except StopIteration as done:
                    evaluation = done.value
                    break
                if isinstance(demand, Draw):
                    answer = select(demand, carrier, clients, seed, s, draws)
                    draws += 1
                    continue
                if not isinstance(demand, Step):
                    answer = answered(demand, carrier)
                    pace = (demand, answer) if isinstance(demand, Pace) else pace
                    continue
                steps.append(demand)
                answer = carry(demand, carrier)
                outcomes = answer if isinstance(answer, list) else [answer] if answer else []
                delivered += sum(outcome.fate == "delivered" for outcome in outcomes)
        except Exhausted as reason:
            exhausted = str(reason)
            if not steps:
                return exhausted
        carrier.end_round()
        legs = carrier.take_legs()
        row = round_row(s, start_s, carrier.now_s, steps, delivered, legs, evaluation)
        row = row._replace(planned_s=carrier.planned_s)
        if pace is not None:
            row = with_pace(row, pace[1], steps, legs)
        sink(FinishedRound(TraceRound(s, steps, evaluation, pace and pace[0]), row, client_rows(s, evaluation), legs))
        # A round in which the last client died was not finished, but it was paid for.
        verdict = exhausted or stop(row)
        if verdict is not None:
            return verdict
    raise AssertionError("count() does not end")


def answered(question: Allotment | Neighbours | Pace | Reports, carrier: Carrier) -> Any:
    """The carrier's answer to a question that takes no time."""
    if isinstance(question, Allotment):
        return carrier.allot(question)
    if isinstance(question, Pace):
        return carrier.pace(question)
    return carrier.neighbours() if isinstance(question, Neighbours) else carrier.reports


def select(draw: Draw, carrier: Carrier, clients: int, seed: int, s: int, n: int) -> tuple[list[int], Weights]:
    """The world's choice if it has one, else the race by lambda. n: ordinal of the Draw in round s."""

    @cache
    def race(j: int) -> NDArray[np.float64]:
        return stream(seed, "select", s, n, j).exponential(size=clients)

    eligible = carrier.eligible()
    return carrier.select(draw, race(0), eligible) or pick(draw, race, eligible)


def carry(step: Step, carrier: Carrier) -> list[Outcome] | Outcome | None:
    """One demand, carried out."""
    if step.kind == "gather":
        return carrier.gather(step.orders, step.until)
    if step.kind == "send":
        carrier.send(step.orders)
        return None
    if step.kind == "gossip":
        return carrier.gossip(step.orders, step.edges)
    return carrier.receive()


def round_row(
    s: int,
    start_s: float,
    end_s: float,
    steps: Sequence[Step],
    delivered: int,
    legs: Sequence[Leg],
    evaluation: Evaluation | None,
) -> RoundRow:
    """What the round cost and what it reached. Without a world there are no legs, and bits come from the orders; in a
    world, a round without legs and without deliveries moved none."""
    asked = sum(step.transfers for step in steps)
    if legs or delivered < asked:
        up_bits = sum(leg.bits for leg in legs if leg.activity == "transmit")
        down_bits = sum(leg.bits for leg in legs if leg.activity == "receive")
    else:
        up_bits = sum(order.up_bits for step in steps for order in step.orders)
        down_bits = sum(map(_received_bits, steps))
    names = ("average", "worst", "std", "worst10", "jain")
    reached = metrics(evaluation.accuracy) if evaluation else dict.fromkeys(names)
    losses = [loss for loss in evaluation.loss if loss is not None] if evaluation else []
    return RoundRow(
        round=s,
        start_s=start_s,
        end_s=end_s,
        asked=asked,
        delivered=delivered,
        energy_j=sum(leg.energy_j for leg in legs),
        radiated_j=sum(leg.radiated_j for leg in legs),
        paper_energy_j=sum(leg.paper_j for leg in legs),
        up_bits=up_bits,
        down_bits=down_bits,
        loss=sum(losses) / len(losses) if losses else None,
        **reached,
    )


def with_pace(row: RoundRow, tau: int, steps: Sequence[Step], legs: Sequence[Leg]) -> RoundRow:
    """The row of a round whose tau was chosen by a controller: with tau, and the controller's part of the costs.

    Of every transfer and computation, the part is that of its bits and samples which the controller needs.
    """
    bits, energy_j = 0.0, 0.0
    orders = {order.client: order for step in steps for order in step.orders if order.adapt_bits}
    for leg in legs:
        order = orders.get(leg.client)
        if order is not None and leg.activity == "transmit":
            bits += leg.bits * order.adapt_bits / order.up_bits
            energy_j += leg.energy_j * order.adapt_bits / order.up_bits
        elif order is not None and leg.activity == "compute" and order.backward_samples:
            energy_j += leg.energy_j * order.adapt_samples / order.backward_samples
    return row._replace(tau=tau, adapt_bits=round(bits), adapt_j=energy_j)


def _received_bits(step: Step) -> int:
    """Bits that the clients of a step receive if all is delivered: from the server, or from their neighbours."""
    sizes = {order.client: order.up_bits for order in step.orders}
    return sum(order.shared_bits + order.each_bits for order in step.orders) + sum(sizes[i] for i, _ in step.edges)


def client_rows(s: int, evaluation: Evaluation | None) -> list[ClientRow]:
    """One row per client at an evaluation."""
    if evaluation is None:
        return []
    columns = [column or [None] * len(evaluation.accuracy) for column in evaluation]
    return [ClientRow(s, i, *row) for i, row in enumerate(zip(*columns, strict=True))]
