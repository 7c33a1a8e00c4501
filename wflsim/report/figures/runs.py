"""Figures of runs: accuracy, energy, latency, a round's timeline, clients, partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wflsim.analysis.legs import CAUSES
from wflsim.report.compose import Material
from wflsim.report.series import AXES, METRICS, POINTS, Series, curve
from wflsim.report.style import (
    ACTIVITIES,
    HATCHES,
    MATPLOTLIB_DASHES,
    MATPLOTLIB_MARKERS,
    cost_axis,
    si_axis,
    time_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 3.5
"""Width of a column of a paper in inches."""
ROWS = 4
"""Number of policies whose clients are drawn under each other; a fifth would not fit a column."""


def run_figures(material: Material) -> Iterator[tuple[str, Figure]]:
    """Yield names and figures of the runs' accuracy, energy and latency."""
    for axis in AXES:
        yield f"accuracy_against_{axis.split('_')[0]}", _accuracy(material.series, axis)
    yield "energy_against_time", _pareto(material.series)
    if material.stories:
        yield "energy_by_cause", _by_cause(material)
        yield "energy_by_client", _by_client(material)
        yield "latency", _latency(material)


def line_style(series: Series) -> dict[str, Any]:
    """Colour, dash and marker of a series, as matplotlib's arguments."""
    return {
        "color": series.style.hex,
        "linestyle": MATPLOTLIB_DASHES[(series.style.variant + series.style.colour) % len(MATPLOTLIB_DASHES)],
        "marker": MATPLOTLIB_MARKERS[(series.style.colour + series.style.variant) % len(MATPLOTLIB_MARKERS)],
    }


def new_figure(height_in: float, rows: int = 1, shared: bool = True) -> tuple[Figure, Any]:
    """Make a figure as wide as a column, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    return figure, figure.subplots(rows, 1, sharex=shared)


def legend(figure: Figure, axes: Axes, count: int) -> None:
    """Put the legend above the figure, where it covers no data."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, [plain(label) for label in labels], loc="outside upper center", ncols=min(3, max(1, count)))


def plain(text: str) -> str:
    """A text for matplotlib in which a dollar sign is a dollar sign, not mathematics."""
    return text.replace("$", r"\$")


def _accuracy(series: Sequence[Series], axis: str) -> Figure:
    figure, panels = new_figure(4.4, len(METRICS))
    largest = max(float(line.x[-1]) for each in series if (line := curve(each, "worst", axis, POINTS)))
    units = cost_axis(axis, AXES[axis], largest)
    for panel, (metric, title) in zip(panels, METRICS.items(), strict=True):
        for each in series:
            line = curve(each, metric, axis, POINTS)
            if line is None:
                continue
            x = line.x / units.size
            panel.plot(x, 100 * line.mean, label=each.label, markevery=max(1, len(x) // 6), **line_style(each))
            panel.fill_between(x, 100 * line.low, 100 * line.high, color=each.style.hex, alpha=0.12, linewidth=0)
        for goal in {each.folder.target["accuracy"] for each in series if each.folder.target
                     and each.folder.target["metric"] == metric}:  # fmt: skip
            panel.axhline(100 * goal, color="0.4", linewidth=0.7, linestyle=":")
        panel.set_ylabel(f"{title.split(' (')[0]} (%)")
        panel.set_ylim(bottom=0)
    panels[-1].set_xlabel(units.title)
    legend(figure, panels[0], len(series))
    return figure


def _pareto(series: Sequence[Series]) -> Figure:
    figure, panel = new_figure(2.6)
    span = "to target" if all(each.folder.target for each in series) else "of the run"
    joules = si_axis(f"energy {span}", "J", max(float(each.runs["energy_j"].max()) for each in series))
    times = time_axis(f"simulated time {span}", max(float(each.runs["time_s"].max()) for each in series))
    for each in series:
        row, style = each.row, line_style(each)
        reached = row.get("p_reach", 1) == 1
        spread = [
            [[(row[name] - row[f"{name}_low"]) / size], [(row[f"{name}_high"] - row[name]) / size]]
            for name, size in (("time_s", times.size), ("energy_j", joules.size))
        ]
        panel.errorbar(
            row["time_s"] / times.size, row["energy_j"] / joules.size, xerr=np.nan_to_num(spread[0]),
            yerr=np.nan_to_num(spread[1]), color=style["color"], marker=style["marker"], linestyle="none",
            elinewidth=0.7, label=each.label, fillstyle="full" if reached else "none",
        )  # fmt: skip
    panel.set(xlabel=times.title, ylabel=joules.title)
    panel.set(xlim=(0, panel.get_xlim()[1]), ylim=(0, 1.06 * panel.get_ylim()[1]))
    legend(figure, panel, len(series))
    return figure


def _by_cause(material: Material) -> Figure:
    figure, panel = new_figure(0.9 + 0.24 * len(material.stories))
    totals = {each.label: story.energy.sum() for each, story in material.stories.items()}
    units = si_axis("energy per run", "J", max(float(total.sum()) for total in totals.values()))
    left = np.zeros(len(totals))
    for cause in CAUSES:
        width = np.array([total[cause] for total in totals.values()]) / units.size
        if width.any():
            panel.barh(
                range(len(totals)), width, left=left, label=cause, color=ACTIVITIES[cause], hatch=HATCHES[cause],
                edgecolor="white", height=0.68,
            )  # fmt: skip
            left += width
    panel.set_yticks(range(len(totals)), [plain(name) for name in totals])
    panel.invert_yaxis()
    panel.grid(False, axis="y")
    panel.set_xlabel(units.title)
    legend(figure, panel, 3)
    return figure


def _by_client(material: Material) -> Figure:
    shown = list(material.stories.items())[:ROWS]
    figure, panels = new_figure(0.7 + 0.95 * len(shown), len(shown))
    units = si_axis("energy per run", "J", max(float(story.energy.sum(axis=1).max()) for _, story in shown))
    for panel, (each, story) in zip(np.atleast_1d(panels), shown, strict=True):
        below = np.zeros(len(story.energy))
        for cause in CAUSES:
            height = story.energy[cause].to_numpy() / units.size
            if height.any():
                panel.bar(
                    story.energy.index, height, bottom=below, label=cause, color=ACTIVITIES[cause],
                    hatch=HATCHES[cause], edgecolor="white", width=0.75,
                )  # fmt: skip
                below = below + height
        panel.set(title=plain(each.label), ylabel=f"energy ({units.unit})")
        panel.grid(False, axis="x")
    last = np.atleast_1d(panels)[-1]
    last.set_xlabel("client")
    last.locator_params(axis="x", integer=True)
    legend(figure, last, 3)
    return figure


def _latency(material: Material) -> Figure:
    figure, panel = new_figure(1.0 + 0.3 * len(material.stories))
    spans = [
        np.concatenate([(rounds["end_s"] - rounds["start_s"]).to_numpy() for rounds in each.rounds.values()])
        for each in material.stories
    ]
    units = time_axis("latency of a round", max(float(span.max()) for span in spans))
    for i, (each, span) in enumerate(zip(material.stories, spans, strict=True)):
        p50, p95 = np.quantile(span, (0.5, 0.95)) / units.size
        panel.errorbar(p50, i, xerr=[[0], [p95 - p50]], capsize=2, **{**line_style(each), "linestyle": "none"})
    panel.set_yticks(range(len(spans)), [plain(each.label) for each in material.stories])
    panel.set(xlabel=f"{units.title}: p50, whisker to p95", xlim=(0, None), ylim=(len(spans) - 0.5, -0.5))
    return figure
