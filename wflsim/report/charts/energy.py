"""Where the joules go: by cause, by client; and energy against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from wflsim.report.axes import Axis, si_axis, time_axis
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.legs import CAUSES, Story
from wflsim.report.pareto import front
from wflsim.report.series import Series


def energy_by_cause(stories: Mapping[Series, Story]) -> Chart:
    """One bar per policy, its height the energy of the comparison table."""
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
    """Clients side by side, a policy at a time."""
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


def pareto(series: Sequence[Series]) -> Chart | None:
    """Energy against time to the target: small dots are seeds, large ones means; hollow where the target was missed."""
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
