"""Result folders side by side: policies x regimes, with intervals, and differences paired on common seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from wflsim.errors import StoreError
from wflsim.scenario import Scenario, load
from wflsim.sweep.regimes import regimes
from wflsim.tables import Interval, Results, over_seeds

COSTS = ("energy_j", "paper_energy_j", "time_s")
APART = {"name", "description", "seeds", "policies", "sweep", "tune"}
"""What may differ between two folders that share a regime."""


class Comparison(NamedTuple):
    """`lines`: one per regime and policy; `pairs`: every policy against the best of its regime, on common seeds."""

    lines: pd.DataFrame
    pairs: pd.DataFrame


def compare(folders: Sequence[str | Path]) -> Comparison:
    """Join run and sweep folders. Runs in the same world meet in one regime, whichever folder they come from."""
    parts = [part for folder in folders for part in _parts(Path(folder))]
    order = list(dict.fromkeys(part.same for part in parts))
    names = {same: next(part.name for part in parts if part.same == same) for same in order}
    frames = []
    seen: dict[tuple[str, str], Path] = {}
    for part in parts:
        first = seen.setdefault((part.same, part.policy), part.folder)
        label = part.policy if first == part.folder else f"{part.policy} ({part.folder.name})"
        frames.append(part.runs.assign(regime=names[part.same] if len(order) > 1 else "", policy=label))
    runs = pd.concat(frames, ignore_index=True)
    has_target = any(part.has_target for part in parts)
    lines, pairs = [], []
    for regime, group in runs.groupby("regime", sort=False):
        rows = [
            {"regime": regime, "policy": policy, **over_seeds(own, has_target)}
            for policy, own in group.groupby("policy", sort=False)
        ]
        lines += rows
        best = min(rows, key=lambda row: (-row.get("p_reach", 0.0), row["energy_j"]))
        pairs += [
            {"regime": regime, "policy": row["policy"], "against": best["policy"],
             **paired(group, str(row["policy"]), str(best["policy"]))}
            for row in rows if row is not best
        ]  # fmt: skip
    return Comparison(pd.DataFrame(lines), pd.DataFrame(pairs))


def paired(runs: pd.DataFrame, policy: str, other: str) -> dict[str, Any]:
    """Differences policy - other on seeds that both have: data, batches and sky of a seed are the same for both."""
    one, two = (runs[runs["policy"] == name].set_index("seed") for name in (policy, other))
    both = one.join(two.add_suffix("_other"), how="inner")
    row: dict[str, Any] = {"common_seeds": len(both)}
    for name in COSTS:
        gap = Interval.of((both[name] - both[f"{name}_other"]).tolist()) if len(both) else Interval(*[np.nan] * 3)
        row |= {f"{name}_more": gap.mean, f"{name}_more_low": gap.low, f"{name}_more_high": gap.high}
    missed = (both["reached"] == 0) | (both["reached_other"] == 0)
    return {**row, "missed_seeds": int(missed.sum())}


class _Part(NamedTuple):
    """One policy in one regime of one folder."""

    folder: Path
    same: str
    name: str
    policy: str
    runs: pd.DataFrame
    has_target: bool


def _parts(folder: Path) -> Iterator[_Part]:
    try:
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        scenario = load(folder / "scenario.yaml")
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder} is not a result folder of wflsim: {error}") from error
    kind = about.get("kind", "run")
    if kind == "run":
        results = Results(folder)
        for policy, runs in results.runs.groupby("policy", sort=False):
            yield _Part(folder, _same(scenario), scenario.name, str(policy), runs, results.target is not None)
    elif kind == "sweep":
        try:
            cells = pd.read_csv(folder / "cells.csv")
        except (OSError, ValueError) as error:
            raise StoreError(f"{folder}: the sweep is not finished ({error}); run it again, it goes on") from error
        cells = cells[cells["status"] != "failed"]
        found = {regime.number: regime for regime in regimes(scenario)}
        for key, runs in cast("Any", cells.groupby(["regime", "policy"], sort=False)):
            regime = found[int(key[0])]
            name = ", ".join(f"{name.rsplit('.', 1)[-1]} {value}" for name, value in regime.values.items())
            target = regime.scenario.stop.target is not None
            yield _Part(folder, _same(regime.scenario), name, str(key[1]), runs, target)
    else:
        raise StoreError(f"{folder} holds a {kind}; compare joins the folders of `wflsim run`, sweeps included")


def _same(scenario: Scenario) -> str:
    return json.dumps(scenario.model_dump(mode="json", exclude=APART), sort_keys=True)
