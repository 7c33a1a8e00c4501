"""Charts of sweeps: maps over two keys, lines over one, and energy against time in all regimes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.formats import Show, duration, joules, percent
from wflsim.analysis.regimes import grid, name_of, ordered, short_key, varying
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.style import Axis, cost_axis, log_ticks, style
from wflsim.report.sweep import Sweep

COSTS: dict[str, tuple[str, Show]] = {
    "energy_j": ("energy", joules),
    "time_s": ("time", duration),
    "final_worst": ("final worst accuracy", percent),
}


def sweep_map(sweep: Sweep, prefix: str) -> Chart | None:
    """Draw costs over the keys of a sweep: over two keys a map per policy and cost, over one a line per policy."""
    keys = varying(sweep.runs, sweep.keys) or sweep.keys[:1]
    if not keys or len(keys) > 2:
        return None
    if len(keys) == 1:
        views = {cost: _lines(sweep, keys[0], cost) for cost in COSTS}
        controls = [Control("show", {cost: title for cost, (title, _) in COSTS.items()})]
        note = (
            "Line: mean over seeds. Band: 95 % interval. Costs are to the target, "
            "or of the whole run where it was missed."
        )
        return Chart(f"{prefix}sweep", f"Over {short_key(keys[0])}", note, views, controls)
    views = {}
    for i, policy in enumerate(sweep.policies):
        rows = sweep.summary[sweep.summary["policy"] == policy]
        for cost, (_, show) in COSTS.items():
            views[f"{i}|{cost}"] = grid_map(rows, keys, cost, [show(value) for value in rows[cost]])
    winners = sweep.winners
    views |= {f"best|{cost}": _winners(winners, keys, sweep.policies, cost) for cost in COSTS}
    policies = {"best": "best policy", **{str(i): policy for i, policy in enumerate(sweep.policies)}}
    controls = [Control("policy", policies), Control("show", {cost: title for cost, (title, _) in COSTS.items()})]
    note = (
        "Mean over seeds in every regime. “Best policy” is the one that reaches the target most surely, and of those "
        "the one with the least energy."
    )
    lines = sweep.summary[keys[1]].nunique()
    title = f"Map over {short_key(keys[0])} and {short_key(keys[1])}"
    return Chart(f"{prefix}sweep", title, note, views, controls, height=int(np.clip(190 + 46 * lines, 300, 680)))


def grid_map(rows: pd.DataFrame, keys: Sequence[str], value: str, texts: Sequence[str]) -> dict[str, Any]:
    """A heat map over two keys with a text in each entry; coloured by logarithm where values span much."""
    held = grid(rows, keys[0], keys[1], value, texts)
    z = held.values
    positive = z[np.isfinite(z) & (z > 0)]
    wide = len(positive) > 1 and positive.max() > 8 * positive.min() and value != "final_worst"
    heat = {
        "type": "heatmap",
        "z": np.log10(np.where(z > 0, z, np.nan)) if wide else z,
        "x": [escape(x, quote=False) for x in held.xs],
        "y": [escape(y, quote=False) for y in held.ys],
        "text": [[escape(text, quote=False) for text in row] for row in held.texts],
        "texttemplate": "%{text}",
        "colorscale": "@sequential",
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hovertemplate": f"{_axis(keys[0])} %{{x}}, {_axis(keys[1])} %{{y}}: %{{text}}<extra></extra>",
    }
    return view([heat], **_map_axes(keys))


def _winners(winners: pd.DataFrame, keys: Sequence[str], policies: list[str], cost: str) -> dict[str, Any]:
    """A map with each regime in the colour of its winner, and the cost written in it."""
    xs, ys = ordered(winners[keys[0]].tolist()), ordered(winners[keys[1]].tolist())
    data = []
    for i, policy in enumerate(policies):
        rows = winners[winners["policy"] == policy]
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": escape(policy, quote=False),
                "x": [escape(x, quote=False) for x in rows[keys[0]]],
                "y": [escape(y, quote=False) for y in rows[keys[1]]],
                "text": [COSTS[cost][1](value) for value in rows[cost]],
                "textposition": "bottom center",
                "textfont": {"size": 11},
                "marker": {"size": 18, "color": style(i).token, "symbol": style(i).marker},
                "hovertemplate": f"{escape(policy, quote=False)}<br>%{{x}}, %{{y}}: %{{text}}<extra></extra>",
            }
        )
    layout = _map_axes(keys)
    layout["xaxis"] |= {"categoryorder": "array", "categoryarray": [escape(x, quote=False) for x in xs]}
    layout["yaxis"] |= {"categoryorder": "array", "categoryarray": [escape(y, quote=False) for y in ys]}
    layout["xaxis"]["range"] = [-0.5, len(xs) - 0.5]
    layout["yaxis"]["range"] = [-0.6, len(ys) - 0.4]
    return view(data, **layout)


def _map_axes(keys: Sequence[str]) -> dict[str, dict[str, Any]]:
    bare = {"type": "category", "showgrid": False, "zeroline": False}
    return {
        "xaxis": {"title": {"text": _axis(keys[0])}, **bare},
        "yaxis": {"title": {"text": _axis(keys[1])}, "automargin": True, **bare},
    }


def _lines(sweep: Sweep, key: str, cost: str) -> dict[str, Any]:
    xs = ordered(sweep.summary[key].tolist())
    units = (
        Axis("final worst accuracy", 1.0, "")
        if cost.startswith("final")
        else cost_axis(cost, f"{COSTS[cost][0]} to target", float(sweep.summary[cost].max()))
    )
    data: list[dict[str, Any]] = []
    for i, policy in enumerate(sweep.policies):
        rows = sweep.summary[sweep.summary["policy"] == policy].set_index(key)
        rows = rows.loc[[x for x in xs if x in rows.index]]
        labels = [escape(x, quote=False) for x in rows.index]
        data += interval_line(labels, rows, cost, escape(policy, quote=False), i, units.size, COSTS[cost][1])
    y: dict[str, Any] = {"title": {"text": units.title}, "rangemode": "tozero"}
    if cost.startswith("final"):
        y["tickformat"] = ".0%"
    x_axis = {"title": {"text": _axis(key)}, "type": "category", "categoryorder": "array",
              "categoryarray": [escape(x, quote=False) for x in xs]}  # fmt: skip
    return view(data, xaxis=x_axis, yaxis=y)


def interval_line(
    x: Sequence[Any], rows: pd.DataFrame, name: str, title: str, i: int, size: float, show: Show
) -> list[dict[str, Any]]:
    """A line of means, and its interval as a band if it is known everywhere."""
    mean, low, high = (rows[column].to_numpy(float) / size for column in (name, f"{name}_low", f"{name}_high"))
    band = {
        "type": "scatter", "mode": "lines", "x": [*x, *x[::-1]], "y": [*low, *high[::-1]], "fill": "toself",
        "fillcolor": f"{style(i).token}/16", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False,
        "legendgroup": title,
    }  # fmt: skip
    line = {
        "type": "scatter", "mode": "lines+markers", "name": title, "x": list(x), "y": mean, "legendgroup": title,
        "line": {"color": style(i).token, "width": 2.2, "dash": style(i).dash},
        "marker": {"size": 8, "symbol": style(i).marker},
        "text": [show(value) for value in rows[name]], "hovertemplate": f"{title}: %{{text}}<extra></extra>",
    }  # fmt: skip
    return [band, line] if np.isfinite(low).all() and np.isfinite(high).all() else [line]


def sweep_pareto(sweep: Sweep, prefix: str) -> Chart:
    """Draw energy against time, a marker for every regime of every policy."""
    joules = cost_axis("energy_j", "energy to target", float(sweep.summary["energy_j"].max()))
    times = cost_axis("time_s", "simulated time to target", float(sweep.summary["time_s"].max()))
    data = []
    for i, policy in enumerate(sweep.policies):
        rows = sweep.summary[sweep.summary["policy"] == policy]
        missed = (rows["p_reach"] < 1).tolist() if "p_reach" in rows else [False] * len(rows)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": escape(policy, quote=False),
                "x": rows["time_s"].to_numpy(float) / times.size,
                "y": rows["energy_j"].to_numpy(float) / joules.size,
                "text": [escape(name_of(row, sweep.keys), quote=False) for _, row in rows.iterrows()],
                "marker": {"size": 10, "color": style(i).token, "opacity": 0.85,
                           "symbol": [style(i).marker + ("-open" if miss else "") for miss in missed]},
                "hovertemplate": f"{escape(policy, quote=False)}, %{{text}}<br>%{{x:.3~g}} {times.unit}, "
                f"%{{y:.3~g}} {joules.unit}<extra></extra>",
            }
        )  # fmt: skip
    x, y = sweep.summary["time_s"].to_numpy(float) / times.size, sweep.summary["energy_j"].to_numpy(float) / joules.size
    layout = {
        "xaxis": {"title": {"text": times.title}, "type": "log", **log_ticks(x)},
        "yaxis": {"title": {"text": joules.title}, "type": "log", **log_ticks(y)},
    }
    note = (
        "One marker per regime, mean over seeds; hollow where the target was "
        "missed on some seed. Left and low is better."
    )
    return Chart(f"{prefix}pareto", "Energy against time, all regimes", note, {"": view(data, **layout)}, height=440)


def _axis(key: str) -> str:
    return escape(short_key(key), quote=False)
