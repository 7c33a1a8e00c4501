"""How long things take, and who keeps the others waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wflsim.answer import duration
from wflsim.report.axes import time_axis
from wflsim.report.charts.chart import Chart, view
from wflsim.report.legs import WORK, Story
from wflsim.report.series import Series


def latency(stories: Mapping[Series, Story]) -> Chart:
    """p50 as a marker, p95 at the end of its whisker, for rounds and for each activity of each phase."""
    rows = {each: _rows(each, story) for each, story in stories.items()}
    names = list(dict.fromkeys(name for row in rows.values() for name in sorted(row, key=_order)))
    names.sort(key=_order)
    units = time_axis("duration", max(p95 for row in rows.values() for _, p95 in row.values()))
    offsets = np.linspace(-0.28, 0.28, len(rows)) if len(rows) > 1 else [0.0]
    data: list[dict[str, Any]] = []
    for (each, row), offset in zip(rows.items(), offsets, strict=True):
        shown = [name for name in names if name in row]
        p50 = np.array([row[name][0] for name in shown]) / units.size
        p95 = np.array([row[name][1] for name in shown]) / units.size
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": each.markup,
                "x": p50,
                "y": [names.index(name) + offset for name in shown],
                "error_x": {"type": "data", "symmetric": False, "array": p95 - p50, "arrayminus": 0 * p50,
                            "color": f"{each.style.token}/70", "thickness": 1.6, "width": 5},
                "marker": {"color": each.style.token, "size": 9, "symbol": each.style.marker},
                "customdata": [[duration(row[name][0]), duration(row[name][1])] for name in shown],
                "hovertemplate": f"{each.markup}<br>p50 %{{customdata[0]}}, p95 %{{customdata[1]}}<extra></extra>",
            }
        )  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": units.title}, "rangemode": "tozero"},
        "yaxis": {"tickvals": list(range(len(names))), "ticktext": names, "range": [len(names) - 0.5, -0.5],
                  "automargin": True, "zeroline": False},
    }  # fmt: skip
    note = (
        "Marker: median (p50). End of the whisker: p95. Rounds over all seeds; "
        "activities over all clients, rounds and seeds."
    )
    height = 150 + len(names) * max(34, 11 * len(rows))
    return Chart("latency", "Latency by phase", note, {"": view(data, **layout)}, height=min(760, height))


def stragglers(stories: Mapping[Series, Story]) -> Chart | None:
    """How often each client is the one everybody waits for."""
    shown = {each: story.last for each, story in stories.items() if len(story.last)}
    if not shown:
        return None
    clients = sorted(set().union(*(share.index for share in shown.values())))
    share = np.array([[values.get(client, np.nan) for client in clients] for values in shown.values()], float)
    heat = {
        "type": "heatmap",
        "z": share,
        "x": [str(client) for client in clients],
        "y": [each.markup for each in shown],
        "colorscale": "@sequential",
        "zmin": 0,
        "zmax": float(np.nanmax(share)),
        "xgap": 2,
        "ygap": 2,
        "colorbar": {"tickformat": ".0%", "thickness": 10, "outlinewidth": 0},
        "hovertemplate": "%{y}, client %{x}: last in %{z:.0%} of its rounds<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "client"}, "type": "category", "showgrid": False},
        "yaxis": {"type": "category", "automargin": True, "autorange": "reversed", "showgrid": False},
    }
    note = "Share of the rounds a client took part in where it finished after all others."
    return Chart("stragglers", "Stragglers", note, {"": view([heat], **layout)}, height=max(220, 140 + 30 * len(shown)))


def _rows(series: Series, story: Story) -> dict[str, tuple[float, float]]:
    spans = np.concatenate([(rounds["end_s"] - rounds["start_s"]).to_numpy() for rounds in series.rounds.values()])
    p50, p95 = np.quantile(spans, (0.5, 0.95))
    rows = {"whole round": (float(p50), float(p95))}
    for row in story.durations.to_dict("records"):
        if row["activity"] in WORK:
            name = f"{row['activity']}, phase {row['phase'] + 1}" if row["phase"] else str(row["activity"])
            rows[name] = (float(row["p50_s"]), float(row["p95_s"]))
    return rows


def _order(name: str) -> tuple[int, str]:
    activity, _, phase = name.partition(", phase ")
    order: Sequence[str] = ("whole round", *WORK)
    return (10 * int(phase or 1) if activity != "whole round" else 0) + order.index(activity), name
