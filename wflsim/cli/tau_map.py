"""The map of tau* on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from wflsim.analysis.formats import duration, joules, percent
from wflsim.tune.candidate import Candidate, Choice
from wflsim.tune.costs import shown
from wflsim.tune.question import Study
from wflsim.tune.setting import texts
from wflsim.tune.words import chance

HOLLOW = "○"
"""Beside a tau that stop.rounds cut off and that could still win, or a tau* that such a tau could still beat."""

MOST_LINES = 40
"""Candidates of several knobs that are listed, the cheapest first."""

def tau_map(found: Study) -> Iterator[Table]:
    """Per policy: a map over two keys, a line per regime otherwise; in a single regime, a line per tau.

    * marks tau*, ! a tau* that missed the target on some seed, ○ a tau that was cut off and could still win; "none"
    stands where no tau reaches the target, with the nearest tau and how far it came.
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
    return table


def _taus(found: Study, policy: str, choice: Choice) -> Table:
    knobs = list(dict(choice.nearest.knobs))
    by = "setting" if knobs else "tau"
    what = "energy" if found.spec.objective == "pareto" else found.spec.objective
    table = Table(title=Text(f"{policy}: {what} to target by {by}"), title_justify="left")
    for title in ("tau", *knobs, "cost", "95 % interval", "regret", "P(best)", "P(reach)"):
        table.add_column(title, justify="right")
    ranked = sorted(choice.candidates, key=lambda one: (one.cost.mean, one.tau)) if knobs else choice.candidates
    for one in ranked[:MOST_LINES]:
        least = ">= " if one.censored else ""
        low, high = shown(found.spec, one.cost.low), shown(found.spec, one.cost.high)
        bounds = f"[{low}, {high}]" if np.isfinite(one.cost.low) else "-"
        cost = f"{least}{shown(found.spec, one.cost.mean)}" if np.isfinite(one.cost.mean) else "-"
        regret = f"{'>= ' if one.stopped else ''}{percent(one.regret)}" if np.isfinite(one.regret) else "-"
        mark = " *" if one is choice.best else f" {HOLLOW}" if one.could_win else ""
        others = [Text(text) for text in texts(one.knobs).values()]
        table.add_row(f"{one.tau}{mark}", *others, cost, bounds, regret, chance(one), _reach(one))
    return table


def front(found: Study) -> Iterator[Table]:
    """Per policy and regime, the front of energy against time with the knobs of each point."""
    for (policy, number), points in found.front.items():
        if not points:
            continue
        where = ", ".join(found.regimes[number].values.values())
        title = Text(f"{policy}{f' ({where})' if where else ''}: front of energy against time")
        table = Table(title=title, title_justify="left")
        for column in ("tau", *dict(points[0].knobs), "time", "95 % interval", "energy", "95 % interval"):
            table.add_column(Text(column), justify="right")
        for one in points:
            bounds = (
                f"[{show(held.low)}, {show(held.high)}]" if np.isfinite(held.low) else "-"
                for held, show in ((one.time, duration), (one.energy, joules))
            )
            time, energy = duration(one.time.mean), joules(one.energy.mean)
            cells = (str(one.tau), *texts(one.knobs).values(), time, next(bounds), energy, next(bounds))
            table.add_row(*map(Text, cells))
        yield table


def _reach(one: Candidate) -> str:
    if one.stopped:
        return "given up"
    return percent(one.p_reach) + (f", {one.diverged} diverged" if one.diverged else "")


def _cell(found: Study, choice: Choice) -> str:
    mark = HOLLOW if choice.could_win else ""
    if choice.best is None:
        return f"none{mark} ({_short(choice.nearest)}: {percent(choice.nearest.attained)})"
    flag = "!" if choice.best.p_reach < 1 else ""
    return f"{_short(choice.best)}{flag}{mark} ({shown(found.spec, choice.best.cost.mean)})"


def _short(one: Candidate) -> str:
    """The candidate in as few words as tell it apart: its tau, and the values of other knobs behind it."""
    return ", ".join([str(one.tau), *texts(one.knobs).values()])
