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
from typing import Any, NamedTuple

from joblib import Parallel, delayed

from wflsim.errors import Diverged, StoreError, WflsimError
from wflsim.scenario import Scenario, dump, slug
from wflsim.tables import Results

RUNS = Path("runs")
ENDED = ("done", "diverged")


class Cell(NamedTuple):
    """One policy with one seed."""

    scenario: Scenario
    policy: int
    seed: int
    folder: Path


def run(
    scenario: Scenario, out: str | Path | None = None, workers: int | None = None, fresh: bool = False
) -> Results:
    """Run what is not yet there of a scenario, and return its tables. Killed and called again, it goes on."""
    folder = Path(out) if out is not None else RUNS / slug(scenario.name)
    with opened(scenario, folder, fresh):
        todo = [cell for cell in cells(scenario, folder) if status(cell.folder).get("status") not in ENDED]
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
    return results


def cells(scenario: Scenario, folder: Path) -> list[Cell]:
    """Every (policy, seed); seeds outermost, so that a half-finished run compares policies on the same seeds."""
    return [
        Cell(scenario, i, seed, folder / label / f"seed-{seed}")
        for seed in scenario.seeds
        for i, label in enumerate(scenario.labels)
    ]


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
    # torch comes in here and not above: reading scenarios and results must not wait for it
    from wflsim.drive import checkpoint
    from wflsim.drive.loop import drive
    from wflsim.drive.replay import Replay
    from wflsim.drive.stop import Stop
    from wflsim.drive.training import Training
    from wflsim.learning.build import build
    from wflsim.record import Tables, read_trace
    from wflsim.world.carrier import World

    scenario, policy = cell.scenario, cell.scenario.policies[cell.policy]
    began_s = perf_counter()
    learner = build(
        scenario.data, scenario.partition, scenario.model, scenario.train, scenario.clients, cell.seed, threads
    )
    training = Training(policy, learner, cell.seed, scenario.evaluate_every)
    saved = checkpoint.load(cell.folder / checkpoint.NAME)
    if saved:
        training.restore(saved.learning)
        tables = Tables(cell.folder, saved.rounds, saved.marks)
        source: Any = Replay(read_trace(cell.folder / "trace.jsonl", saved.rounds), then=training)
    else:
        tables, source = Tables(cell.folder), training
    mark(cell.folder, "running", "")
    world = World(scenario.world, scenario.clients, cell.seed, learner.flops_per_sample)
    interval_s = checkpoint.INTERVAL_S if checkpoint_interval_s is None else checkpoint_interval_s
    sink = checkpoint.Saving(tables, training, interval_s)
    try:
        reason, ending = drive(source, world, sink, Stop(scenario.stop), scenario.clients, cell.seed), "done"
    except Diverged as error:
        reason, ending = str(error), "diverged"
    mark(cell.folder, ending, reason)
    write(cell.folder / "wall.json", json.dumps({"wall_s": perf_counter() - began_s, "threads": threads}) + "\n")
    (cell.folder / checkpoint.NAME).unlink(missing_ok=True)
    return reason


@contextmanager
def opened(scenario: Scenario, folder: Path, fresh: bool) -> Iterator[None]:
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
        about = {"name": scenario.name, "labels": scenario.labels, "seeds": list(scenario.seeds), **provenance()}
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
    from wflsim.scenario import load

    if load(held).model_copy(update={"seeds": scenario.seeds}) != scenario:
        raise StoreError(
            f"{folder} holds the results of another version of this scenario; keep them and name another folder with "
            f"--out, or replace them with --fresh"
        )


@contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """Hold a folder for this process; freed by the system however the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows has no advisory locks: there, two runs into one folder are the user's own risk
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"{folder} is in use by another wflsim run; wait for it, or use --out") from None
        yield


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


def mark(folder: Path, ending: str, reason: str) -> None:
    write(folder / "status.json", json.dumps({"status": ending, "reason": reason}) + "\n")


def write(path: Path, text: str) -> None:
    """Beside and renamed: whoever reads sees the old file or the new one."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
