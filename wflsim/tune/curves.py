"""Candidates by training: one curve per (tau, seed), carried through every regime's world as it grows.

All taus share the seeds' data, initial models, draws of clients and channels: what they have in common cancels when
they are compared. How far each is looked at follows from the search alone, never from what the store happens to hold,
so that the same question gives the same bytes again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wflsim.errors import StoreError, WflsimError
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.compute import Tick
from wflsim.experiments.plan import Run
from wflsim.experiments.pool import Pool, persist
from wflsim.records import TraceRound
from wflsim.results.store import Store
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.stop import StopSpec, Target
from wflsim.target import metrics
from wflsim.tune.costs import Reach, reach
from wflsim.tune.question import Question, with_tau
from wflsim.tune.search import Progress
from wflsim.tune.walk import End, Walk

BLOCKS = 40
"""A candidate is carried on by this part of its rounds at a time."""
UNLIMITED = 1 << 60


class Wanted(NamedTuple):
    """A training that is wanted up to so many rounds."""

    root: str
    """Folder of the store."""
    run: Run
    rounds: int


def train(wanted: Wanted, wait: bool) -> int:
    """The worker's half: what it trains it leaves in the store. Returns how many rounds it trained."""
    store = Store(wanted.root)
    with store.computing(wanted.run.learning, wait):
        # Whatever the size: the next block goes on from it. `trim` gives it up when the curve is done with.
        training = CachedTraining(wanted.run, store, keep_bytes=UNLIMITED)
        training.extend(wanted.rounds)
        return len(training.trace) - training.known


class Line:
    """One tau with one seed, and what it costs in each regime."""

    def __init__(self, scenario: Scenario, policy: int, seed: int, worlds: Sequence[Scenario], spec: TuneSpec) -> None:
        self.seed = seed
        self.run = Run(scenario, policy, seed)
        self.trace: list[TraceRound] = []
        self.flops = 0.0
        self.ended = False
        """It diverged: there is no further round."""
        self._reach = Reach(None, False)
        self._stop: StopSpec = scenario.stop
        self._worlds: list[Walk] | None = None
        self._specs = worlds
        self._tune = spec

    @property
    def hit(self) -> int | None:
        """The round in which the target was reached."""
        return self._reach.first if self._reach.held else None

    @property
    def rounds(self) -> int:
        """Rounds to the target, or those that are known where it was not reached."""
        return len(self.trace) if self.hit is None else self.hit + 1

    @property
    def finished(self) -> bool:
        """Reached, at the last round, diverged, or every regime's budget is spent."""
        spent = self._worlds is not None and all(walk.broke for walk in self._worlds)
        return self.hit is not None or self.ended or spent or len(self.trace) >= self._stop.rounds

    def read_trace(self, store: Store, rounds: int, target: Target) -> None:
        """Read the trace from the store, up to so many rounds, and see whether it reaches the target."""
        held = store.trace(self.run.learning).read()
        if held is None:
            raise StoreError(f"{store.root}: a trace that was just written is gone; do not prune while tuning")
        self.trace, self.flops = held.trace[:rounds], held.flops_per_sample
        self.ended = held.ended is not None and len(held.trace) < rounds
        self._reach = reach(self.trace, target)

    def ends(self, target: Target) -> list[End]:
        """Per regime: what it cost to the target or so far, and how it stands."""
        if self._worlds is None:
            self._worlds = [Walk(spec, self.seed, self.flops, self._tune) for spec in self._specs]
        # Once the target shows, the run may prove to have reached it there: what follows is not yet certain to count.
        first = self._reach.first
        upto = len(self.trace) if first is None or (self.finished and self.hit is None) else first + 1
        for walk in self._worlds:
            walk.advance(self.trace[:upto])
        found = [self._end(walk, target) for walk in self._worlds]
        if self.finished:
            for walk in self._worlds:
                walk.release_world()
        return found

    def _end(self, walk: Walk, target: Target) -> End:
        reached = self.hit is not None and walk.rounds > self.hit
        exhausted = walk.broke and not reached
        seen = reversed(self.trace[: walk.rounds])
        last = next((entry.evaluation for entry in seen if entry.evaluation is not None), None)
        attained = metrics(last.accuracy)[target.metric] if last is not None else None
        diverged = self.ended and not reached and not exhausted
        return End(walk.cost, reached, diverged, exhausted, attained or 0.0, walk.time_s, walk.client_j)


