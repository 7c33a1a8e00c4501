"""The learning of one policy with one seed: remembered as far as the store knows it, trained on where it does not.

As a source for the loop a curve is both replay and training, so that a run in one world leaves what a run in another
world reads. That is exact only where the world cannot change the learning; elsewhere a curve has no place in the store.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from wflsim.digest import learning_digest
from wflsim.drive.loop import Flow, Instant, drive
from wflsim.drive.replay import Replay, refuse_inexact
from wflsim.errors import Diverged, ReplayRefused, StoreError
from wflsim.policies.base import Policy
from wflsim.record import ClientRow, Leg, RoundRow, TraceRound
from wflsim.scenario import Scenario
from wflsim.store import KEEP_BYTES, Entry, Store
from wflsim.world.spec import WorldSpec, influences

if TYPE_CHECKING:
    from wflsim.drive.training import Training
    from wflsim.learning.trainer import Learner

SAVE_S = 20.0


def why_live(world: WorldSpec, policy: Policy) -> str | None:
    """What forbids a replay, naming the scenario key; None where a trace is exact."""
    try:
        refuse_inexact(influences(world), policy.name, policy.asynchronous)
    except ReplayRefused as refusal:
        return str(refusal)
    return None


class Curve:
    """A source of rounds."""

    def __init__(
        self,
        scenario: Scenario,
        policy: int,
        seed: int,
        store: Store | None,
        threads: int = 1,
        learning: str | None = None,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        """`store`: None where the world can change the learning. `learning`: the digest, where it is known already."""
        self.trace: list[TraceRound] = []
        self.ended: str | None = None
        self.entry: Entry | None = None
        self.replayable = True
        """False once the policy has set a limit of its own on a phase: what is in time depends on the world."""
        self.known = 0
        """Rounds that need no training any more since the curve was opened."""
        self._scenario = scenario
        self._policy = scenario.policies[policy]
        self._label = scenario.labels[policy]
        self._seed = seed
        self._threads = threads
        self._keep_bytes = keep_bytes
        self._flops: float | None = None
        self._learner: Learner | None = None
        self._training: Training | None = None
        self._resumed: dict[str, Any] | None = None
        self._saved_s = monotonic()
        self._sealed = 0
        """Rounds that the store is known to hold."""
        if store is not None:
            self.entry = store.trace(learning or learning_digest(scenario, policy, seed))
            held = self.entry.read()
            if held is not None:
                self.trace, self._flops, self.ended = held
                self.known = self._sealed = len(self.trace)

    @property
    def flops_per_sample(self) -> float:
        """Of the model's forward pass; the devices' FLOP model needs it."""
        if self._flops is None:
            self._flops = self._build().flops_per_sample
        return self._flops

    def resume(self, trace: list[TraceRound], learning_state: dict[str, Any]) -> None:
        """Go on from a checkpoint of the caller's own instead."""
        self.trace, self._resumed, self.known = trace, learning_state, len(trace)

    def round(self, s: int) -> Flow:
        if s < len(self.trace):
            return (yield from Replay(self.trace).round(s))
        if self.ended is not None:
            raise Diverged(self.ended)
        try:
            return (yield from self._ready().round(s))
        except Diverged as error:
            self.ended = str(error)
            raise

    def remember(self, entry: TraceRound) -> None:
        """A round is over. Written to the store now and then, so that a kill costs little."""
        if entry.round == len(self.trace):
            self.trace.append(entry)
            if any(step.until is not None for step in entry.steps):
                self.entry, self.replayable = None, False
            if monotonic() - self._saved_s > SAVE_S:
                with suppress(StoreError):  # a full disk ends no training; the last `save` will say it
                    self.save()

    def save(self) -> None:
        """Leave in the store what was trained."""
        ended_here = self.ended is not None and self._training is not None
        self._saved_s = monotonic()
        if self.entry is not None and (len(self.trace) > self._sealed or ended_here):
            state = self.snapshot() if self.ended is None else None
            about = f"{self._label} tau={self._policy.tau} seed {self._seed} on {self._scenario.data.name}"
            self.entry.write(self.trace, self.flops_per_sample, self.ended, about, state, self._keep_bytes)
            self._sealed = len(self.trace)

    def snapshot(self) -> dict[str, Any]:
        """The learning state after the last round."""
        return self._ready().snapshot()

    def extend(self, rounds: int) -> None:
        """Train without a world until so many rounds are known, or none can follow."""
        if len(self.trace) < rounds and self.ended is None:
            clients, seed = self._scenario.clients, self._seed
            with suppress(Diverged):  # `ended` says it
                drive(self, Instant(clients), Remembering(self), _until(rounds), clients, seed, start=len(self.trace))
        if not self.replayable:
            raise ReplayRefused(f"policies: {self._policy.name} sets a limit of its own on a phase; run it live")
        self.save()

    def _build(self) -> Learner:
        if self._learner is None:
            from wflsim.learning.build import build

            spec = self._scenario
            self._learner = build(
                spec.data, spec.partition, spec.model, spec.train, spec.clients, self._seed, self._threads
            )
        return self._learner

    def _ready(self) -> Training:
        """The training, standing where the trace ends."""
        if self._training is None:
            from wflsim.drive.training import Training

            training = Training(self._policy, self._build(), self._seed, self._scenario.evaluate_every)
            rounds = self._restore(training)
            if rounds < len(self.trace):
                self._retrace(training, rounds)
            self._training = training
        return self._training

    def _restore(self, training: Training) -> int:
        """The round from which it can go on."""
        if self._resumed is not None:
            training.restore(self._resumed)
            return len(self.trace)
        saved = self.entry.checkpoint() if self.entry is not None and self.trace else None
        if saved is None or saved.rounds > len(self.trace):
            return 0
        training.restore(saved.learning)
        return saved.rounds

    def _retrace(self, training: Training, rounds: int) -> None:
        """Train rounds that are known, because the state after them was not kept. They must come out the same."""
        source, clients = Replay(self.trace[:rounds], then=training), self._scenario.clients
        drive(source, Instant(clients), _Same(self), _until(len(self.trace)), clients, self._seed, start=rounds)


class Remembering:
    """A sink that keeps the rounds of a curve, and nothing else."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve

    def round(self, entry: TraceRound, row: RoundRow, clients: list[ClientRow], legs: list[Leg]) -> None:
        self.curve.remember(entry)


class _Same:
    """A sink that insists on what is known."""

    def __init__(self, curve: Curve) -> None:
        self._curve = curve

    def round(self, entry: TraceRound, row: RoundRow, clients: list[ClientRow], legs: list[Leg]) -> None:
        if entry != self._curve.trace[entry.round]:
            place = self._curve.entry.folder if self._curve.entry else "the run's own trace"
            raise StoreError(
                f"trained again, round {entry.round} differs from what {place} remembers: it was made on another kind "
                f"of machine; remove it, it will be computed again"
            )


def _until(rounds: int) -> Any:
    return lambda row: "known" if row.round + 1 >= rounds else None
