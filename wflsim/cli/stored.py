"""`wflsim list store`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from wflsim.answer import duration, si
from wflsim.store import Store, Stored

DAY_S = 86400.0


def stored_table(store: Store) -> Table:
    """Traces one by one, finished cells together."""
    entries = store.entries()
    cells = [entry for entry in entries if entry.kind == "cell"]
    table = Table(title=Text(f"store {store.root}: {_size(entries)}"), title_justify="left")
    for column in ("trace", "what was learnt", "rounds", "size", "age"):
        table.add_column(column, justify="left" if column in ("trace", "what was learnt") else "right")
    for entry in entries:
        if entry.kind == "trace":
            row = (Text(entry.name[:12]), Text(entry.what), str(entry.rounds), si(entry.size, "B"))
            table.add_row(*row, duration(max(entry.age_s, 0.0)))
    table.add_row("", f"{len(cells)} finished cells of sweeps", "", _size(cells), "")
    return table


def pruned(store: Store, days: float) -> str:
    """What became of `--prune DAYS`."""
    gone = store.prune(days * DAY_S)
    traces = sum(entry.kind == "trace" for entry in gone)
    return f"removed {traces} traces and {len(gone) - traces} cells ({_size(gone)}) from {store.root}"


def _size(entries: Sequence[Stored]) -> str:
    return si(sum(entry.size for entry in entries), "B")
