"""Writing and reading the tables of one run.

Tables are append-only, and a kill leaves them whole up to the last checkpoint. They are read back all of it or with an
error, or without the lines that are damaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wflsim.errors import StoreError
from wflsim.files import Damaged, Mark, new_hash
from wflsim.records import TABLES, TRACE, WRITTEN, FinishedRound, csv_lines, trace_to_json
from wflsim.results.folders import AGAIN, LATER, columns_of

TEXT = {"activity", "outcome", "compute", "modem"}
"""Columns that hold words; all others hold numbers or nothing."""
MAY_BE_EMPTY = {
    name for row in WRITTEN.values() for name, kind in get_type_hints(row).items() if type(None) in get_args(kind)
}
"""Columns of numbers in which nothing stands where there is nothing to say."""
INTEGERS = ("round", "client", "phase")
HUGE = 1e30
"""No quantity of ours is larger: beyond it, a digit was lost."""
MANY = 1e6
"""No run has more rounds or clients: beyond it, a digit was lost."""


def read_rows(path: Path) -> pd.DataFrame:
    """A table that was verified or checked; StoreError with the cure if it is not one, or holds no numbers."""
    fields = columns_of(path.name)
    try:
        frame = _with_later_columns(pd.read_csv(path), fields)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read as a table ({str(error).strip().splitlines()[0]}); {AGAIN}") from error
    if absent := [column for column in fields if column not in frame.columns]:
        raise StoreError(f"{path} is damaged: no column {', '.join(absent)}; {AGAIN}")
    for field in fields:
        if field not in TEXT and not pd.api.types.is_numeric_dtype(frame[field]) and frame[field].notna().any():
            raise StoreError(f"{path} is damaged: column {field} holds something that is no number; {AGAIN}")
    return frame


def read_whole_rows(path: Path, fields: Sequence[str]) -> tuple[pd.DataFrame, int]:
    """The rows of a table that have all they need, and how many do not. OSError or ValueError if it is no table."""
    try:
        frame = pd.read_csv(path)
    except pd.errors.ParserError:
        # a line with too many fields: two writers, or a torn page. What follows it may still be good.
        frame = pd.read_csv(path, on_bad_lines="skip")
    frame = _with_later_columns(frame, fields)
    if absent := [field for field in fields if field not in frame.columns]:
        raise ValueError(f"no column {', '.join(absent)}")
    frame = frame[list(fields)]
    whole = _whole(frame, fields)
    kept = frame if whole.all() else frame[whole].reset_index(drop=True)
    return kept.astype({field: int for field in INTEGERS if field in fields}), int((~whole).sum())


def _with_later_columns(frame: pd.DataFrame, fields: Sequence[str]) -> pd.DataFrame:
    """The table with empty columns where its version of wflsim did not have them yet."""
    return frame.assign(**{name: np.nan for name in LATER if name in fields and name not in frame.columns})


def _whole(frame: pd.DataFrame, fields: Sequence[str]) -> NDArray[np.bool_]:
    """Which rows have all they need; columns that held a stray word become numbers on the way."""
    numeric = [field for field in fields if field not in TEXT]
    whole = frame[[field for field in fields if field in TEXT]].notna().to_numpy().all(axis=1)
    for field in numeric:
        if not pd.api.types.is_numeric_dtype(frame[field]):
            given = frame[field].notna()
            frame[field] = pd.to_numeric(frame[field], errors="coerce")
            whole &= (frame[field].notna() | ~given).to_numpy()
    values = frame[numeric].to_numpy(float)
    needed = np.array([field not in MAY_BE_EMPTY for field in numeric])
    counts = values[:, [field in INTEGERS for field in numeric]]
    whole &= ~np.isnan(values[:, needed]).any(axis=1) & ~(np.abs(values) > HUGE).any(axis=1)
    return np.asarray(whole & ~((counts < 0) | (counts > MANY)).any(axis=1))


def read_partition(path: Path) -> pd.DataFrame:
    """How many samples of which class each client holds; OSError, ValueError or KeyError if the file does not say."""
    frame = pd.read_csv(path, dtype={"class": str}, keep_default_na=False, na_values={"samples": ""})
    frame = frame.astype({"client": int, "samples": float})
    if not frame["samples"].between(0, HUGE).all() or not (frame["samples"] > 0).any():
        raise ValueError("not counts of samples")
    return frame.astype({"test_samples": int}) if "test_samples" in frame else frame


def why(error: Exception) -> str:
    """Why a file could not be read, in a few words."""
    if isinstance(error, FileNotFoundError):
        return "not there"
    if isinstance(error, UnicodeDecodeError):
        return "not readable as text"
    text = str(getattr(error, "strerror", None) or error).strip()
    return text.splitlines()[0][:160] if text else type(error).__name__


ELSEWHERE = "make room for it, or name another folder with --out"
"""What to do where no results can be written."""


class Tables:
    """The append-only files of one run (one policy, one seed), a sink for the loop.

    `marks` say what the files held after `held` rounds: what lies behind was written by a process that died before its
    next checkpoint, and is cut off. Rounds below `held` come from a replayed prefix and are on disk already. `Damaged`
    if a file does not begin with what its mark promises; then nothing has been touched.
    """

    def __init__(self, folder: Path, held: int = 0, marks: Mapping[str, Mark] | None = None) -> None:
        self.folder = folder
        self.held = held
        self._hashes = {name: new_hash() for name in (*TABLES, TRACE)}
        self._sizes = dict.fromkeys(self._hashes, 0)
        if marks is not None:
            for name in self._hashes:
                self._take_up(name, marks[name])
        for name, kind in {**TABLES, TRACE: None}.items():
            header = ",".join(getattr(kind, "_fields")) + "\n" if kind and marks is None else ""  # noqa: B009
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot make {folder}: {error.strerror or error}; {ELSEWHERE}") from error
            self._append(name, header, ELSEWHERE)

    def append(self, finished: FinishedRound) -> None:
        """Append one round to every table, unless it is there already."""
        number = finished.trace.round
        if number < self.held:
            return
        texts = {
            "rounds.csv": csv_lines([finished.row]),
            "clients.csv": csv_lines(finished.clients),
            "legs.csv": csv_lines(finished.legs),
            TRACE: trace_to_json(finished.trace) + "\n",
        }
        cure = f"rounds before {number} are safe, the same command goes on from the last checkpoint"
        for name, text in texts.items():
            self._append(name, text, cure)
        self.held = number + 1

    def marks(self) -> dict[str, Mark]:
        """Size and checksum of every file now: for a checkpoint, and for the seal when the run has ended."""
        return {name: Mark(size, self._hashes[name].hexdigest()) for name, size in self._sizes.items()}

    def _append(self, name: str, text: str, cure: str) -> None:
        """Append to a file, and cut off first what a process that died left behind its mark."""
        path, body = self.folder / name, text.encode()
        try:
            with path.open("ab") as file:
                file.truncate(self._sizes[name])
                file.write(body)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror or error}; {cure}") from error
        self._hashes[name].update(body)
        self._sizes[name] += len(body)

    def _take_up(self, name: str, mark: Mark) -> None:
        """Feed the hash with what is there already."""
        path = self.folder / name
        try:
            with path.open("rb") as file:
                while chunk := file.read(min(1 << 20, mark.size - self._sizes[name])):
                    self._hashes[name].update(chunk)
                    self._sizes[name] += len(chunk)
        except OSError as error:
            raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
        if self.marks()[name] != mark:
            raise Damaged(f"{path} is damaged: it does not begin with what its checkpoint promises")
