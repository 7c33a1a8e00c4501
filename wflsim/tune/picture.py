"""The map as a picture: tau* in colour, tau* and its cost as text, one panel per policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from wflsim.tune.candidate import Candidate, Choice
from wflsim.tune.costs import shown
from wflsim.tune.question import Study

matplotlib.use("Agg", force=False)

MOST_TEXTS = 400
HOLLOW = "○"
"""Beside a tau* that a tau cut off by stop.rounds could still beat."""


def draw(found: Study, path: Path) -> None:
    """Over two keys a heat map, otherwise costs against tau, a line per regime."""
    from matplotlib.figure import Figure

    policies = list(dict.fromkeys(policy for policy, _ in found.choices))
    grid = len(found.keys) == 2 and len(found.regimes) == np.prod([len(_values(found, key)) for key in found.keys])
    columns = len(_values(found, found.keys[1])) if grid else 6
    figure = Figure(figsize=((1.9 + 0.95 * columns) * len(policies), 4.8), layout="constrained")
    for number, policy in enumerate(policies):
        axes = figure.add_subplot(1, len(policies), number + 1)
        (_heat if grid else _lines)(found, policy, axes)
        axes.set_title(policy, fontsize=10)
    metric = f"{100 * found.target.accuracy:g} % {found.target.metric} accuracy"
    title = f"local steps tau* to {metric}\nat least {_what(found)}"
    if any(choice.could_win for choice in found.choices.values()):
        title += "\nhollow: stop.rounds cut off a tau that could still win"
    if all(choice.best is None for choice in found.choices.values()):
        title = f"no tau reaches {metric}"
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=150)


def _what(found: Study) -> str:
    accounting = {"full": "whole device", "paper": "the paper's formula"}[found.spec.accounting]
    return f"energy ({accounting})" if found.spec.objective in ("energy", "pareto") else found.spec.objective


def _values(found: Study, key: str) -> list[str]:
    return list(dict.fromkeys(regime.values[key] for regime in found.regimes))


def _heat(found: Study, policy: str, axes: Any) -> None:
    down, across = found.keys
    rows, columns = _values(found, down), _values(found, across)
    taus = np.full((len(rows), len(columns)), np.nan)
    for regime in found.regimes:
        where = rows.index(regime.values[down]), columns.index(regime.values[across])
        choice = found.choices[policy, regime.number]
        best = choice.best
        taus[where] = best.tau if best is not None else np.nan
        if len(found.regimes) <= MOST_TEXTS:
            candidates = [one.tau for one in choice.candidates]
            dark = best is not None and best.tau < (min(candidates) + max(candidates)) / 2
            mark = HOLLOW if choice.could_win else ""
            text = f"none{mark}"
            if best is not None:
                text = f"{best.tau}{'*' if best.p_reach < 1 else ''}{mark}\n{shown(found.spec, best.cost.mean)}"
            colour = "white" if dark else "black"
            axes.text(where[1], where[0], text, ha="center", va="center", fontsize=8, color=colour)
    low, high = (pick(one.tau for one in found.choices[policy, 0].candidates) for pick in (min, max))
    image = axes.imshow(taus, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    axes.figure.colorbar(image, ax=axes, label="tau*")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel(across)
    axes.set_ylabel(down)


def _lines(found: Study, policy: str, axes: Any) -> None:
    for regime in found.regimes[:12]:
        choice = found.choices[policy, regime.number]
        shown_ones = _cheapest_of_each_tau(choice)
        taus = [one.tau for one in shown_ones]
        mean = np.array([one.cost.mean for one in shown_ones])
        half = np.array([[one.cost.mean - one.cost.low, one.cost.high - one.cost.mean] for one in shown_ones]).T
        label = ", ".join(regime.values.values()) or None
        (line,) = axes.plot(taus, mean, label=label)
        colour = line.get_color()
        bounds = np.array([bool(one.censored) for one in shown_ones])
        for hollow in (False, True):
            here = bounds == hollow
            face = "white" if hollow else colour
            axes.plot(np.array(taus)[here], mean[here], "o", markersize=5, color=colour, markerfacecolor=face)
        if np.isfinite(half).any():
            axes.errorbar(taus, mean, half, fmt="none", capsize=2, color=colour)
        if choice.best is not None:
            face = "white" if choice.could_win or choice.best.censored else colour
            at = choice.best.tau, choice.best.cost.mean
            axes.plot(*at, marker="*", markersize=13, color=colour, markerfacecolor=face)
    axes.set_xlabel("local steps tau")
    axes.set_ylabel(f"{found.spec.objective.replace('pareto', 'energy')} to target [{found.unit}]")
    axes.set_ylim(bottom=0)
    if found.keys:
        axes.legend(fontsize=8)


def _cheapest_of_each_tau(choice: Choice) -> list[Candidate]:
    """The candidates in ascending order of tau; of those that differ in other knobs, the cheapest."""
    best: dict[int, Candidate] = {}
    for one in sorted(choice.candidates, key=lambda one: (one.tau, one.cost.mean)):
        best.setdefault(one.tau, one)
    return list(best.values())
