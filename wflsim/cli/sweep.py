"""`wflsim run` on a scenario with a sweep block."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from wflsim.cli.progress import POLL_S, bars, plain_lines, repeated
from wflsim.scenario import Scenario
from wflsim.store import Store
from wflsim.sweep.cells import Cell
from wflsim.sweep.run import run_sweep


def sweep(
    scenario: Scenario,
    folder: Path,
    workers: int | None,
    fresh: bool,
    engine: str,
    as_json: bool,
    console: Console,
) -> bool:
    """Compute, and print what came of it; true if a cell has no result."""

    @contextmanager
    def watch(cells: Sequence[Cell], store: Store) -> Iterator[None]:
        names = list(dict.fromkeys(cell.name for cell in cells))
        trainings = len({cell.learning for cell in cells if cell.exact})
        live = len({cell.name for cell in cells if not cell.exact})
        console.print(
            f"{len(names)} cells: {trainings} trainings replayed in every regime, {live} cells trained live",
            markup=False, highlight=False,
        )  # fmt: skip
        with _shown(console, names, store):
            yield

    results = run_sweep(scenario, folder, workers, fresh, engine, watch)
    if as_json:
        records = json.loads(results.summary.to_json(orient="records", double_precision=15))
        sys.stdout.write(json.dumps({"folder": str(folder), "keys": results.keys, "summary": records}) + "\n")
    else:
        from wflsim.cli.comparison import show
        from wflsim.compare import compare

        show(console, compare([folder]))
    for row in results.failures.to_dict("records"):
        words = f"failed twice: regime {row['regime']}, {row['policy']} seed {row['seed']}: {row['reason']}"
        console.print(words, markup=False, highlight=False, style="red", soft_wrap=True)
    return len(results.failures) > 0


@contextmanager
def _shown(console: Console, names: Sequence[str], store: Store) -> Iterator[None]:
    """How many cells are finished, by whomever: read off the store."""
    missing = set(names)

    def count() -> int:
        nonlocal missing
        missing = {name for name in missing if not store.has_cell(name)}
        return len(names) - len(missing)

    if not console.is_terminal:
        with plain_lines(console, len(names), "cells", count):
            yield
        return
    with bars(console, "cells") as shown:
        task = shown.add_task("all regimes", total=len(names))
        with repeated(POLL_S, lambda: shown.update(task, completed=count())):
            yield
