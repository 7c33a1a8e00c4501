"""Charts of peers and selectors: the graph with its links, how far nodes are apart, and who was selected how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.series import AXES, POINTS, Series
from wflsim.report.story import Story
from wflsim.report.style import cost_axis, time_axis

PLANNERS = ("fedcs", "oort")
"""Selectors whose choice is shown."""
MEASURES = {
    "apart": "consensus distance, root mean square over nodes",
    "worst": "accuracy of the worst node with its own model",
    "mean": "accuracy of the worst node with the network's mean model",
}


def links(series: Sequence[Series]) -> Chart | None:
    """Draw the graph of peers, one policy at a time: SNR of every link as its colour, its losses as the size."""
    views, options = {}, {}
    for number, each in enumerate(series):
        found = link_table(each)
        if len(found):
            options[str(number)] = each.label
            views[str(number)] = _graph(found)
    if not views:
        return None
    block = series[0].folder.scenario.get("d2d", {})
    note = (
        f"First seed, mean over rounds and both directions; sending: {block.get('sending')}, duplex: "
        f"{block.get('duplex')}, edge_loss: {block.get('edge_loss')}. The larger the mark on a link, the more was lost."
    )
    if block.get("edge_loss") == "one_way" and any((link_table(each)["lost"] > 0).any() for each in series):
        note += " Links that failed in one direction only left a mixing matrix that is not doubly stochastic."
    return Chart("links", "Links between clients", note, views, [Control("policy", options)], height=460)


def link_table(series: Series) -> pd.DataFrame:
    """Columns one, two, snr_db (mean) and lost (share) of every link that was used in the first seed."""
    columns = ("client", "activity", "peer", "snr_db", "outcome")
    legs = series.folder.rows((series.policy, series.seeds[0]), "legs", columns) if series.seeds else pd.DataFrame()
    heard = legs[(legs["activity"] == "receive") & legs["peer"].notna()] if len(legs) else legs
    if not len(heard):
        return pd.DataFrame(columns=["one", "two", "snr_db", "lost"])
    ends = np.sort(heard[["client", "peer"]].to_numpy(int), axis=1)
    table = heard.assign(one=ends[:, 0], two=ends[:, 1], lost=heard["outcome"] != "ok")
    return table.groupby(["one", "two"], as_index=False).agg(snr_db=("snr_db", "mean"), lost=("lost", "mean"))


def _graph(found: pd.DataFrame) -> dict[str, Any]:
    nodes = sorted({*found["one"], *found["two"]})
    angle = 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    x, y = dict(zip(nodes, np.sin(angle), strict=True)), dict(zip(nodes, np.cos(angle), strict=True))
    lines: dict[str, list[float | None]] = {"x": [], "y": []}
    for one, two in zip(found["one"], found["two"], strict=True):
        lines["x"] += [x[one], x[two], None]
        lines["y"] += [y[one], y[two], None]
    # 0.42 of the way: the middles of a ring's chords would lie on top of each other
    pairs = list(zip(found["one"], found["two"], strict=True))
    at = [[0.58 * place[i] + 0.42 * place[j] for i, j in pairs] for place in (x, y)]
    texts = [
        f"{i} – {j}: {snr_db:.1f} dB, {100 * lost:.1f} % lost"
        for (i, j), snr_db, lost in zip(pairs, found["snr_db"].to_list(), found["lost"].to_list(), strict=True)
    ]
    plain = {"showlegend": False, "hoverinfo": "skip"}
    marks = {
        "color": found["snr_db"].to_numpy(), "size": (7 + 40 * found["lost"]).clip(upper=25).to_numpy(),
        "showscale": True, "colorscale": "Viridis", "colorbar": {"title": {"text": "SNR (dB)"}},
    }  # fmt: skip
    data = [
        {"type": "scatter", "mode": "lines", **lines, "line": {"width": 1, "color": "#999999"}, **plain},
        {"type": "scatter", "mode": "markers", "x": at[0], "y": at[1], "text": texts, "marker": marks,
         "hovertemplate": "%{text}<extra></extra>", "showlegend": False},
        {"type": "scatter", "mode": "markers+text", "x": list(x.values()), "y": list(y.values()), **plain,
         "text": [str(node) for node in nodes], "marker": {"size": 22, "color": "#dddddd"}},
    ]  # fmt: skip
    hidden = {"visible": False, "range": [-1.15, 1.15]}
    return view(data, xaxis=hidden, yaxis={**hidden, "scaleanchor": "x"})


def consensus(series: Sequence[Series]) -> Chart | None:
    """Draw how far the nodes' models are apart, and what the worst node reaches, over joules, time and rounds."""
    curves = {each: nodes_over_rounds(each) for each in series}
    curves = {each: runs for each, runs in curves.items() if runs}
    if not curves:
        return None
    views = {}
    for axis, title in AXES.items():
        most = max(float(each.costs[seed][axis].max()) for each, runs in curves.items() for seed in runs)
        units = cost_axis(axis, title, most)
        for measure, words in MEASURES.items():
            data = [_line(each, runs, axis, measure, units.size) for each, runs in curves.items()]
            kind = {"type": "log"} if measure == "apart" else {"tickformat": ".0%"}
            views[f"{measure}|{axis}"] = view(
                data, xaxis={"title": {"text": units.title}}, yaxis={"title": {"text": words}, **kind}
            )
    shown = {"apart": "distance", "worst": "own model", "mean": "mean model"}
    controls = [Control("show", shown), Control("over", AXES)]
    note = "First seed. Without a server every node has a model of its own; the mean model exists nowhere."
    return Chart("consensus", "Nodes and their mean", note, views, controls)


