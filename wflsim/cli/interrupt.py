"""What happens on Ctrl-C: the folder stays valid, and the exit code is 130."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C leaves a valid folder and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        words = "interrupted; the same command goes on from where it was"
        Console(stderr=True).print(words, markup=False, highlight=False)
        raise typer.Exit(130) from None
