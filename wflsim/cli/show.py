"""Tables on the terminal: the policies of a run, and the regimes and policies of a sweep or a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wflsim.analysis.formats import COLUMNS, FINALS, cost, duration, interval, percent, si
from wflsim.analysis.joining import Comparison, saving
from wflsim.analysis.legs import pooled, stragglers, worst_straggler
from wflsim.analysis.tables import Results


def summary_table(results: Results) -> Table:
    """Policies side by side: costs to target, then the last evaluation."""
    target = results.target
    goal = f"to {percent(target['accuracy'])} {target['metric']}" if target else "of the whole run"
    title = Text(f"{results.scenario['name']}: mean [95 % interval] over seeds")
    table = Table(title=title, title_justify="left")
    rows = list(results.policies.values())
    table.add_column("")
    for row in rows:
        table.add_column(f"{row['policy']} ({row['seeds']} seeds)", justify="right")
    if target:
        table.add_row(f"P(reach {percent(target['accuracy'])})", *(interval(row, "p_reach", percent) for row in rows))
    for name, heading, show in COLUMNS:
        table.add_row(f"{heading} {goal}", *(cost(row, name, show) for row in rows))
    for name, heading in FINALS:
        table.add_row(f"{heading}, last", *(interval(row, name, percent) for row in rows))
    table.add_row("round latency p50", *(interval(row, "latency_p50_s", duration) for row in rows))
    table.add_row("round latency p95", *(interval(row, "latency_p95_s", duration) for row in rows))
    table.add_row("straggler (share of its phases)", *(_straggler(results, row["policy"]) for row in rows))
    return table


def _straggler(results: Results, policy: str) -> str:
    """The client that kept the most phases waiting over all seeds, and in what share of its phases."""
    legs = results.legs[results.legs["policy"] == policy]
    client, share = worst_straggler(pooled(stragglers(own) for _, own in legs.groupby("seed")))
    return "-" if client is None else f"client {client} ({percent(share)})"


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
