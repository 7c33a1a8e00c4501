"""Regimes and policies on the terminal: what `compare` prints, and what a sweep ends with."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wflsim.answer import duration, interval, percent, si
from wflsim.compare import Comparison

MOST_LINES = 60


def show(console: Console, comparison: Comparison) -> None:
    """Both tables, as far as a terminal takes them."""
    console.print(lines_table(comparison))
    if len(comparison.pairs):
        console.print(pairs_table(comparison))
    if len(comparison.lines) > MOST_LINES:
        rest = len(comparison.lines) - MOST_LINES
        console.print(f"... and {rest} more lines; --json has all of them", markup=False, highlight=False)


def lines_table(comparison: Comparison) -> Table:
    """Costs to target with intervals."""
    table = Table(title="mean [95 % interval] over seeds", title_justify="left")
    for title in ("regime", "policy", "seeds", "P(reach)", "energy", "simulated time"):
        table.add_column(title, justify="left" if title in ("regime", "policy") else "right")
    for row in _records(comparison.lines):
        reach = percent(row["p_reach"]) if "p_reach" in row else "-"
        energy, time = interval(row, "energy_j", lambda joules: si(joules, "J")), interval(row, "time_s", duration)
        table.add_row(Text(row["regime"]), Text(row["policy"]), str(row["seeds"]), reach, energy, time)
    return table


def pairs_table(comparison: Comparison) -> Table:
    """How much more than the best of the regime."""
    table = Table(title="more than the best of its regime, paired on common seeds", title_justify="left")
    for title in ("regime", "policy", "against", "common seeds", "energy", "simulated time"):
        table.add_column(title, justify="left" if title in ("regime", "policy", "against") else "right")
    for row in _records(comparison.pairs):
        common = f"{row['common_seeds']}" + (f" ({row['missed_seeds']} missed)" if row["missed_seeds"] else "")
        energy = interval(row, "energy_j_more", lambda joules: si(joules, "J"))
        time = interval(row, "time_s_more", _signed)
        table.add_row(Text(row["regime"]), Text(row["policy"]), Text(row["against"]), common, energy, time)
    return table


def _records(frame: Any) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in frame.head(MOST_LINES).to_dict("records")]


def _signed(seconds: float) -> str:
    return duration(seconds) if seconds >= 0 or not np.isfinite(seconds) else f"-{duration(-seconds)}"
