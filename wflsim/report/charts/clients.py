"""Clients one by one: the timeline of a round, who takes part with what weight and accuracy, and who holds what."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.formats import duration, si
from wflsim.analysis.legs import CAUSES, cause
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.series import Series
from wflsim.report.story import Heat, Story, Window, columns_for, heats, lanes
from wflsim.report.style import time_axis


def timeline(stories: Mapping[Series, Story]) -> Chart | None:
    """Draw a Gantt chart of the legs of a few moments, one policy and moment at a time."""
    shown = {each: story.windows for each, story in stories.items() if story.windows}
    if not shown:
        return None
    views, moments, clients = {}, {}, 0
    for i, (each, windows) in enumerate(shown.items()):
        for j, window in enumerate(windows):
            key = f"{i}.{j}"
            views[key] = _gantt(window)
            moments[key] = f"{each.label}: {window.title}"
            clients = max(clients, window.legs["client"].nunique())
    seed = next(iter(shown.values()))[0].seed
    note = (
        f"A few telling moments of seed {seed}; legs.csv holds all. Drag to zoom into a span of time, double-click to "
        "see all again. Hover or tap for bits, rate, joules and outcome. Blank: nothing was charged."
    )
    if any((window.legs["activity"] == "tail").any() for windows in shown.values() for window in windows):
        note += " The thin line below a client's bars is its radio's tail, which runs beside computing and waiting."
    if any(window.cut for windows in shown.values() for window in windows):
        note += " Crowded moments are cut to their first legs."
    chart = Chart("timeline", "Timeline of a round", note, views, [Control("moment", moments)], zoom=True)
    return Chart(**{**chart.__dict__, "height": int(np.clip(150 + 24 * clients, 260, 900))})


def _gantt(window: Window) -> dict[str, Any]:
    units = time_axis(
        "time since this moment began" if window.versions > 1 else "time since the round began",
        window.end_s - window.start_s,
    )
    legs = window.legs
    clients = sorted(legs["client"].unique())
    causes = cause(legs)
    centre, thickness = lanes(legs)
    data: list[dict[str, Any]] = []
    for name in CAUSES:
        own = (causes == name).to_numpy()
        rows = legs[own]
        if not len(rows):
            continue
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": "lost, late or cut short" if name == "in vain" else {"idle": "wait"}.get(name, name),
                "base": ((rows["start_s"] - window.start_s) / units.size).to_numpy(),
                "x": ((rows["end_s"] - rows["start_s"]) / units.size).to_numpy(),
                "y": centre[own],
                "width": thickness[own],
                "text": [_hover(row) for row in rows.to_dict("records")],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"color": f"@{name.replace(' ', '-')}", "line": {"width": 0}},
            }
        )
    vain = legs[legs["outcome"] != "ok"]
    if len(vain):
        # a lost transmission may be too short to see: a cross at its end is not
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": ((vain["end_s"] - window.start_s) / units.size).to_numpy(),
                "y": centre[(legs["outcome"] != "ok").to_numpy()],
                "marker": {"symbol": "x", "size": 8, "color": "@in-vain", "line": {"width": 0}},
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    return view(
        data,
        barmode="overlay",
        xaxis={"title": {"text": units.title}, "range": [0, (window.end_s - window.start_s) / units.size * 1.02]},
        yaxis={"title": {"text": "client"}, "tickvals": list(range(len(clients))),
               "ticktext": [str(client) for client in clients],
               "range": [len(clients) - 0.4, -0.6], "fixedrange": True, "showgrid": False, "zeroline": False},
    )  # fmt: skip


def _hover(row: Mapping[Any, Any]) -> str:
    parts = [f"client {row['client']}: {row['activity']}, {duration(row['end_s'] - row['start_s'])}"]
    if row["bits"]:
        rate = f" at {si(row['rate_bps'], 'bit/s')}" if pd.notna(row["rate_bps"]) else ""
        tries = f", {row['attempts']:.0f} attempts" if row["attempts"] > 1 else ""
        parts.append(f"{si(row['bits'], 'bit')}{rate}{tries}")
    parts.append(f"{si(row['energy_j'], 'J')}, round {row['round'] + 1}, {escape(str(row['outcome']))}")
    return "<br>".join(parts)


def clients_over_rounds(stories: Mapping[Series, Story]) -> Chart | None:
    """Draw participation, lambda and accuracy as maps of clients x rounds, one policy at a time."""
    views, names, binned = {}, {}, 1
    rows = max(len(story.energy) for story in stories.values())
    columns = columns_for(len(stories), rows)
    for i, (each, story) in enumerate(stories.items()):
        for kind, heat in heats(each, story, columns).items():
            views[f"{i}|{kind}"] = _heatmap(heat)
            names[str(i)] = each.label
            binned = max(binned, heat.bin)
    if not views:
        return None
    first = next(iter(stories)).seeds[0]
    note = f"Seed {first}, one row per client. A policy without λ weighs its clients by a fixed rule."
    if binned > 1:
        note += f" Long runs are drawn in bins of up to {binned} rounds."
    kinds = {"part": "participation", "lam": "λ", "accuracy": "accuracy"}
    if any(name.endswith("|cluster") for name in views):
        kinds["cluster"] = "cluster"
    controls = [Control("policy", names), Control("show", kinds)]
    return Chart(
        "clients", "Clients over rounds", note, views, controls, height=int(np.clip(170 + 18 * rows, 260, 760))
    )


def _heatmap(heat: Heat) -> dict[str, Any]:
    data = {
        "type": "heatmap",
        "z": heat.values,
        "x": heat.rounds,
        "y": [str(client) for client in heat.clients],
        "colorscale": "@sequential",
        "zmin": 0,
        "zmax": heat.top,
        "ygap": 1,
        "colorbar": {"tickformat": heat.ticks, "thickness": 10, "outlinewidth": 0},
        "hovertemplate": f"client %{{y}}, round %{{x}}: {heat.text}<extra></extra>",
    }
    return view(
        [data],
        xaxis={"title": {"text": "round"}, "showgrid": False},
        yaxis={"title": {"text": "client"}, "type": "category", "autorange": "reversed", "showgrid": False},
    )


def partition(partitions: Mapping[int, pd.DataFrame]) -> Chart | None:
    """Draw the samples of each class at each client as discs whose area is in proportion."""
    if not partitions:
        return None
    views = {}
    top = max(float(frame["samples"].max()) for frame in partitions.values()) or 1.0
    for seed, frame in partitions.items():
        held = frame[frame["samples"] > 0]
        classes = sorted(frame["class"].unique(), key=lambda name: (len(name), name))
        totals = frame.groupby("client")["samples"].sum()
        discs = {
            "type": "scatter",
            "mode": "markers",
            "x": held["client"].tolist(),
            "y": [escape(name, quote=False) for name in held["class"]],
            "marker": {"size": np.sqrt(held["samples"].to_numpy() / top) * 22, "color": "@c0/75", "line": {"width": 0}},
            "customdata": [
                [samples, totals[client]] for client, samples in zip(held["client"], held["samples"], strict=True)
            ],
            "hovertemplate": "client %{x}, class %{y}: %{customdata[0]:.0f} of its %{customdata[1]:.0f} samples"
            "<extra></extra>",
        }
        views[str(seed)] = view(
            [discs],
            xaxis={"title": {"text": "client"}, "dtick": max(1, len(totals) // 15), "zeroline": False},
            yaxis={"title": {"text": "class"}, "type": "category", "zeroline": False,
                   "categoryarray": [escape(name, quote=False) for name in classes]},
        )  # fmt: skip
    note = f"Training samples of each class at each client; area in proportion, the largest disc is {top:.0f} samples."
    controls = [Control("seed", {str(seed): f"seed {seed}" for seed in partitions})] if len(partitions) > 1 else []
    if not controls:
        views = {"": next(iter(views.values()))}
    return Chart("partition", "Who holds what", note, views, controls, height=400)
