"""Result folders side by side: policies x regimes, with intervals, and differences paired on common seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from wflsim.errors import StoreError
from wflsim.folders import ENDED, SCENARIO, about, sealed_file
from wflsim.joining import Comparison, Part, join
from wflsim.scenario import Scenario, load
from wflsim.sweep.regimes import regimes
from wflsim.tables import Results, read_cells


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Join run and sweep folders. Runs in the same world meet in one regime, whichever folder they come from."""
    notes: list[str] = []
    return join([part for folder in folders for part in _parts(Path(folder), notes)], notes)


def _parts(folder: Path, notes: list[str]) -> Iterator[Part]:
    held, marks = about(folder)
    scenario = load(sealed_file(folder, SCENARIO, marks))
    kind = held.get("kind", "run")
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
    results = Results(folder)
    ended, unfinished = results.ended, results.unfinished
    if not ended:
        raise StoreError(f"{folder}: no run of it has ended yet; run it again, it goes on where it stopped")
    if unfinished:
        every = len(ended) + len(unfinished)
        notes.append(f"{folder}: {len(unfinished)} of {every} runs have not ended and are left out")
    results.cells = ended
    return results.runs


def _cells(folder: Path, notes: list[str]) -> pd.DataFrame:
    """A sweep's lines per regime, policy and seed, without those that failed."""
    cells = read_cells(folder)
    good = cells[cells["status"].isin(ENDED) & cells["energy_j"].notna()]
    if not len(good):
        raise StoreError(f"{folder}: no cell of the sweep has a result; run it again")
    if len(good) < len(cells):
        notes.append(f"{folder}: {len(cells) - len(good)} of {len(cells)} cells have no result and are left out")
    return good


def _of_scenario(folder: Path, scenario: Scenario, runs: pd.DataFrame) -> Iterator[Part]:
    document = scenario.model_dump(mode="json")
    policies = dict(zip(scenario.labels, document["policies"], strict=True))
    for label, own in runs.groupby("policy", sort=False):
        if str(label) in policies:
            yield Part(folder.name, document, str(label), policies[str(label)], own)
