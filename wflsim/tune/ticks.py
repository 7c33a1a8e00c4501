"""How far tuning is, told to whoever shows it: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from wflsim.store import Store

POLL_S = 0.5


class Tick(NamedTuple):
    """A state of the work."""

    doing: str
    done: int
    at_most: int
    """`done` when everything is finished, unless early stopping ends it sooner."""
    unit: str
    """What is counted: rounds or runs."""


Watch = Callable[[Tick], None]


@contextmanager
def runs_finished(label: str, names: Sequence[str], store: Store, watch: Watch) -> Iterator[None]:
    """Tell `watch` how many of the runs are in the store, by whomever they were computed, until the block ends."""
    over = threading.Event()
    watch(Tick(f"{label}, each run in its own world", 0, len(names), "runs"))

    def look() -> None:
        missing = set(names)
        while not over.wait(POLL_S):
            missing = {name for name in missing if not store.has_cell(name)}
            watch(Tick(f"{label}, each run in its own world", len(names) - len(missing), len(names), "runs"))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
