"""`wflsim list`: what there is to choose from in a scenario, and what is in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wflsim.errors import ScenarioError
from wflsim.units import DAY_S

if TYPE_CHECKING:  # every command imports this file, and few need the store
    from wflsim.results.store import Store, Stored



def list_(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A key such as fading, access, policies; or store.")
    ] = "all",
    prune: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="With store: remove what is older; 0 removes all.")
    ] = None,
) -> None:
    """What there is to choose from; and what is in the store of traces and finished runs."""
    from wflsim.cli.catalogue import tables
    from wflsim.results.store import Store

    console = Console()
    if prune is not None:
        if what != "store":
            raise ScenarioError("list: --prune DAYS belongs to `wflsim list store`")
        console.print(prune_store(Store(), prune), markup=False, highlight=False)
        return
    for table in [stored_table(Store())] if what == "store" else tables(what):
        console.print(table)


def stored_table(store: Store) -> Table:
    """A table of what is in the store: traces one by one, finished runs together."""
    from wflsim.analysis.formats import duration, si

    entries = store.entries()
    runs = [entry for entry in entries if entry.kind == "run"]
    table = Table(title=Text(f"store {store.root}: {_size(entries)}"), title_justify="left")
    for column in ("trace", "what was learnt", "rounds", "size", "age"):
        table.add_column(column, justify="left" if column in ("trace", "what was learnt") else "right")
    for entry in entries:
        if entry.kind == "trace":
            row = (Text(entry.name[:12]), Text(entry.what), str(entry.rounds), si(entry.size, "B"))
            table.add_row(*row, duration(max(entry.age_s, 0.0)))
    table.add_row("", f"{len(runs)} finished runs of sweeps", "", _size(runs), "")
    return table


def prune_store(store: Store, days: float) -> str:
    """Remove from the store what is older than so many days; says how much that was."""
    gone = store.prune(days * DAY_S)
    traces = sum(entry.kind == "trace" for entry in gone)
    return f"removed {traces} traces and {len(gone) - traces} runs ({_size(gone)}) from {store.root}"


def _size(entries: Sequence[Stored]) -> str:
    """Size of all entries together, in bytes with a prefix."""
    from wflsim.analysis.formats import si

    return si(sum(entry.size for entry in entries), "B")
