"""Cached training: what one policy learns with one seed, read from the store as far as it is known, trained beyond.

To the loop it is both replay and training, so that a run in one world leaves what a run in another world reads. That is
exact only where the world does not change the learning. What a scenario promises is not enough: every outcome is
examined, and from the first order that is not delivered on, the training leaves the store and goes on live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from wflsim.errors import Diverged, ReplayRefused, StoreError
from wflsim.experiments.plan import Run, without_time
from wflsim.records import Evaluation, FinishedRound, RoundRow, Step, TraceRound
from wflsim.results.store import KEEP_BYTES, Entry, Store
from wflsim.simulation import checkpoint
from wflsim.simulation.loop import Flow, drive
from wflsim.simulation.replay import Replay, undelivered

if TYPE_CHECKING:
    from wflsim.learning.learner import Learner
    from wflsim.simulation.training import Training

Save = Callable[[int, dict[str, Any]], None]
"""Saves the learning state after so many rounds."""


class CachedTraining:
    """Demands of the server, round by round: from the trace in the store, then from training."""

    def __init__(self, run: Run, store: Store | None, threads: int = 1, keep_bytes: int = KEEP_BYTES) -> None:
        """Open the trace of the run. `store`: None where the world can change the learning."""
        self.trace: list[TraceRound] = []
        """The rounds known so far."""
        self.ended: str | None = None
        """Why there can be no further round: the training diverged in it."""
        self.entry: Entry | None = None
        """The place of the trace in the store; None once the learning belongs to one world only."""
        self.because: str | None = None
        """Why what is learnt here holds in no other world; None as long as nothing says so."""
        self.known = 0
        """Rounds that need no training since the trace was opened."""
        self.opened_s = perf_counter()
        """Wall clock when the trace was opened, in seconds."""
        self._scenario = run.scenario
        self._policy = run.scenario.policies[run.policy]
        self._label = run.label
        self._seed = run.seed
        self._threads = threads
        self._keep_bytes = keep_bytes
        self._flops: float | None = None
        self._learner: Learner | None = None
        self._training: Training | None = None
        self._resumed: dict[str, Any] | None = None
        self._unfinished: int | None = None
        """The round under way; still so when it is remembered, if the world ended in the middle of it."""
        self._save: Save | None = None
        self._save_every_s = checkpoint.INTERVAL_S
        self._saved_s = monotonic()
        self._stored = 0
        """Rounds that the store is known to hold."""
        if store is not None:
            self.entry = store.trace(run.learning)
            held = self.entry.read()
            if held is not None:
                self.trace, self._flops, self.ended = held
                self.known = self._stored = len(self.trace)

    @property
    def replayable(self) -> bool:
        """Whether what was learnt so far holds in every world that delivers all orders."""
        return self.because is None

    @property
    def flops_per_sample(self) -> float:
        """Floating-point operations of the model's forward pass for one sample."""
        if self._flops is None:
            self._flops = self._build().flops_per_sample
        return self._flops

    def resume(self, trace: list[TraceRound], learning_state: dict[str, Any]) -> None:
        """Go on from a checkpoint of the run itself instead of the store."""
        self.trace, self._resumed, self.known = trace, learning_state, len(trace)

    def save_by(self, save: Save, every_s: float | None = None) -> None:
        """While training, save the learning state by `save` and not in the store."""
        self._save = save
        if every_s is not None:
            self._save_every_s = every_s

    def round(self, s: int) -> Flow:
        self._unfinished = s
        evaluation = yield from self._known_round(s) if s < len(self.trace) else self._trained_round(s)
        self._unfinished = None
        return evaluation

    def _known_round(self, s: int) -> Flow:
        """A round of the trace. One that was made elsewhere is trained here from the first failed order on."""
        known, carried = self.trace[s], list[Any]()
        if known.pace is not None:
            yield known.pace
        for step in known.steps:
            carried.append((yield step))
            if undelivered(carried[-1]) is not None:
                if self._resumed is None:
                    self._return_to(s)
                    return (yield from self._trained_round(s, known.steps, carried))
                self._examine(step, carried[-1], s)
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
            if not isinstance(demand, Step):  # a question that leaves no trace
                answer = yield demand
                continue
            step, answer = done.pop(0) if done else (demand, (yield demand))
            if step != demand:
                raise self._differs(s)
            self._examine(step, answer, s)

    def _examine(self, step: Step, answer: Any, s: int) -> None:
        """Leave the store if the outcome of this step could have been another in another world."""
        if step.until is not None:
            self._leave_store(f"policies: {self._policy.name} sets a limit of its own on a phase")
        if (failed := undelivered(answer)) is not None:
            self._leave_store(f"in round {s} the order of client {failed.client} was {failed.fate}")

    def _leave_store(self, because: str) -> None:
        """From here on this is the learning of one world, and no other may read it."""
        self.entry = None
        self.because = self.because or because

    def _return_to(self, s: int) -> None:
        """Forget what the trace says from round s on, and bring the training there."""
        self.trace, self.known, self.ended = self.trace[:s], min(self.known, s), None
        self._training = self._learner = None  # it may stand at the end of the trace
        self._ready()

    def remember(self, entry: TraceRound) -> None:
        """Append a finished round to the trace; now and then save the learning state, so that a kill costs little."""
        if self._unfinished == entry.round:
            self._leave_store(f"in round {entry.round} nobody was left to serve")
        if entry.round != len(self.trace):
            return
        self.trace.append(entry)
        if monotonic() - self._saved_s < self._save_every_s:
            return
        if self._save is not None:
            self._save(len(self.trace), self._ready().snapshot())
        else:
            with suppress(StoreError):  # a full disk ends no training; the last `save` will say it
                self.save()
        self._saved_s = monotonic()

    def save(self) -> None:
        """Leave in the store what was trained."""
        ended_here = self.ended is not None and self._training is not None
        if self.entry is not None and (len(self.trace) > self._stored or ended_here):
            state = self._ready().snapshot() if self.ended is None else None
            about = f"{self._label} tau={self._policy.tau} seed {self._seed} on {self._scenario.data.name}"
            self.entry.write(self.trace, self.flops_per_sample, self.ended, about, state, self._keep_bytes)
            self._stored = len(self.trace)

    def extend(self, rounds: int) -> None:
        """Train without a world until so many rounds are known, or none can follow."""
        if len(self.trace) < rounds and self.ended is None:
            clients, seed = self._scenario.clients, self._seed

            def keep(finished: FinishedRound) -> None:
                self.remember(finished.trace)

            with suppress(Diverged):  # `ended` says it
                carrier = without_time(self._scenario, self._policy, seed)
                drive(self, carrier, keep, _until(rounds), clients, seed, start=len(self.trace))
        if self.because is not None:
            raise ReplayRefused(f"{self.because}; run it live")
        self.save()

    def _differs(self, s: int) -> StoreError:
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
            from wflsim.simulation.training import Training

            training = Training(self._policy, self._build(), self._seed, self._scenario.evaluate_every)
            rounds = self._restore(training)
            if rounds < len(self.trace):
                self._retrain(training, rounds)
            self._training = training
        return self._training

    def _restore(self, training: Training) -> int:
        """Bring the training to the last saved state, and return the round from which it can go on."""
        if self._resumed is not None:
            training.restore(self._resumed)
            return len(self.trace)
        saved = self.entry.checkpoint() if self.entry is not None and self.trace else None
        if saved is None or saved.rounds > len(self.trace):
            return 0
        training.restore(saved.learning)
        return saved.rounds

    def _retrain(self, training: Training, rounds: int) -> None:
        """Train rounds that are known, because the state after them was not kept. They must come out the same."""
        demands, clients = Replay(self.trace[:rounds], then=training), self._scenario.clients

        def compare(finished: FinishedRound) -> None:
            if finished.trace != self.trace[finished.trace.round]:
                raise self._differs(finished.trace.round)

        carrier = without_time(self._scenario, self._policy, self._seed)
        drive(demands, carrier, compare, _until(len(self.trace)), clients, self._seed, start=rounds)


def _until(rounds: int) -> Callable[[RoundRow], str | None]:
    """A stop rule: so many rounds."""
    return lambda row: "known" if row.round + 1 >= rounds else None
