"""Watching a long computation: how far it is, told now and then to whoever shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from wflsim.results.store import Store

POLL_S = 0.5
"""Seconds between two counts of what is finished."""


class Tick(NamedTuple):
    """How far a computation is."""

    doing: str
    """What is under way, in a few words."""
    done: int
    at_most: int
    """`done` when everything is finished, unless a target or early stopping ends it sooner."""
    unit: str
    """What is counted: rounds or runs."""


Watch = Callable[[Tick], None]


@contextmanager
def repeating(call: Callable[[], None], every_s: float = POLL_S) -> Iterator[None]:
    """Call a function every so many seconds, in a thread of its own, until the block ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def watching_runs(doing: str, digests: Sequence[str], store: Store, watch: Watch) -> Iterator[None]:
    """Tell `watch` how many of these runs are in the store, by whomever they were computed, until the block ends."""
    total = len(set(digests))
    missing = set(digests)

    def tell() -> None:
        nonlocal missing
        missing = {digest for digest in missing if not store.has_record(digest)}
        watch(Tick(doing, total - len(missing), total, "runs"))

    tell()
    with repeating(tell):
        yield
