"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table
from rich.text import Text

from wflsim.analysis.formats import cost, duration, interval, percent, si
from wflsim.analysis.legs import pooled, stragglers, worst_straggler
from wflsim.analysis.tables import Results

Show = Callable[[float], str]
COLUMNS: tuple[tuple[str, str, Show], ...] = (
    ("rounds", "rounds", lambda value: f"{value:.3g}"),
    ("energy_j", "energy", lambda value: si(value, "J")),
    ("paper_energy_j", "energy (paper's formula)", lambda value: si(value, "J")),
    ("time_s", "simulated time", duration),
    ("up_bits", "sent up", lambda value: si(value, "bit")),
    ("down_bits", "received", lambda value: si(value, "bit")),
)
FINALS = (("final_average", "average accuracy"), ("final_worst", "worst accuracy"), ("final_std", "std over clients"))


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
