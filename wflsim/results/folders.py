"""Result folders, read strictly: what was finished is believed only if its files are still what they were.

    runs/quickstart/run.json                  about the folder, with the seals of the tables and the scenario beside it
    runs/quickstart/drdm/seed-0/status.json   how this run ended, with the seals of its rows and its trace

Folders made before there were seals are accepted if their tables are whole: all lines complete, no round missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wflsim.errors import StoreError
from wflsim.files import Damaged, Mark, read_sealed, verify, write, write_sealed
from wflsim.records import FLEET, TABLES, TRACE, WRITTEN, ClientRow, RoundRow

ABOUT, SCENARIO, STATUS = "run.json", "scenario.yaml", "status.json"
RUNS_TABLE = "runs.csv"
"""The table of a run or sweep folder with a line per run."""
FORMER_RUNS_TABLE = "cells.csv"
"""Its name in the folder of a sweep that was made before version 0.2."""
LATER = (*ClientRow._field_defaults, *RoundRow._field_defaults, "peer", "saved_j", "co2e_g")
"""Columns that tables did not have in the first versions."""
ENDED = ("done", "diverged")
AGAIN = "call the same wflsim command again, it makes this anew and keeps what is whole"


def partition_name(seed: int) -> str:
    """Name of the table of a result folder that says who holds which samples with a seed."""
    return f"partition-seed-{seed}.csv"


def runs_table(folder: Path) -> str:
    """Name of the file with a line per run; a sweep folder made before version 0.2 has the former name."""
    former = (folder / FORMER_RUNS_TABLE).exists() and not (folder / RUNS_TABLE).exists()
    return FORMER_RUNS_TABLE if former else RUNS_TABLE


class Standing(NamedTuple):
    """How a run stands."""

    status: str
    reason: str
    mode: str
    """Which rounds were trained and which replayed, in a sentence."""
    code: Mapping[str, str]
    """Digests of the code that the user brought for it, a policy or a model; mostly empty."""


def leave_status(folder: Path, standing: Standing, files: Mapping[str, Mark]) -> None:
    """Write how the run in this folder stands; the marks of its files once it has ended."""
    held = {name: value for name, value in standing._asdict().items() if name != "code" or value}
    write(folder / STATUS, write_sealed(held, files))


def made_by(folder: Path, code: Mapping[str, str]) -> bool:
    """Whether what a run's folder holds was computed by this code of the user's, as far as there is any."""
    held = status(folder)
    return not held or held.get("code", {}) == code


def status(folder: Path) -> dict[str, Any]:
    """How the run in a folder stands (`status`, `reason`, `mode`); empty if it never began or cannot be read."""
    try:
        return read_sealed(folder / STATUS)[0]
    except Damaged:
        return {}


def ended(folder: Path) -> dict[str, Any] | None:
    """How a run ended, with all its files verified; None if it has not ended, `Damaged` if a file has changed since."""
    path = folder / STATUS
    if not path.exists():
        return None
    held, marks = read_sealed(path)
    if held.get("status") not in ENDED:
        return None
    if marks is None:
        _check_unsealed(folder)
        return held
    for name in (*TABLES, TRACE, *({FLEET} & set(marks))):  # the first versions left no fleet.csv
        verify(folder / name, marks[name])
    return held


def about(folder: Path) -> tuple[dict[str, Any], dict[str, Mark] | None]:
    """What run.json says, and its seals; StoreError with the cure if it is not there or damaged."""
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a result folder of wflsim: there is no such folder")
    if not (folder / ABOUT).exists():
        raise StoreError(f"{folder} is not a result folder of wflsim: {folder / ABOUT} is not there")
    try:
        return read_sealed(folder / ABOUT)
    except Damaged as error:
        raise Damaged(f"{error}; {AGAIN}") from error


def sealed_file(folder: Path, name: str, marks: Mapping[str, Mark] | None) -> Path:
    """The path of a file of the folder itself, verified where run.json has its seal; `Damaged` with the cure."""
    path = folder / name
    try:
        if marks and name in marks:
            verify(path, marks[name])
        elif not path.is_file():
            raise Damaged(f"{path} is not there")
    except Damaged as error:
        raise Damaged(f"{error}; {AGAIN}") from error
    return path


def columns_of(name: str) -> list[str]:
    """The columns of rounds.csv, clients.csv, legs.csv or fleet.csv."""
    return list(getattr(WRITTEN[name], "_fields"))  # noqa: B009


def _check_unsealed(folder: Path) -> None:
    """Of a run without a seal: every table has its header and whole lines, and the rounds follow each other."""
    rounds = _column(folder / "rounds.csv")
    if rounds != list(range(len(rounds))):
        raise Damaged(f"{folder / 'rounds.csv'} is damaged: its rounds do not follow each other")
    for name in ("clients.csv", "legs.csv"):
        if not set(_column(folder / name)) <= set(rounds):
            raise Damaged(f"{folder / name} is damaged: it tells of rounds that {folder / 'rounds.csv'} does not hold")
    if (folder / TRACE).exists() and len(_lines(folder / TRACE)) != len(rounds):
        raise Damaged(f"{folder / TRACE} is damaged: it does not hold the {len(rounds)} rounds of rounds.csv")


def _column(path: Path) -> list[int]:
    """The first column of a table, the round; `Damaged` unless every line has all its fields."""
    fields = columns_of(path.name)
    header, *lines = _lines(path) or [b""]
    if header.count(b",") < len(fields) - 1:
        fields = [field for field in fields if field not in LATER]
    if header.decode("utf-8", "replace") != ",".join(fields):
        raise Damaged(f"{path} is damaged: it does not begin with its header")
    if any(line.count(b",") != len(fields) - 1 for line in lines):
        raise Damaged(f"{path} is damaged: a line has too few or too many fields")
    try:
        return [int(line.split(b",", 1)[0]) for line in lines]
    except ValueError:
        raise Damaged(f"{path} is damaged: a line does not begin with its round") from None


def _lines(path: Path) -> list[bytes]:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
    if body and not body.endswith(b"\n"):
        raise Damaged(f"{path} is damaged: its last line is cut off")
    return body.split(b"\n")[:-1]
