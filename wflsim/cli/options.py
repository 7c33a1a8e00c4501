"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from wflsim.errors import ScenarioError

DataDir = Annotated[
    Path | None,
    typer.Option(help="Where data sets are, or are to be kept; default the environment's WFLSIM_DATA, or a cache."),
]


def use_data(folder: Path | None) -> None:
    """By the environment, so that worker processes know it too."""
    if folder is None:
        return
    if not folder.is_dir():
        raise ScenarioError(f"--data-dir: {folder} is not a directory")
    os.environ["WFLSIM_DATA"] = str(folder.resolve())
