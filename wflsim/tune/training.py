"""One training of a candidate: how a worker computes it, and what it costs in each regime as far as it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wflsim.errors import StoreError
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run
from wflsim.records import TraceRound
from wflsim.results.store import Store
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.stop import StopSpec, Target
from wflsim.target import metrics
from wflsim.tune.carry import Carried
from wflsim.tune.costs import Reach, reach
from wflsim.tune.walk import End, Walk

UNLIMITED = 1 << 60


class Wanted(NamedTuple):
    """A training that is wanted up to so many rounds."""

    root: str
    """Folder of the store."""
    run: Run
    rounds: int
    block: int
    """It is looked at after every so many rounds."""
    target: Target | None
    """It ends when a look shows that this was reached; None: at the last round."""


def train(wanted: Wanted, wait: bool) -> int:
    """The worker's half: what it trains it leaves in the store. Returns how many rounds it trained."""
    store = Store(wanted.root)
    with store.computing(wanted.run.learning, wait):
        # Whatever the size: the next block goes on from it. `trim` gives it up when the curve is done with.
        training = CachedTraining(wanted.run, store, keep_bytes=UNLIMITED)
        for rounds in looks(wanted.rounds, wanted.block if wanted.target is not None else wanted.rounds):
            training.extend(rounds)
            if wanted.target is not None and reach(training.trace[:rounds], wanted.target).held:
                break
        return len(training.trace) - training.known


def looks(rounds: int, block: int) -> list[int]:
    """Numbers of rounds after which a training is looked at: every block, and the last one."""
    return [*range(block, rounds, block), rounds]


class Line:
    """One candidate with one seed, and what it costs in each regime."""

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

    def read_trace(self, store: Store, rounds: int, target: Target, block: int) -> None:
        """Read the trace from the store, up to so many rounds, and see whether it reaches the target.

        It is read as far as the first look, a block after the other, that shows the target reached: what the store
        holds beyond that changes nothing.
        """
        held = store.trace(self.run.learning).read()
        if held is None:
            raise StoreError(f"{store.root}: a trace that was just written is gone; do not prune while tuning")
        first = len(self.trace)
        ends = [end for end in looks(rounds, block) if end > first]
        upto = next((end for end in ends if reach(held.trace[:end], target).held), rounds)
        self.trace, self.flops = held.trace[:upto], held.flops_per_sample
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

    def carried(self, target: Target) -> Carried:
        """How far the finished curve is replayed."""
        hit = self.hit is not None
        return Carried(self.rounds, hit, self.ended and not hit, self._attained(self.rounds, target))

    def _end(self, walk: Walk, target: Target) -> End:
        reached = self.hit is not None and walk.rounds > self.hit
        exhausted = walk.broke and not reached
        diverged = self.ended and not reached and not exhausted
        attained = self._attained(walk.rounds, target)
        return End(walk.cost, reached, diverged, exhausted, attained, walk.time_s, walk.client_j)

    def _attained(self, rounds: int, target: Target) -> float:
        """Accuracy at the last evaluation of the first rounds, in the target's metric; 0 before the first."""
        seen = reversed(self.trace[:rounds])
        last = next((entry.evaluation for entry in seen if entry.evaluation is not None), None)
        return (metrics(last.accuracy)[target.metric] or 0.0) if last is not None else 0.0
