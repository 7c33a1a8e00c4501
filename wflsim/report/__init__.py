"""Reports from results folders: one HTML page, figures for papers, and tables. Needs neither torch nor SimPy.

Import `build` from here. Open compose.py first: it gathers what the folders hold and puts the page together from
charts/ (plotly, on the page), tabular.py (tables) and wording.py, sweep.py and tuning.py (the sentences on top);
figures/ draws the same for papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wflsim.errors import StoreError
from wflsim.files import write

NAME = "report.html"
"""File name of a page whose place is not given."""

__all__ = ["build"]


def build(folders: Sequence[Path], out: Path | None = None, figures: bool = False) -> Path:
    """Write one HTML page about the folders and return its path; with `figures`, files for papers beside it.

    What is missing or damaged is said on the page. StoreError only if there is nothing to show, or nowhere to write.
    """
    # pandas, plotly and matplotlib take a second: whoever imports this module may never call it
    from wflsim.report.compose import compose, gather
    from wflsim.report.page import render

    material = gather([Path(folder) for folder in folders])
    page = compose(material)
    target = Path(out) if out is not None else Path(folders[0]) / NAME
    _write(target, render(page))
    if figures:
        from wflsim.report.figures import write_figures

        write_figures(material, target.parent / "figures")
        for table in page.tables:
            _write(target.parent / "tables" / f"{table.id}.csv", table.csv())
            _write(target.parent / "tables" / f"{table.id}.tex", table.latex())
    return target


def _write(path: Path, text: str) -> None:
    """Write a file of the report, and make its folder if it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    write(path, text)
