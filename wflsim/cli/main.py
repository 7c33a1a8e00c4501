"""Commands. Each parses, calls one function below, and prints; errors become one message and an exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from wflsim.cli.compare import compare
from wflsim.cli.interrupt import interruptible
from wflsim.cli.options import DataDir, use_data
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

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file (YAML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY.PATH=VALUE", help="Change a key, e.g. --set radio.snr='5 dB'. Repeatable."),
]


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
def run(
    scenario: ScenarioFile,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Where results go; default runs/NAME.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of Monte-Carlo seeds instead of the file's.")] = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one per core.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard earlier results in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, for scripts.")] = False,
    engine: Annotated[str, typer.Option(help="Of sweeps: local processes, or ray (an existing cluster).")] = "local",
) -> None:
    """Run a scenario: every policy and seed, in every regime of its sweep. The same command continues a killed run."""
    use_data(data_dir)
    from wflsim import experiment
    from wflsim.answer import answer, modes, notes
    from wflsim.cli.progress import progress
    from wflsim.cli.show import summary_table
    from wflsim.scenario import load, slug
    from wflsim.world.spec import remarks

    loaded = load(scenario, [*(overrides or []), *([f"seeds={seeds}"] if seeds else [])])
    folder = out_dir or experiment.RUNS / slug(loaded.name)
    console = err if as_json else out
    if engine not in ("local", "ray"):
        raise ScenarioError(f"--engine: got {engine!r}. Allowed: local, ray")
    console.print(f"results: {folder}", markup=False, highlight=False)
    for remark in remarks(loaded.world):
        console.print(remark, markup=False, highlight=False)
    if loaded.sweep is not None:
        from wflsim.cli.sweep import sweep

        with interruptible():
            failed = sweep(loaded, folder, workers, fresh, engine, as_json, console)
        leave_report(console, [folder])
        if failed:
            raise typer.Exit(1)
        return

    def say(words: str) -> None:
        console.print(words, markup=False, highlight=False, soft_wrap=True)

    cells = [(cell.title, cell.folder) for cell in experiment.cells(loaded, folder)]
    with interruptible(), progress(console, cells, loaded.stop.rounds):
        results = experiment.run(loaded, folder, workers, fresh, say)
    leave_report(console, [folder])
    if as_json:
        records = json.loads(results.summary.to_json(orient="records", double_precision=15))
        sys.stdout.write(json.dumps({"answer": answer(results), "folder": str(folder), "summary": records}) + "\n")
        return
    out.print(summary_table(results))
    for note in (*modes(results), *notes(results)):
        out.print(note, markup=False, highlight=False)
    out.print(answer(results), markup=False, highlight=False, style="bold")


@app.command()
def check(
    files: Annotated[list[Path] | None, typer.Argument(metavar="SCENARIO...", help="Scenario files.")] = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of scenarios, for editors.")] = False,
) -> None:
    """Validate scenarios without running them, and say what would run."""
    use_data(data_dir)
    from wflsim.scenario import Scenario, load
    from wflsim.sweep.regimes import regimes

    if schema:
        sys.stdout.write(json.dumps(Scenario.model_json_schema(), indent=2) + "\n")
        return
    if not files:
        raise ScenarioError("check: name at least one scenario file, or --schema")
    findings: list[WflsimError] = []
    good = []
    for file in files:
        try:
            loaded = load(file, overrides or [])
        except ScenarioError as error:
            findings.append(error)
            continue
        try:
            good.append((file, loaded, len(regimes(loaded))))
        except ScenarioError as error:
            findings.append(ScenarioError(f"{file}: {error}"))
    previews: dict[Path, Any] = {}
    if not findings:
        from wflsim.cli.preview import preview

        for file, loaded, _ in good:
            # What only data and devices know, whether the clients have samples for example, comes out here.
            try:
                if loaded.tune is None or loaded.tune.rounds_to_target is None:
                    previews[file] = preview(loaded)
            except WflsimError as error:
                kind = ScenarioError if isinstance(error, ScenarioError) else WflsimError
                findings.append(kind(f"{file}: {error}"))
    if findings:
        kind = ScenarioError if any(isinstance(error, ScenarioError) for error in findings) else WflsimError
        raise kind("\n".join(map(str, findings)))
    for file, loaded, count in good:
        out.print(f"{file}: ok", markup=False, highlight=False)
        if loaded.sweep is not None:
            keys = ", ".join(loaded.sweep.keys)
            out.print(f"{count} regimes of {keys}; below, one without them", markup=False, highlight=False)
        if loaded.tune is not None and loaded.tune.rounds_to_target is not None:
            out.print("rounds to target are given: `wflsim tune` trains nothing", markup=False, highlight=False)
        else:
            out.print(previews[file])


@app.command(name="list")
def list_(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A key such as fading, access, policies; or store.")
    ] = "all",
    prune: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="With store: remove what is older; 0 removes all.")
    ] = None,
) -> None:
    """What there is to choose from; and what is in the store of traces and finished cells."""
    from wflsim.cli.catalogue import tables
    from wflsim.cli.stored import pruned, stored_table
    from wflsim.store import Store

    if prune is not None:
        if what != "store":
            raise ScenarioError("list: --prune DAYS belongs to `wflsim list store`")
        out.print(pruned(Store(), prune), markup=False, highlight=False)
        return
    if what == "store":
        out.print(stored_table(Store()))
        return
    for table in tables(what):
        out.print(table)


@app.command()
def new(file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")]) -> None:
    """Write a commented starter scenario that runs as it is."""
    from wflsim.cli.starter import STARTER

    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(STARTER.format(file=file, name=file.stem if file.stem.isprintable() else "starter"))
    except FileExistsError:
        raise ScenarioError(f"{file} exists already; choose another name") from None
    except OSError as error:
        raise ScenarioError(f"cannot write {file}: {error.strerror or error}") from None
    out.print(f"wrote {file}\nnext: wflsim check {file}\n      wflsim run {file}", markup=False, highlight=False)


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
