"""Opening a result folder to write in it: whose it is, what of it is still whole, and what made it."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wflsim.door import recorded
from wflsim.errors import StoreError, WflsimError
from wflsim.files import Damaged, Mark, locked, read_sealed, verify, write, write_sealed
from wflsim.results.digest import brought_code
from wflsim.results.folders import ABOUT, SCENARIO
from wflsim.scenario import Scenario, dump, load
from wflsim.scenario.differences import ABSENT, differences

SEALED = (".csv", ".txt", ".yaml")
"""Kinds of files of the folder itself whose checksums run.json keeps."""
MANY = 6
"""Differing keys that are named one by one; the rest is counted."""


@contextmanager
def opened(scenario: Scenario, folder: Path, fresh: bool, **more: Any) -> Iterator[dict[str, Mark]]:
    """Hold the folder for this process while a scenario's results are made; run.json and scenario.yaml explain it.

    Yields the marks of files that were sealed before and are still the same. At the end run.json seals what is there.
    """
    try:
        if fresh and (folder / ABOUT).exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write in {folder}: {error.strerror or error}; choose another with --out") from error
    with locked(folder):
        before = _seals(folder)
        _refuse_foreign(scenario, folder, before.get(SCENARIO))
        sealed = dict(_unchanged(folder, before))
        write(folder / SCENARIO, dump(scenario))
        sealed[SCENARIO] = Mark.of_file(folder / SCENARIO)
        about = {"name": scenario.name, **more, "labels": scenario.labels, "seeds": list(scenario.seeds)}
        if code := {label: found for i, label in enumerate(scenario.labels) if (found := brought_code(scenario, i))}:
            about["code"] = code
        about |= provenance()
        write(folder / ABOUT, write_sealed({**about, "status": "running"}, sealed))
        ending = "interrupted"
        try:
            yield sealed
            made = sorted(path for path in folder.iterdir() if path.suffix in SEALED and path.is_file())
            sealed = {path.name: Mark.of_file(path) for path in made}
            ending = "done"
        except WflsimError:
            ending = "failed"
            raise
        except OSError as error:
            ending = "failed"
            said = f"cannot read or write {error.filename or folder}: {error.strerror or error}"
            raise StoreError(f"{said}; make room for it, or name another folder with --out") from error
        finally:
            write(folder / ABOUT, write_sealed({**about, "status": ending}, sealed))


def _seals(folder: Path) -> dict[str, Mark]:
    """What run.json vouches for; nothing if it is not there, damaged or from before there were seals."""
    try:
        return read_sealed(folder / ABOUT)[1] or {}
    except Damaged:
        return {}


def _unchanged(folder: Path, before: Mapping[str, Mark]) -> Iterator[tuple[str, Mark]]:
    """The files that are still what they were; damaged ones are removed, for they are all made again from the runs."""
    for name, mark in before.items():
        try:
            verify(folder / name, mark)
            yield name, mark
        except Damaged:
            with suppress(OSError):
                (folder / name).unlink()


def _refuse_foreign(scenario: Scenario, folder: Path, mark: Mark | None) -> None:
    """A folder holds one scenario; only its list of seeds may grow or shrink. `mark`: of the scenario.yaml it had."""
    if mark == Mark.of(dump(scenario).encode()):
        return
    held = folder / SCENARIO
    cure = "keep them and name another folder with --out, or replace them with --fresh"
    if not held.exists():
        if mark is None and not any(folder.glob("*/seed-*/rounds.csv")):
            return
        raise StoreError(f"{held} is not there, so nobody knows which scenario the results in {folder} are of; {cure}")
    try:
        if mark is not None:
            verify(held, mark)
        with recorded():
            there = load(held)
    except WflsimError as error:
        raise StoreError(
            f"{held} cannot be read, so nobody knows which scenario the results in {folder} are of ({error}); {cure}"
        ) from error
    changed = _changed(there.model_copy(update={"seeds": scenario.seeds}), scenario)
    if changed:
        raise StoreError(
            f"{folder} holds the results of another version of this scenario ({'; '.join(changed)}); {cure}"
        )


def _changed(there: Scenario, here: Scenario) -> list[str]:
    """A phrase for every key with another value: "stop.rounds: 6 there, 8 here"; empty if the scenarios are equal."""
    documents = [each.model_dump(mode="json") for each in (there, here)]
    for document, each in zip(documents, (there, here), strict=True):
        document["policies"] = dict(zip(each.labels, document["policies"], strict=True))
    old, new = differences(documents)
    found = [f"{key}: {_said(value)} there, {_said(new[key])} here" for key, value in old.items()]
    return found if len(found) <= MANY else [*found[:MANY], f"and {len(found) - MANY} other keys"]


def _said(value: str) -> str:
    return "nothing" if value == ABSENT else value


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
