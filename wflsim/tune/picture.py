"""The map as a picture: tau* in colour, tau* and its cost as text, one panel per policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from wflsim.tune.costs import shown
from wflsim.tune.study import Study

matplotlib.use("Agg", force=False)

MOST_TEXTS = 400


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
    figure.suptitle(f"local steps tau* to {metric}\nat least {_what(found)}", fontsize=11)
    figure.savefig(path, dpi=150)


def _what(found: Study) -> str:
    accounting = {"full": "whole device", "paper": "the paper's formula"}[found.spec.accounting]
    return f"energy ({accounting})" if found.spec.objective == "energy" else found.spec.objective


def _values(found: Study, key: str) -> list[str]:
    return list(dict.fromkeys(regime.values[key] for regime in found.regimes))


def _heat(found: Study, policy: str, axes: Any) -> None:
    down, across = found.keys
    rows, columns = _values(found, down), _values(found, across)
    taus = np.full((len(rows), len(columns)), np.nan)
    for regime in found.regimes:
        where = rows.index(regime.values[down]), columns.index(regime.values[across])
        choice = found.choices[policy, regime.number]
        taus[where] = choice.best.tau
        if len(found.regimes) <= MOST_TEXTS:
            candidates = [one.tau for one in choice.candidates]
            dark = choice.best.tau < (min(candidates) + max(candidates)) / 2
            flag = "*" if choice.best.p_reach < 1 else ""
            text = f"{choice.best.tau}{flag}\n{shown(found.spec, choice.best.cost.mean)}"
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
        taus = [one.tau for one in choice.candidates]
        mean = np.array([one.cost.mean for one in choice.candidates])
        half = np.array([[one.cost.mean - one.cost.low, one.cost.high - one.cost.mean] for one in choice.candidates]).T
        label = ", ".join(regime.values.values()) or None
        (line,) = axes.plot(taus, mean, marker="o", markersize=3, label=label)
        if np.isfinite(half).all():
            axes.errorbar(taus, mean, half, fmt="none", capsize=2, color=line.get_color())
        axes.plot(choice.best.tau, choice.best.cost.mean, marker="*", markersize=13, color=line.get_color())
    axes.set_xlabel("local steps tau")
    axes.set_ylabel(f"{found.spec.objective} to target [{found.unit}]")
    axes.set_ylim(bottom=0)
    if found.keys:
        axes.legend(fontsize=8)
