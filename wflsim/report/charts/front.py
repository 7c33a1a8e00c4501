"""Chart of tuning's front: the settings that no other beats in energy and time."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.formats import duration, joules
from wflsim.analysis.ranking import records_of
from wflsim.analysis.regimes import name_of
from wflsim.report.charts.chart import Chart, Control, view
from wflsim.report.style import cost_axis, style
from wflsim.report.tuning import Tune, setting_text

REGIMES = 80
"""Number of regimes whose fronts can be chosen."""


def front_chart(tune: Tune, prefix: str) -> Chart | None:
    """Draw energy against time, a line per policy through the points of its front; one regime at a time."""
    if tune.front is None or not len(tune.front):
        return None
    views, names = {}, {}
    for row in records_of(tune.map.drop_duplicates("regime").head(REGIMES)):
        rows = tune.front[tune.front["regime"] == row["regime"]]
        if len(rows):
            names[str(row["regime"])] = name_of(row, tune.keys)
            views[str(row["regime"])] = _front(tune, rows)
    controls = [Control("regime", names)] if len(names) > 1 else []
    if not controls:
        views = {"": next(iter(views.values()))}
    note = (
        "Every point is one setting of the knobs, mean over seeds with its 95 % intervals; no setting that was tried "
        "takes both less energy and less time. Point at one to see its knobs."
    )
    return Chart(f"{prefix}front", "Front of energy against time", note, views, controls, height=440)


def _front(tune: Tune, rows: pd.DataFrame) -> dict[str, Any]:
    energy = cost_axis("energy_j", "energy to target", float(rows["energy_j"].max()))
    time = cost_axis("time_s", "simulated time to target", float(rows["time_s"].max()))
    data = []
    for i, policy in enumerate(tune.policies):
        mine = rows[rows["policy"] == policy]
        name = escape(policy, quote=False)
        texts = [
            escape(f"τ = {row['tau']:.0f}{setting_text(row, tune.knobs)}", quote=False)
            + f"<br>{duration(row['time_s'])}, {joules(row['energy_j'])}"
            for row in records_of(mine)
        ]
        data.append(
            {"type": "scatter", "mode": "lines+markers", "name": name, "text": texts,
             "x": mine["time_s"].to_numpy(float) / time.size, "y": mine["energy_j"].to_numpy(float) / energy.size,
             "error_x": _bounds(mine, "time_s", time.size, i), "error_y": _bounds(mine, "energy_j", energy.size, i),
             "line": {"color": style(i).token, "width": 2.2, "dash": style(i).dash, "shape": "hv"},
             "marker": {"size": 9, "symbol": style(i).marker},
             "hovertemplate": f"{name}: %{{text}}<extra></extra>"}
        )  # fmt: skip
    return view(
        data, xaxis={"title": {"text": time.title}, "rangemode": "tozero"},
        yaxis={"title": {"text": energy.title}, "rangemode": "tozero"},
    )  # fmt: skip


def _bounds(rows: pd.DataFrame, name: str, size: float, i: int) -> dict[str, Any]:
    """The intervals as error bars; none where there is only one seed."""
    mean, low, high = (rows[column].to_numpy(float) / size for column in (name, f"{name}_low", f"{name}_high"))
    known = np.isfinite(low) & np.isfinite(high)
    return {
        "type": "data", "symmetric": False, "array": np.where(known, high - mean, 0.0),
        "arrayminus": np.where(known, mean - low, 0.0), "color": f"{style(i).token}/60", "thickness": 1,
    }  # fmt: skip
