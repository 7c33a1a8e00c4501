"""`wflsim report`, and the report at the end of other commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wflsim.errors import StoreError


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Result folders of run, sweep or tune.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file; default report.html in the first folder.")] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also figures for papers (PDF, SVG, PNG) and tables (CSV, LaTeX).")
    ] = False,
) -> None:
    """Make one HTML page that a colleague can open, from result folders."""
    from wflsim.report import build

    Console().print(f"report: {build(folders, out, figures)}", markup=False, highlight=False)


def leave_report(console: Console, folders: Sequence[Path], out: Path | None = None) -> None:
    """At the end of a command: its results stand, whatever becomes of the page about them."""
    from wflsim.report import build

    try:
        console.print(f"report: {build(folders, out)}", markup=False, highlight=False)
    except StoreError as error:
        console.print(f"no report: {error}", markup=False, highlight=False)
