"""Progress of a long computation: bars with the time left on a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

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

from wflsim.analysis.formats import duration, si
from wflsim.experiments.compute import POLL_S, Tick, Watch, repeating
from wflsim.records import RoundRow
from wflsim.results.folders import ENDED, status

PLAIN_S = 10.0
"""Seconds before the first plain line, and the least between two."""
PLAIN_GROWTH = 0.05
"""Share of the time so far that later lines wait for, or the log of a week would be long."""


@contextmanager
def shown(console: Console) -> Iterator[Watch]:
    """Show the ticks that are handed to the yielded function, from any thread, until the block ends."""
    if not console.is_terminal:
        lines = PlainLines(lambda words: console.print(words, markup=False, highlight=False, soft_wrap=True))
        with repeating(lines.write_if_due, min(POLL_S, PLAIN_S)):
            yield lines.take
        return
    with bars(console) as shown_bars:
        task = shown_bars.add_task("starting", total=None, unit="rounds", visible=False)
        latest: list[Tick] = []

        def watch(tick: Tick) -> None:
            if latest and _is_other_work(latest[-1], tick):
                shown_bars.reset(task)
            latest[:] = [tick]
            shown_bars.update(
                task, completed=tick.done, total=tick.at_most, unit=tick.unit, description=tick.doing, visible=True
            )

        yield watch


def bars(console: Console) -> Progress:
    """Bars that give way to the words: what is left of 80 columns after count, time and ETA belongs to the title."""
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=8),
        TextColumn(
            "{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}", table_column=Column(no_wrap=True)
        ),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("ETA", table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    return Progress(*columns, console=console, transient=True, expand=True)


class PlainLines:
    """Writes the latest tick as a sentence with the time left, now and then."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self._write, self._clock = write, clock
        self._began_s = self._last_s = clock()
        self._first: tuple[float, Tick] | None = None
        self._latest: Tick | None = None

    def take(self, tick: Tick) -> None:
        """Take a tick; the time left is reckoned from the first tick of the same kind of work."""
        if self._latest is None or _is_other_work(self._latest, tick):
            self._first = self._clock(), tick
        self._latest = tick

    def write_if_due(self) -> None:
        """Write a line if ten seconds, and a twentieth of the time so far, have passed since the last one."""
        now_s = self._clock()
        if now_s - self._last_s >= max(PLAIN_S, PLAIN_GROWTH * (self._last_s - self._began_s)):
            self._last_s = now_s
            self.write()

    def write(self) -> None:
        """Write a line about the latest tick, if there is one."""
        if self._latest is None or self._first is None:
            return
        tick, (began_s, first) = self._latest, self._first
        elapsed_s = self._clock() - began_s
        gained = tick.done - first.done
        left = "time left not known yet"
        if gained > 0:
            left = f"ETA at most about {duration(elapsed_s * (tick.at_most - tick.done) / gained)}"
        share = f"{tick.done} of at most {tick.at_most} {tick.unit}"
        self._write(f"{tick.doing}: {share}, {duration(elapsed_s)} so far, {left}")


def _is_other_work(before: Tick, now: Tick) -> bool:
    """Whether the later tick counts something else than the earlier one, or counts anew."""
    return before.unit != now.unit or now.done < before.done


@contextmanager
def progress(console: Console, places: Sequence[tuple[str, Path]], rounds: int) -> Iterator[None]:
    """Watch runs (title, folder), each of at most so many rounds, until the block ends.

    It is read off the tables that the workers append to: no channel between processes is needed.
    """
    tails = [_Tail(title, folder, rounds) for title, folder in places]
    if not console.is_terminal:
        with shown(console) as watch:

            def tell() -> None:
                watch(Tick("all runs", sum(tail.rounds_done() for tail in tails), rounds * len(tails), "rounds"))

            tell()
            with repeating(tell, min(POLL_S, PLAIN_S)):
                yield
        return
    with bars(console) as shown_bars:
        whole = shown_bars.add_task("all runs", total=rounds * len(tails), unit="rounds")
        tasks = [shown_bars.add_task(tail.title, total=rounds, unit="rounds", visible=False) for tail in tails]
        with repeating(lambda: _update(shown_bars, whole, list(zip(tails, tasks, strict=True)))):
            yield


class _Tail:
    """The last whole row of the rounds.csv that a run appends to, and the joules so far."""

    def __init__(self, title: str, folder: Path, rounds: int) -> None:
        self.title = title
        self._folder, self._rounds = folder, rounds
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self.energy_j = 0.0
        self.row: dict[str, str] | None = None
        self._worst = ""

    def read(self) -> dict[str, str] | None:
        """Read what was appended, and return the last row."""
        path = self._folder / "rounds.csv"
        try:
            if path.stat().st_size < self._offset:  # cut back to a checkpoint, or begun anew
                self._begin()
            with path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return self.row
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            fields = dict(zip(RoundRow._fields, line.split(","), strict=False))
            try:
                energy_j, _, _ = float(fields["energy_j"]), int(fields["round"]), float(fields["end_s"])
            except (KeyError, ValueError):  # the header, or a damaged line: whoever computes will see to it
                continue
            self.row = fields
            self.energy_j += energy_j
            self._worst = fields.get("worst") or self._worst
        return self.row

    def rounds_done(self) -> int:
        """Rounds that need no more work: a run that reached its target early is over all the same."""
        row = self.read()
        if status(self._folder).get("status") in ENDED:
            return self._rounds
        return 0 if row is None else int(row["round"]) + 1

    def words(self) -> str:
        """Title, worst accuracy, joules and simulated time so far."""
        worst = f"worst {100 * float(self._worst):.1f} %" if self._worst else "not evaluated yet"
        simulated = duration(float(self.row["end_s"])) if self.row is not None else "nothing"
        return f"{self.title}: {worst}, {si(self.energy_j, 'J')}, {simulated} simulated"


def _update(shown_bars: Progress, whole: TaskID, tasks: Sequence[tuple[_Tail, TaskID]]) -> None:
    total = 0
    for tail, task in tasks:
        done = tail.rounds_done()
        total += done
        if tail.row is not None:
            under_way = done < (shown_bars.tasks[task].total or 0)
            shown_bars.update(task, completed=done, visible=under_way, description=tail.words())
    shown_bars.update(whole, completed=total)
