"""The learning of one policy with one seed: remembered as far as the store knows it, trained on where it does not.

As a source for the loop a curve is both replay and training, so that a run in one world leaves what a run in another
world reads. That is exact only where the world does not change the learning. What a world promises is not enough: a
curve looks at every outcome, and from the first order that is not delivered on it leaves the store and trains live.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from wflsim.digest import learning_digest
from wflsim.drive.loop import Flow, Instant, drive
from wflsim.drive.replay import Replay, refuse_inexact, undelivered
from wflsim.errors import Diverged, ReplayRefused, StoreError
from wflsim.exchange import Draw
from wflsim.policies.base import Policy
from wflsim.record import ClientRow, Evaluation, Leg, RoundRow, Step, TraceRound
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
        self.because: str | None = None
        """Why what is learnt here holds in no other world; None as long as nothing says so."""
        self.known = 0
        """Rounds that need no training since the curve was opened."""
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
        self._unfinished: int | None = None
        """The round under way; still so when it is remembered, if the world ended in the middle of it."""
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
    def replayable(self) -> bool:
        """Whether what was learnt so far holds in every world that delivers all orders."""
        return self.because is None

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
        self._unfinished = s
        evaluation = yield from self._known_round(s) if s < len(self.trace) else self._trained_round(s)
        self._unfinished = None
        return evaluation

    def _known_round(self, s: int) -> Flow:
        """A round of the trace. One that was made elsewhere is trained here from the first failed order on."""
        known, carried = self.trace[s], list[Any]()
        for step in known.steps:
            carried.append((yield step))
            if undelivered(carried[-1]) is not None:
                if self._resumed is None:
                    self._stand_at(s)
                    return (yield from self._trained_round(s, known.steps, carried))
                self._look_at(step, carried[-1], s)
        return known.evaluation

    def _trained_round(self, s: int, known: Sequence[Step] = (), carried: Sequence[Any] = ()) -> Flow:
        """A round by training. `carried`: the answers to its first steps, which were taken from the trace (`known`)."""
        if self.ended is not None:
            raise Diverged(self.ended)
        flow, answer = self._ready().round(s), None
        done = list(zip(known, carried, strict=False))
        while True:
            try:
                demand = flow.send(answer)
            except StopIteration as over:
                evaluation: Evaluation | None = over.value
                return evaluation
            except Diverged as error:
                self.ended = str(error)
                raise
            if isinstance(demand, Draw):
                answer = yield demand
                continue
            step, answer = done.pop(0) if done else (demand, (yield demand))
            if step != demand:
                raise self.differs(s)
            self._look_at(step, answer, s)

    def _look_at(self, step: Step, answer: Any, s: int) -> None:
        """Find out from what happened whether this round could have been another in another world."""
        if step.until is not None:
            self._leave_store(f"policies: {self._policy.name} sets a limit of its own on a phase")
        if (failed := undelivered(answer)) is not None:
            self._leave_store(f"in round {s} the order of client {failed.client} was {failed.fate}")

    def _leave_store(self, because: str) -> None:
        """From here on this is the learning of one world, and no other may read it."""
        self.entry = None
        self.because = self.because or because

    def _stand_at(self, s: int) -> None:
        """Forget what the trace says from round s on, and bring the training there."""
        self.trace, self.known, self.ended = self.trace[:s], min(self.known, s), None
        self._training = self._learner = None  # it may stand at the end of the trace
        self._ready()

    def remember(self, entry: TraceRound) -> None:
        """A round is over. Written to the store now and then, so that a kill costs little."""
        if self._unfinished == entry.round:
            self._leave_store(f"in round {entry.round} nobody was left to serve")
        if entry.round == len(self.trace):
            self.trace.append(entry)
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
        if self.because is not None:
            raise ReplayRefused(f"{self.because}; run it live")
        self.save()

    def differs(self, s: int) -> StoreError:
        """The error for a round that came out otherwise when it was trained again."""
        place = self.entry.folder if self.entry else "the run's own trace"
        return StoreError(
            f"trained again, round {s} differs from what {place} remembers: it was made on another kind of machine; "
            f"remove it, it will be computed again"
        )

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
            raise self._curve.differs(entry.round)


def _until(rounds: int) -> Any:
    return lambda row: "known" if row.round + 1 >= rounds else None
