"""`wflsim run` on a scenario with a sweep block."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from wflsim.scenario import Scenario
from wflsim.store import Store
from wflsim.sweep.cells import Cell
from wflsim.sweep.run import run_sweep

POLL_S = 0.5


def sweep(
    scenario: Scenario,
    folder: Path,
    workers: int | None,
    fresh: bool,
    engine: str,
    as_json: bool,
    console: Console,
) -> None:
    """Compute, and print what came of it."""

    @contextmanager
    def watch(cells: Sequence[Cell], store: Store) -> Iterator[None]:
        names = list(dict.fromkeys(cell.name for cell in cells))
        trainings = len({cell.learning for cell in cells if cell.exact})
        live = len({cell.name for cell in cells if not cell.exact})
        console.print(
            f"{len(names)} cells: {trainings} trainings replayed in every regime, {live} cells trained live",
            markup=False, highlight=False,
        )  # fmt: skip
        with _bar(console, names, store):
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
        console.print(words, markup=False, highlight=False, style="red")


@contextmanager
def _bar(console: Console, names: Sequence[str], store: Store) -> Iterator[None]:
    """Cells finished, by whomever: read off the store. Quiet where the console is not a terminal."""
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.completed:.0f}/{task.total:.0f} cells"), BarColumn(), TimeElapsedColumn(),
        TextColumn("ETA"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bars:
        over = threading.Event()
        task = bars.add_task("", total=len(names))

        def look() -> None:
            missing = set(names)
            while not over.wait(POLL_S):
                missing = {name for name in missing if not store.has_cell(name)}
                bars.update(task, completed=len(names) - len(missing))

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
