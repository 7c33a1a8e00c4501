"""Computing a plan: runs that share one training are computed together, in a pool, each failure tried once more.

Where a finished run is kept decides what is computed of it. `InFolder` keeps all its rows in a folder of its own
(`wflsim run`), `InStore` keeps a record of its costs in the store (sweeps and tuning). `watching_runs` tells
now and then how far a long computation is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from wflsim.errors import WflsimError
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run
from wflsim.experiments.pool import in_words, open_pool, persist
from wflsim.results.store import Store

POLL_S = 0.5
"""Seconds between two counts of what is finished."""


class Tick(NamedTuple):
    """How far a computation is."""

    doing: str
    """What is under way, in a few words."""
    done: int
    at_most: int
    """`done` when everything is finished, unless a target or early stopping ends it sooner."""
    unit: str
    """What is counted: rounds or runs."""


Watch = Callable[[Tick], None]


@contextmanager
def repeating(call: Callable[[], None], every_s: float = POLL_S) -> Iterator[None]:
    """Call a function every so many seconds, in a thread of its own, until the block ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def watching_runs(doing: str, digests: Sequence[str], store: Store, watch: Watch) -> Iterator[None]:
    """Tell `watch` how many of these runs are in the store, by whomever they were computed, until the block ends."""
    total = len(set(digests))
    missing = set(digests)

    def tell() -> None:
        nonlocal missing
        missing = {digest for digest in missing if not store.has_record(digest)}
        watch(Tick(doing, total - len(missing), total, "runs"))

    tell()
    with repeating(tell):
        yield


class Keeper(Protocol):
    """Keeps finished runs, and computes those that are missing. It travels to worker processes."""

    @property
    def store(self) -> Store:
        """Where traces are kept."""

    def key(self, run: Run) -> str:
        """Name of a run; runs of the same name are computed once."""

    def group(self, run: Run) -> str:
        """Name of the group of runs that one process computes together."""

    def locked(self, run: Run, wait: bool) -> AbstractContextManager[None]:
        """Hold the run's group for this process; `Busy` if another process has it and `wait` is false."""

    def record(self, run: Run) -> dict[str, Any] | None:
        """How a finished run ended (`status`, `reason`, ...); None if it is not finished."""

    def compute(self, run: Run, training: CachedTraining, threads: int) -> dict[str, Any]:
        """Compute a run, keep it, and return its record."""

    def receive(self, run: Run, record: dict[str, Any]) -> None:
        """Keep the record of a run that a worker has computed, where the worker could not."""


class Group(NamedTuple):
    """Runs that one process computes one after the other, because they share a training."""

    keeper: Keeper
    runs: tuple[Run, ...]
    threads: int


class Finished(NamedTuple):
    """How a run of the plan ended."""

    key: str
    record: dict[str, Any] | None
    failure: WflsimError | None
    """Why there is no record."""


def compute(runs: Sequence[Run], keeper: Keeper, workers: int | None, pool: str = "local") -> dict[str, Finished]:
    """Every run by its key: found finished, or computed now. A run that fails is tried once more, then reported."""
    done: dict[str, Finished] = {}
    missing: dict[str, Run] = {}
    for run in runs:
        key = keeper.key(run)
        if key not in done and key not in missing:
            record = keeper.record(run)
            if record is None:
                missing[key] = run
            else:
                done[key] = Finished(key, record, None)
    grouped: dict[str, list[Run]] = {}
    for run in missing.values():
        grouped.setdefault(keeper.group(run), []).append(run)
    workers = max(1, min(workers or os.cpu_count() or 1, len(grouped)))
    # With fewer groups than cores, each may use several threads: results do not depend on it.
    threads = max(1, (os.cpu_count() or 1) // workers) if pool == "local" else 1
    groups = [Group(keeper, tuple(group), threads) for group in grouped.values()]
    with open_pool(pool, workers) as opened:
        for number, answer in persist(opened, compute_group, groups, _incomplete):
            for finished in _received(groups[number], answer):
                done[finished.key] = finished
    return done


def compute_group(group: Group, wait: bool) -> list[Finished]:
    """Compute the runs of a group that are missing. One that fails does not stop the others."""
    keeper = group.keeper
    done: list[Finished] = []
    with keeper.locked(group.runs[0], wait):
        training: CachedTraining | None = None
        for run in group.runs:
            key = keeper.key(run)
            try:
                record = keeper.record(run)  # by now, another process may have computed it
                if record is None:
                    if training is None or not (run.exact and training.replayable):
                        training = CachedTraining(run, keeper.store if run.exact else None, group.threads)
                    record = keeper.compute(run, training, group.threads)
                done.append(Finished(key, record, None))
            except Exception as error:
                training = None  # it may stand in the middle of a round
                done.append(Finished(key, None, _portable(error)))
    return done


def _incomplete(answer: list[Finished] | Exception) -> bool:
    """Whether a run of the group failed."""
    return isinstance(answer, Exception) or any(finished.failure is not None for finished in answer)


def _received(group: Group, answer: list[Finished] | Exception) -> Iterator[Finished]:
    """The runs of a group, after its worker has answered or died."""
    keeper = group.keeper
    answered = {} if isinstance(answer, Exception) else {finished.key: finished for finished in answer}
    for run in group.runs:
        key = keeper.key(run)
        try:
            if isinstance(answer, Exception):
                record = keeper.record(run)  # it may have been finished before its worker died
                yield Finished(key, record, None if record is not None else _portable(answer))
                continue
            held = answered[key].record
            if held is not None:
                keeper.receive(run, held)
            yield answered[key]
        except WflsimError as error:
            yield Finished(key, None, error)


def _portable(error: Exception) -> WflsimError:
    """The error as one of ours: a stranger's exception may not survive the way to another process."""
    return error if isinstance(error, WflsimError) else WflsimError(in_words(error))
