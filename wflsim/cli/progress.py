"""Progress of a run, read off the tables that the workers append to: no channel between processes is needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wflsim.answer import duration, si
from wflsim.record import RoundRow

POLL_S = 0.5


class _Tail:
    """The last whole row of a growing rounds.csv, and the joules so far."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rounds.csv"
        self.offset = 0
        self.energy_j = 0.0
        self.row: dict[str, str] | None = None
        self.worst = ""

    def read(self) -> dict[str, str] | None:
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                text = file.read()
        except OSError:
            return self.row
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.decode().splitlines():
            fields = dict(zip(RoundRow._fields, line.split(","), strict=False))
            if fields["round"] != "round":
                self.row = fields
                self.energy_j += float(fields["energy_j"])
                self.worst = fields["worst"] or self.worst
        return self.row


@contextmanager
def progress(console: Console, cells: Sequence[tuple[str, Path]], rounds: int) -> Iterator[None]:
    """Watch the cells (title, folder) until the block ends. Quiet where the console is not a terminal."""
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} rounds"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        over = threading.Event()
        whole = bars.add_task("all runs", total=rounds * len(cells))
        tails = [
            (title, folder, _Tail(folder), bars.add_task(title, total=rounds, visible=False)) for title, folder in cells
        ]
        watcher = threading.Thread(target=_watch, args=(bars, whole, tails, rounds, over), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _watch(
    bars: Progress,
    whole: TaskID,
    tails: Sequence[tuple[str, Path, _Tail, TaskID]],
    rounds: int,
    over: threading.Event,
) -> None:
    while not over.wait(POLL_S):
        done = 0
        for title, folder, tail, task in tails:
            row = tail.read()
            ended = (folder / "wall.json").exists()
            if row is None:
                continue
            at = int(row["round"]) + 1
            done += rounds if ended else at  # a run that reached its target early is over all the same
            bars.update(task, completed=at, visible=not ended, description=_line(title, row, tail))
        bars.update(whole, completed=done)


def _line(title: str, row: dict[str, Any], tail: _Tail) -> str:
    worst = f"worst {100 * float(tail.worst):.1f} %" if tail.worst else "not evaluated yet"
    return f"{title}: {worst}, {si(tail.energy_j, 'J')}, {duration(float(row['end_s']))} simulated"
