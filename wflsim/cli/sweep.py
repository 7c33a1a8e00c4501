"""`wflsim run` on a scenario with a sweep block."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from wflsim.cli.progress import shown
from wflsim.experiments.compute import watching_runs
from wflsim.experiments.plan import Run
from wflsim.experiments.sweep import run_sweep
from wflsim.results.store import Store
from wflsim.scenario import Scenario


def sweep(
    scenario: Scenario,
    folder: Path,
    workers: int | None,
    fresh: bool,
    pool: str,
    as_json: bool,
    console: Console,
) -> bool:
    """Compute, and print what came of it; true if a run has no result."""

    @contextmanager
    def watching(runs: Sequence[Run], store: Store) -> Iterator[None]:
        names = list(dict.fromkeys(run.digest for run in runs))
        trainings = len({run.learning for run in runs if run.exact})
        live = len({run.digest for run in runs if not run.exact})
        console.print(
            f"{len(names)} runs: {trainings} trainings replayed in every regime, {live} runs trained live",
            markup=False, highlight=False,
        )  # fmt: skip
        with shown(console) as watch, watching_runs("all regimes", names, store, watch):
            yield

    results = run_sweep(scenario, folder, workers, fresh, pool, watching)
    if as_json:
        records = json.loads(results.summary.to_json(orient="records", double_precision=15))
        sys.stdout.write(json.dumps({"folder": str(folder), "keys": results.keys, "summary": records}) + "\n")
    else:
        from wflsim.cli.show import show
        from wflsim.experiments.compare import compare

        show(console, compare([folder]))
    for row in results.failures.to_dict("records"):
        words = f"failed twice: regime {row['regime']}, {row['policy']} seed {row['seed']}: {row['reason']}"
        console.print(words, markup=False, highlight=False, style="red", soft_wrap=True)
    return len(results.failures) > 0
