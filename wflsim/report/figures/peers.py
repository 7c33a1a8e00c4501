"""Figures of peers: the graph with the SNR and losses of its links, and nodes around their mean over joules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wflsim.report.charts.peers import MEASURES, link_table, nodes_over_rounds
from wflsim.report.compose import Material
from wflsim.report.figures.runs import legend, line_style, new_figure, plain
from wflsim.report.series import AXES, Series
from wflsim.report.style import cost_axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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
