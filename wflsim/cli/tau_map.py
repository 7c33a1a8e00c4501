"""The map of tau* on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from wflsim.answer import percent
from wflsim.tune.choice import Choice
from wflsim.tune.costs import shown
from wflsim.tune.study import Study


def tau_map(found: Study) -> Iterator[Table]:
    """Per policy: a map over two keys, a line per regime otherwise; in a single regime, a line per tau."""
    for policy in dict.fromkeys(policy for policy, _ in found.choices):
        values = [list(dict.fromkeys(regime.values[key] for regime in found.regimes)) for key in found.keys]
        if len(found.regimes) == 1:
            yield _taus(found, policy, found.choices[policy, 0])
        elif len(found.keys) == 2 and len(found.regimes) == len(values[0]) * len(values[1]):
            yield _map(found, policy, values[0], values[1])
        else:
            yield _regimes(found, policy)


def _map(found: Study, policy: str, rows: list[str], columns: list[str]) -> Table:
    down, across = (key.rsplit(".", 1)[-1] for key in found.keys)
    words = Text(f"{policy}: tau* (cost), {down} down, {across} across")
    table = Table(title=words, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for column in columns:
        table.add_column(Text(column), justify="right")
    at = {tuple(regime.values.values()): found.choices[policy, regime.number] for regime in found.regimes}
    for row in rows:
        table.add_row(Text(row), *(_cell(found, at[row, column]) for column in columns))
    return table


def _regimes(found: Study, policy: str) -> Table:
    table = Table(title=Text(f"{policy}: tau* (cost) by regime"), title_justify="left")
    for title in (*found.keys, "tau* (cost)", "within 5 %", "P(reach)"):
        table.add_column(Text(title))
    for regime in found.regimes:
        choice = found.choices[policy, regime.number]
        words = (_cell(found, choice), " ".join(map(str, choice.within5)), percent(choice.best.p_reach))
        table.add_row(*map(Text, regime.values.values()), *words)
    return table


def _taus(found: Study, policy: str, choice: Choice) -> Table:
    table = Table(title=Text(f"{policy}: {found.spec.objective} to target by tau"), title_justify="left")
    for title in ("tau", "cost", "95 % interval", "regret", "P(best)", "P(reach)"):
        table.add_column(title, justify="right")
    for one in choice.candidates:
        least = ">= " if one.stopped else ""
        low, high = shown(found.spec, one.cost.low), shown(found.spec, one.cost.high)
        bounds = f"[{low}, {high}]" if np.isfinite(one.cost.low) else "-"
        best = "-" if np.isnan(one.p_best) else percent(one.p_best)
        row = (f"{one.tau}{' *' if one is choice.best else ''}", f"{least}{shown(found.spec, one.cost.mean)}", bounds)
        table.add_row(*row, f"{least}{percent(one.regret)}", best, "given up" if one.stopped else percent(one.p_reach))
    return table


def _cell(found: Study, choice: Choice) -> str:
    flag = "!" if choice.best.p_reach < 1 else ""
    return f"{choice.best.tau}{flag} ({shown(found.spec, choice.best.cost.mean)})"
