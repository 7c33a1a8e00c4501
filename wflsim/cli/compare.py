"""`wflsim compare`: result folders side by side, with differences on common seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Result folders of `wflsim run`.")],
    out: Annotated[Path, typer.Option(help="The report, an HTML file.")] = Path("comparison.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print lines and paired differences as JSON.")] = False,
) -> None:
    """Put result folders side by side: policies x regimes, and paired differences on common seeds."""
    from wflsim.cli.report import leave_report
    from wflsim.cli.show import show
    from wflsim.experiments.compare import compare as join

    comparison = join(folders)
    leave_report(Console(stderr=as_json), folders, out)
    if as_json:
        frames = {"lines": comparison.lines, "pairs": comparison.pairs}.items()
        records = {name: json.loads(frame.to_json(orient="records", double_precision=15)) for name, frame in frames}
        sys.stdout.write(json.dumps({"keys": comparison.keys, **records, "notes": comparison.notes}) + "\n")
        return
    show(Console(), comparison)
