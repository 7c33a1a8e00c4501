"""The map of tau*, the cost of every tau, and rounds to target."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd

from wflsim.report.axes import Axis, cost_axis
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.charts.regimes import grid_map, interval_line
from wflsim.report.palette import style
from wflsim.report.regimes import Tune, name_of, ordered, short_key, truly
from wflsim.report.wording import cost_text

REGIMES = 80
"""Whose costs are drawn tau by tau; beyond it the list is no longer one to choose from."""
COLUMN = {"J": "energy_j", "s": "time_s"}


def tau_map(tune: Tune, prefix: str) -> Chart | None:
    """tau* over two regime keys as a map, over one as steps; with the cost it gives."""
    varying = [key for key in tune.keys if tune.map[key].nunique() > 1]
    if not varying or len(varying) > 2:
        return None
    note = (
        "The number of local steps τ with the least cost. * marks an optimum at the edge of the τ grid: look further. "
        "○ marks one that a τ cut off by stop.rounds could still beat; “none”: no τ reaches the target."
    )
    if len(varying) == 1:
        return Chart(f"{prefix}tau-map", f"τ* over {short_key(varying[0])}", note, {"": _steps(tune, varying[0])})
    views = {}
    for i, policy in enumerate(tune.policies):
        rows = tune.map[tune.map["policy"] == policy]
        stars = [_star(row) for row in rows.to_dict("records")]
        views[f"{i}|tau"] = grid_map(rows, varying, "tau_star", pd.Series(stars, rows.index))
        texts = [cost_text(row["cost"], str(row.get("unit", ""))) for row in rows.to_dict("records")]
        views[f"{i}|cost"] = grid_map(rows, varying, "cost", pd.Series(texts, rows.index))
    policies = {str(i): policy for i, policy in enumerate(tune.policies)}
    controls = [Control("policy", policies), Control("show", {"tau": "τ*", "cost": "its cost"})]
    height = int(np.clip(190 + 46 * tune.map[varying[1]].nunique(), 300, 680))
    title = f"Map of τ* over {short_key(varying[0])} and {short_key(varying[1])}"
    return Chart(f"{prefix}tau-map", title, note, views, controls, height=height)


def _star(row: dict[Any, Any]) -> str:
    """5, 5* at the edge of the grid, 5○ if another could still win, none if no tau reaches the target."""
    text = f"{row['tau_star']:.0f}" if np.isfinite(row["tau_star"]) else "none"
    return text + ("*" if row["edge"] else "") + ("○" if row["could_win"] else "")


def tau_costs(tune: Tune, prefix: str) -> Chart | None:
    """Cost against tau, a regime at a time."""
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
    if tune.map["regime"].nunique() > REGIMES:
        note += f" The first {REGIMES} regimes; costs.csv holds all."
    controls = [Control("regime", names)] if len(names) > 1 else []
    if not controls:
        views = {"": next(iter(views.values()))}
    return Chart(f"{prefix}tau-costs", "What each τ costs", note, views, controls)


def _cost_lines(tune: Tune, rows: pd.DataFrame, unit: str) -> dict[str, Any]:
    largest = float(rows["cost"].max())
    units = cost_axis(COLUMN[unit], "cost to target", largest) if unit in COLUMN else Axis(f"cost ({unit})", 1.0, unit)
    data: list[dict[str, Any]] = []
    for i, policy in enumerate(tune.policies):
        mine = rows[rows["policy"] == policy].sort_values("tau")
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
    """Rounds to target against tau: what training gave, before any radio."""
    if tune.curves is None:
        return None
    data: list[dict[str, Any]] = []
    for i, policy in enumerate(tune.policies):
        rows = tune.curves[tune.curves["policy"] == policy]
        died = [truly(value) for value in rows["diverged"]] if "diverged" in rows else [False] * len(rows)
        rows = rows[~np.array(died, dtype=np.bool_)]
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
    return Chart(f"{prefix}tau-rounds", "Rounds to target", note, {"": view(data, **layout)})


def _steps(tune: Tune, key: str) -> dict[str, Any]:
    xs = ordered(tune.map[key].tolist())
    data = []
    for i, policy in enumerate(tune.policies):
        rows = tune.map[tune.map["policy"] == policy].set_index(key)
        rows = rows.loc[[x for x in xs if x in rows.index]]
        texts = [f"τ* = {_star(row)}, {cost_text(row['cost'], str(row.get('unit', '')))}"
                 for row in rows.to_dict("records")]  # fmt: skip
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
