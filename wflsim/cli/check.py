"""`wflsim check`: validate scenarios without running them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from wflsim.cli.options import DataDir, Overrides, use_data
from wflsim.errors import ScenarioError, WflsimError

if TYPE_CHECKING:  # every command imports this file, and few need a scenario
    from rich.console import Group

    from wflsim.scenario import Scenario


def check(
    files: Annotated[list[Path] | None, typer.Argument(metavar="SCENARIO...", help="Scenario files.")] = None,
    overrides: Overrides = None,
    data_dir: DataDir = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of scenarios, for editors.")] = False,
) -> None:
    """Validate scenarios without running them, and say what would run."""
    use_data(data_dir)
    if schema:
        from wflsim.scenario import Scenario

        sys.stdout.write(json.dumps(Scenario.model_json_schema(), indent=2) + "\n")
        return
    if not files:
        raise ScenarioError("check: name at least one scenario file, or --schema")
    findings: list[WflsimError] = []
    loaded = _load(files, overrides or [], findings)
    previews = {} if findings else _previews(loaded, findings)
    if findings:
        kind = ScenarioError if any(isinstance(error, ScenarioError) for error in findings) else WflsimError
        raise kind("\n".join(map(str, findings)))
    for file, (scenario, regimes) in loaded.items():
        _show(Console(), file, scenario, regimes, previews.get(file))


def _load(
    files: list[Path], overrides: list[str], findings: list[WflsimError]
) -> dict[Path, tuple[Scenario, int]]:
    """The valid scenarios among these files, each with its number of regimes; what is wrong goes to `findings`."""
    from wflsim.experiments.plan import regimes
    from wflsim.scenario import load

    loaded = {}
    for file in files:
        try:
            scenario = load(file, overrides)
        except ScenarioError as error:
            findings.append(error)
            continue
        try:
            loaded[file] = scenario, len(regimes(scenario))
        except ScenarioError as error:
            findings.append(ScenarioError(f"{file}: {error}"))
    return loaded


def _previews(loaded: dict[Path, tuple[Scenario, int]], findings: list[WflsimError]) -> dict[Path, Group]:
    """What each scenario would do, unless published rounds stand in for training.

    What only data and devices know, whether the clients have samples for example, goes to `findings` here.
    """
    from wflsim.cli.preview import preview

    previews = {}
    for file, (scenario, _) in loaded.items():
        try:
            if scenario.tune is None or scenario.tune.rounds_to_target is None:
                previews[file] = preview(scenario)
        except WflsimError as error:
            kind = ScenarioError if isinstance(error, ScenarioError) else WflsimError
            findings.append(kind(f"{file}: {error}"))
    return previews


def _show(console: Console, file: Path, scenario: Scenario, regimes: int, preview: Group | None) -> None:
    """Print what a valid scenario would do."""
    console.print(f"{file}: ok", markup=False, highlight=False)
    if scenario.sweep is not None:
        keys = ", ".join(scenario.sweep.keys)
        console.print(f"{regimes} regimes of {keys}; below, one without them", markup=False, highlight=False)
    if preview is None:
        console.print("rounds to target are given: `wflsim tune` trains nothing", markup=False, highlight=False)
    else:
        console.print(preview)
