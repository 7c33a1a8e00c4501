"""Clients x rounds as matrices, binned to what a screen can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wflsim.report.legs import Story
from wflsim.report.series import Series

COLUMNS = 160
BUDGET = 90_000
"""Cells that all heat maps of a page may hold together; about 500 kB."""


@dataclass(frozen=True)
class Heat:
    """One picture."""

    values: NDArray[np.float64]
    clients: list[int]
    rounds: list[float]
    bin: int
    """Rounds per column."""
    top: float
    ticks: str
    text: str


def columns_for(series: int, clients: int) -> int:
    """As many as the page's budget allows, for three pictures per policy."""
    return int(np.clip(BUDGET // max(1, 3 * series * clients), 10, COLUMNS))


def heats(series: Series, story: Story, columns: int) -> dict[str, Heat]:
    """part, lam and accuracy of the first seed, as far as it has them."""
    clients = series.folder.rows((series.policy, series.seeds[0]), "clients")
    rounds = int(series.rounds[series.seeds[0]]["round"].max()) + 1
    found: dict[str, Heat] = {}
    if len(story.part):
        part = story.part.assign(value=1.0)
        who = sorted(set(part["client"]) | set(clients["client"].astype(int)))
        found["part"] = _heat(part, who, rounds, columns, "sum", 1.0, ".0%", "asked in %{z:.0%} of rounds")
    if clients["lam"].notna().any():
        lam = clients.assign(value=clients["lam"]).dropna(subset="value")
        top = float(lam["value"].quantile(0.99)) or 1.0
        found["lam"] = _heat(lam, sorted(set(lam["client"])), rounds, columns, "mean", top, ".2f", "λ = %{z:.3f}")
    if clients["accuracy"].notna().any():
        seen = clients.assign(value=clients["accuracy"]).dropna(subset="value")
        found["accuracy"] = _heat(seen, sorted(set(seen["client"])), rounds, columns, "mean", 1.0, ".0%", "%{z:.1%}")
    return found


def _heat(
    rows: pd.DataFrame, who: Sequence[int], rounds: int, columns: int, how: str, top: float, ticks: str, text: str
) -> Heat:
    # evaluations may be sparser than rounds: then a column per evaluation, and no empty ones between
    at = np.unique(rows["round"]) if how == "mean" else np.arange(rounds)
    width = -(-len(at) // columns)
    column = np.searchsorted(at, rows["round"]) // width
    table: pd.DataFrame = rows.groupby([rows["client"], column])["value"].agg(how).unstack()
    table = table.reindex(index=list(who), columns=range(-(-len(at) // width)))
    if how == "sum":
        sizes = np.minimum(width, len(at) - np.arange(table.shape[1]) * width)
        table = table.fillna(0.0).div(sizes, axis=1)
    centres = [float(at[i * width : (i + 1) * width].mean()) + 1 for i in range(table.shape[1])]
    return Heat(table.to_numpy(float), list(who), centres, width, top, ticks, text)
