"""Where finished runs are kept: with all their rows in folders (`wflsim run`), or as records in the store (sweeps)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import pandas as pd

from wflsim.analysis.tables import run_facts
from wflsim.errors import Diverged, StoreError
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run, world_of
from wflsim.files import Damaged, Mark, locked, write
from wflsim.records import FLEET, TRACE, FinishedRound, FleetRow, RoundRow, csv_lines, read_trace
from wflsim.results.folders import Standing, ended, leave_status, made_by, partition_name
from wflsim.results.rows import Tables, read_partition
from wflsim.results.store import Store
from wflsim.simulation import checkpoint
from wflsim.simulation.checkpoint import Checkpoint
from wflsim.simulation.loop import Sink, drive
from wflsim.simulation.stop import Stop
from wflsim.world.world import World


class InFolder(NamedTuple):
    """Keeps every run with all its rows in FOLDER/policy/seed-N, and goes on from its last checkpoint."""

    folder: Path
    root: Path
    """Folder of the store."""
    checkpoint_every_s: float | None = None
    """Seconds of training between two checkpoints; None: `checkpoint.INTERVAL_S`."""

    @property
    def store(self) -> Store:
        return Store(self.root)

    def place(self, run: Run) -> Path:
        """The folder of one run."""
        return self.folder / run.label / f"seed-{run.seed}"

    def key(self, run: Run) -> str:
        return str(self.place(run))

    def group(self, run: Run) -> str:
        return self.key(run)  # in one regime, hardly two runs share a training

    @contextmanager
    def locked(self, run: Run, wait: bool) -> Iterator[None]:
        place = self.place(run)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write in {place}: {error.strerror or error}; make room for it") from error
        with locked(place, wait):  # an orphan, whose parent was killed, may still be at work
            yield

    def record(self, run: Run) -> dict[str, Any] | None:
        place = self.place(run)
        with suppress(Damaged):  # then it is computed again
            return ended(place) if made_by(place, run.code) else None
        return None

    def compute(self, run: Run, training: CachedTraining, threads: int) -> dict[str, Any]:
        place = self.place(run)
        flops_per_sample = training.flops_per_sample  # builds data and model, if it must: before any file is touched
        world = world_of(run.scenario, run.seed, flops_per_sample, self._samples(run))
        tables, replayed, anew = self._tables(place, run, training)
        leave_status(place, Standing("running", "", "", run.code), {})

        def save(rounds: int, state: dict[str, Any]) -> None:
            checkpoint.save(place / checkpoint.NAME, Checkpoint(rounds, tables.marks(), state))

        training.save_by(save, self.checkpoint_every_s)
        write(place / FLEET, ",".join(FleetRow._fields) + "\n" + csv_lines(world.fleet))
        reason, ending = carry_through(run, training, world, tables.append)
        told = mode(run.why_live or training.because, min(replayed, tables.held), tables.held)
        told += anew + _deposit(training)
        marks = {**tables.marks(), FLEET: Mark.of_file(place / FLEET)}
        leave_status(place, Standing(ending, reason, told, run.code), marks)
        wall = {"wall_s": perf_counter() - training.opened_s, "threads": threads}
        write(place / "wall.json", json.dumps(wall) + "\n")
        checkpoint.forget(place / checkpoint.NAME)
        return {"status": ending, "reason": reason, "mode": told}

    def receive(self, run: Run, record: dict[str, Any]) -> None:
        if self.record(run) is None:
            raise StoreError(
                f"a worker computed {run.title}, but its rows are not in {self.place(run)}: all nodes of the pool must "
                f"share the file system of the result folder; name another folder with --out, or use --pool local"
            )

    def _samples(self, run: Run) -> list[int] | None:
        """Number of training samples of each client, as the folder's partition says; None if it is not there."""
        path = self.folder / partition_name(run.seed)
        if not path.is_file():
            return None
        return [int(count) for count in read_partition(path).groupby("client")["samples"].sum()]

    def _tables(self, place: Path, run: Run, training: CachedTraining) -> tuple[Tables, int, str]:
        """The tables to append to; the rounds that come from the store; and why the run was begun anew, if it was.

        A checkpoint is resumed if it knows more rounds than the store does.
        """
        anew = ""
        try:
            if not made_by(place, run.code):
                raise Damaged("the code of your own has changed since")
            saved = checkpoint.load(place / checkpoint.NAME)
            if saved and saved.rounds > len(training.trace):
                tables = Tables(place, saved.rounds, saved.marks)
                training.resume(read_trace(place / TRACE, saved.rounds), saved.learning)
                return tables, 0, ""
        except Damaged as error:
            anew = f" (begun anew: {error})"
        checkpoint.forget(place / checkpoint.NAME)  # it speaks of tables that begin anew
        return Tables(place), len(training.trace), anew


