"""Regimes and policies on the terminal: what `compare` prints, and what a sweep ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wflsim.analysis.formats import cost, duration, percent, si
from wflsim.analysis.joining import Comparison, saving

MOST_LINES = 60
MOST_KEYS = 4
"""Differing keys that get a column each; more of them share one."""


def show(console: Console, comparison: Comparison) -> None:
    """Both tables, as far as a terminal takes them."""
    console.print(lines_table(comparison))
    if len(comparison.pairs):
        console.print(pairs_table(comparison))
    if len(comparison.lines) > MOST_LINES:
        rest = len(comparison.lines) - MOST_LINES
        console.print(f"... and {rest} more lines; --json has all of them", markup=False, highlight=False)
    for note in comparison.notes:
        console.print(note, markup=False, highlight=False)


def lines_table(comparison: Comparison) -> Table:
    """Costs to target with intervals; "at least" where a run missed it."""
    table = Table(title="mean [95 % interval] over seeds", title_justify="left")
    places = _places(comparison)
    for title in (*places, "policy", "seeds", "P(reach)", "energy", "simulated time"):
        table.add_column(title, justify="left" if title in (*places, "policy") else "right")
    for row in _records(comparison.lines):
        reach = percent(row["p_reach"]) if "p_reach" in row else "-"
        energy, time = cost(row, "energy_j", lambda joules: si(joules, "J")), cost(row, "time_s", duration)
        table.add_row(*_place(row, places), Text(row["policy"]), str(row["seeds"]), reach, energy, time)
    return table


def pairs_table(comparison: Comparison) -> Table:
    """What the best of each regime saves against every other policy, and whether that is told apart from nothing."""
    table = Table(title="energy that the best of its regime saves, paired on common seeds", title_justify="left")
    places = _places(comparison)
    for title in (*places, "best", "against", "common seeds", "saves", "told apart"):
        table.add_column(title, justify="left" if title in (*places, "best", "against") else "right")
    for row in _records(comparison.pairs):
        common = str(row["common_seeds"])
        for missed, who in ((row["missed_seeds"], row["policy"]), (row["missed_by_best"], row["against"])):
            common += f" ({who} missed {missed})" if missed else ""
        names = Text(row["against"]), Text(row["policy"])
        table.add_row(*_place(row, places), *names, Text(common), saving(row), "yes" if row["told_apart"] else "no")
    return table


def _places(comparison: Comparison) -> list[str]:
    """The columns that say which regime it is; none where there is only one."""
    return comparison.keys if len(comparison.keys) <= MOST_KEYS else ["regime"]


def _place(row: Mapping[str, Any], places: Sequence[str]) -> list[Text]:
    return [Text(str(row[key])) for key in places]


def _records(frame: Any) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in frame.head(MOST_LINES).to_dict("records")]
