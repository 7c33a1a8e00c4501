"""`wflsim tune`: parse the options, ask, and print the map and the answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wflsim.cli.options import (
    DataDir,
    FormerEngine,
    Overrides,
    PoolName,
    ScenarioFile,
    check_pool,
    interruptible,
    use_data,
)

TAU = "Candidates, e.g. 5,10,20; a range that is searched, e.g. '{least: 1, most: 200}'; or auto, the default."


def tune(  # one parameter for each argument and option
    scenario: ScenarioFile,
    target: Annotated[float | None, typer.Option(help="Accuracy to reach, e.g. 0.8; default stop.target.")] = None,
    metric: Annotated[str | None, typer.Option(help="worst or average.")] = None,
    objective: Annotated[str | None, typer.Option(help="energy, time, cost or pareto.")] = None,
    tau: Annotated[str | None, typer.Option(help=TAU)] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Where results go; default runs/NAME-tune.")] = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one per core.")] = None,
    pool: PoolName = "local",
    engine: FormerEngine = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard earlier results in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the map as JSON, for scripts.")] = False,
) -> None:
    """Which local steps tau, and other knobs, reach the target for the least energy, time or cost, in every regime."""
    use_data(data_dir)
    from wflsim.cli.report import leave_report
    from wflsim.experiments.run import RUNS
    from wflsim.scenario import load, slug
    from wflsim.scenario.schema import remarks

    check_pool(pool, engine)
    given = {"stop.target.accuracy": target, "stop.target.metric": metric, "tune.objective": objective}
    settings = [f"{key}={value}" for key, value in given.items() if value is not None]
    if tau is not None:
        words = tau.strip()
        settings.append(f"tune.knobs.tau={words if words == 'auto' or words.startswith(('{', '[')) else f'[{words}]'}")
    loaded = load(scenario, [*(overrides or []), *settings])
    folder = out_dir or RUNS / f"{slug(loaded.name)}-tune"
    console = Console(stderr=True) if as_json else Console()
    console.print(f"results: {folder}", markup=False, highlight=False)
    for remark in remarks(loaded):
        console.print(remark, markup=False, highlight=False)

    from wflsim.cli.progress import shown
    from wflsim.tune.folder import tables
    from wflsim.tune.folder import tune as ask
    from wflsim.tune.words import answer

    def say(words: str) -> None:
        console.print(words, markup=False, highlight=False)

    with interruptible(), shown(console) as watch:
        folder, found = ask(loaded, folder, workers, fresh, pool, say, watch)
    leave_report(console, [folder])
    if as_json:
        result = {"answer": answer(found), "notes": found.notes, "folder": str(folder)}
        for name, frame in tables(found).items():
            result[name.removesuffix(".csv")] = json.loads(frame.to_json(orient="records", double_precision=15))
        sys.stdout.write(json.dumps(result) + "\n")
        return
    from wflsim.cli.tau_map import front, tau_map

    for table in (*tau_map(found), *front(found)):
        console.print(table)
    for note in found.notes:
        say(note)
    say(f"{found.trained_rounds} rounds were trained now, all others were known")
    console.print(answer(found), markup=False, highlight=False, style="bold")
