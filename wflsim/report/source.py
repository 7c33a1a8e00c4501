"""Folders as they are: whole, half-finished or damaged. Reads what can be read, and keeps a list of what could not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from wflsim.errors import StoreError
from wflsim.folders import ABOUT, AGAIN, SCENARIO, STATUS, TEXT, columns_of, ended, sealed_file, status
from wflsim.seal import Damaged, Mark, read_sealed
from wflsim.tables import FINALS, Results

MAY_BE_EMPTY = {"average", "worst", "std", "worst10", "jain", "loss", "accuracy", "lam", "snr_db", "rate_bps"}
WORLD = ("policy", "seed", "failed_orders", "failures", "dead_clients", "lifetime_rounds")
INTEGERS = ("round", "client", "phase")
HUGE = 1e30
MANY = 1e6
"""No quantity of ours is huge and no run has so many rounds or clients: beyond it, a digit was lost."""


class Folder(Results):
    """A results folder of any kind, read as far as it goes. `missing` says in sentences what was not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.missing: list[str] = []
        if not self.folder.is_dir():
            raise StoreError(f"{self.folder} is not a folder")
        self.about, self._marks = self._opened()
        self.scenario = self._mapping(SCENARIO, yaml.safe_load)
        self.kind = str(self.about.get("kind", "run"))
        self.labels = self._labels()
        self.world = pd.DataFrame(columns=list(WORLD))
        """Failed orders and dead batteries of each run; filled in by whoever reads the legs."""
        self.target = self._target()

    @property
    def name(self) -> str:
        return str(self.scenario.get("name") or self.about.get("name") or self.folder.name)

    def _opened(self) -> tuple[dict[str, Any], dict[str, Mark] | None]:
        """run.json and its seals; empty, and said in `missing`, where it cannot be believed."""
        try:
            return read_sealed(self.folder / ABOUT)
        except Damaged as error:
            self.missing.append(f"{error}; {AGAIN}")
            return {}, None

    def _labels(self) -> list[str]:
        """The policies by run.json; where that is lost, by the folders that hold runs."""
        held = self.about.get("labels")
        if isinstance(held, list):
            return [str(label) for label in held]
        return sorted({path.parent.name for path in self.folder.glob("*/seed-*")})

    @cached_property
    def cells(self) -> dict[tuple[str, int], Path]:
        """(policy, seed) -> folder of that run, only those whose rounds can be read."""
        return {key: path for key, path in self._promised().items() if self._rounds_of[key] is not None}

    @cached_property
    def rounds(self) -> pd.DataFrame:
        frames = [
            frame.assign(policy=label, seed=seed)
            for (label, seed), frame in self._rounds_of.items()
            if frame is not None
        ]
        if not frames:
            raise StoreError(f"{self.folder} holds no round that can be read")
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def status(self) -> pd.DataFrame:
        """How each run ended; a run without a readable status.json is not in it."""
        rows = [
            {"policy": label, "seed": seed, "status": "", "reason": "", **status(path)}
            for (label, seed), path in self.cells.items()
        ]
        return pd.DataFrame(rows)

    def rows(self, key: tuple[str, int], table: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """One run's clients or legs; empty, and said in `missing`, where they cannot be read."""
        frame = self._read(self.cells[key] / f"{table}.csv", columns)
        return frame if frame is not None else pd.DataFrame(columns=list(columns or columns_of(f"{table}.csv")))

    def frame(self, name: str, needed: Sequence[str]) -> pd.DataFrame | None:
        """A table of the folder itself (cells.csv, map.csv, ...), if it is there with the columns it needs."""
        path = self.folder / name
        try:
            frame = pd.read_csv(sealed_file(self.folder, name, self._marks))
        except Damaged as error:
            self.missing.append(str(error))
            return None
        except (OSError, ValueError) as error:
            self.missing.append(f"{self._short(path)}: {_why(error)}")
            return None
        if absent := [column for column in needed if column not in frame.columns]:
            self.missing.append(f"{self._short(path)}: no column {', '.join(absent)}")
            return None
        if not len(frame):
            self.missing.append(f"{self._short(path)}: no rows")
            return None
        return frame

    @cached_property
    def partitions(self) -> dict[int, pd.DataFrame]:
        """seed -> samples of each class at each client, where the folder holds them."""
        found: dict[int, pd.DataFrame] = {}
        beside = {seed: path / "partition.csv" for (_, seed), path in reversed(self.cells.items())}
        on_top = {int(path.stem.rsplit("-", 1)[1]): path for path in self.folder.glob("partition-seed-[0-9]*.csv")}
        for seed, path in sorted({**beside, **on_top}.items()):
            if not path.exists():
                continue
            try:
                if path.parent == self.folder:
                    sealed_file(self.folder, path.name, self._marks)
                frame = pd.read_csv(path, dtype={"class": str}, keep_default_na=False, na_values={"samples": ""})
                frame = frame.astype({"client": int, "samples": float})
                if not frame["samples"].between(0, HUGE).all() or not (frame["samples"] > 0).any():
                    raise ValueError("not counts of samples")
                if "test_samples" in frame:
                    frame = frame.astype({"test_samples": int})
                found[seed] = frame
            except (OSError, ValueError, KeyError, StoreError) as error:
                self.missing.append(f"{path}: {_why(error)}")
        return found

    @cached_property
    def test_samples(self) -> list[int]:
        """Of each client with the first seed; empty if the folder does not say."""
        frame = next((frame for frame in self.partitions.values() if "test_samples" in frame), None)
        return [] if frame is None else [int(count) for count in frame.groupby("client")["test_samples"].sum()]

    @cached_property
    def _rounds_of(self) -> dict[tuple[str, int], pd.DataFrame | None]:
        promised = self._promised().items()
        return {key: self._read(path / "rounds.csv") if self._sound(path) else None for key, path in promised}

    def _sound(self, path: Path) -> bool:
        """Whether a run may be shown; one that was sealed and damaged since is left out, and said in `missing`."""
        try:
            if (path / STATUS).exists():
                if read_sealed(path / STATUS)[1] is not None:
                    ended(path)
            elif self._marks is not None and self.about.get("status") == "done":
                raise Damaged(f"{path / STATUS} is not there any more")
        except Damaged as error:
            self.missing.append(f"{self._short(path)} is left out: {error}; {AGAIN}")
            return False
        return True

    def _promised(self) -> dict[tuple[str, int], Path]:
        """What run.json announces and what is there, in the order of policies."""
        there = {
            (path.parent.name, int(path.name[5:])): path
            for path in self.folder.glob("*/seed-*")
            if path.is_dir() and path.name[5:].isdecimal()
        }
        held = self.about.get("seeds")
        announced = [seed for seed in held if isinstance(seed, int)] if isinstance(held, list) else []
        keys = {(label, seed) for label in self.labels for seed in announced}
        keys |= {key for key in there if key[0] in self.labels}
        order = {label: i for i, label in enumerate(self.labels)}
        return {
            key: there.get(key, self.folder / key[0] / f"seed-{key[1]}")
            for key in sorted(keys, key=lambda key: (order[key[0]], key[1]))
        }

    def _read(self, path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame | None:
        """A table of ours with damaged lines left out; None, with a line in `missing`, if nothing is left."""
        fields = list(columns or columns_of(path.name))
        try:
            frame = _read_csv(path, fields)
        except (OSError, ValueError) as error:
            self.missing.append(f"{self._short(path)}: {_why(error)}")
            return None
        whole = _whole(frame, fields)
        if not whole.all():
            self.missing.append(f"{self._short(path)}: {int((~whole).sum())} damaged rows left out")
            frame = frame[whole].reset_index(drop=True)
        if not len(frame):
            self.missing.append(f"{self._short(path)}: no rows")
            return None
        return frame.astype({field: int for field in INTEGERS if field in fields})

    def _mapping(self, name: str, parse: Any) -> dict[str, Any]:
        path = self.folder / name
        try:
            if self._marks and name in self._marks:
                sealed_file(self.folder, name, self._marks)
            held = parse(path.read_text(encoding="utf-8"))
        except Damaged as error:
            self.missing.append(str(error))
            return {}
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            self.missing.append(f"{self._short(path)}: {_why(error)}")
            return {}
        if isinstance(held, dict):
            return held
        self.missing.append(f"{self._short(path)}: not a mapping")
        return {}

    def _target(self) -> dict[str, Any] | None:
        stop = self.scenario.get("stop")
        target = stop.get("target") if isinstance(stop, dict) else None
        if target is None:
            return None
        try:
            metric, accuracy = target["metric"], float(target["accuracy"])
            hold, window = int(target.get("hold", 1)), int(target.get("window", 1))
        except (AttributeError, KeyError, TypeError, ValueError):
            metric, accuracy, hold, window = "", 0.0, 0, 0
        if metric not in FINALS or hold < 1 or window < 1:
            self.missing.append(f"scenario.yaml: stop.target is not readable: {str(target)[:80]}")
            return None
        return {"metric": metric, "accuracy": accuracy, "hold": hold, "window": window}

    def _short(self, path: Path) -> str:
        return str(path.relative_to(self.folder.parent)) if path.is_relative_to(self.folder.parent) else str(path)


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


def _read_csv(path: Path, fields: list[str]) -> pd.DataFrame:
    try:
        return pd.read_csv(path, usecols=fields)
    except pd.errors.ParserError:
        # a line with too many fields: two writers, or a torn page. What follows it may still be good.
        return pd.read_csv(path, usecols=fields, on_bad_lines="skip")


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "not there"
    if isinstance(error, UnicodeDecodeError):
        return "not readable as text"
    text = str(getattr(error, "strerror", None) or error).strip()
    return text.splitlines()[0][:160] if text else type(error).__name__
