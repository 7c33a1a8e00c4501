"""Accuracy against what it costs, and the two main costs against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wflsim.analysis.formats import percent
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.series import AXES, METRICS, Curve, Series, curve, decimated, points_per_curve
from wflsim.report.style import Axis, cost_axis, si_axis, time_axis


def accuracy(series: Sequence[Series]) -> Chart | None:
    """Draw worst, average and spread of accuracy against energy, time, rounds and bits: one line per policy."""
    points = points_per_curve(len(series))
    views = {}
    for metric in METRICS:
        for axis in AXES:
            drawn = {each: line for each in series if (line := curve(each, metric, axis, points))}
            if drawn:
                views[f"{metric}|{axis}"] = _view(drawn, metric, axis)
    if not views:
        return None
    note = (
        "Line: mean over seeds of each run's last evaluation so far. Band: from the lowest to the highest seed. A run "
        "that has ended keeps its last value."
    )
    if decimated(series, points):
        note += f" Curves are cut to {points} points each; the CSV files hold every evaluation."
    short = {"energy_j": "energy", "time_s": "time", "rounds": "rounds", "bits": "bits"}
    controls = [Control("accuracy of", {"worst": "worst client", "average": "average", "std": "spread"})]
    return Chart(
        "accuracy", "How accuracy grows, and what it costs", note, views, [*controls, Control("against", short)]
    )


def _view(drawn: dict[Series, Curve], metric: str, axis: str) -> dict[str, Any]:
    units = cost_axis(axis, AXES[axis], max(float(line.x[-1]) for line in drawn.values()))
    opacity = 16 if len(drawn) < 5 else 7  # many bands would be mud
    data = [trace for each, line in drawn.items() for trace in _traces(each, line, units, opacity)]
    shapes, notes = _target_line(list(drawn), metric)
    title = "std of accuracy over clients" if metric == "std" else f"accuracy, {METRICS[metric]}"
    y: dict[str, Any] = {"title": {"text": title}, "tickformat": ".0%", "rangemode": "tozero"}
    if metric != "std":
        y["range"] = [0, 1.01]
    return view(
        data,
        xaxis={"title": {"text": units.title}, "rangemode": "tozero"},
        yaxis=y,
        shapes=shapes,
        annotations=notes,
        hovermode="x unified",
    )


def _traces(series: Series, line: Curve, units: Axis, opacity: int) -> list[dict[str, Any]]:
    x = line.x / units.size
    # forth along the lowest seed and back along the highest: one closed outline
    band = {
        "type": "scatter",
        "mode": "lines",
        "x": [*x, *x[::-1]],
        "y": np.round([*line.low, *line.high[::-1]], 3),
        "fill": "toself",
        "fillcolor": f"{series.style.token}/{opacity}",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": series.label,
    }
    mean = {
        "type": "scatter",
        "mode": "lines",
        "name": series.markup,
        "x": x,
        "y": np.round(line.mean, 3),
        "line": {"color": series.style.token, "width": 2.2, "dash": series.style.dash},
        "hovertemplate": "%{y:.1%}",
        "legendgroup": series.label,
    }
    return [band, mean] if len(series.seeds) > 1 else [mean]


def _target_line(series: Sequence[Series], metric: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    goals = sorted({each.folder.target["accuracy"] for each in series if each.folder.target
                    and each.folder.target["metric"] == metric})  # fmt: skip
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "line": {"color": "@muted", "width": 1, "dash": "dot"}}
    text = {"xref": "paper", "x": 0.005, "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    return (
        [{**line, "y0": goal, "y1": goal} for goal in goals],
        [
            {**text, "y": goal, "text": f"target {percent(goal)}", "font": {"color": "@muted", "size": 12}}
            for goal in goals
        ],
    )


def pareto(series: Sequence[Series]) -> Chart | None:
    """Draw energy against time to the target: small dots are seeds, large ones means, hollow where it was missed."""
    rows = [each.row for each in series]
    if not rows:
        return None
    joules = si_axis(_to("energy", series), "J", max(float(each.runs["energy_j"].max()) for each in series))
    times = time_axis(_to("simulated time", series), max(float(each.runs["time_s"].max()) for each in series))
    sure = [i for i, row in enumerate(rows) if row.get("p_reach", 1) == 1] or list(range(len(rows)))
    best = [sure[i] for i in front([(rows[i]["time_s"], rows[i]["energy_j"]) for i in sure])]
    line = {
        "type": "scatter", "mode": "lines", "name": "Pareto front", "hoverinfo": "skip",
        "line": {"color": "@muted", "width": 1, "dash": "dot"},
        "x": [rows[i]["time_s"] / times.size for i in best], "y": [rows[i]["energy_j"] / joules.size for i in best],
    }  # fmt: skip
    data = [line] if len(best) > 1 else []
    for each, row in zip(series, rows, strict=True):
        data += _cloud(each, row, times, joules)
    note = (
        "Large marker: mean, with 95 % intervals where there are several seeds; small ones: seeds. Hollow: missed the "
        "target on some seed, so the true cost is higher. Left and low is better."
    )
    layout = {
        "xaxis": {"title": {"text": times.title}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": joules.title}, "rangemode": "tozero"},
    }
    return Chart("pareto", "Energy against time", note, {"": view(data, **layout)}, height=440)


def _cloud(series: Series, row: dict[str, Any], times: Axis, joules: Axis) -> list[dict[str, Any]]:
    colour, runs = series.style.token, series.runs
    seeds = {
        "type": "scatter", "mode": "markers", "legendgroup": series.label, "showlegend": False,
        "x": runs["time_s"].to_numpy(float) / times.size, "y": runs["energy_j"].to_numpy(float) / joules.size,
        "marker": {"color": f"{colour}/45", "size": 5}, "customdata": runs["seed"].tolist(),
        "hovertemplate": f"{series.markup}, seed %{{customdata}}<br>%{{x:.3~g}} {times.unit}, "
        f"%{{y:.3~g}} {joules.unit}<extra></extra>",
    }  # fmt: skip
    missed = row.get("p_reach", 1) < 1
    mean = {
        "type": "scatter", "mode": "markers", "name": series.markup, "legendgroup": series.label,
        "x": [row["time_s"] / times.size], "y": [row["energy_j"] / joules.size],
        "marker": {"color": colour, "size": 12, "symbol": series.style.marker + ("-open" if missed else ""),
                   "line": {"color": colour, "width": 2 if missed else 0}},
        "hovertemplate": f"{series.markup}<br>%{{x:.3~g}} {times.unit}, %{{y:.3~g}} {joules.unit}<extra></extra>",
    }  # fmt: skip
    if len(runs) > 1:
        for axis, name, size in (("x", "time_s", times.size), ("y", "energy_j", joules.size)):
            up, down = (row[f"{name}_high"] - row[name]) / size, (row[name] - row[f"{name}_low"]) / size
            mean[f"error_{axis}"] = {"type": "data", "symmetric": False, "array": [up], "arrayminus": [down],
                                     "color": f"{colour}/60", "thickness": 1.2, "width": 3}  # fmt: skip
    return [seeds, mean] if len(runs) > 1 else [mean]


def _to(what: str, series: Sequence[Series]) -> str:
    return f"{what} to target" if all(each.folder.target for each in series) else f"{what} of the run"


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other one beats in both coordinates (smaller is better), by the first one."""
    order = sorted(range(len(points)), key=lambda i: points[i])
    kept: list[int] = []
    for i in order:
        if not kept or points[i][1] < points[kept[-1]][1]:
            kept.append(i)
    return kept
