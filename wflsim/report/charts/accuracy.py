"""Worst, average and spread of client accuracy against rounds, time, energy and bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wflsim.answer import percent
from wflsim.report.axes import Axis, cost_axis
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.curves import AXES, METRICS, Curve, curve, decimated, points_per_curve
from wflsim.report.series import Series


def accuracy(series: Sequence[Series]) -> Chart | None:
    """One line per policy, the range over seeds behind it, the target across."""
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
