"""The walk of one scenario: policies x seeds, each a cell with a folder of its own, in one or several processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from wflsim.curve import Curve, why_live
from wflsim.engines import engine, in_words, persist
from wflsim.errors import Diverged, ScenarioError, StoreError, WflsimError
from wflsim.files import locked, write
from wflsim.folders import ended, leave_status, status
from wflsim.learning.data import load as load_data
from wflsim.learning.partition import class_counts, divide
from wflsim.opening import opened
from wflsim.record import TRACE, ClientRow, Leg, RoundRow, Tables, TraceRound, csv_lines
from wflsim.scenario import Given, Scenario, load, slug
from wflsim.seal import Damaged, Mark
from wflsim.store import Store
from wflsim.tables import Results

if TYPE_CHECKING:
    from wflsim.drive.checkpoint import Saving
    from wflsim.drive.loop import Sink

__all__ = ["RUNS", "Cell", "cells", "locked", "opened", "run", "run_cell", "status"]

RUNS = Path("runs")
Say = Callable[[str], None]


class Cell(NamedTuple):
    """One policy with one seed."""

    scenario: Scenario
    policy: int
    seed: int
    folder: Path

    @property
    def title(self) -> str:
        """What the run is called in sentences."""
        return f"{self.folder.parent.name} seed {self.seed}"


class Job(NamedTuple):
    """What one process does at a stretch: one run, with so many threads."""

    cell: Cell
    threads: int


def run(
    scenario: Given,
    out: str | Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
    say: Say = lambda words: None,
) -> Results:
    """Run what is not yet there of a scenario, and return its tables. Killed and called again, it goes on.

    A run that fails is tried twice and stops no other; the error comes when all others are finished. `say` is told
    which finished runs are computed again because a file of theirs was damaged.
    """
    scenario = load(scenario)
    if scenario.sweep is not None:
        raise ScenarioError("sweep: this scenario has many regimes; use wflsim.run_sweep(scenario) for it")
    folder = Path(out) if out is not None else RUNS / slug(scenario.name)
    with opened(scenario, folder, fresh) as sealed:
        every = cells(scenario, folder)
        todo = [cell for cell in every if not _finished(cell, say)]
        for seed in scenario.seeds:
            name = f"partition-seed-{seed}.csv"
            if name not in sealed:
                leave_partition(scenario, folder / name, seed)
                sealed[name] = Mark.of_file(folder / name)
        failed = _compute(todo, workers)
        if failed:
            raise _failure(failed, len(every), folder)
        results = Results(folder)
        write(folder / "summary.csv", results.summary.to_csv(index=False))
        write(folder / "runs.csv", results.runs.to_csv(index=False))
        write(folder / "world.csv", results.world.to_csv(index=False))
    return results


def _finished(cell: Cell, say: Say) -> bool:
    """Whether the run has ended and its files are what they were then."""
    try:
        return ended(cell.folder) is not None
    except Damaged as error:
        say(f"{cell.title} is computed again: {error}")
        return False


def _compute(todo: Sequence[Cell], workers: int | None) -> dict[str, Exception]:
    """Compute the runs; what could not be computed, by its title, with what went wrong the second time."""
    workers = max(1, min(workers or os.cpu_count() or 1, len(todo)))
    threads = max(1, (os.cpu_count() or 1) // workers)
    failed: dict[str, Exception] = {}
    with engine("local", workers) as runner:
        for number, answer in persist(runner, work, [Job(cell, threads) for cell in todo]):
            if isinstance(answer, Exception):
                failed[todo[number].title] = answer
    return failed


def work(job: Job) -> str:
    """One run. A stranger's exception may not survive the way to another process, so it becomes a sentence here."""
    try:
        return run_cell(job.cell, job.threads)
    except WflsimError:
        raise
    except Exception as error:
        raise WflsimError(in_words(error)) from error


def _failure(failed: dict[str, Exception], runs: int, folder: Path) -> WflsimError:
    """One error for all runs that failed, of their kind if they are of one kind; equal reasons are said once."""
    reasons: dict[str, list[str]] = {}
    for title, error in failed.items():
        reasons.setdefault(in_words(error), []).append(title)
    sentences = [f"{', '.join(titles)} failed twice: {reason}" for reason, titles in reasons.items()]
    kinds = {type(error) for error in failed.values()}
    kind = kinds.pop() if len(kinds) == 1 else WflsimError
    kept = f"{runs - len(failed)} of {runs} runs are finished and kept in {folder}; the same command tries the rest"
    return (kind if issubclass(kind, WflsimError) else WflsimError)("\n".join([*sentences, kept]))


def cells(scenario: Scenario, folder: Path) -> list[Cell]:
    """Every (policy, seed); seeds outermost, so that a half-finished run compares policies on the same seeds."""
    return [
        Cell(scenario, i, seed, folder / label / f"seed-{seed}")
        for seed in scenario.seeds
        for i, label in enumerate(scenario.labels)
    ]


