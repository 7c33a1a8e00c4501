"""Sweeps and tuning maps: regimes, policies and what they cost, re-derived from the folder's rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wflsim.report.source import Folder
from wflsim.tables import COSTS, Interval

NUMBER = re.compile(r"^\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z%/]*)\s*$")
PREFIXES = {"G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "u": 1e-6, "": 1.0}
UNITS = ("dBm", "dBi", "dB", "Hz", "bps", "bit", "min", "W", "J", "s", "m", "h", "B")
FINALS = ("final_average", "final_worst", "final_std")


@dataclass(frozen=True)
class Sweep:
    """One row per (regime, policy): mean and interval over seeds."""

    keys: list[str]
    cells: pd.DataFrame
    summary: pd.DataFrame

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(self.cells["policy"]))


@dataclass(frozen=True)
class Tune:
    """tau* of every policy in every regime, and the costs it was chosen from."""

    keys: list[str]
    map: pd.DataFrame
    costs: pd.DataFrame | None
    curves: pd.DataFrame | None

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(self.map["policy"]))


def read_sweep(folder: Folder) -> Sweep | None:
    """cells.csv, aggregated as tables.Results does."""
    keys = _keys(folder)
    needed = ["regime", "policy", "seed", *keys, *COSTS, *FINALS]
    cells = folder.frame("cells.csv", needed)
    if cells is None:
        return None
    if "reached" not in cells:
        cells["reached"] = np.nan
    numbers = ["reached", *COSTS, *FINALS]
    cells[numbers] = cells[numbers].apply(pd.to_numeric, errors="coerce")
    cells[["policy", *keys]] = cells[["policy", *keys]].astype(str)
    damaged = cells[list(COSTS)].isna().any(axis=1)
    if damaged.any():
        folder.missing.append(f"{folder.folder / 'cells.csv'}: {int(damaged.sum())} cells without results left out")
        cells = cells[~damaged]
    if not len(cells):
        return None
    return Sweep(keys, cells, summarised(cells, keys, folder.target is not None))


def summarised(cells: pd.DataFrame, keys: Sequence[str], with_target: bool) -> pd.DataFrame:
    """Per (regime, policy): P(reach), then mean, low and high of every cost and final accuracy."""
    rows = []
    for (regime, policy), runs in cells.groupby(["regime", "policy"], sort=False):
        row: dict[str, Any] = {"regime": regime, **{key: runs[key].iloc[0] for key in keys}, "policy": policy}
        row["seeds"] = len(runs)
        spreads = {name: Interval.of(runs[name].tolist()) for name in (*COSTS, *FINALS)}
        if with_target:
            spreads["p_reach"] = Interval.of_share(int(runs["reached"].sum()), len(runs))
        for name, spread in spreads.items():
            row |= {name: spread.mean, f"{name}_low": spread.low, f"{name}_high": spread.high}
        rows.append(row)
    return pd.DataFrame(rows)


def best_policies(summary: pd.DataFrame) -> pd.DataFrame:
    """The winner of each regime: the surest, then the cheapest in energy."""
    sure = summary["p_reach"] if "p_reach" in summary else pd.Series(1.0, summary.index)
    order = summary.assign(_miss=-sure).sort_values(["regime", "_miss", "energy_j"], kind="stable")
    return order.groupby("regime", sort=False).head(1).drop(columns="_miss")


def read_tune(folder: Folder) -> Tune | None:
    """map.csv, and costs.csv and curves.csv where they are."""
    keys = _keys(folder)
    chosen = folder.frame("map.csv", ["policy", "regime", *keys, "tau_star", "cost"])
    if chosen is None:
        return None
    for name in ("tau_star", "cost", "cost_low", "cost_high", "p_reach"):
        chosen[name] = pd.to_numeric(chosen[name], errors="coerce") if name in chosen else np.nan
    chosen[["policy", *keys]] = chosen[["policy", *keys]].astype(str)
    costs = folder.frame("costs.csv", ["policy", "regime", "tau", "cost"])
    curves = folder.frame("curves.csv", ["policy", "tau", "seed", "rounds_to_target"])
    return Tune(keys, chosen, costs, curves)


def ordered(values: Sequence[str]) -> list[str]:
    """Distinct values by size if all are quantities of one kind, else as they come."""
    distinct = list(dict.fromkeys(values))
    sizes = [_size(value) for value in distinct]
    if any(size is None for size in sizes) or len({size[1] for size in sizes if size}) > 1:
        return distinct
    return [value for _, value in sorted(zip(sizes, distinct, strict=True), key=lambda pair: pair[0] or (0.0, ""))]


def name_of(row: Any, keys: Sequence[str]) -> str:
    """10 dB, 1 MHz"""
    return ", ".join(str(row[key]) for key in keys) or "as given"


def short_key(key: str) -> str:
    """radio.snr -> snr"""
    return key.rsplit(".", 1)[-1].replace("_", " ")


def _size(text: str) -> tuple[float, str] | None:
    match = NUMBER.match(text)
    if not match:
        return None
    value, unit = float(match[1]), match[2]
    for base in UNITS:
        if unit.endswith(base) and unit[: -len(base)] in PREFIXES:
            return value * PREFIXES[unit[: -len(base)]], base
    return value, unit


def _keys(folder: Folder) -> list[str]:
    held = folder.about.get("keys")
    return [str(key) for key in held] if isinstance(held, list) else []
