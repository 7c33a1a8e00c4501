"""Figures of clients: the timeline of a round, who takes part, who is last, who holds what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wflsim.analysis.legs import CAUSES, cause
from wflsim.report.compose import Material
from wflsim.report.figures.runs import ROWS, legend, new_figure, plain
from wflsim.report.series import Series
from wflsim.report.story import MAP_COLUMNS, heats, lanes
from wflsim.report.style import ACTIVITIES, HATCHES, time_axis

if TYPE_CHECKING:
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