class InStore(NamedTuple):
    """Keeps a record of every run in the store: how it ended, its costs and its last accuracies, but no rows."""

    root: Path
    """Folder of the store."""

    @property
    def store(self) -> Store:
        return Store(self.root)

    def key(self, run: Run) -> str:
        return run.digest

    def group(self, run: Run) -> str:
        return run.learning if run.exact else run.digest

    def locked(self, run: Run, wait: bool) -> AbstractContextManager[None]:
        return self.store.computing(self.group(run), wait)

    def record(self, run: Run) -> dict[str, Any] | None:
        return self.store.record(run.digest)

    def compute(self, run: Run, training: CachedTraining, threads: int) -> dict[str, Any]:
        record = costs_of(run, training)
        self.store.keep_record(run.digest, record)
        return record

    def receive(self, run: Run, record: dict[str, Any]) -> None:
        if not self.store.has_record(run.digest):  # it was computed on another machine
            self.store.keep_record(run.digest, record)


def costs_of(run: Run, training: CachedTraining) -> dict[str, Any]:
    """Carry the training through the run's world, and return its record: `status`, `reason` and `facts`."""
    rows: list[RoundRow] = []

    def keep_row(finished: FinishedRound) -> None:
        rows.append(finished.row)

    world = world_of(run.scenario, run.seed, training.flops_per_sample)
    reason, ending = carry_through(run, training, world, keep_row)
    training.save()
    target = run.scenario.stop.target.model_dump() if run.scenario.stop.target else None
    frame = pd.DataFrame(rows, columns=list(RoundRow._fields))
    return {"status": ending, "reason": reason, "facts": run_facts(frame, target)}


def carry_through(run: Run, training: CachedTraining, world: World, sink: Sink) -> tuple[str, str]:
    """Carry the training through the run's world until its stop rule ends it: the reason, and "done" or "diverged"."""
    scenario = run.scenario

    def keep(finished: FinishedRound) -> None:
        sink(finished)
        training.remember(finished.trace)  # and now and then saves its state: after the rows, which it vouches for

    try:
        return drive(training, world, keep, Stop(scenario.stop), scenario.clients, run.seed), "done"
    except Diverged as error:
        return str(error), "diverged"


def mode(because: str | None, replayed: int, rounds: int) -> str:
    """The sentence of status.json that says which rounds were trained and which replayed, and why."""
    if because is not None:
        return f"live: trained in its own world, because {because}"
    exact = "nothing in this world can change the learning"
    if not replayed:
        return f"live: trained in its own world; {exact}, so the trace replays exactly in other regimes"
    if replayed >= rounds:
        return f"replay: all {rounds} rounds come from a trace in the store; {exact}"
    return f"replay of {replayed} rounds from the store, then trained on to {rounds}; {exact}"


def _deposit(training: CachedTraining) -> str:
    """Leave the trace in the store; words about it if it cannot be, for the run's results are complete without it."""
    try:
        training.save()
    except StoreError as error:
        return f" (the trace could not be kept: {error})"
    return ""
