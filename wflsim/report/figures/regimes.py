"""Figures of sweeps and tuning maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from wflsim.answer import si
from wflsim.report.axes import Axis, cost_axis
from wflsim.report.charts.tuning import COLUMN
from wflsim.report.figures.runs import legend, new, plain
from wflsim.report.material import Material
from wflsim.report.palette import MATPLOTLIB_DASHES, MATPLOTLIB_MARKERS, POLICIES
from wflsim.report.regimes import Sweep, Tune, name_of, ordered, short_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def regime_figures(material: Material) -> Iterator[tuple[str, Figure]]:
    """(name, figure), drawn one at a time; numbered where there are several folders of a kind."""
    for i, (_, sweep) in enumerate(material.sweeps):
        yield from ((f"{name}{f'_{i}' if i else ''}", figure) for name, figure in _sweep(sweep))
    for i, (_, tune) in enumerate(material.tunes):
        yield from ((f"{name}{f'_{i}' if i else ''}", figure) for name, figure in _tune(tune))


def _sweep(sweep: Sweep) -> Iterator[tuple[str, Figure]]:
    varying = [key for key in sweep.keys if sweep.cells[key].nunique() > 1]
    if len(varying) == 2:
        for policy in sweep.policies:
            rows = sweep.summary[sweep.summary["policy"] == policy]
            texts = [si(value, "J") for value in rows["energy_j"]]
            yield f"energy_map_{policy}", _map(rows, varying, "energy_j", texts, f"{policy}: energy to target")
    if len(varying) == 1:
        yield "energy_over_" + short_key(varying[0]), _lines(sweep, varying[0])


def _tune(tune: Tune) -> Iterator[tuple[str, Figure]]:
    varying = [key for key in tune.keys if tune.map[key].nunique() > 1]
    if len(varying) == 2:
        for policy in tune.policies:
            rows = tune.map[tune.map["policy"] == policy]
            if not rows["tau_star"].notna().any():
                continue
            texts = [f"{tau:.0f}" if np.isfinite(tau) else "none" for tau in rows["tau_star"]]
            yield f"tau_map_{policy}", _map(rows, varying, "tau_star", texts, f"{policy}: best τ")
    if tune.costs is not None:
        yield "tau_costs", _tau_costs(tune, tune.costs)
    if tune.curves is not None:
        yield "tau_rounds", _tau_rounds(tune, tune.curves)


def _map(rows: pd.DataFrame, keys: Sequence[str], value: str, texts: Sequence[str], title: str) -> Figure:
    figure, panel = new(2.5)
    xs, ys = ordered(rows[keys[0]].tolist()), ordered(rows[keys[1]].tolist())
    z = np.full((len(ys), len(xs)), np.nan)
    spots = [(ys.index(row[keys[1]]), xs.index(row[keys[0]])) for row in rows.to_dict("records")]
    for (i, j), number in zip(spots, rows[value], strict=True):
        z[i, j] = number
    shade = np.log(z) if np.nanmin(z) > 0 else z
    panel.imshow(shade, aspect="auto", origin="lower")
    middle = (np.nanmin(shade) + np.nanmax(shade)) / 2
    for (i, j), text in zip(spots, texts, strict=True):
        colour = "white" if shade[i, j] > middle else "black"
        panel.text(j, i, text.replace(" ", "\n"), ha="center", va="center", fontsize=7, color=colour)
    panel.set_xticks(range(len(xs)), [plain(x) for x in xs], rotation=30)
    panel.set_yticks(range(len(ys)), [plain(y) for y in ys])
    panel.set(xlabel=short_key(keys[0]), ylabel=short_key(keys[1]), title=plain(title))
    panel.grid(False)
    return figure


def _lines(sweep: Sweep, key: str) -> Figure:
    figure, panel = new(2.4)
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
    """In the first regime."""
    figure, panel = new(2.4)
    first = tune.map.iloc[0]
    rows = costs[costs["regime"] == first["regime"]]
    unit = str(first.get("unit", ""))
    largest = float(rows["cost"].max())
    units = cost_axis(COLUMN[unit], "cost to target", largest) if unit in COLUMN else Axis(f"cost ({unit})", 1.0, unit)
    for i, policy in enumerate(tune.policies):
        mine = rows[rows["policy"] == policy].sort_values("tau")
        _interval(panel, mine["tau"].tolist(), mine, "cost", policy, i, units.size)
    panel.locator_params(axis="x", integer=True)
    panel.set(xlabel="local steps τ", ylabel=units.title, ylim=(0, None), title=plain(name_of(first, tune.keys)))
    legend(figure, panel, len(tune.policies))
    return figure


def _tau_rounds(tune: Tune, curves: pd.DataFrame) -> Figure:
    figure, panel = new(2.4)
    for i, policy in enumerate(tune.policies):
        rows = curves[curves["policy"] == policy]
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
