"""Comparing result folders: policies x regimes, with intervals, and differences paired on common seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from wflsim.analysis.joining import Comparison, Part, identified, join
from wflsim.analysis.tables import FACTS, Results
from wflsim.door import recorded
from wflsim.errors import StoreError
from wflsim.experiments.plan import regimes
from wflsim.results.folders import ENDED, SCENARIO, runs_table
from wflsim.scenario import Scenario, load


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Join run and sweep folders. Runs in the same world meet in one regime, whichever folder they come from."""
    notes: list[str] = []
    return join([part for folder in folders for part in _parts(Path(folder), notes)], notes)


def _parts(folder: Path, notes: list[str]) -> Iterator[Part]:
    """The runs of a folder, by regime and policy; `notes` is told what was left out."""
    results = Results(folder, partial=True)
    code = results.about.get("code", {})
    with recorded():
        scenario = load(folder / SCENARIO)
        found = {regime.number: regime.scenario for regime in regimes(scenario)}
    if results.kind == "run":
        yield from _of_scenario(folder, scenario, _runs_of_run(results, notes), code)
    else:
        every = _runs_of_sweep(results, notes)
        for number, runs in cast("Any", every.groupby("regime", sort=False)):
            if int(number) not in found:
                raise StoreError(f"{folder}: its runs are of a regime {number} that scenario.yaml does not know")
            yield from _of_scenario(folder, found[int(number)], runs, code)


def _runs_of_run(results: Results, notes: list[str]) -> pd.DataFrame:
    """A line per policy and seed of the runs that have ended."""
    if not results.ended:
        raise StoreError(f"{results.folder}: no run of it has ended yet; run it again, it goes on where it stopped")
    if left_out := len(results.unfinished):
        every = len(results.ended) + left_out
        notes.append(f"{results.folder}: {left_out} of {every} runs have not ended and are left out")
    return results.runs


def _runs_of_sweep(results: Results, notes: list[str]) -> pd.DataFrame:
    """A line per regime, policy and seed, without the runs that failed."""
    folder, ending = results.folder, results.about.get("status")
    if ending != "done":
        raise StoreError(f"{folder}: the sweep is not finished (status: {ending}); run it again, it goes on")
    runs = results.table(runs_table(folder), ("regime", "policy", "seed", *FACTS, "status"))
    good = None if runs is None else runs[runs["status"].isin(ENDED) & runs["energy_j"].notna()]
    if runs is None or good is None or not len(good):
        raise StoreError(f"{folder}: no run of the sweep has a result; run it again")
    if len(good) < len(runs):
        notes.append(f"{folder}: {len(runs) - len(good)} of {len(runs)} runs have no result and are left out")
    return good


def _of_scenario(folder: Path, scenario: Scenario, runs: pd.DataFrame, code: Mapping[str, Any]) -> Iterator[Part]:
    """The runs of one regime, by policy; `code`: digests of what the user brought for a policy, by its label."""
    document = scenario.model_dump(mode="json")
    policies = dict(zip(scenario.labels, document["policies"], strict=True))
    for label, own in runs.groupby("policy", sort=False):
        if str(label) in policies:
            policy = identified(policies[str(label)], code.get(str(label)))
            yield Part(folder.name, document, str(label), policy, own)
