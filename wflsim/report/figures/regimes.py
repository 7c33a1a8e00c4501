"""Figures of sweeps and tuning maps for papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wflsim.analysis.formats import joules
from wflsim.analysis.ranking import records_of
from wflsim.analysis.regimes import grid, name_of, ordered, short_key, tau_text, varying
from wflsim.report.charts.tuning import of_the_best, tune_axis
from wflsim.report.compose import Material
from wflsim.report.figures.runs import legend, new_figure, plain
from wflsim.report.style import MATPLOTLIB_DASHES, MATPLOTLIB_MARKERS, POLICIES, cost_axis
from wflsim.report.sweep import Sweep
from wflsim.report.tuning import Tune

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def regime_figures(material: Material) -> Iterator[tuple[str, Figure]]:
    """Yield names and figures of sweeps and tunings, numbered where there are several folders of a kind."""
    for i, (_, sweep) in enumerate(material.sweeps):
        yield from ((f"{name}{f'_{i}' if i else ''}", figure) for name, figure in _sweep(sweep))
    for i, (_, tune) in enumerate(material.tunes):
        yield from ((f"{name}{f'_{i}' if i else ''}", figure) for name, figure in _tune(tune))


def _sweep(sweep: Sweep) -> Iterator[tuple[str, Figure]]:
    keys = varying(sweep.runs, sweep.keys)
    if len(keys) == 2:
        for policy in sweep.policies:
            rows = sweep.summary[sweep.summary["policy"] == policy]
            texts = [joules(value) for value in rows["energy_j"]]
            yield f"energy_map_{policy}", _map(rows, keys, "energy_j", texts, f"{policy}: energy to target")
    if len(keys) == 1:
        yield "energy_over_" + short_key(keys[0]), _lines(sweep, keys[0])


def _tune(tune: Tune) -> Iterator[tuple[str, Figure]]:
    keys = varying(tune.map, tune.keys)
    if len(keys) == 2:
        for policy in tune.policies:
            rows = tune.map[tune.map["policy"] == policy]
            if not rows["tau_star"].notna().any():
                continue
            texts = [tau_text(row) for row in records_of(rows)]
            yield f"tau_map_{policy}", _map(rows, keys, "tau_star", texts, f"{policy}: best τ")
    if tune.costs is not None:
        yield "tau_costs", _tau_costs(tune, tune.costs)
    if tune.curves is not None:
        yield "tau_rounds", _tau_rounds(tune, tune.curves)


def _map(rows: pd.DataFrame, keys: Sequence[str], value: str, texts: Sequence[str], title: str) -> Figure:
    figure, panel = new_figure(2.5)
    held = grid(rows, keys[0], keys[1], value, texts)
    shade = np.log(held.values) if np.nanmin(held.values) > 0 else held.values
    panel.imshow(shade, aspect="auto", origin="lower")
    middle = (np.nanmin(shade) + np.nanmax(shade)) / 2
    for i, row in enumerate(held.texts):
        for j, text in enumerate(row):
            colour = "white" if shade[i, j] > middle else "black"
            panel.text(j, i, text.replace(" ", "\n"), ha="center", va="center", fontsize=7, color=colour)
    panel.set_xticks(range(len(held.xs)), [plain(x) for x in held.xs], rotation=30)
    panel.set_yticks(range(len(held.ys)), [plain(y) for y in held.ys])
    panel.set(xlabel=short_key(keys[0]), ylabel=short_key(keys[1]), title=plain(title))
    panel.grid(False)
    return figure


def _lines(sweep: Sweep, key: str) -> Figure:
    figure, panel = new_figure(2.4)
    xs = ordered(sweep.summary[key].tolist())
    units = cost_axis("energy_j", "energy to target", float(sweep.summary["energy_j"].max()))
    for i, policy in enumerate(sweep.policies):
        rows = sweep.summary[sweep.summary["policy"] == policy].set_index(key)
        rows = rows.loc[[x for x in xs if x in rows.index]]
        _interval(panel, [xs.index(str(x)) for x in rows.index], rows, "energy_j", policy, i, units.size)
    panel.set_xticks(range(len(xs)), [plain(x) for x in xs])
    panel.set(xlabel=short_key(key), ylabel=units.title, ylim=(0, None))
    legend(figure, panel, len(sweep.policies))
    return figure


def _tau_costs(tune: Tune, costs: pd.DataFrame) -> Figure:
    """The cost of every candidate in the first regime."""
    figure, panel = new_figure(2.4)
    first = tune.map.iloc[0]
    rows = costs[costs["regime"] == first["regime"]]
    units = tune_axis(str(first["unit"]), float(rows["cost"].max()))
    for i, policy in enumerate(tune.policies):
        mine = rows[rows["policy"] == policy].sort_values(["tau", "cost"])
        mine = mine.drop_duplicates("tau") if tune.knobs else mine
        _interval(panel, mine["tau"].tolist(), mine, "cost", policy, i, units.size)
    panel.locator_params(axis="x", integer=True)
    panel.set(xlabel="local steps τ", ylabel=units.title, ylim=(0, None), title=plain(name_of(first, tune.keys)))
    legend(figure, panel, len(tune.policies))
    return figure


def _tau_rounds(tune: Tune, curves: pd.DataFrame) -> Figure:
    figure, panel = new_figure(2.4)
    for i, policy in enumerate(tune.policies):
        rows = of_the_best(tune, policy, curves[curves["policy"] == policy])
        mean = pd.to_numeric(rows["rounds_to_target"], errors="coerce").groupby(rows["tau"]).mean()
        panel.plot(mean.index, mean.to_numpy(), label=policy, **_look(i))
    panel.locator_params(axis="x", integer=True)
    panel.set(xlabel="local steps τ", ylabel="rounds to target", ylim=(0, None))
    legend(figure, panel, len(tune.policies))
    return figure


def _interval(panel: Axes, x: Sequence[float], rows: pd.DataFrame, name: str, label: str, i: int, size: float) -> None:
    panel.plot(x, rows[name].to_numpy(float) / size, label=label, **_look(i))
    if f"{name}_low" in rows:
        low, high = (rows[f"{name}_{bound}"].to_numpy(float) / size for bound in ("low", "high"))
        panel.fill_between(x, low, high, color=POLICIES[i % len(POLICIES)], alpha=0.12, linewidth=0)


def _look(i: int) -> dict[str, Any]:
    return {
        "color": POLICIES[i % len(POLICIES)],
        "linestyle": MATPLOTLIB_DASHES[i % len(MATPLOTLIB_DASHES)],
        "marker": MATPLOTLIB_MARKERS[i % len(MATPLOTLIB_MARKERS)],
    }
