"""What was computed once and need not be computed again: traces, and records of finished runs, found by their causes.

    STORE/traces/<learning digest>/   trace.jsonl, seal.json (rounds, checksum), checkpoint.pt (to go on)
    STORE/runs/<ab>/<run digest>.json
    STORE/locks/<digest>              held by whoever computes it

Everything is written beside and renamed, and verified on reading. A trace only ever grows, and its seal speaks of a
prefix: whoever reads an old seal with a new trace still reads what the seal promised.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wflsim.errors import StoreError
from wflsim.files import Busy, locked, write
from wflsim.records import TRACE, TraceRound, trace_from_json, trace_to_json

if TYPE_CHECKING:
    from wflsim.simulation.checkpoint import Checkpoint

FORMAT = 1
KEEP_BYTES = 16_000_000
"""Larger checkpoints are not kept: hundreds of traces with memories of all clients would fill a disk."""
FORMER_RUNS = "cells"
"""Folder of records in stores made before version 0.2; they are listed and pruned, and never read again."""
SEAL = "seal.json"
CHECKPOINT = "checkpoint.pt"


class Held(NamedTuple):
    """A trace as far as it is known."""

    trace: list[TraceRound]
    flops_per_sample: float
    ended: str | None
    """Why there can be no further round: the training diverged in it."""


class Stored(NamedTuple):
    """One line of `wflsim list store`."""

    kind: str
    name: str
    what: str
    rounds: int
    size: int
    """Size in bytes."""
    age_s: float
    """Seconds since it was last written to."""
    path: Path


class Store:
    """A folder of results that any number of processes use at the same time."""

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = Path(root if root is not None else os.environ.get("WFLSIM_STORE") or Path("runs/.store"))

    def trace(self, learning: str) -> Entry:
        """The place of a trace, whether or not there is one yet."""
        return Entry(self.root / "traces" / learning, learning)

    def record(self, name: str) -> dict[str, Any] | None:
        """The record of the finished run with this digest; None if it is not there."""
        path = self._record_path(name)
        held = _read(path, path)
        if held is None:
            return None
        record: dict[str, Any] = held.get("record", {})
        if held.get("name") != name or held.get("checksum") != _checksum(json.dumps(record).encode()):
            raise StoreError(f"{path} is corrupt or belongs elsewhere; {_cure(path)}")
        return record

    def has_record(self, name: str) -> bool:
        """Whether a record is there; it may still prove corrupt when read."""
        return self._record_path(name).exists()

    def keep_record(self, name: str, record: Mapping[str, Any]) -> None:
        """Keep the record of a finished run."""
        path = self._record_path(name)
        _make(path.parent)
        body = json.dumps(record)
        sealed = {"format": FORMAT, "name": name, "checksum": _checksum(body.encode()), "record": record}
        write(path, json.dumps(sealed) + "\n")

    @contextmanager
    def computing(self, name: str, wait: bool) -> Iterator[None]:
        """Hold what has this digest, so that no two processes compute it; `Busy` if another does and we do not wait."""
        with locked(_make(self.root / "locks"), wait=wait, name=name):
            yield

    def entries(self) -> list[Stored]:
        """Everything in the store, oldest first."""
        return sorted(self._entries(), key=lambda entry: (-entry.age_s, entry.name))

    def prune(self, older_than_s: float) -> list[Stored]:
        """Remove what was not written to for so long; what somebody is computing is left alone."""
        gone = []
        for entry in self.entries():
            if entry.age_s < older_than_s:
                continue
            try:
                with self.computing(entry.name, wait=False):
                    if entry.kind == "run":
                        entry.path.unlink(missing_ok=True)
                    else:
                        shutil.rmtree(entry.path, ignore_errors=True)
            except Busy:
                continue
            gone.append(entry)
        return gone

    def _entries(self) -> Iterator[Stored]:
        now_s = time.time()
        for path in (*self.root.glob("runs/*/*.json"), *self.root.glob(f"{FORMER_RUNS}/*/*.json")):
            stat = path.stat()
            yield Stored("run", path.stem, "", 0, stat.st_size, now_s - stat.st_mtime, path)
        for folder in self.root.glob("traces/*"):
            files = [path for path in folder.iterdir() if path.is_file()]
            size = sum(path.stat().st_size for path in files)
            age_s = now_s - max((path.stat().st_mtime for path in files), default=0.0)
            try:
                seal = _read(folder / SEAL, folder) or {}
                what, rounds = str(seal["about"]), int(seal.get("rounds", 0))
            except (OSError, StoreError, KeyError, ValueError):
                what, rounds = "(nothing sealed yet, or unreadable)", 0
            yield Stored("trace", folder.name, what, rounds, size, age_s, folder)

    def _record_path(self, name: str) -> Path:
        return self.root / "runs" / name[:2] / f"{name}.json"


class Entry:
    """One trace in the store."""

    def __init__(self, folder: Path, learning: str) -> None:
        self.folder = folder
        self.learning = learning

    def workplace(self) -> Path:
        """The folder, made if need be."""
        return _make(self.folder)

    def read(self) -> Held | None:
        """The trace, verified; None if there is none. No lock: see the module's first lines."""
        seal = self._seal()
        if seal is None:
            return None
        path = self.folder / TRACE
        try:
            with path.open("rb") as file:
                body = file.read(seal["bytes"])
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}; {_cure(self.folder)}") from error
        if _checksum(body) != seal["checksum"]:
            raise StoreError(f"{path} is corrupt: it is not what {SEAL} promises; {_cure(self.folder)}")
        trace = [trace_from_json(line) for line in body.decode().splitlines()]
        return Held(trace, seal["flops_per_sample"], seal["ended"])

    def reaches(self, rounds: int) -> bool:
        """Whether so many rounds are known, or no further one can follow; not verified, unlike what `read` returns."""
        seal = self._seal()
        return seal is not None and (seal["rounds"] >= rounds or seal["ended"] is not None)

    def checkpoint(self) -> Checkpoint | None:
        """Where training can go on; None: only from the beginning."""
        from wflsim.simulation import checkpoint

        try:
            return checkpoint.load(self.folder / CHECKPOINT)
        except StoreError:
            raise StoreError(f"{self.folder / CHECKPOINT} is corrupt or foreign; {_cure(self.folder)}") from None

    def write(
        self,
        trace: Sequence[TraceRound],
        flops_per_sample: float,
        ended: str | None,
        about: str,
        learning_state: dict[str, Any] | None,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        """Keep a trace, unless a longer one is there already."""
        folder = self.workplace()
        with locked(folder, wait=True, name=".write"):
            seal = self._seal()
            if seal is not None and (seal["rounds"], seal["ended"] is not None) >= (len(trace), ended is not None):
                return
            body = "".join(trace_to_json(entry) + "\n" for entry in trace)
            write(folder / TRACE, body)
            self._write_checkpoint(len(trace), learning_state, keep_bytes)
            sealed = {
                "format": FORMAT, "name": self.learning, "about": about, "rounds": len(trace), "bytes": len(body),
                "checksum": _checksum(body.encode()), "flops_per_sample": flops_per_sample, "ended": ended,
            }  # fmt: skip
            write(folder / SEAL, json.dumps({**sealed, "seal": _own_checksum(sealed)}, indent=1) + "\n")

    def trim(self, keep_bytes: int = KEEP_BYTES) -> None:
        """Give up a checkpoint that is too large to keep for good."""
        path = self.folder / CHECKPOINT
        if path.exists() and path.stat().st_size > keep_bytes:
            path.unlink(missing_ok=True)

    def _write_checkpoint(self, rounds: int, learning_state: dict[str, Any] | None, keep_bytes: int) -> None:
        from wflsim.simulation import checkpoint

        path = self.folder / CHECKPOINT
        if learning_state is not None:
            checkpoint.save(path, checkpoint.Checkpoint(rounds, {}, learning_state))
        if learning_state is None or path.stat().st_size > keep_bytes:
            path.unlink(missing_ok=True)

    def _seal(self) -> dict[str, Any] | None:
        """The seal of the trace; None if there is no trace, StoreError if the seal is damaged or another's."""
        path = self.folder / SEAL
        seal = _read(path, self.folder)
        if seal is None:
            return None
        if seal.pop("seal", None) != _own_checksum(seal) or seal.get("name") != self.learning:
            raise StoreError(f"{path} is corrupt or belongs to another trace; {_cure(self.folder)}")
        return seal


def _read(path: Path, entry: Path) -> dict[str, Any] | None:
    """The content of a JSON file of the store; None if it is not there. `entry`: what to remove if it is damaged."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {path}: {error}; {_cure(entry)}") from error
    except ValueError:
        held = None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise StoreError(f"{path} is not a file of wflsim's store; {_cure(path)}")
    return held


def _checksum(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def _own_checksum(sealed: Mapping[str, Any]) -> str:
    """Of what a seal says, so that a changed digit in it (the cost of a sample, say) is seen too."""
    return _checksum(json.dumps(sealed, sort_keys=True).encode())


def _cure(path: Path) -> str:
    return f"remove {path}, it will be computed again"


def _make(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot write in {folder}: {error.strerror or error}; name another place with WFLSIM_STORE"
        ) from error
    return folder
