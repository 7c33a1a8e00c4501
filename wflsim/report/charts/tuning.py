"""Charts of tuning: the map of tau*, the cost of every candidate, and rounds to target."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.formats import cost_text
from wflsim.analysis.ranking import records_of
from wflsim.analysis.regimes import name_of, ordered, short_key, tau_text, varying
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.charts.regimes import grid_map, interval_line
from wflsim.report.style import Axis, cost_axis, style
from wflsim.report.tuning import Tune, truly

REGIMES = 80
"""Number of regimes whose costs are drawn tau by tau; a longer list is no longer one to choose from."""


def tau_map(tune: Tune, prefix: str) -> Chart | None:
    """Draw tau* and its cost: over two regime keys as a map, over one as steps."""
    keys = varying(tune.map, tune.keys)
    if not keys or len(keys) > 2:
        return None
    note = (
        "The number of local steps τ with the least cost. * marks an optimum at the edge of the τ grid: look further. "
        "! marks one that missed the target on some seed, ○ one that a τ cut off by stop.rounds could still beat; "
        "“none”: no τ reaches the target."
    )
    if len(keys) == 1:
        return Chart(f"{prefix}tau-map", f"τ* over {short_key(keys[0])}", note, {"": _steps(tune, keys[0])})
    views = {}
    for i, policy in enumerate(tune.policies):
        rows = tune.map[tune.map["policy"] == policy]
        views[f"{i}|tau"] = grid_map(rows, keys, "tau_star", [tau_text(row) for row in records_of(rows)])
        texts = [cost_text(row["cost"], row["unit"]) for row in records_of(rows)]
        views[f"{i}|cost"] = grid_map(rows, keys, "cost", texts)
    policies = {str(i): policy for i, policy in enumerate(tune.policies)}
    controls = [Control("policy", policies), Control("show", {"tau": "τ*", "cost": "its cost"})]
    height = int(np.clip(190 + 46 * tune.map[keys[1]].nunique(), 300, 680))
    title = f"Map of τ* over {short_key(keys[0])} and {short_key(keys[1])}"
    return Chart(f"{prefix}tau-map", title, note, views, controls, height=height)


def tune_axis(unit: str, largest: float) -> Axis:
    """The axis of a cost that tuning minimises, by the unit of map.csv."""
    column = {"J": "energy_j", "s": "time_s"}.get(unit)
    return cost_axis(column, "cost to target", largest) if column else Axis(f"cost ({unit})", 1.0, unit)


def tau_costs(tune: Tune, prefix: str) -> Chart | None:
    """Draw the cost of every candidate, one regime at a time."""
    if tune.costs is None:
        return None
    unit = str(tune.map["unit"].iloc[0])
    regimes = tune.map.drop_duplicates("regime").head(REGIMES)
    views, names = {}, {}
    for row in regimes.to_dict("records"):
        key = str(row["regime"])
        rows = tune.costs[tune.costs["regime"] == row["regime"]]
        names[key] = name_of(row, tune.keys)
        views[key] = _cost_lines(tune, rows, unit)
    note = (
        "Line: mean over seeds, a run that was cut off counting with all it had spent, one that diverged not at all. "
        "Hollow: some run was cut off, so the cost is a lower bound. Band: 95 % interval."
    )
    if tune.knobs:
        note += " Of each τ, the setting of the other knobs that costs least."
    if tune.map["regime"].nunique() > REGIMES:
        note += f" The first {REGIMES} regimes; costs.csv holds all."
    controls = [Control("regime", names)] if len(names) > 1 else []
    if not controls:
        views = {"": next(iter(views.values()))}
    return Chart(f"{prefix}tau-costs", "What each τ costs", note, views, controls)


def _cost_lines(tune: Tune, rows: pd.DataFrame, unit: str) -> dict[str, Any]:
    units = tune_axis(unit, float(rows["cost"].max()))
    data: list[dict[str, Any]] = []
    for i, policy in enumerate(tune.policies):
        mine = rows[rows["policy"] == policy].sort_values(["tau", "cost"])
        mine = mine.drop_duplicates("tau") if tune.knobs else mine
        mine = mine.reindex(columns=[*mine.columns.union(["cost_low", "cost_high"])])
        taus = mine["tau"].tolist()
        band = interval_line(
            taus, mine, "cost", escape(policy, quote=False), i, units.size, lambda v: cost_text(v, unit)
        )
        if "censored" in mine:
            band[-1]["marker"]["symbol"] = [style(i).marker + ("-open" if cut > 0 else "") for cut in mine["censored"]]
        data += band
    return view(
        data, xaxis={"title": {"text": "local steps τ"}}, yaxis={"title": {"text": units.title}, "rangemode": "tozero"}
    )


def tau_rounds(tune: Tune, prefix: str) -> Chart | None:
    """Draw rounds to target against tau: what training gave, before any radio."""
    if tune.curves is None:
        return None
    data: list[dict[str, Any]] = []
    for i, policy in enumerate(tune.policies):
        rows = tune.curves[tune.curves["policy"] == policy]
        died = [truly(value) for value in rows["diverged"]] if "diverged" in rows else [False] * len(rows)
        rows = of_the_best(tune, policy, rows[~np.array(died, dtype=np.bool_)])
        rows = rows.assign(rounds_to_target=pd.to_numeric(rows["rounds_to_target"], errors="coerce"))
        mean = rows.groupby("tau")["rounds_to_target"].mean()
        name = escape(policy, quote=False)
        reached = [truly(value) for value in rows["reached"]] if "reached" in rows else [True] * len(rows)
        data += [
            {"type": "scatter", "mode": "lines", "name": name, "x": mean.index.tolist(), "y": mean.to_numpy(),
             "line": {"color": style(i).token, "width": 2.2, "dash": style(i).dash}, "legendgroup": name,
             "hovertemplate": f"{name}: %{{y:.3~g}} rounds<extra></extra>"},
            {"type": "scatter", "mode": "markers", "x": rows["tau"].tolist(),
             "y": rows["rounds_to_target"].to_numpy(float),
             "marker": {"color": f"{style(i).token}/60", "size": 7,
                        "symbol": [style(i).marker + ("" if hit else "-open") for hit in reached]},
             "legendgroup": name, "showlegend": False, "customdata": rows["seed"].tolist(),
             "hovertemplate": f"{name}, seed %{{customdata}}: %{{y:.3~g}} rounds<extra></extra>"},
        ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "local steps τ"}},
        "yaxis": {"title": {"text": "rounds to target"}, "rangemode": "tozero"},
    }
    note = (
        "Markers: seeds; hollow where the target was missed within the rounds allowed, none where the training "
        "diverged. Line: mean over seeds."
    )
    if tune.knobs:
        note += " The other knobs are as in the first regime's answer."
    return Chart(f"{prefix}tau-rounds", "Rounds to target", note, {"": view(data, **layout)})


def of_the_best(tune: Tune, policy: str, curves: pd.DataFrame) -> pd.DataFrame:
    """The trainings whose other knobs are those of the policy's answer in the first regime; without knobs, all."""
    chosen = tune.map[tune.map["policy"] == policy].iloc[0]
    for column in [name for name in tune.knobs if name in curves]:
        curves = curves[curves[column] == chosen[column]]
    return curves


