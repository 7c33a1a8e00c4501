"""The page's charts for papers, by matplotlib: PDF, SVG and PNG at column width, legible without colour.

Import `write_figures` from here. Open runs.py first: it draws accuracy, energy and latency and holds what all figures
share; clients.py draws clients one by one, peers.py runs without a server, regimes.py sweeps and tunings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wflsim.errors import StoreError
from wflsim.report.compose import Material
from wflsim.report.figures.clients import client_figures, peer_figures
from wflsim.report.figures.regimes import regime_figures
from wflsim.report.figures.runs import run_figures
from wflsim.report.page import ASSETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# no dates inside: the same results give the same bytes
FORMATS = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}


def write_figures(material: Material, folder: Path) -> list[Path]:
    """Draw every figure that the material allows and write it in three formats; returns the files."""
    from matplotlib import rc_context

    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with rc_context(fname=ASSETS / "paper.mplstyle"):
            for name, figure in _figures(material):
                # lay out once, not once per format: that is most of the work
                figure.draw_without_rendering()
                figure.set_layout_engine("none")
                for ending, metadata in FORMATS.items():
                    path = folder / f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}.{ending}"
                    figure.savefig(path, metadata=metadata)
                    written.append(path)
    except OSError as error:
        raise StoreError(f"cannot write figures in {folder}: {error.strerror or error}") from error
    return written


def _figures(material: Material) -> Iterator[tuple[str, Figure]]:
    if material.runs:
        yield from run_figures(material)
        yield from client_figures(material)
        yield from peer_figures(material)
    yield from regime_figures(material)
