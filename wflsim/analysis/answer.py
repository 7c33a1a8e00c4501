"""The answer in one sentence, and how sure it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.formats import interval, joules, percent, whole
from wflsim.analysis.noise import unequal_noise
from wflsim.analysis.ranking import pair, ranked
from wflsim.analysis.tables import Interval, Results
from wflsim.target import worst_by_chance


def answer(results: Results) -> str:
    """Which policy reaches the target for the least energy, by how much, on how many seeds."""
    best, *others = ranked(list(results.policies.values()))
    if results.target is None or not best["p_reach"]:
        worst = interval(best, "final_worst", percent)
        if results.target is None:
            return f"{best['policy']} ends with the best worst-case accuracy, {worst} (no target set)."
        return (
            f"No policy reaches {goal_text(results.target)}; {best['policy']} comes nearest with a worst client at "
            f"{worst}."
        )
    goal = goal_text(results.target)
    if best["p_reach"] < 1:
        return _unsure(results, best, others, goal)
    text = f"{best['policy']} reaches {goal} with {interval(best, 'energy_j', joules)}"
    # a dozen comparisons are no sentence any more: the nearest rival is the one that matters
    named = others if len(others) < 4 else others[:1]
    if named:
        text += ", " + "; ".join(against(results.runs, str(best["policy"]), str(other["policy"])) for other in named)
    if len(named) < len(others):
        text += f", the next best of {len(others)} others"
    sure = f"reached by {int(best['seeds'])} of {int(best['seeds'])} seeds"
    return f"{text} ({sure}{'; 95 % intervals' if best['seeds'] > 1 else ''})."


def _unsure(results: Results, best: Mapping[str, Any], others: Sequence[Mapping[str, Any]], goal: str) -> str:
    """Even the surest policy missed the target on some seeds: who reached it how often, and no saving."""
    runs = results.runs
    mine = runs[(runs["policy"] == best["policy"]) & (runs["reached"] > 0)]["energy_j"].tolist()
    spent = Interval.of_costs(mine)
    there = interval({"j": spent.mean, "j_low": spent.low, "j_high": spent.high}, "j", joules)
    where = "that one" if len(mine) == 1 else "those"
    text = f"{best['policy']} reaches {goal} on only {_times(best)} seeds, with {there} on {where}"
    if others:
        rest = "; ".join(f"{row['policy']} on {_times(row)}" for row in others[:3])
        text += f" ({rest}{f'; {len(others) - 3} others no more often' if len(others) > 3 else ''})"
    return f"{text}. What the other seeds would have cost is not known, so no saving is claimed."


def against(runs: pd.DataFrame, best: str, other: str) -> str:
    """What the best, which reached the target on all its seeds, spends against another, in words."""
    found = pair(runs, best, other, has_target=True)
    n, missed = found.common, found.other_missed
    if not n:
        return f"not comparable with {other}, which has no seed in common"
    if missed == n:
        return f"where {other} reaches it on none of {n} seeds"
    saved, ratio = found.saved, found.ratio
    bound = f" (which missed it on {missed} of {n} seeds, so its cost is a lower bound)" if missed else ""
    if not np.isfinite(ratio.mean):
        return f"a share of {other}'s energy cannot be said, because a run spends 0 J{bound}"
    if n < 2:
        lesser, size = ("less", saved.mean) if saved.mean >= 0 else ("more", np.expm1(ratio.mean))
        return f"{whole(size)} {lesser} than {other} on the one seed in common{bound}"
    if found.told_apart:
        at_least = "at least " if missed else ""
        return f"{at_least}{whole(saved.mean)} {_span(saved.low, saved.high)} less than {other}{bound}"
    if missed:
        return f"not told apart in energy from {other}{bound}"
    if saved.high < 0:
        more = (np.expm1(value) for value in (ratio.mean, ratio.low, ratio.high))
        mean, low, high = map(float, more)
        return f"{whole(mean)} {_span(low, high)} more than {other} on the seeds in common"
    return f"not told apart from {other} (somewhere between {_leaning(saved.low)} and {_leaning(saved.high)})"


def _span(low: float, high: float) -> str:
    return f"[{whole(low)}, {whole(high)}]"


def _leaning(saved: float) -> str:
    """A share that is saved, in words: 12 % less, 30 % more, 19.5 times as much."""
    if saved >= 0:
        return f"{whole(saved)} less"
    return f"{whole(-saved)} more" if saved > -1 else f"{1 - saved:.3g} times as much"


def _times(row: Mapping[str, Any]) -> str:
    return f"{round(row['p_reach'] * row['seeds'])} of {int(row['seeds'])}"


def goal_text(target: Mapping[str, Any] | None) -> str:
    """The target in words, for example "80 % worst-case accuracy (mean over 20 rounds)"."""
    if target is None:
        return "the end of the run"
    text = f"{percent(target['accuracy'])} {target['metric']}-case accuracy".replace("average-case", "average")
    return text + (f" (mean over {target['window']} rounds)" if target.get("window", 1) > 1 else "")


def modes(results: Results) -> list[str]:
    """Whether each policy was trained or replayed, and why, in one line for all policies alike in this."""
    told: dict[str, dict[str, None]] = {}
    for row in results.status.to_dict("records"):
        alike = re.sub(r"all \d+ rounds", "all rounds", str(row.get("mode", "")))
        told.setdefault(alike, {})[str(row["policy"])] = None
    return [f"{', '.join(policies)}: {mode}" for mode, policies in told.items() if mode]


def notes(results: Results) -> list[str]:
    """What a reader must know before believing the table: missed targets, divergence, lost orders, noise, few tests."""
    found = []
    for row in results.status.to_dict("records"):
        if row["status"] == "diverged":
            found.append(f"diverged: {row['policy']} seed {row['seed']}: {row['reason']}")
    for label, runs in results.runs.groupby("policy", sort=False):
        if results.target and (missed := int((runs["reached"] == 0).sum())):
            found.append(
                f"{label} missed the target on {missed} of {len(runs)} seeds; those count with all they spent, "
                f"so its costs are lower bounds"
            )
    for label, runs in results.world.groupby("policy", sort=False):
        if failed := int(runs["failed_orders"].sum()):
            counts = Counter[str]()
            for cell in runs["failures"]:
                counts.update({why: int(times) for why, times in (entry.split(":") for entry in cell.split())})
            why = ", ".join(f"{times} {outcome}" for outcome, times in counts.most_common())
            found.append(f"{label}: {failed} orders brought no reply ({why})")
        dead = runs["dead_clients"]
        if dead.any():
            first, hit = runs["lifetime_rounds"].min(), int((dead > 0).sum())
            found.append(f"{label}: batteries died on {hit} of {len(runs)} seeds, the first in round {first:.0f}")
    if results.target and (uneven := unequal_noise(results.rounds, results.target)):
        found.append(uneven)
    tests = results.test_samples
    if untested := sum(count == 0 for count in tests):
        found.append(
            f"{untested} of {len(tests)} clients have no test samples (with the first seed); worst, average and every "
            f"other accuracy are over the remaining {len(tests) - untested}"
        )
    average = float(results.runs.groupby("policy")["final_average"].mean().max())
    if (floor := noise_floor(results, average)) is not None:
        found.append(
            f"noise floor: with so few test images, clients that are all right {percent(average)} of the time would "
            f"show a worst accuracy of {percent(floor)} by chance alone"
        )
    return found


def noise_floor(results: Results, average: float) -> float | None:
    """What the worst accuracy would be by chance alone; None where the folder does not say how many tests there are."""
    if not np.isfinite(average) or not any(results.test_samples):
        return None
    return worst_by_chance(average, results.test_samples)
