"""Says how far a long computation is: a bar with the time left on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wflsim.answer import duration
from wflsim.tune.ticks import Tick, Watch

EVERY_S = 10.0
"""Between two plain lines, in seconds."""


@contextmanager
def heartbeat(console: Console, every_s: float = EVERY_S) -> Iterator[Watch]:
    """Yields what takes the ticks, from any thread, until the block ends."""
    if console.is_terminal:
        with _bar(console) as watch:
            yield watch
        return
    lines = Lines(lambda words: console.print(words, markup=False, highlight=False, soft_wrap=True))
    over = threading.Event()

    def beat() -> None:
        while not over.wait(every_s):
            lines.say()

    writer = threading.Thread(target=beat, daemon=True)
    writer.start()
    try:
        yield lines.take
    finally:
        over.set()
        writer.join()


class Lines:
    """The latest tick as a sentence with the time left."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self._write, self._clock = write, clock
        self._first: tuple[float, Tick] | None = None
        self._latest: Tick | None = None

    def take(self, tick: Tick) -> None:
        """A new state; the time left is reckoned from the first state of the same kind of work."""
        before = self._latest
        if before is None or before.unit != tick.unit or tick.done < before.done:
            self._first = self._clock(), tick
        self._latest = tick

    def say(self) -> None:
        """Write one line about the latest state, if there is one."""
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


@contextmanager
def _bar(console: Console) -> Iterator[Watch]:
    columns = (
        BarColumn(20), TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}"), TimeElapsedColumn(),
        TextColumn("ETA"), TimeRemainingColumn(), TextColumn("{task.description}"),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("starting", total=None, unit="rounds", visible=False)
        latest: list[Tick] = []

        def watch(tick: Tick) -> None:
            if latest and (latest[-1].unit != tick.unit or tick.done < latest[-1].done):
                bars.reset(task)
            latest[:] = [tick]
            bars.update(
                task, completed=tick.done, total=tick.at_most, unit=tick.unit, description=tick.doing, visible=True
            )

        yield watch
