"""Sweeps and tuning maps: regimes, policies and what they cost, re-derived from the folder's rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wflsim.ranking import ranked
from wflsim.report.source import HUGE, Folder
from wflsim.tables import COSTS, FACTS, over_seeds

NUMBER = re.compile(r"^\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z%/]*)\s*$")
PREFIXES = {"G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "u": 1e-6, "": 1.0}
UNITS = ("dBm", "dBi", "dB", "Hz", "bps", "bit", "min", "W", "J", "s", "m", "h", "B")
UNSEEN = ("cost_unseen", "cost_unseen_low", "cost_unseen_high")
"""Columns of map.csv: what tau* costs on seeds that did not choose it."""
COSTS_READ = {
    "tau", "cost", "cost_low", "cost_high", "p_best", "p_best_most", "p_reach", "censored", "diverged", "attained",
    "rounds_to_target",
}  # fmt: skip
"""Columns of costs.csv and curves.csv that hold numbers, where they are there."""


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
    notes: list[str]
    """What tuning itself had to say."""

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(self.map["policy"]))


def read_sweep(folder: Folder) -> Sweep | None:
    """cells.csv, aggregated as tables.Results does; cells that failed are counted, not shown."""
    keys = _keys(folder)
    cells = folder.frame("cells.csv", ["regime", "policy", "seed", *keys, *COSTS])
    if cells is None:
        return None
    cells = cells.reindex(columns=[*dict.fromkeys([*cells.columns, *FACTS, "status", "reason"])])
    cells[list(FACTS)] = cells[list(FACTS)].apply(numbers)
    cells["reached"] = (cells["reached"] > 0).astype(float)
    cells[["policy", *keys, "status", "reason"]] = cells[["policy", *keys, "status", "reason"]].fillna("").astype(str)
    failed = cells[list(COSTS)].isna().any(axis=1)
    if failed.any():
        why = "; ".join(dict.fromkeys(reason for reason in cells[failed]["reason"] if reason))[:200]
        folder.missing.append(
            f"cells.csv: {int(failed.sum())} of {len(cells)} cells have no result{f' ({why})' if why else ''}"
        )
    cells = cells[~failed]
    if not len(cells):
        return None
    rows = [
        {"regime": regime, **{name: runs[name].iloc[0] for name in keys}, "policy": policy,
         **over_seeds(runs, folder.target is not None)}
        for (regime, policy), runs in cells.groupby(["regime", "policy"], sort=False)
    ]  # fmt: skip
    return Sweep(keys, cells, pd.DataFrame(rows))


def best_policies(summary: pd.DataFrame) -> pd.DataFrame:
    """The winner of each regime, by the rule of `ranking`."""
    rows = [{str(key): value for key, value in row.items()} for row in summary.to_dict("records")]
    regimes = dict.fromkeys(row["regime"] for row in rows)
    return pd.DataFrame([ranked([row for row in rows if row["regime"] == regime])[0] for regime in regimes])


def read_tune(folder: Folder) -> Tune | None:
    """map.csv, and costs.csv and curves.csv where they are."""
    keys = _keys(folder)
    chosen = folder.frame("map.csv", ["policy", "regime", *keys, "tau_star", "cost"])
    if chosen is None:
        return None
    for name in ("tau_star", "cost", "cost_low", "cost_high", "p_reach", *UNSEEN):
        chosen[name] = numbers(chosen[name]) if name in chosen else np.nan
    chosen["could_win"] = chosen["could_win"].map(_listed) if "could_win" in chosen else ""
    chosen[["policy", *keys]] = chosen[["policy", *keys]].fillna("").astype(str)
    chosen["edge"] = [truly(value) for value in chosen["edge"]] if "edge" in chosen else False
    chosen["unit"] = chosen["unit"].fillna("") if "unit" in chosen else ""
    costs = folder.frame("costs.csv", ["policy", "regime", "tau", "cost"])
    curves = folder.frame("curves.csv", ["policy", "tau", "seed", "rounds_to_target"])
    for frame in (frame for frame in (costs, curves) if frame is not None):
        frame["policy"] = frame["policy"].fillna("").astype(str)
        for name in set(frame.columns) & COSTS_READ:
            frame[name] = numbers(frame[name])
    order = {policy: place for place, policy in enumerate(_by_the_answer(chosen))}
    chosen = chosen.sort_values("policy", key=lambda column: column.map(order), kind="stable", ignore_index=True)
    return Tune(keys, chosen, costs, curves, _notes(folder))


def best_in_regimes(chosen: pd.DataFrame) -> pd.DataFrame:
    """The winning policy of each regime of a tuning map: the surest, then the cheapest; nobody where none reached."""
    reached = chosen[chosen["cost"].notna() & (chosen["p_reach"] != 0)]
    order = reached.assign(_miss=-reached["p_reach"].fillna(1.0))
    order = order.sort_values(["regime", "_miss", "cost"], kind="stable")
    return order.groupby("regime", sort=False).head(1).drop(columns="_miss")


def _by_the_answer(chosen: pd.DataFrame) -> list[str]:
    """Policies of a tuning map, the winner of most regimes first; equals by the regimes reached, then as they come."""
    policies = list(dict.fromkeys(chosen["policy"]))
    won = best_in_regimes(chosen)["policy"].value_counts()
    reached = chosen[chosen["cost"].notna() & (chosen["p_reach"] != 0)]["policy"].value_counts()
    return sorted(policies, key=lambda policy: (-int(won.get(policy, 0)), -int(reached.get(policy, 0))))


def numbers(column: pd.Series) -> pd.Series:
    """As floats; what is no number of ours is missing."""
    values = pd.to_numeric(column, errors="coerce")
    return values.where(values.abs() <= HUGE)


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


def truly(value: Any) -> bool:
    """An edge is told by its side, or by a bare true."""
    return str(value).strip().lower() in ("true", "1", "1.0", "low", "high")


def _listed(value: Any) -> str:
    """A cell of numbers separated by blanks: a single one is read back as a float."""
    return "" if value != value else f"{value:.0f}" if isinstance(value, float) else str(value)


def _notes(folder: Folder) -> list[str]:
    """answer.txt without its answer: that is derived from the tables here."""
    try:
        return (folder.folder / "answer.txt").read_text(encoding="utf-8").splitlines()[1:]
    except (OSError, ValueError):
        return []


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
