"""Progress of a run, read off the tables that the workers append to: no channel between processes is needed.

On a terminal there are bars that fit into 80 columns; elsewhere (a log file, a batch system) a plain line now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from wflsim.answer import duration, si
from wflsim.folders import ENDED, status
from wflsim.record import RoundRow

POLL_S = 0.5
PLAIN_S = 10.0
"""Wall time before the first plain line, and the least between two."""
PLAIN_GROWTH = 0.05
"""Later lines wait for this share of the time so far, or the log of a week would be long."""


class _Tail:
    """The last whole row of a growing rounds.csv, and the joules so far."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rounds.csv"
        self._begin()

    def _begin(self) -> None:
        self.offset = 0
        self.energy_j = 0.0
        self.row: dict[str, str] | None = None
        self.worst = ""

    def read(self) -> dict[str, str] | None:
        try:
            if self.path.stat().st_size < self.offset:  # cut back to a checkpoint, or begun anew
                self._begin()
            with self.path.open("rb") as file:
                file.seek(self.offset)
                text = file.read()
        except OSError:
            return self.row
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            fields = dict(zip(RoundRow._fields, line.split(","), strict=False))
            try:
                energy_j, _, _ = float(fields["energy_j"]), int(fields["round"]), float(fields["end_s"])
            except (KeyError, ValueError):  # the header, or a damaged line: whoever computes will see to it
                continue
            self.row = fields
            self.energy_j += energy_j
            self.worst = fields.get("worst") or self.worst
        return self.row


@contextmanager
def progress(console: Console, cells: Sequence[tuple[str, Path]], rounds: int) -> Iterator[None]:
    """Watch the runs (title, folder), each of so many rounds, until the block ends."""
    tails = [(title, folder, _Tail(folder)) for title, folder in cells]
    if not console.is_terminal:
        with plain_lines(console, rounds * len(cells), "rounds", lambda: sum(_done(f, t, rounds) for _, f, t in tails)):
            yield
        return
    with bars(console, "rounds") as shown:
        whole = shown.add_task("all runs", total=rounds * len(cells))
        tasks = [(*tail, shown.add_task(tail[0], total=rounds, visible=False)) for tail in tails]
        with repeated(POLL_S, lambda: _update(shown, whole, tasks, rounds)):
            yield


def bars(console: Console, unit: str) -> Progress:
    """Bars that give way to the words: what is left of 80 columns after count, time and ETA belongs to the title."""
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=8),
        TextColumn("{task.completed:.0f}/{task.total:.0f} " + unit, table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("ETA", table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    return Progress(*columns, console=console, transient=True, expand=True)


@contextmanager
def plain_lines(console: Console, total: int, unit: str, count: Callable[[], int]) -> Iterator[None]:
    """Without a terminal: after ten seconds and then ever more seldom, print what is done and what the rest takes."""
    began_s, known = monotonic(), count()
    last_s = began_s

    def look() -> None:
        nonlocal last_s
        now_s = monotonic()
        if now_s - last_s < max(PLAIN_S, PLAIN_GROWTH * (last_s - began_s)):
            return
        last_s, done = now_s, count()
        line = f"{done}/{total} {unit} after {duration(now_s - began_s)}"
        if known < done < total:
            line += f", about {duration((now_s - began_s) * (total - done) / (done - known))} to go"
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    with repeated(min(POLL_S, PLAIN_S), look):
        yield


@contextmanager
def repeated(period_s: float, look: Callable[[], None]) -> Iterator[None]:
    """Call `look` every so many seconds in a thread of its own until the block ends."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(period_s):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _done(folder: Path, tail: _Tail, rounds: int) -> int:
    """Rounds that need no more work: a run that reached its target early is over all the same."""
    row = tail.read()
    if status(folder).get("status") in ENDED:
        return rounds
    return 0 if row is None else int(row["round"]) + 1


def _update(
    shown: Progress, whole: TaskID, tasks: Sequence[tuple[str, Path, _Tail, TaskID]], rounds: int
) -> None:
    done = 0
    for title, folder, tail, task in tasks:
        at = _done(folder, tail, rounds)
        done += at
        if tail.row is not None:
            shown.update(task, completed=at, visible=at < rounds, description=_line(title, tail.row, tail))
    shown.update(whole, completed=done)


def _line(title: str, row: dict[str, Any], tail: _Tail) -> str:
    worst = f"worst {100 * float(tail.worst):.1f} %" if tail.worst else "not evaluated yet"
    return f"{title}: {worst}, {si(tail.energy_j, 'J')}, {duration(float(row['end_s']))} simulated"
