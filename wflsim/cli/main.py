"""The entry point with all commands, and `wflsim run`. Errors become one message and an exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wflsim.cli.check import check
from wflsim.cli.compare import compare
from wflsim.cli.list import list_
from wflsim.cli.new import new
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
from wflsim.cli.report import leave_report, report
from wflsim.cli.tune import tune
from wflsim.errors import ScenarioError, WflsimError

app = typer.Typer(
    name="wflsim",
    help="Wireless-aware federated-learning simulator: one scenario in; energy, time and accuracy with intervals out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)


def _version(asked: bool) -> None:
    if asked:
        from wflsim import __version__

        out.print(f"wflsim {__version__}", markup=False, highlight=False)
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def run(  # one parameter for each argument and option
    scenario: ScenarioFile,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Where results go; default runs/NAME.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of Monte-Carlo seeds instead of the file's.")] = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one per core.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard earlier results in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, for scripts.")] = False,
    pool: PoolName = "local",
    engine: FormerEngine = None,
) -> None:
    """Run a scenario: every policy and seed, in every regime of its sweep. The same command continues a killed run."""
    use_data(data_dir)
    from wflsim.analysis.answer import answer, modes, notes
    from wflsim.cli.progress import progress
    from wflsim.cli.show import summary_table
    from wflsim.experiments.keepers import InFolder
    from wflsim.experiments.run import RUNS, planned
    from wflsim.experiments.run import run as run_scenario
    from wflsim.results.store import Store
    from wflsim.scenario import load, slug
    from wflsim.scenario.schema import remarks

    loaded = load(scenario, [*(overrides or []), *([f"seeds={seeds}"] if seeds else [])])
    folder = out_dir or RUNS / slug(loaded.name)
    console = err if as_json else out
    check_pool(pool, engine)
    console.print(f"results: {folder}", markup=False, highlight=False)
    for remark in remarks(loaded):
        console.print(remark, markup=False, highlight=False)
    if loaded.sweep is not None:
        from wflsim.cli.sweep import sweep

        with interruptible():
            failed = sweep(loaded, folder, workers, fresh, pool, as_json, console)
        leave_report(console, [folder])
        if failed:
            raise typer.Exit(1)
        return

    def say(words: str) -> None:
        console.print(words, markup=False, highlight=False, soft_wrap=True)

    keeper = InFolder(folder, Store().root)
    places = [(one.title, keeper.place(one)) for one in planned(loaded)]
    with interruptible(), progress(console, places, loaded.stop.rounds):
        results = run_scenario(loaded, folder, workers, fresh, say, pool)
    leave_report(console, [folder])
    if as_json:
        records = json.loads(results.summary.to_json(orient="records", double_precision=15))
        sys.stdout.write(json.dumps({"answer": answer(results), "folder": str(folder), "summary": records}) + "\n")
        return
    out.print(summary_table(results))
    for note in (*modes(results), *notes(results)):
        out.print(note, markup=False, highlight=False)
    out.print(answer(results), markup=False, highlight=False, style="bold")


app.command()(check)
app.command(name="list")(list_)
app.command()(new)
app.command()(compare)
app.command()(tune)
app.command()(report)


def main() -> None:
    """Entry point: exit code 2 for what the user wrote, 1 for what went wrong, 130 for Ctrl-C; never a traceback."""
    try:
        app()
    except ScenarioError as error:
        _say(error)
        sys.exit(2)
    except WflsimError as error:
        _say(error)
        sys.exit(1)


def _say(error: WflsimError) -> None:
    err.print(f"wflsim: {error}", markup=False, highlight=False, style="red", soft_wrap=True)
