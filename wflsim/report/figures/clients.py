"""Figures of clients: the timeline of a round, who takes part, who is last, who holds what, and the graph of peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wflsim.analysis.legs import CAUSES, cause
from wflsim.report.charts.peers import MEASURES, link_table, nodes_over_rounds
from wflsim.report.compose import Material
from wflsim.report.figures.runs import ROWS, legend, line_style, new_figure, plain
from wflsim.report.series import AXES, Series
from wflsim.report.story import MAP_COLUMNS, heats, lanes
from wflsim.report.style import ACTIVITIES, HATCHES, cost_axis, time_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure
if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def client_figures(material: Material) -> Iterator[tuple[str, Figure]]:
    """Yield names and figures about clients."""
    for each, story in material.stories.items():
        if story.windows:
            yield f"timeline_{each.label}", _timeline(story.windows[0])
    late = [(each, story.last) for each, story in material.stories.items() if len(story.last)]
    if late:
        yield "stragglers", _stragglers(late)
    pictures = [(each, heats(each, story, MAP_COLUMNS)) for each, story in material.stories.items()]
    for kind, title in (("part", "participation"), ("lam", "λ"), ("cluster", "cluster"), ("accuracy", "accuracy")):
        if rows := [(each, held[kind]) for each, held in pictures if kind in held]:
            yield f"clients_{'lambda' if kind == 'lam' else title}", _clients(rows[:ROWS], title)
    for folder in material.runs:
        for seed, frame in list(folder.partitions.items())[:1]:
            yield f"partition_seed_{seed}", _partition(frame)


def _stragglers(late: Sequence[tuple[Series, Any]]) -> Figure:
    figure, panel = new_figure(0.8 + 0.2 * len(late))
    clients = sorted(set().union(*(share.index for _, share in late)))
    table = np.array([[share.get(client, np.nan) for client in clients] for _, share in late], float)
    image = panel.imshow(100 * table, aspect="auto", vmin=0)
    panel.set_xticks(range(len(clients)), [str(client) for client in clients])
    panel.set_yticks(range(len(late)), [plain(each.label) for each, _ in late])
    panel.set_xlabel("client")
    panel.grid(False)
    figure.colorbar(image, ax=panel, label="last (%)")
    return figure


def _timeline(window: Any) -> Figure:
    legs = window.legs
    clients = sorted(legs["client"].unique())
    figure, panel = new_figure(min(7.0, 0.9 + 0.14 * len(clients)))
    units = time_axis("time since the round began", window.end_s - window.start_s)
    causes = cause(legs)
    centre, thickness = lanes(legs)
    for name in CAUSES:
        own = (causes == name).to_numpy()
        rows = legs[own]
        if len(rows):
            panel.barh(
                centre[own], (rows["end_s"] - rows["start_s"]) / units.size,
                left=(rows["start_s"] - window.start_s) / units.size, color=ACTIVITIES[name], hatch=HATCHES[name],
                edgecolor="white", height=thickness[own], label=name,
            )  # fmt: skip
    panel.set_yticks(range(len(clients)), [str(client) for client in clients])
    panel.invert_yaxis()
    panel.grid(False, axis="y")
    panel.set(xlabel=units.title, ylabel="client")
    legend(figure, panel, 3)
    return figure


def _clients(rows: Sequence[tuple[Series, Any]], title: str) -> Figure:
    figure, panels = new_figure(0.5 + 1.15 * len(rows), len(rows), shared=False)
    top = max(heat.top for _, heat in rows)
    for panel, (each, heat) in zip(np.atleast_1d(panels), rows, strict=True):
        extent = (0.5, heat.rounds[-1] + 0.5, len(heat.clients) - 0.5, -0.5)
        image = panel.imshow(heat.values, aspect="auto", vmin=0, vmax=top, extent=extent, interpolation="nearest")
        panel.set(title=plain(each.label), ylabel="client")
        panel.locator_params(axis="both", integer=True)
        panel.grid(False)
    np.atleast_1d(panels)[-1].set_xlabel("round")
    figure.colorbar(image, ax=list(np.atleast_1d(panels)), label=title)
    return figure


def _partition(frame: Any) -> Figure:
    figure, panel = new_figure(2.6)
    held = frame[frame["samples"] > 0]
    classes = sorted(frame["class"].unique(), key=lambda name: (len(name), name))
    sizes = 90 * held["samples"] / held["samples"].max()
    panel.scatter(
        held["client"], [classes.index(name) for name in held["class"]], s=sizes, color="#0072B2", linewidths=0
    )
    panel.set_yticks(range(len(classes)), [plain(name) for name in classes])
    panel.set(xlabel="client", ylabel="class")
    return figure


def peer_figures(material: Material) -> Iterator[tuple[str, Figure]]:
    """Yield names and figures of runs without a server."""
    alone = [(each, runs) for each in material.series if (runs := nodes_over_rounds(each))]
    if not alone:
        return
    links = link_table(alone[0][0])
    if len(links):
        yield "links", _links(links)
    for axis in ("energy_j", "time_s"):
        yield f"nodes_against_{axis.split('_')[0]}", _nodes(alone, axis)


def _links(links: pd.DataFrame) -> Figure:
    figure, panel = new_figure(3.1)
    nodes = sorted({*links["one"], *links["two"]})
    angle = 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    at = {node: (np.sin(a), np.cos(a)) for node, a in zip(nodes, angle, strict=True)}
    ends = np.array([[at[i], at[j]] for i, j in zip(links["one"], links["two"], strict=True)])
    for (x, y), (u, v) in ends:
        panel.plot([x, u], [y, v], color="#bbbbbb", linewidth=0.6, zorder=1, marker="")
    middle = 0.58 * ends[:, 0] + 0.42 * ends[:, 1]
    shown = panel.scatter(*middle.T, c=links["snr_db"], s=12 + 250 * links["lost"], zorder=2, linewidths=0)
    panel.scatter(*np.array(list(at.values())).T, s=130, color="#eeeeee", edgecolors="#666666", zorder=3)
    for node, (x, y) in at.items():
        panel.text(x, y, str(node), ha="center", va="center", fontsize=6, zorder=4)
    panel.set_aspect("equal")
    panel.set_axis_off()
    lost = links["lost"]
    panel.set_title(f"size: share lost, {100 * lost.min():.0f} % to {100 * lost.max():.0f} %", fontsize=7)
    figure.colorbar(shown, ax=panel, label="mean SNR (dB)", shrink=0.8)
    return figure


def _nodes(alone: Sequence[tuple[Series, dict[int, pd.DataFrame]]], axis: str) -> Figure:
    figure, panels = new_figure(4.2, 2)
    most = max(float(each.costs[seed][axis].max()) for each, runs in alone for seed in runs)
    units = cost_axis(axis, AXES[axis], most)
    for each, runs in alone:
        for seed, table in runs.items():
            cost = each.costs[seed].set_index(each.rounds[seed]["round"])[axis]
            x = cost.loc[table["round"]].to_numpy(float) / units.size
            style = {**line_style(each), "markevery": 0.15}
            panels[0].plot(x, table["apart"], label=each.label, **style)
            panels[1].plot(x, 100 * table["worst"], label=each.label, **style)
    panels[0].set(yscale="log", ylabel="consensus distance")
    panels[1].set(xlabel=plain(units.title), ylabel=MEASURES["worst"].split(" with")[0] + " (%)")
    legend(figure, panels[0], len(alone))
    return figure
