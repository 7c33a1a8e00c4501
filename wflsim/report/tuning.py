"""A tuning map on the page: tau* of every policy in every regime, the answer in words, and what to know about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.answer import goal_text
from wflsim.analysis.formats import between, cost_text, percent
from wflsim.analysis.ranking import ranked_choices, winners
from wflsim.analysis.regimes import name_of, nearest
from wflsim.analysis.tables import Folder
from wflsim.report.sweep import keys_of, numbers
from wflsim.report.wording import Fact, Opening

UNSEEN = ("cost_unseen", "cost_unseen_low", "cost_unseen_high")
"""Columns of map.csv: what tau* costs on seeds that did not choose it."""
KNOBS = "knobs."
"""Begin of the names of columns that hold knobs besides tau."""
FRONT_READ = ("energy_j", "time_s")
COSTS_READ = {
    "tau", "cost", "cost_low", "cost_high", "p_best", "p_best_most", "p_reach", "censored", "diverged", "attained",
    "rounds_to_target",
}  # fmt: skip
"""Columns of costs.csv and curves.csv that hold numbers, where they are there."""


@dataclass(frozen=True)
class Tune:
    """What a tuning folder holds: tau* of every policy in every regime, and the costs it was chosen from."""

    keys: list[str]
    """Scenario keys that the regimes vary."""
    map: pd.DataFrame
    """map.csv: one row per policy and regime, the policy that wins most first."""
    costs: pd.DataFrame | None
    """costs.csv: one row per policy, regime and candidate; None if it cannot be read."""
    curves: pd.DataFrame | None
    """curves.csv: rounds to target of every candidate and seed; None if it cannot be read."""
    notes: list[str]
    """Notes of the tuning itself, from answer.txt."""
    front: pd.DataFrame | None = None
    """front.csv: the settings that no other beats in energy and time; None where no front was asked for."""

    @property
    def knobs(self) -> list[str]:
        """Columns of the knobs besides tau."""
        return [str(column) for column in self.map.columns if str(column).startswith(KNOBS)]

    @property
    def policies(self) -> list[str]:
        """Names of the policies, the one that wins most regimes first."""
        return list(dict.fromkeys(self.map["policy"]))


def read_tune(folder: Folder) -> Tune | None:
    """Read map.csv, and costs.csv and curves.csv where they can be read; None without a map."""
    keys = keys_of(folder)
    chosen = folder.table("map.csv", ["policy", "regime", *keys, "tau_star", "cost"])
    if chosen is None:
        return None
    for name in ("tau_star", "cost", "cost_low", "cost_high", "p_reach", *UNSEEN):
        chosen[name] = numbers(chosen[name]) if name in chosen else np.nan
    chosen["could_win"] = chosen["could_win"].map(_listed) if "could_win" in chosen else ""
    chosen[["policy", *keys]] = chosen[["policy", *keys]].fillna("").astype(str)
    chosen["edge"] = [truly(value) for value in chosen["edge"]] if "edge" in chosen else False
    chosen["why_edge"] = chosen["why_edge"].astype(object).fillna("").astype(str) if "why_edge" in chosen else ""
    chosen["edge"] &= chosen["why_edge"] == ""  # where a search says why it went no further, nothing is left open
    chosen["unit"] = chosen["unit"].fillna("") if "unit" in chosen else ""
    costs = folder.table("costs.csv", ["policy", "regime", "tau", "cost"])
    curves = folder.table("curves.csv", ["policy", "tau", "seed", "rounds_to_target"])
    for frame in (frame for frame in (costs, curves) if frame is not None):
        frame["policy"] = frame["policy"].fillna("").astype(str)
        for name in set(frame.columns) & COSTS_READ:
            frame[name] = numbers(frame[name])
    front = folder.table("front.csv", ["policy", "regime", "tau", *FRONT_READ]) if _asks_front(folder) else None
    if front is not None:
        for name in [str(column) for column in front if str(column).startswith(FRONT_READ)]:
            front[name] = numbers(front[name])
    held = [frame for frame in (chosen, costs, curves, front) if frame is not None]
    for frame in held:
        for name in [str(column) for column in frame if str(column).startswith(KNOBS)]:
            frame[name] = [_listed(value) if isinstance(value, float) else str(value) for value in frame[name]]
    order = {policy: place for place, policy in enumerate(_by_the_answer(chosen))}
    chosen = chosen.sort_values("policy", key=lambda column: column.map(order), kind="stable", ignore_index=True)
    return Tune(keys, chosen, costs, curves, _notes(folder), front)


def _asks_front(folder: Folder) -> bool:
    return folder.about.get("objective") == "pareto"


def setting_text(row: Any, knobs: Sequence[str]) -> str:
    """The other knobs of a row in words, behind its τ: ", m = 5, radio.power = 31.62 mW"; empty without any."""
    return "".join(f", {column.removeprefix(KNOBS)} = {row[column]}" for column in knobs)


def reached(chosen: pd.DataFrame) -> pd.DataFrame:
    """The rows of a tuning map whose policy reaches the target in that regime."""
    return chosen[chosen["cost"].notna() & (chosen["p_reach"] != 0)]


def best_policies(chosen: pd.DataFrame) -> pd.DataFrame:
    """The row of the winning policy of each regime of a tuning map; none for a regime where nobody reached."""
    return winners(reached(chosen), chosen["regime"], ranked_choices)


def _by_the_answer(chosen: pd.DataFrame) -> list[str]:
    """Policies of a tuning map, the winner of most regimes first; equals by the regimes reached, then as they come."""
    policies = list(dict.fromkeys(chosen["policy"]))
    won = best_policies(chosen)["policy"].value_counts()
    there = reached(chosen)["policy"].value_counts()
    return sorted(policies, key=lambda policy: (-int(won.get(policy, 0)), -int(there.get(policy, 0))))


def truly(value: Any) -> bool:
    """Whether a field of a table means yes: an edge is told by its side, other columns by a bare true."""
    return str(value).strip().lower() in ("true", "1", "1.0", "low", "high")


def _listed(value: Any) -> str:
    """A field that lists numbers separated by blanks, as text: a single number is read back as a float."""
    return "" if value != value else f"{value:.0f}" if isinstance(value, float) else str(value)


def _notes(folder: Folder) -> list[str]:
    """The lines of answer.txt after its answer, which the page derives from the tables instead."""
    try:
        return (folder.folder / "answer.txt").read_text(encoding="utf-8").splitlines()[1:]
    except (OSError, ValueError):
        return []


def tune_opening(folder: Folder, tune: Tune) -> Opening:
    """Say which tau is the best and what it costs; over a map, from where to where tau* moves."""
    chosen = reached(tune.map)
    objective = str(folder.about.get("objective", "energy")).replace("pareto", "energy")
    goal = goal_text(_target(folder))
    if not len(chosen):
        return Opening(f"No τ reaches {goal}{_nearest(tune)}.", "", [])
    won = best_policies(tune.map)
    best = won.iloc[int(won["cost"].to_numpy().argmin())]
    unit = str(best.get("unit", ""))
    setting = f"τ = {best['tau_star']:.0f}{setting_text(best, tune.knobs)}"
    if chosen["regime"].nunique() == 1:
        text = f"{best['policy']} with {setting} reaches {goal} with {_cost(best, unit)}"
        for _, row in chosen[chosen["policy"] != best["policy"]].iterrows():
            text += f", {_less(best, row)} {row['policy']} at its best τ = {row['tau_star']:.0f}"
    else:
        policy = str(won["policy"].value_counts().index[0])
        rows = chosen[chosen["policy"] == policy]
        low, high = (rows.loc[rows["tau_star"].agg(pick)] for pick in ("idxmin", "idxmax"))
        span = f"τ = {low['tau_star']:.0f} everywhere"
        if low["tau_star"] != high["tau_star"]:
            ends = (f"{row['tau_star']:.0f} ({name_of(row, tune.keys)})" for row in (low, high))
            span = f"τ from {' to '.join(ends)}"
        count = int((won["policy"] == policy).sum())
        wins = f" in {count} of {len(won)} regimes" if len(tune.policies) > 1 else ""
        text = f"{policy} reaches {goal} at the least {objective}{wins} with {span}; cheapest at "
        text += f"{name_of(best, tune.keys)}: {_cost(best, unit)} with {setting}"
        if best["policy"] != policy:
            text += f" of {best['policy']}"
    facts = [
        Fact("objective", objective),
        Fact("accounting", str(folder.about.get("accounting", "full"))),
        Fact("τ*", f"{best['tau_star']:.0f}", _beside(tune, best)),
        Fact("its cost", cost_text(best["cost"], unit), _range(best, unit)),
    ]
    if np.isfinite(best["cost_unseen"]):
        facts.append(Fact("on unseen seeds", cost_text(best["cost_unseen"], unit), _range(best, unit, "cost_unseen")))
    return Opening(text + ".", _tune_sure(tune, best), facts)


def _beside(tune: Tune, best: Any) -> str:
    """What stands below τ*: the other knobs; without any, the 5 % set."""
    if tune.knobs:
        return setting_text(best, tune.knobs).removeprefix(", ")
    return f"within 5 %: {best['within5']}" if pd.notna(best.get("within5")) else ""


def _nearest(tune: Tune) -> str:
    """The candidate that came nearest to a target which none reaches: "; nearest: drdm with τ = 5 at 71.2 %"."""
    row = None if tune.costs is None else nearest(tune.costs)
    if row is None:
        return ""
    return f"; nearest: {row['policy']} with τ = {row['tau']:.0f} at {percent(row['attained'])}"


def _less(best: Any, row: Any) -> str:
    """How the best policy compares with another at its own best τ: by its cost, or by how surely it reaches."""
    if row["p_reach"] < best["p_reach"]:
        return f"more surely ({percent(best['p_reach'])} of seeds) than the {percent(row['p_reach'])} of"
    return f"{100 * (1 - best['cost'] / row['cost']):.0f} % less than"


def _tune_sure(tune: Tune, best: Any) -> str:
    parts = []
    if np.isfinite(best["cost_unseen"]):
        unit = str(best.get("unit", ""))
        parts.append(
            f"on seeds that did not choose it τ = {best['tau_star']:.0f} costs {cost_text(best['cost_unseen'], unit)} "
            f"[{_range(best, unit, 'cost_unseen').replace(' to ', ', ')}]: a winner looks cheaper than it is on the "
            f"seeds that chose it"
        )
    if tune.costs is not None and "p_best" in tune.costs:
        row = tune.costs[
            (tune.costs["policy"] == best["policy"]) & (tune.costs["regime"] == best["regime"])
            & (tune.costs["tau"] == best["tau_star"])
        ]  # fmt: skip
        for column in tune.knobs:
            row = row[row[column] == best[column]]
        if len(row) and pd.notna(row["p_best"].iloc[0]):
            most = row["p_best_most"].iloc[0] if "p_best_most" in row else row["p_best"].iloc[0]
            least = "at least " if most - row["p_best"].iloc[0] > 0.0005 else ""
            parts.append(
                f"τ = {best['tau_star']:.0f} is the best of the grid with probability "
                f"{least}{percent(row['p_best'].iloc[0])}"
            )
        elif len(row) and np.isfinite(best["cost_low"]):
            parts.append("two seeds cannot say which τ is best")
    if pd.notna(best.get("within5")):
        within = str(best["within5"])
        words = f"{within.count('; ') + 1} settings" if tune.knobs else f"τ = {', '.join(within.split())}"
        parts.append(f"within 5 % of the least cost: {words}")
    if not np.isfinite(best["cost_low"]):
        parts.append("no interval, there is only one curve per τ")
    elif pd.notna(best.get("p_reach")):
        parts.append(f"P(reach) {percent(best['p_reach'])}")
    return f"How sure: {'; '.join(parts)}." if parts else ""


def _target(folder: Folder) -> dict[str, Any] | None:
    held = folder.about.get("target", folder.target)
    if isinstance(held, int | float):
        return {"metric": (folder.target or {}).get("metric", "worst"), "accuracy": float(held)}
    return held if isinstance(held, dict) and "accuracy" in held and "metric" in held else folder.target


def _cost(row: Any, unit: str) -> str:
    mean, low, high = (cost_text(row[name], unit) for name in ("cost", "cost_low", "cost_high"))
    return between(mean, low, high) if np.isfinite(row["cost_low"]) else mean


def _range(row: Any, unit: str, name: str = "cost") -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{cost_text(low, unit)} to {cost_text(high, unit)}" if np.isfinite(low) else ""