def _steps(tune: Tune, key: str) -> dict[str, Any]:
    xs = ordered(tune.map[key].tolist())
    data = []
    for i, policy in enumerate(tune.policies):
        rows = tune.map[tune.map["policy"] == policy].set_index(key)
        rows = rows.loc[[x for x in xs if x in rows.index]]
        texts = [f"τ* = {tau_text(row)}, {cost_text(row['cost'], row['unit'])}" for row in records_of(rows)]
        hollow = [style(i).marker + ("-open" if words else "") for words in rows["could_win"]]
        name = escape(policy, quote=False)
        data.append(
            {"type": "scatter", "mode": "lines+markers", "name": name,
             "x": [escape(x, quote=False) for x in rows.index],
             "y": rows["tau_star"].to_numpy(float), "text": texts, "hovertemplate": f"{name}: %{{text}}<extra></extra>",
             "line": {"color": style(i).token, "shape": "hvh", "dash": style(i).dash},
             "marker": {"symbol": hollow, "size": 9}}
        )  # fmt: skip
    x_axis = {"title": {"text": escape(short_key(key), quote=False)}, "type": "category", "categoryorder": "array",
              "categoryarray": [escape(x, quote=False) for x in xs]}  # fmt: skip
    return view(data, xaxis=x_axis, yaxis={"title": {"text": "best number of local steps τ*"}, "rangemode": "tozero"})
