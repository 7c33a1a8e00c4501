"""The walk of one scenario: policies x seeds, each a cell with a folder of its own, in one or several processes."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from joblib import Parallel, delayed

from wflsim.curve import Curve, why_live
from wflsim.errors import Diverged, ScenarioError, StoreError, WflsimError
from wflsim.files import locked, write
from wflsim.learning.data import load as load_data
from wflsim.learning.partition import class_counts, divide
from wflsim.record import TRACE, ClientRow, Leg, RoundRow, Tables, TraceRound, csv_lines
from wflsim.scenario import Given, Scenario, dump, load, slug
from wflsim.store import Store
from wflsim.tables import Results

if TYPE_CHECKING:
    from wflsim.drive.checkpoint import Saving
    from wflsim.drive.loop import Sink

RUNS = Path("runs")
ENDED = ("done", "diverged")


class Cell(NamedTuple):
    """One policy with one seed."""

    scenario: Scenario
    policy: int
    seed: int
    folder: Path


def run(
    scenario: Given, out: str | Path | None = None, workers: int | None = None, fresh: bool = False
) -> Results:
    """Run what is not yet there of a scenario, and return its tables. Killed and called again, it goes on."""
    scenario = load(scenario)
    if scenario.sweep is not None:
        raise ScenarioError("sweep: this scenario has many regimes; use wflsim.run_sweep(scenario) for it")
    folder = Path(out) if out is not None else RUNS / slug(scenario.name)
    with opened(scenario, folder, fresh):
        todo = [cell for cell in cells(scenario, folder) if status(cell.folder).get("status") not in ENDED]
        for seed in scenario.seeds:
            leave_partition(scenario, folder / f"partition-seed-{seed}.csv", seed)
        workers = max(1, min(workers or os.cpu_count() or 1, len(todo)))
        threads = max(1, (os.cpu_count() or 1) // workers)
        if workers == 1:
            for cell in todo:
                run_cell(cell, threads)
        else:
            Parallel(n_jobs=workers, backend="loky")(delayed(run_cell)(cell, threads) for cell in todo)
        results = Results(folder)
        write(folder / "summary.csv", results.summary.to_csv(index=False))
        write(folder / "runs.csv", results.runs.to_csv(index=False))
        write(folder / "world.csv", results.world.to_csv(index=False))
    return results


def cells(scenario: Scenario, folder: Path) -> list[Cell]:
    """Every (policy, seed); seeds outermost, so that a half-finished run compares policies on the same seeds."""
    return [
        Cell(scenario, i, seed, folder / label / f"seed-{seed}")
        for seed in scenario.seeds
        for i, label in enumerate(scenario.labels)
    ]


def leave_partition(scenario: Scenario, path: Path, seed: int) -> None:
    """Who holds how much of which class; also finds out whether the data is there, before any process starts."""
    if path.exists():
        return
    data = load_data(scenario.data, scenario.clients, seed)
    owned = divide(scenario.partition, data, scenario.clients, seed)
    train = class_counts(owned.train, data.train.y, data.classes)
    test = class_counts(owned.test, data.test.y, data.classes)
    rows = [(i, c, train[i, c], test[i, c]) for i in range(scenario.clients) for c in range(data.classes)]
    write(path, "client,class,samples,test_samples\n" + csv_lines(rows))


def run_cell(cell: Cell, threads: int = 1, checkpoint_interval_s: float | None = None) -> str:
    """Train one policy with one seed in its world, resuming if a checkpoint is there. Returns why it ended."""
    cell.folder.mkdir(parents=True, exist_ok=True)
    with locked(cell.folder, wait=True):
        # Waiting for the lock of an orphan whose parent was killed, somebody else has done the work.
        held = status(cell.folder)
        if held.get("status") in ENDED:
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
    saved = checkpoint.load(cell.folder / checkpoint.NAME)
    if saved and saved.rounds > len(curve.trace):
        curve.resume(read_trace(cell.folder / TRACE, saved.rounds), saved.learning)
        tables = Tables(cell.folder, saved.rounds, saved.marks)
        replayed = 0
    else:
        (cell.folder / checkpoint.NAME).unlink(missing_ok=True)  # it speaks of tables that begin anew
        tables = Tables(cell.folder)
        replayed = len(curve.trace)
    mark(cell.folder, "running", "", "")
    world = World(scenario.world, scenario.clients, cell.seed, flops_per_sample)
    interval_s = checkpoint.INTERVAL_S if checkpoint_interval_s is None else checkpoint_interval_s
    sink = _Sink(tables, checkpoint.Saving(tables, curve, interval_s), curve)
    try:
        reason, ending = drive(curve, world, sink, Stop(scenario.stop), scenario.clients, cell.seed), "done"
    except Diverged as error:
        reason, ending = str(error), "diverged"
    because = because or curve.because
    mark(cell.folder, ending, reason, mode(because, min(replayed, sink.rounds), sink.rounds) + _deposit(curve))
    write(cell.folder / "wall.json", json.dumps({"wall_s": perf_counter() - began_s, "threads": threads}) + "\n")
    (cell.folder / checkpoint.NAME).unlink(missing_ok=True)
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


@contextmanager
def opened(scenario: Scenario, folder: Path, fresh: bool, **more: Any) -> Iterator[None]:
    """The run folder, explaining itself: resolved scenario, versions, status. One process at a time."""
    try:
        if fresh and (folder / "run.json").exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write in {folder}: {error.strerror or error}; choose another with --out") from error
    with locked(folder):
        _refuse_foreign(scenario, folder)
        write(folder / "scenario.yaml", dump(scenario))
        about = {"name": scenario.name, **more, "labels": scenario.labels, "seeds": list(scenario.seeds)}
        about |= provenance()
        write(folder / "run.json", json.dumps({**about, "status": "running"}, indent=2) + "\n")
        ending = "interrupted"
        try:
            yield
            ending = "done"
        except WflsimError:
            ending = "failed"
            raise
        finally:
            write(folder / "run.json", json.dumps({**about, "status": ending}, indent=2) + "\n")


def _refuse_foreign(scenario: Scenario, folder: Path) -> None:
    """A folder holds one scenario; only its list of seeds may grow or shrink."""
    held = folder / "scenario.yaml"
    if not held.exists():
        return
    if load(held).model_copy(update={"seeds": scenario.seeds}) != scenario:
        raise StoreError(
            f"{folder} holds the results of another version of this scenario; keep them and name another folder with "
            f"--out, or replace them with --fresh"
        )


def provenance() -> dict[str, Any]:
    """Versions and git hash: what a reader needs to make the same numbers again."""
    packages = ("wflsim", "torch", "numpy", "simpy", "scipy")
    try:
        git = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        git = ""
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "machine": platform.machine(),
        "git": git or None,
    }


def status(folder: Path) -> dict[str, Any]:
    """How the run in a cell's folder stands; empty if it never began."""
    try:
        held: dict[str, Any] = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return held


def mark(folder: Path, ending: str, reason: str, mode: str) -> None:
    write(folder / "status.json", json.dumps({"status": ending, "reason": reason, "mode": mode}) + "\n")