def leave_partition(scenario: Scenario, path: Path, seed: int) -> None:
    """Who holds how much of which class; also finds out whether the data is there, before any process starts."""
    data = load_data(scenario.data, scenario.clients, seed)
    owned = divide(scenario.partition, data, scenario.clients, seed)
    train = class_counts(owned.train, data.train.y, data.classes)
    test = class_counts(owned.test, data.test.y, data.classes)
    rows = [(i, c, train[i, c], test[i, c]) for i in range(scenario.clients) for c in range(data.classes)]
    write(path, "client,class,samples,test_samples\n" + csv_lines(rows))


def run_cell(cell: Cell, threads: int = 1, checkpoint_interval_s: float | None = None) -> str:
    """Train one policy with one seed in its world, resuming if a checkpoint is there. Returns why it ended."""
    try:
        cell.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write in {cell.folder}: {error.strerror or error}; make room for it") from error
    with locked(cell.folder, wait=True):
        # Waiting for the lock of an orphan whose parent was killed, somebody else has done the work.
        with suppress(Damaged):
            held = ended(cell.folder)
            if held is not None:
                return str(held["reason"])
        return _train(cell, threads, checkpoint_interval_s)


def _train(cell: Cell, threads: int, checkpoint_interval_s: float | None) -> str:
    from wflsim.drive import checkpoint
    from wflsim.drive.loop import drive
    from wflsim.drive.stop import Stop
    from wflsim.record import read_trace
    from wflsim.world.carrier import World

    scenario, policy = cell.scenario, cell.scenario.policies[cell.policy]
    began_s = perf_counter()
    because = why_live(scenario.world, policy)
    curve = Curve(scenario, cell.policy, cell.seed, None if because else Store(), threads)
    flops_per_sample = curve.flops_per_sample
    tables, replayed, anew = None, 0, ""
    try:
        saved = checkpoint.load(cell.folder / checkpoint.NAME)
        if saved and saved.rounds > len(curve.trace):
            tables = Tables(cell.folder, saved.rounds, saved.marks)
            curve.resume(read_trace(cell.folder / TRACE, saved.rounds), saved.learning)
    except Damaged as error:
        anew = f" (begun anew: {error})"
    if tables is None:
        checkpoint.forget(cell.folder / checkpoint.NAME)  # it speaks of tables that begin anew
        tables, replayed = Tables(cell.folder), len(curve.trace)
    leave_status(cell.folder, "running", "", "", {})
    world = World(scenario.world, scenario.clients, cell.seed, flops_per_sample)
    interval_s = checkpoint.INTERVAL_S if checkpoint_interval_s is None else checkpoint_interval_s
    sink = _Sink(tables, checkpoint.Saving(tables, curve, interval_s), curve)
    try:
        reason, ending = drive(curve, world, sink, Stop(scenario.stop), scenario.clients, cell.seed), "done"
    except Diverged as error:
        reason, ending = str(error), "diverged"
    because = because or curve.because
    told = mode(because, min(replayed, sink.rounds), sink.rounds) + anew + _deposit(curve)
    leave_status(cell.folder, ending, reason, told, tables.marks())
    write(cell.folder / "wall.json", json.dumps({"wall_s": perf_counter() - began_s, "threads": threads}) + "\n")
    checkpoint.forget(cell.folder / checkpoint.NAME)
    return reason


class _Sink:
    """Tables for all rounds, checkpoints for those that were trained here."""

    def __init__(self, tables: Tables, saving: Saving, curve: Curve) -> None:
        self._tables = tables
        self._saving = saving
        self._curve = curve
        self.rounds = 0

    def round(self, entry: TraceRound, row: RoundRow, clients: list[ClientRow], legs: list[Leg]) -> None:
        rows: Sink = self._tables if entry.round < self._curve.known else self._saving
        rows.round(entry, row, clients, legs)
        self._curve.remember(entry)
        self.rounds = entry.round + 1


def mode(because: str | None, replayed: int, rounds: int) -> str:
    """Which learner and carrier told the story, and why."""
    if because is not None:
        return f"live: trained in its own world, because {because}"
    exact = "nothing in this world can change the learning"
    if not replayed:
        return f"live: trained in its own world; {exact}, so the trace replays exactly in other regimes"
    if replayed >= rounds:
        return f"replay: all {rounds} rounds come from a trace in the store; {exact}"
    return f"replay of {replayed} rounds from the store, then trained on to {rounds}; {exact}"


def _deposit(curve: Curve) -> str:
    """The results are complete without the store: a store that cannot be written to is said, not suffered from."""
    try:
        curve.save()
    except StoreError as error:
        return f" (the trace could not be kept: {error})"
    return ""
