"""The report in words: the answer, how sure it is, and what to know before believing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wflsim.answer import answer, duration, interval, notes, percent, si
from wflsim.report.series import Series
from wflsim.report.source import Folder
from wflsim.tables import Interval

MANY = 12
"""Missing files that are named one by one; the rest is counted."""


@dataclass(frozen=True)
class Fact:
    """A number for the top of the page."""

    title: str
    value: str
    range: str = ""


@dataclass(frozen=True)
class Opening:
    """What the page begins with."""

    answer: str
    sure: str
    facts: list[Fact]


def opening(folder: Folder, series: Sequence[Series]) -> Opening:
    """Of a run folder."""
    rows = [each.row for each in series]
    best = best_row(rows, folder.target is not None)
    reached = folder.target is not None and best["p_reach"] > 0
    facts = [
        Fact("policy", str(best["policy"])),
        _fact("energy" + (" to target" if reached else ""), best, "energy_j"),
        _fact("simulated time" + (" to target" if reached else ""), best, "time_s"),
        _fact("worst client, last", best, "final_worst"),
        _fact("average client, last", best, "final_average"),
    ]
    return Opening(answer(folder), how_sure(folder, best, rows, reached), facts)


def best_row(rows: Sequence[dict[str, Any]], with_target: bool) -> dict[str, Any]:
    """The same choice as the answer's: the surest, then the cheapest; without a target, the fairest."""
    reached = [row for row in rows if row["p_reach"] > 0] if with_target else []
    if reached:
        return min(reached, key=lambda row: (-row["p_reach"], row["energy_j"]))
    return max(rows, key=lambda row: float(np.nan_to_num(row["final_worst"], nan=-1.0)))


def how_sure(folder: Folder, best: dict[str, Any], rows: Sequence[dict[str, Any]], reached: bool) -> str:
    """One or two sentences: the number of seeds, and whether the nearest rival is told apart from the best."""
    seeds = int(best["seeds"])
    if seeds < 2:
        return "How sure: one seed is an anecdote. Run several to get intervals."
    text = f"How sure: {seeds} seeds."
    if not reached:
        return text
    text = f"How sure: {seeds} seeds, P(reach) {interval(best, 'p_reach', percent)}."
    rivals = [row for row in rows if row["policy"] != best["policy"] and row["p_reach"] == best["p_reach"]]
    if not rivals:
        return text
    rival = str(min(rivals, key=lambda row: row["energy_j"])["policy"])
    saved, wins, common = paired(folder, str(best["policy"]), rival)
    if common < 2:
        return text
    if saved.low > 0:
        verdict = f"is told apart: it needs more energy on {wins} of {common} common seeds."
    else:
        span = f"[{_whole(saved.low)}, {_whole(saved.high)}]"
        verdict = f"is not told apart: {span} saved on {common} common seeds. More seeds would tell."
    return f"{text} {rival}, the nearest rival, {verdict}"


def paired(folder: Folder, best: str, other: str) -> tuple[Interval, int, int]:
    """Share of energy saved on common seeds (geometric mean, 95 % interval), seeds won, seeds in common."""
    runs = folder.runs.set_index(["policy", "seed"])["energy_j"]
    pair = runs.loc[best].to_frame("best").join(runs.loc[other].to_frame("other"), how="inner")
    if not len(pair):
        return Interval(np.nan, np.nan, np.nan), 0, 0
    ratio = Interval.of(np.log(pair["best"] / pair["other"]).tolist())
    saved = Interval(*(float(1 - np.exp(value)) for value in (ratio.mean, ratio.high, ratio.low)))
    return saved, int((pair["best"] < pair["other"]).sum()), len(pair)


def warnings(folder: Folder) -> list[str]:
    """Of a run folder: unfinished and diverged runs, missed targets, losses, the noise floor."""
    found = notes(folder)
    status = str(folder.about.get("status", ""))
    if status in ("running", "interrupted", "failed"):
        found.insert(0, f"this run is not complete (status: {status}); the page shows what there is")
    return found


def missing(folders: Sequence[Folder]) -> list[str]:
    """What could not be read, each file once."""
    found = list(dict.fromkeys(line for folder in folders for line in folder.missing))
    if len(found) <= MANY:
        return found
    return [*found[:MANY], f"and {len(found) - MANY} more files that are missing or damaged"]


def cost_text(value: float, unit: str) -> str:
    """A cost in the unit of a tuning map."""
    if unit == "J":
        return si(value, "J")
    if unit == "s":
        return duration(value)
    return f"{value:.4g} {unit}".strip() if np.isfinite(value) else "-"


def _fact(title: str, row: dict[str, Any], name: str) -> Fact:
    show = {"energy_j": lambda v: si(v, "J"), "time_s": duration}.get(name, percent)
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return Fact(title, show(row[name]), f"{show(low)} to {show(high)}" if np.isfinite(low) else "")


def _whole(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-0 %", "0 %")
