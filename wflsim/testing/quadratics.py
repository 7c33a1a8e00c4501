"""Least-squares clients in float64, and a rough carrier, for exact statements about policies.

Client i holds d_i rows a with targets b, and f_i(w) is the mean of (a.w - b)^2 / 2. The learner is the real one with
other gradients: chunks, memories, batches and meters are the product's own.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wflsim.exchange import Draw, Edges, Me, Order, Outcome, Until, Weights
from wflsim.learning.learner import Learner
from wflsim.learning.models.gradients import Gradients
from wflsim.learning.samples import Shards
from wflsim.learning.specs import TrainSpec
from wflsim.policies.base import Policy
from wflsim.policies.sampling import pick
from wflsim.records import FinishedRound, Leg, RoundRow, TraceRound
from wflsim.rng import stream
from wflsim.simulation.loop import Carrier, Instant, drive
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training

Array = NDArray[np.float64]


class Squares(Gradients):
    """Losses and gradients of linear regression."""

    def __init__(self, start: Array) -> None:
        P = len(start)
        made: Any = SimpleNamespace(
            parameters=P,
            flops=lambda x: 2.0 * P,
            initial=lambda seed: torch.tensor(start, dtype=torch.float64),
            data_part=lambda x: x,
            with_data=lambda x, data: data,
        )
        self.model = made

    def loss(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        return self._residual(y, x, labels, weight)[1]

    def gradient(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        pull, losses = self._residual(y, x, labels, weight)
        return torch.bmm(x.mT, pull.unsqueeze(-1)).squeeze(-1), losses

    def with_inputs(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        pull, _ = self._residual(y, x, labels, weight)
        return torch.bmm(x.mT, pull.unsqueeze(-1)).squeeze(-1), pull.unsqueeze(-1) * y.unsqueeze(1)

    @staticmethod
    def _residual(y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        residual = torch.bmm(x, y.unsqueeze(-1)).squeeze(-1) - labels
        weight = torch.full_like(residual, 1 / residual.shape[1]) if weight is None else weight
        return residual * weight, (residual**2 * weight).sum(-1) / 2


class LeastSquares(Learner):
    """The real learner; evaluated are the training losses."""

    problem: Problem

    def _score(self, job: tuple[int, Tensor]) -> tuple[float | None, float | None]:
        client, w = job
        return None, float(self.problem.f(client, w.numpy()))


class Problem:
    """N clients: A[i] is [d_i, P], b[i] is [d_i]; plain numpy, to check torch against."""

    def __init__(self, A: Sequence[Array], b: Sequence[Array], start: Array | None = None) -> None:
        self.A, self.b = A, b
        self.N, self.P = len(A), A[0].shape[1]
        self.d = [len(rows) for rows in b]
        self.start = np.linspace(-1, 1, self.P) if start is None else start

    def f(self, i: int, w: Array) -> float:
        """Loss of client i."""
        return float(np.mean((self.A[i] @ w - self.b[i]) ** 2) / 2)

    def grad(self, i: int, w: Array) -> Array:
        """Gradient of the loss of client i."""
        gradient: Array = self.A[i].T @ (self.A[i] @ w - self.b[i]) / self.d[i]
        return gradient

    def renamed(self, order: Sequence[int]) -> Problem:
        """Client j of the new problem is client order[j] of this one."""
        return Problem([self.A[i] for i in order], [self.b[i] for i in order], self.start)

    def learner(self, batch: int = 10_000, seed: int = 0, **train: Any) -> LeastSquares:
        """A learner of these clients; by default every minibatch is all that a client has."""
        x, y = torch.from_numpy(np.concatenate(self.A)), torch.from_numpy(np.concatenate(self.b))
        shards = Shards(x, y, [0, *np.cumsum(self.d)[:-1].tolist()], self.d)
        spec = TrainSpec(batch=batch, dtype="float64", **train)
        learner = LeastSquares(Squares(self.start), shards, shards, spec, seed, 1)
        learner.problem = self
        return learner


def problem(N: int = 5, P: int = 4, seed: int = 0, alike: bool = False) -> Problem:
    """Different sizes, curvatures and optima (one client copied N times if `alike`)."""
    draw = stream(seed, "problem")
    A = [draw.normal(size=(3 + 2 * i, P)) for i in range(N)]
    b = [draw.normal(size=3 + 2 * i) + 3.0 * draw.normal() for i in range(N)]
    return Problem([A[-1]] * N, [b[-1]] * N) if alike else Problem(A, b)


class Rough(Instant):
    """Takes time without radio: loses a part of all orders, serves asynchronous ones in order of their durations."""

    def __init__(
        self,
        clients: int,
        loss: float = 0.0,
        durations: Sequence[float] | None = None,
        void: Collection[int] = (),
        race_order: Sequence[int] | None = None,
    ) -> None:
        super().__init__(clients)
        self.now_s = 0.0
        self._loss = loss
        self._durations = durations or [1.0 + 0.37 * i for i in range(clients)]
        self._void = void
        """Rounds in which nothing arrives."""
        self._race_order = race_order
        """Client j runs the race of client race_order[j]: a renamed population."""
        self._under_way: list[tuple[float, int, Outcome]] = []
        self.gathered: list[tuple[list[int], list[int]]] = []
        """(asked, heard) of every Gather."""
        self.computed: list[list[int]] = []
        """Who finished computing in every Gather, heard or not."""
        self.received: list[Outcome] = []
        """Outcomes of every Receive."""
        self.most = 0
        """Orders under way at once, at most."""

    def eligible(self) -> list[int]:
        busy = {client for _, client, _ in self._under_way}
        return [client for client in super().eligible() if client not in busy]

    def select(  # type: ignore[override]  # Instant's promises None
        self, draw: Draw, race: Array, eligible: list[int]
    ) -> tuple[list[int], Weights] | None:
        if self._race_order is None:
            return None
        return pick(draw, lambda j: race[self._race_order], eligible)

    def outcome(self, order: Order) -> Outcome:
        """How an order ends, by luck of its own."""
        luck = stream(7, "luck", order.client, order.round, order.phase).uniform(size=2)
        lost = luck[0] < self._loss or order.round in self._void
        return Outcome(order.client, "lost" if lost else "delivered", computed=not lost or bool(luck[1] < 0.5))

    def gather(self, orders: Sequence[Order], until: Until | None) -> list[Outcome]:
        outcomes = [self.outcome(order) for order in orders]
        heard = [outcome.client for outcome in outcomes if outcome.fate == "delivered"]
        self.gathered.append(([order.client for order in orders], heard))
        self.computed.append([outcome.client for outcome in outcomes if outcome.computed])
        return outcomes

    def neighbours(self) -> Edges:
        ring = super().neighbours()
        if self._race_order is None:
            return ring
        names = {old: new for new, old in enumerate(self._race_order)}
        return tuple(sorted((names[i], names[j]) for i, j in ring))

    def gossip(self, orders: Sequence[Order], edges: Edges) -> list[Outcome]:
        """A node whose order is lost did not compute; of the others, a part of all links fail in both directions."""
        there = {order.client for order in orders if self.outcome(order).fate == "delivered"}
        fails = {(i, j): stream(7, "edge", i, j, orders[0].round).uniform() < self._loss for i, j in edges if i < j}
        heard = {(i, j) for i, j in edges if {i, j} <= there and not fails[min(i, j), max(i, j)]}
        return [Outcome(i, "delivered" if (i, j) in heard else "lost", i in there, j) for i, j in edges]

    def send(self, orders: Sequence[Order]) -> None:
        for order in orders:
            rank = order.client if self._race_order is None else self._race_order[order.client]
            entry = (self.now_s + self._durations[rank], order.client, self.outcome(order))
            heapq.heappush(self._under_way, entry)
        self.most = max(self.most, len(self._under_way))

    def receive(self) -> Outcome:
        self.now_s, _, outcome = heapq.heappop(self._under_way)
        self.received.append(outcome)
        return outcome


class Kept:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.trace: list[TraceRound] = []
        self.rows: list[RoundRow] = []
        self.legs: list[Leg] = []
        self.states: list[Any] = []
        """The policy's state after each round, if the training is known."""
        self.training: Training | None = None

    def __call__(self, finished: FinishedRound) -> None:
        self.trace.append(finished.trace)
        self.rows.append(finished.row)
        self.legs += finished.legs
        if self.training is not None:
            self.states.append(self.training.state)

    def cohorts(self, s: int) -> list[list[int]]:
        """Who was asked in each phase of round s."""
        return [[order.client for order in step.orders] for step in self.trace[s].steps if step.orders]


def run(
    policy: Policy,
    learner: Learner,
    rounds: int,
    carrier: Carrier | None = None,
    seed: int = 0,
    evaluate_every: int = 1_000_000,
) -> tuple[Training, Kept]:
    """The training and what it left after some rounds; rehearsed unless a carrier is given."""
    training, kept = Training(policy, learner, seed, evaluate_every), Kept()
    kept.training = training
    drive(training, carrier or Instant(learner.clients), kept, Stop(StopSpec(rounds=rounds)), learner.clients, seed)
    return training, kept


def models(training: Training) -> Array:
    """[N, P]: what each client is evaluated with."""
    seen: list[Tensor] = []

    def model(me: Me) -> Tensor:
        seen.append(training.policy.model(training.state, me))
        return seen[-1]

    training.learner.evaluate(model)
    return np.concatenate([rows.expand(training.learner.clients, -1).numpy() for rows in seen])
