"""The report in words: the answer, how sure it is, and what to know before believing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wflsim.analysis.answer import answer, notes
from wflsim.analysis.formats import duration, interval, is_bound, joules, percent, whole
from wflsim.analysis.ranking import pair, ranked
from wflsim.analysis.tables import Folder
from wflsim.report.series import Series

ANECDOTE = "How sure: one seed is an anecdote. Run several to get intervals."
MANY = 12
"""Number of missing files that are named one by one; the rest is counted."""


@dataclass(frozen=True)
class Fact:
    """A number for the top of the page."""

    title: str
    value: str
    range: str = ""
    """The interval of the value in words; empty if it has none."""


@dataclass(frozen=True)
class Opening:
    """What the page begins with."""

    answer: str
    """The answer in one sentence."""
    sure: str
    """How sure it is, in one or two sentences."""
    facts: list[Fact]


def opening(folder: Folder, series: Sequence[Series]) -> Opening:
    """The answer of a run folder, how sure it is, and the numbers of its best policy."""
    ordered = ranked([each.row for each in series])
    best = ordered[0]
    reached = folder.target is not None and best["p_reach"] > 0
    facts = [
        Fact("policy", str(best["policy"])),
        _fact("energy" + (" to target" if reached else ""), best, "energy_j"),
        _fact("simulated time" + (" to target" if reached else ""), best, "time_s"),
        _fact("worst client, last", best, "final_worst"),
        _fact("average client, last", best, "final_average"),
    ]
    return Opening(answer(folder), how_sure(folder, ordered, reached), facts)


def how_sure(folder: Folder, ordered: Sequence[dict[str, Any]], reached: bool) -> str:
    """Say how many seeds there are, and whether the nearest rival is told apart from the best."""
    best, *rivals = ordered
    seeds = int(best["seeds"])
    if seeds < 2:
        return ANECDOTE
    text = f"How sure: {seeds} seeds."
    if not reached:
        return text
    text = f"How sure: {seeds} seeds, P(reach) {interval(best, 'p_reach', percent)}."
    if not rivals or rivals[0]["p_reach"] != best["p_reach"] or best["p_reach"] < 1:
        return text
    rival = str(rivals[0]["policy"])
    found = pair(folder.runs, str(best["policy"]), rival, has_target=True)
    if found.common < 2 or not np.isfinite(found.ratio.mean):
        return text
    if found.told_apart:
        verdict = f"is told apart: it needs more energy on {found.wins} of {found.common} common seeds."
    else:
        span = f"[{whole(found.saved.low)}, {whole(found.saved.high)}]"
        verdict = f"is not told apart: {span} saved on {found.common} common seeds. More seeds would tell."
    return f"{text} {rival}, the nearest rival, {verdict}"


def warnings(folder: Folder) -> list[str]:
    """What to know before believing a run folder: unfinished and diverged runs, missed targets, losses, noise."""
    found = notes(folder)
    status = str(folder.about.get("status", ""))
    if status in ("running", "interrupted", "failed"):
        found.insert(0, f"this run is not complete (status: {status}); the page shows what there is")
    return found


def missing(folders: Sequence[Folder]) -> list[str]:
    """Sentences about what could not be read, each file once."""
    found = list(dict.fromkeys(line for folder in folders for line in folder.missing))
    if len(found) <= MANY:
        return found
    return [*found[:MANY], f"and {len(found) - MANY} more files that are missing or damaged"]


def _fact(title: str, row: dict[str, Any], name: str) -> Fact:
    show = {"energy_j": joules, "time_s": duration}.get(name, percent)
    if name in ("energy_j", "time_s") and is_bound(row):
        return Fact(title, f"at least {show(row[name])}", "some seeds missed the target" if "p_reach" in row else "")
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return Fact(title, show(row[name]), f"{show(low)} to {show(high)}" if np.isfinite(low) else "")
