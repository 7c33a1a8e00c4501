"""The one reader of result folders, of `run`, sweeps and `tune`.

Strict, it believes only what is whole: anything damaged, and a run that is not finished, is a StoreError with its cure.
Forgiving, it reads what can be read, and keeps a list of what could not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from wflsim.errors import StoreError
from wflsim.files import Damaged, Mark, read_sealed
from wflsim.results.folders import ABOUT, AGAIN, SCENARIO, STATUS, about, columns_of, ended, sealed_file, status
from wflsim.results.rows import read_partition, read_rows, read_whole_rows, why

METRICS = ("average", "worst", "std", "worst10", "jain")
"""Columns of rounds.csv that a target may name."""
RunKey = tuple[str, int]
"""Label of the policy, and seed."""


class FolderReader:
    """A result folder of any kind.

    `strict`: whether damage is an error, or a sentence in `missing`. `partial`: whether runs that have not ended are
    left out where a strict reader would refuse the folder; a folder without runs, that is of tuning, is refused then.
    """

    def __init__(self, folder: str | Path, strict: bool = True, partial: bool = False) -> None:
        self.folder = Path(folder)
        self.strict = strict
        self._partial = partial
        self.missing: list[str] = []
        """What could not be read, in sentences."""
        if not strict and not self.folder.is_dir():
            raise StoreError(f"{self.folder} is not a folder")
        self.about, self.marks = self._open()
        self.kind = str(self.about.get("kind", "run"))
        """Kind of the folder: run, sweep or tune."""
        if partial and self.kind not in ("run", "sweep"):
            joined = "compare joins the folders of `wflsim run`, sweeps included"
            raise StoreError(f"{self.folder} holds a {self.kind}; {joined}")
        self.scenario = self._read_scenario()
        self.labels = self._read_labels()
        """Labels of the policies, in the scenario's order."""
        self.target = self._read_target()
        """metric, accuracy, hold and window of stop.target, if the scenario has one."""

    @property
    def name(self) -> str:
        """Name of the scenario, or of the folder where that is lost."""
        return str(self.scenario.get("name") or self.about.get("name") or self.folder.name)

    @cached_property
    def run_folders(self) -> dict[RunKey, Path]:
        """Folder of every run that can be read, in the scenario's order of policies, then of seeds.

        Strict: all have ended and are verified, and StoreError if one that run.json announces has not. Forgiving: all
        whose rounds can be read.
        """
        if not self.strict:
            return {key: path for key, path in self._promised().items() if self._rounds_of[key] is not None}
        if self.unfinished and not self._partial:
            named = ", ".join(self.unfinished[:4]) + (", ..." if len(self.unfinished) > 4 else "")
            raise StoreError(
                f"{self.folder}: {len(self.unfinished)} of {len(self.unfinished) + len(self.ended)} runs are not "
                f"finished ({named}); the same `wflsim run` goes on with them, and `wflsim report {self.folder}` shows "
                f"what there is"
            )
        if not self.ended:
            raise StoreError(f"{self.folder} holds no finished run yet")
        return self.ended

    @cached_property
    def ended(self) -> dict[RunKey, Path]:
        """Folder of every run that has ended, each verified; `Damaged` with the cure if a file has changed since."""
        found = {}
        for key, path in self._promised().items():
            try:
                if ended(path) is not None:
                    found[key] = path
            except Damaged as error:
                raise Damaged(f"{error}; {AGAIN}") from error
        return found

    @property
    def unfinished(self) -> list[str]:
        """The runs that run.json announces and that have not ended, as "drdm seed 1"."""
        announced = [(label, seed) for label in dict.fromkeys(self.labels) for seed in self._announced]
        return [f"{label} seed {seed}" for label, seed in announced if (label, seed) not in self.ended]

    @cached_property
    def status(self) -> pd.DataFrame:
        """How each run ended (`status`, `reason`, `mode`); empty words where its status.json cannot be read."""
        rows = [
            {"policy": label, "seed": seed, "status": "", "reason": "", **status(path)}
            for (label, seed), path in self.run_folders.items()
        ]
        return pd.DataFrame(rows)

    def rows(self, key: RunKey, table: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The rounds, clients or legs of one run, with these columns (all, if None); empty where they are missing."""
        frame = self._read_rows(self.run_folders[key] / f"{table}.csv", columns)
        return frame if frame is not None else pd.DataFrame(columns=list(columns or columns_of(f"{table}.csv")))

    def all_rows(self, table: str) -> pd.DataFrame:
        """The rounds, clients or legs of all runs, with columns `policy` and `seed` in front."""
        frames = []
        for label, seed in self.run_folders:
            known = self._rounds_of[label, seed] if table == "rounds" and not self.strict else None
            frame = self.rows((label, seed), table) if known is None else known.copy()
            frame.insert(0, "policy", label)
            frame.insert(1, "seed", seed)
            frames.append(frame)
        if not frames:
            raise StoreError(f"{self.folder} holds no round that can be read")
        return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)

    def table(self, name: str, needed: Sequence[str]) -> pd.DataFrame | None:
        """A table of the folder itself (runs.csv, map.csv, ...) with these columns; None, if missing and forgiving."""
        path = self.folder / name
        try:
            frame = pd.read_csv(sealed_file(self.folder, name, self.marks))
        except Damaged as error:
            if self.strict:
                raise
            self.missing.append(str(error))
            return None
        except (OSError, ValueError) as error:
            self._fault(path, f"cannot be read as a table ({why(error)})" if self.strict else why(error))
            return None
        absent = [column for column in needed if column not in frame.columns]
        if absent or not len(frame):
            self._fault(path, f"no column {', '.join(absent)}" if absent else "no rows")
            return None
        return frame

    @cached_property
    def partitions(self) -> dict[int, pd.DataFrame]:
        """seed -> samples of each class at each client, where the folder holds them."""
        found: dict[int, pd.DataFrame] = {}
        places: dict[int, Path] = {}
        if not self.strict:  # folders of the first versions held one in every run
            places = {seed: path / "partition.csv" for (_, seed), path in reversed(self.run_folders.items())}
        names = {path.name for path in self.folder.glob("partition-seed-*.csv")} | set(self.marks or ())
        numbers = {name: name.removeprefix("partition-seed-").removesuffix(".csv") for name in names}
        places |= {int(number): self.folder / name for name, number in numbers.items() if number.isdecimal()}
        for seed, path in sorted(places.items()):
            if not path.exists() and not self.strict:
                continue
            try:
                if path.parent == self.folder:
                    sealed_file(self.folder, path.name, self.marks)
                found[seed] = read_partition(path)
            except Damaged as error:
                if self.strict:
                    raise
                self.missing.append(f"{path}: {why(error)}")
            except (OSError, ValueError, KeyError) as error:
                self._fault(path, why(error))
        return found

    @cached_property
    def test_samples(self) -> list[int]:
        """Test samples of each client with the first seed; empty if the folder does not say."""
        frame = next((frame for frame in self.partitions.values() if "test_samples" in frame), None)
        return [] if frame is None else [int(count) for count in frame.groupby("client")["test_samples"].sum()]

    def _fault(self, path: Path, what: str) -> None:
        """Something of the folder is damaged: a StoreError with the cure, or a sentence in `missing`."""
        if self.strict:
            raise StoreError(f"{path} is damaged: {what}; {AGAIN}")
        self.missing.append(f"{self._short(path)}: {what}")

    def _short(self, path: Path) -> str:
        return str(path.relative_to(self.folder.parent)) if path.is_relative_to(self.folder.parent) else str(path)

    def _open(self) -> tuple[dict[str, Any], dict[str, Mark] | None]:
        """run.json, and the marks of the files that it vouches for."""
        if self.strict:
            return about(self.folder)
        try:
            return read_sealed(self.folder / ABOUT)
        except Damaged as error:
            self.missing.append(f"{error}; {AGAIN}")
            return {}, None

    def _read_scenario(self) -> dict[str, Any]:
        """scenario.yaml as plain containers; empty if it cannot be read."""
        path = self.folder / SCENARIO
        try:
            if self.strict or (self.marks and SCENARIO in self.marks):
                sealed_file(self.folder, SCENARIO, self.marks)
            held = yaml.safe_load(path.read_text(encoding="utf-8"))
        except Damaged as error:
            if self.strict:
                raise
            self.missing.append(str(error))
            return {}
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            self._fault(path, why(error))
            return {}
        if not isinstance(held, dict):
            self._fault(path, "not a mapping")
            return {}
        return held

    def _read_labels(self) -> list[str]:
        """Labels by run.json; where that is lost, by the folders that hold runs."""
        held = self.about.get("labels")
        if isinstance(held, list):
            return [str(label) for label in held]
        if self.strict:
            raise StoreError(f"{self.folder} is not a run folder of wflsim: {ABOUT} names no policies")
        return sorted({path.parent.name for path in self.folder.glob("*/seed-*")})

    def _read_target(self) -> dict[str, Any] | None:
        stop = self.scenario.get("stop")
        target = stop.get("target") if isinstance(stop, dict) else None
        if target is None:
            return None
        try:
            metric, accuracy = target["metric"], float(target["accuracy"])
            hold, window = int(target.get("hold", 1)), int(target.get("window", 1))
        except (AttributeError, KeyError, TypeError, ValueError):
            metric, accuracy, hold, window = "", 0.0, 0, 0
        if metric not in METRICS or hold < 1 or window < 1:
            words = f"stop.target is not readable: {str(target)[:80]}"
            if self.strict:
                raise StoreError(f"{self.folder / SCENARIO} is damaged: {words}; {AGAIN}")
            self.missing.append(f"{SCENARIO}: {words}")
            return None
        return {"metric": metric, "accuracy": accuracy, "hold": hold, "window": window}

    @property
    def _announced(self) -> list[int]:
        """The seeds that run.json names."""
        held = self.about.get("seeds")
        return [seed for seed in held if isinstance(seed, int)] if isinstance(held, list) else []

    def _promised(self) -> dict[RunKey, Path]:
        """Every run that run.json announces or that is there, in the order of policies, then of seeds."""
        there = {
            (path.parent.name, int(path.name[5:])): path
            for path in self.folder.glob("*/seed-*")
            if path.is_dir() and path.name[5:].isdecimal()
        }
        keys = {(label, seed) for label in self.labels for seed in self._announced}
        keys |= {key for key in there if key[0] in self.labels}
        order = {label: i for i, label in enumerate(self.labels)}
        return {
            key: there.get(key, self.folder / key[0] / f"seed-{key[1]}")
            for key in sorted(keys, key=lambda key: (order[key[0]], key[1]))
        }

    @cached_property
    def _rounds_of(self) -> dict[RunKey, pd.DataFrame | None]:
        """Of a forgiving reader: the rounds of every promised run; None where they cannot be read."""
        return {
            key: self._read_rows(path / "rounds.csv") if self._sound(path) else None
            for key, path in self._promised().items()
        }

    def _sound(self, path: Path) -> bool:
        """Whether a run may be shown; one that was sealed and damaged since is left out, and said in `missing`."""
        try:
            if (path / STATUS).exists():
                if read_sealed(path / STATUS)[1] is not None:
                    ended(path)
            elif self.marks is not None and self.about.get("status") == "done":
                raise Damaged(f"{path / STATUS} is not there any more")
        except Damaged as error:
            self.missing.append(f"{self._short(path)} is left out: {error}; {AGAIN}")
            return False
        return True

    def _read_rows(self, path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame | None:
        """A table of one run; None, with a sentence in `missing`, if it cannot be read or has no row left."""
        fields = list(columns or columns_of(path.name))
        if self.strict:
            return read_rows(path)[fields]
        try:
            frame, damaged = read_whole_rows(path, fields)
        except (OSError, ValueError) as error:
            self._fault(path, why(error))
            return None
        if damaged:
            self._fault(path, f"{damaged} damaged rows left out")
        if not len(frame):
            self._fault(path, "no rows")
            return None
        return frame
