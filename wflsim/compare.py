"""Result folders side by side: policies x regimes, with intervals, and differences paired on common seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from wflsim.errors import StoreError
from wflsim.experiment import ENDED
from wflsim.joining import Comparison, Part, join
from wflsim.scenario import Scenario, load
from wflsim.sweep.regimes import regimes
from wflsim.tables import FACTS, Results


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Join run and sweep folders. Runs in the same world meet in one regime, whichever folder they come from."""
    notes: list[str] = []
    return join([part for folder in folders for part in _parts(Path(folder), notes)], notes)


def _parts(folder: Path, notes: list[str]) -> Iterator[Part]:
    try:
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        scenario = load(folder / "scenario.yaml")
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder} is not a result folder of wflsim: {error}") from error
    kind = about.get("kind", "run") if isinstance(about, dict) else None
    if kind == "run":
        yield from _of_scenario(folder, scenario, _runs(folder, notes))
    elif kind == "sweep":
        cells = _cells(folder, notes)
        found = {regime.number: regime.scenario for regime in regimes(scenario)}
        for number, runs in cast("Any", cells.groupby("regime", sort=False)):
            if int(number) not in found:
                raise StoreError(f"{folder}: cells.csv has a regime {number} that scenario.yaml does not know")
            yield from _of_scenario(folder, found[int(number)], runs)
    else:
        raise StoreError(f"{folder} holds a {kind}; compare joins the folders of `wflsim run`, sweeps included")


def _runs(folder: Path, notes: list[str]) -> pd.DataFrame:
    """A run folder's lines per policy and seed, of the runs that ended."""
    try:
        results = Results(folder)
        begun = len(results.cells)
        ended = {(row["policy"], row["seed"]) for row in results.status.to_dict("records") if row["status"] in ENDED}
        results.cells = {key: path for key, path in results.cells.items() if key in ended}
        runs = results.runs if results.cells else pd.DataFrame()
    except (StoreError, OSError, ValueError, KeyError) as error:
        raise StoreError(f"{folder}: its tables cannot be read ({_why(error)}); run it again, it goes on") from error
    if not len(runs):
        raise StoreError(f"{folder}: no run of it has ended yet; run it again, it goes on where it stopped")
    if len(ended) < begun:
        notes.append(f"{folder}: {begun - len(ended)} of {begun} runs have not ended and are left out")
    return runs


def _cells(folder: Path, notes: list[str]) -> pd.DataFrame:
    """A sweep's lines per regime, policy and seed, without those that failed."""
    try:
        cells = pd.read_csv(folder / "cells.csv")
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder}: the sweep is not finished ({_why(error)}); run it again, it goes on") from error
    if absent := [name for name in ("regime", "policy", "seed", "status", *FACTS) if name not in cells]:
        raise StoreError(f"{folder}: cells.csv has no column {', '.join(absent)}; run the sweep again")
    good = cells[cells["status"].isin(ENDED) & cells["energy_j"].notna()]
    if not len(good):
        raise StoreError(f"{folder}: no cell of the sweep has a result; run it again")
    if len(good) < len(cells):
        notes.append(f"{folder}: {len(cells) - len(good)} of {len(cells)} cells have no result and are left out")
    return good


def _why(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _of_scenario(folder: Path, scenario: Scenario, runs: pd.DataFrame) -> Iterator[Part]:
    document = scenario.model_dump(mode="json")
    policies = dict(zip(scenario.labels, document["policies"], strict=True))
    for label, own in runs.groupby("policy", sort=False):
        if str(label) in policies:
            yield Part(folder.name, document, str(label), policies[str(label)], own)
