"""Least-squares clients in float64, and small carriers, for exact statements about policies.

Client i holds d_i rows a with targets b, and f_i(w) is the mean of (a.w - b)^2 / 2. The learner is the real one with
other gradients: chunks, memories, batches and meters are the product's own.
"""

from __future__ import annotations

import heapq
from types import SimpleNamespace

import numpy as np
import torch

from wflsim.compress.compressors import Compressor
from wflsim.exchange import Outcome
from wflsim.learning.learner import Learner
from wflsim.learning.models.gradients import Gradients
from wflsim.learning.samples import Shards
from wflsim.learning.specs import TrainSpec
from wflsim.policies.sampling import pick
from wflsim.rng import stream
from wflsim.simulation.loop import Instant, drive
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training

torch.set_num_threads(1)


class Squares(Gradients):
    """Losses and gradients of linear regression."""

    def __init__(self, start):
        P = len(start)
        self.model = SimpleNamespace(
            parameters=P, flops=lambda x: 2.0 * P, initial=lambda seed: torch.tensor(start, dtype=torch.float64),
            data_part=lambda x: x, with_data=lambda x, data: data,
        )  # fmt: skip

    def loss(self, y, x, labels, weight):
        return self._residual(y, x, labels, weight)[1]

    def gradient(self, y, x, labels, weight):
        pull, losses = self._residual(y, x, labels, weight)
        return torch.bmm(x.mT, pull.unsqueeze(-1)).squeeze(-1), losses

    def with_inputs(self, y, x, labels, weight):
        pull, _ = self._residual(y, x, labels, weight)
        return torch.bmm(x.mT, pull.unsqueeze(-1)).squeeze(-1), pull.unsqueeze(-1) * y.unsqueeze(1)

    @staticmethod
    def _residual(y, x, labels, weight):
        residual = torch.bmm(x, y.unsqueeze(-1)).squeeze(-1) - labels
        weight = torch.full_like(residual, 1 / residual.shape[1]) if weight is None else weight
        return residual * weight, (residual**2 * weight).sum(-1) / 2


class LeastSquares(Learner):
    """The real learner; evaluated are the training losses."""

    def _score(self, job):
        client, w = job
        return None, float(self.problem.f(client, w.numpy()))


class Problem:
    """N clients: A[i] is [d_i, P], b[i] is [d_i]; plain numpy, to check torch against."""

    def __init__(self, A, b, start=None):
        self.A, self.b = A, b
        self.N, self.P = len(A), A[0].shape[1]
        self.d = [len(rows) for rows in b]
        self.start = np.linspace(-1, 1, self.P) if start is None else start

    def f(self, i, w):
        return np.mean((self.A[i] @ w - self.b[i]) ** 2) / 2

    def grad(self, i, w):
        return self.A[i].T @ (self.A[i] @ w - self.b[i]) / self.d[i]

    def renamed(self, order):
        """Client j of the new problem is client order[j] of this one."""
        return Problem([self.A[i] for i in order], [self.b[i] for i in order], self.start)

    def learner(self, batch=10_000, seed=0, quantise=None, **train):
        x, y = torch.from_numpy(np.concatenate(self.A)), torch.from_numpy(np.concatenate(self.b))
        shards = Shards(x, y, [0, *np.cumsum(self.d)[:-1].tolist()], self.d)
        spec = TrainSpec(batch=batch, dtype="float64", **both_ways(quantise), **train)
        learner = LeastSquares(Squares(self.start), shards, shards, spec, seed, 1)
        learner.problem = self
        return learner


def both_ways(bits):
    """Options of a TrainSpec that quantise what is sent in either direction; None: nothing is compressed."""
    return {} if bits is None else {"compress": {way: {"name": "quantise", "bits": bits} for way in ("up", "down")}}


def code(learner, encoder):
    """Let everything that is sent pass through a function of (rows, rngs), in either direction."""

    class Function(Compressor):
        name: str = "function"

        def __call__(self, rows, rngs):
            return encoder(rows, rngs)

    learner._compress = dict.fromkeys(learner._compress, Function())


