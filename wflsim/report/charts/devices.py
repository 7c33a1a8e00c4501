"""What devices spend and how long they take: energy by cause and client, latency by phase, and stragglers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.formats import duration
from wflsim.analysis.legs import CAUSES, WORK
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.series import Series
from wflsim.report.story import Story
from wflsim.report.style import Axis, si_axis, time_axis


def energy_by_cause(stories: Mapping[Series, Story]) -> Chart:
    """Draw one bar per policy, as long as the energy of the comparison table, in parts by cause."""
    totals = pd.DataFrame({each.markup: story.energy.sum() for each, story in stories.items()})
    units = si_axis("energy per run", "J", float(totals.sum().max()))
    used = [cause for cause in CAUSES if totals.loc[cause].any()]
    share = totals / totals.sum()
    data = [_bar(cause, list(totals.columns), totals.T[cause] / units.size, share.T[cause], units) for cause in used]
    note = (
        "Mean over seeds, up to the target (the whole run where it was missed): the bars add up to the energy in the "
        "table. “In vain” is what was spent on activities that were lost, late or cut short."
    )
    height = 130 + 38 * len(totals.columns)
    return Chart(
        "energy-cause", "Energy by cause", note, {"": _bars(data, units, reverse=True)}, height=max(220, height)
    )


def energy_by_client(stories: Mapping[Series, Story]) -> Chart:
    """Draw one bar per client, in parts by cause, for one policy at a time."""
    units = si_axis("energy per run", "J", max(float(story.energy.sum(axis=1).max()) for story in stories.values()))
    top = max(float(story.energy.sum(axis=1).max()) for story in stories.values()) / units.size
    views = {}
    for i, story in enumerate(stories.values()):
        share = story.energy.div(story.energy.sum(axis=1), axis=0)
        clients = [str(client) for client in story.energy.index]
        data = [
            {**_bar(cause, clients, story.energy[cause] / units.size, share[cause], units), "orientation": "v"}
            for cause in CAUSES
            if story.energy[cause].any()
        ]
        for bar in data:
            bar["x"], bar["y"] = bar["y"], bar["x"]
            bar["hovertemplate"] = bar["hovertemplate"].replace("%{x", "%{y")
        views[str(i)] = view(
            data,
            barmode="stack",
            bargap=0.3,
            legend={"traceorder": "normal"},
            xaxis={"title": {"text": "client"}, "type": "category"},
            yaxis={"title": {"text": units.title}, "range": [0, top * 1.05]},
        )
    options = {str(i): each.label for i, each in enumerate(stories)}
    note = "Mean over seeds, up to the target; the same scale for every policy."
    return Chart("energy-client", "Energy by client", note, views, [Control("policy", options)], height=340)


def _bar(cause: str, names: list[str], value: pd.Series, share: pd.Series, units: Axis) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": cause,
        "y": names,
        "x": value.to_numpy(float),
        "customdata": share.fillna(0).to_numpy(float),
        "marker": {"color": f"@{cause.replace(' ', '-')}", "line": {"width": 0}},
        "hovertemplate": f"{cause}: %{{x:.3~g}} {units.unit} (%{{customdata:.0%}})<extra></extra>",
    }


def _bars(data: list[dict[str, Any]], units: Axis, reverse: bool) -> dict[str, Any]:
    return view(
        data,
        barmode="stack",
        bargap=0.35,
        legend={"traceorder": "normal"},
        xaxis={"title": {"text": units.title}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed" if reverse else True, "automargin": True, "type": "category", "showgrid": False},
    )


def latency(stories: Mapping[Series, Story]) -> Chart:
    """Draw median (marker) and 95th percentile (whisker) of the length of rounds and of activities by phase."""
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
    """Draw how often each client is the one that everybody waits for, a row per policy."""
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
