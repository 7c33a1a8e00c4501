"""Reading the tables of one run: all of it or an error, or without the lines that are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wflsim.errors import StoreError
from wflsim.records import WRITTEN
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
