"""The map of tau* on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from wflsim.analysis.formats import percent
from wflsim.analysis.regimes import HOLLOW, marks_in
from wflsim.tune.choice import Candidate, Choice
from wflsim.tune.costs import shown
from wflsim.tune.question import Study
from wflsim.tune.words import chance, tau_star


def tau_map(found: Study) -> Iterator[Table]:
    """Per policy: a map over two keys, a line per regime otherwise; in a single regime, a line per tau.

    "none" stands where no tau reaches the target, with the nearest tau and how far it came; the marks of a map are
    those of `analysis.regimes.MARKS`, explained below it.
    """
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
    table.caption = Text(marks_in([tau_star(choice) for choice in at.values()])) or None
    return table


def _regimes(found: Study, policy: str) -> Table:
    table = Table(title=Text(f"{policy}: tau* (cost) by regime"), title_justify="left")
    for title in (*found.keys, "tau* (cost)", "on unseen seeds", "within 5 %", "P(best)", "P(reach)"):
        table.add_column(Text(title))
    for regime in found.regimes:
        choice = found.choices[policy, regime.number]
        sure = chance(choice.best) if choice.best is not None else "-"
        words = (_cell(found, choice), shown(found.spec, choice.unseen.mean), " ".join(map(str, choice.within5)))
        table.add_row(*map(Text, regime.values.values()), *words, sure, percent(choice.nearest.p_reach))
    mine = [found.choices[policy, regime.number] for regime in found.regimes]
    table.caption = Text(marks_in([tau_star(choice) for choice in mine])) or None
    return table


def _taus(found: Study, policy: str, choice: Choice) -> Table:
    table = Table(title=Text(f"{policy}: {found.spec.objective} to target by tau"), title_justify="left")
    for title in ("tau", "cost", "95 % interval", "regret", "P(best)", "P(reach)"):
        table.add_column(title, justify="right")
    for one in choice.candidates:
        least = ">= " if one.censored else ""
        low, high = shown(found.spec, one.cost.low), shown(found.spec, one.cost.high)
        bounds = f"[{low}, {high}]" if np.isfinite(one.cost.low) else "-"
        cost = f"{least}{shown(found.spec, one.cost.mean)}" if np.isfinite(one.cost.mean) else "-"
        regret = f"{'>= ' if one.stopped else ''}{percent(one.regret)}" if np.isfinite(one.regret) else "-"
        mark = " *" if one is choice.best else f" {HOLLOW}" if one.could_win else ""
        table.add_row(f"{one.tau}{mark}", cost, bounds, regret, chance(one), _reach(one))
    return table


def _reach(one: Candidate) -> str:
    if one.stopped:
        return "given up"
    return percent(one.p_reach) + (f", {one.diverged} diverged" if one.diverged else "")


def _cell(found: Study, choice: Choice) -> str:
    if choice.best is None:
        return f"{tau_star(choice)} ({choice.nearest.tau}: {percent(choice.nearest.attained)})"
    return f"{tau_star(choice)} ({shown(found.spec, choice.best.cost.mean)})"