def problem(N=5, P=4, seed=0, alike=False):
    """Different sizes, curvatures and optima (one client copied N times if `alike`)."""
    draw = stream(seed, "problem")
    A = [draw.normal(size=(3 + 2 * i, P)) for i in range(N)]
    b = [draw.normal(size=3 + 2 * i) + 3.0 * draw.normal() for i in range(N)]
    return Problem([A[-1]] * N, [b[-1]] * N) if alike else Problem(A, b)


class Rough(Instant):
    """Takes time without radio: loses a part of all orders, serves asynchronous ones in order of their durations."""

    def __init__(self, clients, loss=0.0, durations=None, void=(), race_order=None):
        super().__init__(clients)
        self.now_s = 0.0
        self._loss = loss
        self._durations = durations or [1.0 + 0.37 * i for i in range(clients)]
        self._void = void
        """Rounds in which nothing arrives."""
        self._race_order = race_order
        """Client j runs the race of client race_order[j]: a renamed population."""
        self._under_way = []
        self.gathered = []
        """(asked, heard) of every Gather."""
        self.computed = []
        """Who finished computing in every Gather, heard or not."""
        self.received = []
        """Outcomes of every Receive."""
        self.most = 0
        """Orders under way at once, at most."""

    def eligible(self):
        busy = {client for _, client, _ in self._under_way}
        return [client for client in super().eligible() if client not in busy]

    def select(self, draw, race, eligible):
        if self._race_order is None:
            return None
        return pick(draw, lambda j: race[self._race_order], eligible)

    def outcome(self, order):
        luck = stream(7, "luck", order.client, order.round, order.phase).uniform(size=2)
        lost = luck[0] < self._loss or order.round in self._void
        return Outcome(order.client, "lost" if lost else "delivered", computed=not lost or bool(luck[1] < 0.5))

    def gather(self, orders, until):
        outcomes = [self.outcome(order) for order in orders]
        heard = [outcome.client for outcome in outcomes if outcome.fate == "delivered"]
        self.gathered.append(([order.client for order in orders], heard))
        self.computed.append([outcome.client for outcome in outcomes if outcome.computed])
        return outcomes

    def send(self, orders):
        for order in orders:
            rank = order.client if self._race_order is None else self._race_order[order.client]
            entry = (self.now_s + self._durations[rank], order.client, self.outcome(order))
            heapq.heappush(self._under_way, entry)
        self.most = max(self.most, len(self._under_way))

    def receive(self):
        self.now_s, _, outcome = heapq.heappop(self._under_way)
        self.received.append(outcome)
        return outcome


class Kept:
    """A sink that keeps everything."""

    def __init__(self):
        self.trace, self.rows, self.legs, self.states = [], [], [], []
        self.training = None

    def __call__(self, finished):
        self.trace.append(finished.trace)
        self.rows.append(finished.row)
        self.legs += finished.legs
        if self.training is not None:
            self.states.append(self.training.state)

    def cohorts(self, s):
        """Who was asked in each phase of round s."""
        return [[order.client for order in step.orders] for step in self.trace[s].steps if step.orders]


def run(policy, learner, rounds, carrier=None, seed=0, evaluate_every=1_000_000):
    """(Training, Kept) after some rounds; rehearsed unless a carrier is given."""
    training, kept = Training(policy, learner, seed, evaluate_every), Kept()
    kept.training = training
    drive(training, carrier or Instant(learner.clients), kept, Stop(StopSpec(rounds=rounds)), learner.clients, seed)
    return training, kept


def models(training):
    """[N, P]: what each client is evaluated with."""
    seen = []

    def model(me):
        seen.append(training.policy.model(training.state, me))
        return seen[-1]

    training.learner.evaluate(model)
    return np.concatenate([rows.expand(training.learner.clients, -1).numpy() for rows in seen])


def snapshot_step(seed, s, tau):
    """The t' that DRFA and its relatives draw in round s."""
    return int(stream(seed, "policy", "snapshot", s).integers(1, tau + 1))


def memories(training, name, N, P):
    """[N, P]: what each client remembers, zeros where nothing."""
    rows = training.learner.rows("memory", name)
    return np.stack([rows[i].numpy() if i in rows else np.zeros(P) for i in range(N)])
