"""Writing the rows of one run: append-only tables that a kill leaves whole up to the last checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wflsim.errors import StoreError
from wflsim.files import Damaged, Mark, new_hash
from wflsim.records import TABLES, TRACE, FinishedRound, csv_lines, trace_to_json

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
