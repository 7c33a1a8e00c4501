"""`wflsim compare`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Result folders of `wflsim run`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print lines and paired differences as JSON.")] = False,
) -> None:
    """Put result folders side by side: policies x regimes, and paired differences on common seeds."""
    from wflsim.cli.comparison import show
    from wflsim.compare import compare as join

    comparison = join(folders)
    if as_json:
        frames = comparison._asdict().items()
        records = {name: json.loads(frame.to_json(orient="records", double_precision=15)) for name, frame in frames}
        sys.stdout.write(json.dumps(records) + "\n")
        return
    show(Console(), comparison)