def nodes_over_rounds(series: Series) -> dict[int, pd.DataFrame]:
    """Of the first seed, by seed: columns round, apart, worst and mean at every evaluation; empty with a server."""
    for seed in series.seeds[:1]:
        rows = series.folder.rows((series.policy, seed), "clients", ("round", "accuracy", "mean_accuracy", "apart"))
        if len(rows) and rows["apart"].notna().any():
            grouped = rows.assign(apart=rows["apart"] ** 2).groupby("round", as_index=False)
            table = grouped.agg(apart=("apart", "mean"), worst=("accuracy", "min"), mean=("mean_accuracy", "min"))
            return {seed: table.assign(apart=np.sqrt(table["apart"]))}
    return {}


def _line(each: Series, runs: dict[int, pd.DataFrame], axis: str, measure: str, size: float) -> dict[str, Any]:
    ((seed, table),) = runs.items()
    table = table.iloc[np.unique(np.linspace(0, len(table) - 1, min(len(table), POINTS)).astype(int))]
    x = each.costs[seed].set_index(each.rounds[seed]["round"])[axis].loc[table["round"]].to_numpy(float) / size
    line = {"color": each.style.token, "dash": each.style.dash}
    y = table[measure].to_numpy(float)
    return {"type": "scatter", "mode": "lines", "name": each.markup, "x": x, "y": y, "line": line}


def selection(stories: Mapping[Series, Story]) -> Chart | None:
    """Draw how often each client was selected by FedCS or Oort, and what FedCS planned beside what became of it."""
    chosen = {
        each: told
        for each, told in stories.items()
        if len(told.part) and each.folder.scenario.get("server", {}).get("selector") in PLANNERS
    }
    if not chosen:
        return None
    bars, said = [], []
    for each, told in chosen.items():
        clients = range(int(each.folder.scenario.get("clients", 0)))
        times = told.part.groupby("client")["round"].nunique().reindex(clients, fill_value=0)
        share = times.to_numpy(float) / len(each.rounds[each.seeds[0]])
        jain = float(share.sum() ** 2 / (len(share) * (share**2).sum()))
        said.append(f"{each.label}: fairness by Jain {jain:.2f}, {int((share == 0).sum())} clients never")
        look = {"type": "bar", "marker": {"color": each.style.token}}
        bars.append({**look, "name": each.markup, "x": list(clients), "y": share})
    up = {"title": {"text": "share of rounds"}, "tickformat": ".0%"}
    who = view(bars, barmode="group", xaxis={"title": {"text": "client"}}, yaxis=up)
    views, options = {"who": who}, {"who": "who was selected"}
    if plans := [line for each in chosen for line in _plans(each)]:
        most = max(float(np.nanmax(line["y"])) for line in plans)
        units = time_axis("duration of a round", most)
        plans = [{**line, "y": line["y"] / units.size} for line in plans]
        views["plan"] = view(plans, xaxis={"title": {"text": "round"}}, yaxis={"title": {"text": units.title}})
        options["plan"] = "planned and real duration"
    note = "First seed. " + "; ".join(said) + "."
    return Chart("selection", "Selection", note, views, [Control("show", options)])


def _plans(each: Series) -> list[dict[str, Any]]:
    """Planned and real duration over the rounds of the first seed, where something was planned."""
    rounds = each.rounds[each.seeds[0]]
    if "planned_s" not in rounds or not rounds["planned_s"].notna().any():
        return []
    rounds = rounds.iloc[np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), POINTS)).astype(int))]
    real = (rounds["end_s"] - rounds["start_s"]).to_numpy(float)
    line = {"type": "scatter", "mode": "lines", "x": rounds["round"].to_numpy()}
    colour = each.style.token
    return [
        {**line, "name": f"{each.markup}, planned", "y": rounds["planned_s"].to_numpy(float),
         "line": {"color": colour, "dash": "dot"}},
        {**line, "name": f"{each.markup}, real", "y": real, "line": {"color": colour}},
    ]  # fmt: skip