class Trained:
    """`search.Candidates` for one policy: trained once per (tau, seed), replayed in every regime."""

    def __init__(self, asked: Question, store: Store, pool: Pool) -> None:
        self._asked, self._store, self._pool = asked, store, pool
        self._target = asked.found.target
        stop, every = asked.scenario.stop, asked.scenario.evaluate_every
        self._block = every * math.ceil(stop.rounds / BLOCKS / every)
        self._most = stop.rounds
        self._allowed: dict[int, int] = {}
        self.lines: dict[int, list[Line]] = {}
        """The curves of every tau that was asked about, a seed each."""
        self.trained_rounds = 0
        """By this call; the rest was known."""
        self._doing = ""

    def _lines(self, tau: int) -> list[Line]:
        """The curves of one tau, which begin empty."""
        if tau not in self.lines:
            asked = self._asked
            variant = with_tau(asked.scenario, asked.policy, tau)
            self.lines[tau] = [
                Line(variant, asked.policy, seed, asked.worlds, asked.found.spec) for seed in variant.seeds
            ]
            self._allowed[tau] = 0
        return self.lines[tau]

    @property
    def rounds(self) -> int:
        """Looked at, trained now or earlier."""
        return sum(len(line.trace) for lines in self.lines.values() for line in lines)

    def progress(self, tau: int) -> Progress:
        lines = self._lines(tau)
        if not self._allowed[tau]:
            empty = np.zeros((len(self._asked.worlds), len(lines)))
            return Progress(empty, empty.astype(np.bool_), False)
        table = np.array([line.ends(self._target) for line in lines], dtype=np.float64)  # [seed, regime, field]
        cost, reached, diverged, exhausted, attained, time_s, client_j = np.moveaxis(table, (2, 1), (0, 1))
        flags = [field.astype(np.bool_) for field in (reached, diverged, exhausted)]
        rounds = np.broadcast_to([float(line.rounds) for line in lines], cost.shape)
        done = all(line.finished for line in lines)
        return Progress(cost, flags[0], done, flags[1], flags[2], attained, rounds, time_s, client_j)

    def extend(self, taus: Sequence[int]) -> None:
        for tau in taus:
            self._lines(tau)
            self._allowed[tau] = min(self._most, self._allowed[tau] + self._block)
        self._doing = ", ".join(f"tau={tau} up to round {self._allowed[tau]}" for tau in taus)
        self._tell(0)
        lines = [line for tau in taus for line in self.lines[tau] if not line.finished]
        rounds = {id(line): self._allowed[tau] for tau in taus for line in self.lines[tau]}
        root = str(self._store.root.resolve())
        every = [Wanted(root, line.run, rounds[id(line)]) for line in lines]
        missing = [one for one in every if not self._store.trace(one.run.learning).reaches(one.rounds)]
        trained = 0
        for number, answer in persist(self._pool, train, missing):
            if isinstance(answer, Exception):
                raise _failure(missing[number].run, answer)
            self.trained_rounds += answer
            trained += answer
            self._tell(trained)
        for line in lines:
            line.read_trace(self._store, rounds[id(line)], self._target)
            if line.finished:
                self._store.trace(line.run.learning).trim()

    def _tell(self, trained: int) -> None:
        """How far it is: rounds known, those just trained included, and how many there could be at most."""
        left = sum(self._most - len(line.trace) for lines in self.lines.values() for line in lines if not line.finished)
        known = self.rounds
        self._asked.watch(Tick(f"{self._asked.label}, {self._doing}", known + trained, known + left, "rounds"))


def _failure(run: Run, error: Exception) -> WflsimError:
    """The error that ends tuning: a tau cannot be judged without one of its seeds."""
    return WflsimError(f"tau={run.scenario.policies[run.policy].tau}, seed {run.seed} failed twice: {error}")
