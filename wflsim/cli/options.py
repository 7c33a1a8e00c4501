"""Arguments and options that several commands share, and what Ctrl-C does in all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wflsim.errors import ScenarioError

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file (YAML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change a key, e.g. --set radio.snr='5 dB'. Repeatable."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where data sets are, or are to be kept; default the environment's WFLSIM_DATA, or a cache."),
]
PoolName = Annotated[
    str,
    typer.Option("--pool", metavar="POOL", help="Where runs are computed: local processes, or ray, a running cluster."),
]
FormerEngine = Annotated[str | None, typer.Option("--engine", hidden=True)]


def check_pool(pool: str, engine: str | None) -> None:
    """Raise ScenarioError for an unknown pool, and for --engine, as --pool was called before version 0.2."""
    if engine is not None:
        raise ScenarioError(f"--engine: it is called --pool now; write --pool {engine}")
    if pool not in ("local", "ray"):
        raise ScenarioError(f"--pool: got {pool!r}. Allowed: local, ray")


def use_data(folder: Path | None) -> None:
    """Look for data sets in this folder; it is set in the environment, so that worker processes know it, too."""
    if folder is None:
        return
    if not folder.is_dir():
        raise ScenarioError(f"--data-dir: {folder} is not a directory")
    os.environ["WFLSIM_DATA"] = str(folder.resolve())


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C leaves a valid folder and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        words = "interrupted; the same command goes on from where it was"
        Console(stderr=True).print(words, markup=False, highlight=False)
        raise typer.Exit(130) from None
