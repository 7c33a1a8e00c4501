"""The answer in one sentence, and how sure it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wflsim.learning.metrics import worst_by_chance
from wflsim.tables import Interval, Results

SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"))


def si(value: float, unit: str) -> str:
    """1312.4 J -> 1.31 kJ."""
    if not np.isfinite(value):
        return "-"
    if value == 0:
        return f"0 {unit}"
    scale, prefix = next(((s, p) for s, p in SCALES if abs(value) >= s), SCALES[-1])
    return f"{value / scale:.3g} {prefix}{unit}"


def duration(seconds: float) -> str:
    """Simulated time as people say it."""
    if not np.isfinite(seconds):
        return "-"
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return si(seconds, "s")


def interval(row: dict[str, float], name: str, show: Callable[[float], str]) -> str:
    """mean [low, high]."""
    text = show(row[name])
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{text} [{show(low)}, {show(high)}]" if np.isfinite(low) else text


def answer(results: Results) -> str:
    """Which policy reaches the target for the least energy, by how much, on how many seeds."""
    rows = results.policies
    if results.target is None:
        best = max(rows.values(), key=lambda row: row["final_worst"])
        return (
            f"{best['policy']} ends with the best worst-case accuracy, "
            f"{interval(best, 'final_worst', percent)} (no target set)."
        )
    goal = goal_text(results.target)
    reached = {name: row for name, row in rows.items() if row["p_reach"] > 0}
    if not reached:
        best = max(rows.values(), key=lambda row: row["final_worst"])
        return (
            f"No policy reaches {goal}; {best['policy']} comes nearest with a worst client at "
            f"{interval(best, 'final_worst', percent)}."
        )
    # the surest first: a policy that sometimes misses is not cheaper, it is unfinished
    order = sorted(reached.values(), key=lambda row: (-row["p_reach"], row["energy_j"]))
    best = order[0]
    runs = results.runs
    hits, seeds = int(runs[runs["policy"] == best["policy"]]["reached"].sum()), int(best["seeds"])
    cost = interval(best, "energy_j", lambda joules: si(joules, "J"))
    text = f"{best['policy']} reaches {goal} with {cost}"
    others = [row for row in rows.values() if row["policy"] != best["policy"]]
    # a dozen comparisons are no sentence any more: the nearest rival is the one that matters
    named = others if len(others) < 4 else sorted(others, key=lambda row: (-row["p_reach"], row["energy_j"]))[:1]
    if named:
        text += ", " + "; ".join(_against(results, str(best["policy"]), str(other["policy"])) for other in named)
    if len(named) < len(others):
        text += f", the next best of {len(others)} others"
    sure = f"reached by {hits} of {seeds} seeds"
    return f"{text} ({sure}; 95 % intervals)."


def _against(results: Results, best: str, other: str) -> str:
    """Paired on common seeds, as a ratio: the sky and the data of a seed are the same for both."""
    runs = results.runs.set_index(["policy", "seed"])
    pair = runs.loc[best].join(runs.loc[other].add_suffix("_other"), how="inner")
    ratio = Interval.of(np.log(pair["energy_j"] / pair["energy_j_other"]).tolist())
    saved, low, high = (1 - np.exp(value) for value in (ratio.mean, ratio.high, ratio.low))
    bounds = f" [{low:.0%}, {high:.0%}]" if np.isfinite(low) else ""
    missed = int((pair["reached_other"] == 0).sum())
    at_least = f" (which missed it on {missed} of {len(pair)} seeds)" if missed else ""
    if saved < 0:
        return f"{-saved:.0%} more than {other}{at_least}".replace("%", " %")
    return f"{'at least ' if missed else ''}{saved:.0%}{bounds} less than {other}{at_least}".replace("%", " %")


def goal_text(target: Mapping[str, Any] | None) -> str:
    """80 % worst-case accuracy."""
    if target is None:
        return "the end of the run"
    return f"{percent(target['accuracy'])} {target['metric']}-case accuracy".replace("average-case", "average")


def percent(share: float) -> str:
    return "-" if not np.isfinite(share) else f"{100 * share:.1f} %".replace(".0 %", " %")


def modes(results: Results) -> list[str]:
    """Which learner and carrier told the story, and why; policies alike in this share a line."""
    told: dict[str, dict[str, None]] = {}
    for row in results.status.to_dict("records"):
        alike = re.sub(r"all \d+ rounds", "all rounds", str(row.get("mode", "")))
        told.setdefault(alike, {})[str(row["policy"])] = None
    return [f"{', '.join(policies)}: {mode}" for mode, policies in told.items() if mode]


def notes(results: Results) -> list[str]:
    """What a reader must know before believing the table: missed targets, divergence, losses, the noise floor."""
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
                counts.update({why: int(times) for why, times in (pair.split(":") for pair in cell.split())})
            why = ", ".join(f"{times} {outcome}" for outcome, times in counts.most_common())
            found.append(f"{label}: {failed} orders brought no reply ({why})")
        dead = runs["dead_clients"]
        if dead.any():
            first, hit = runs["lifetime_rounds"].min(), int((dead > 0).sum())
            found.append(f"{label}: batteries died on {hit} of {len(runs)} seeds, the first in round {first:.0f}")
    average = float(results.runs.groupby("policy")["final_average"].mean().max())
    if (floor := noise_floor(results, average)) is not None:
        found.append(
            f"noise floor: with so few test images, clients that are all right {percent(average)} of the time would "
            f"show a worst accuracy of {percent(floor)} by chance alone"
        )
    return found


def noise_floor(results: Results, average: float) -> float | None:
    """What the worst accuracy would be by chance alone; None where the folder does not say how many tests there are."""
    if not np.isfinite(average) or not results.test_samples:
        return None
    return worst_by_chance(average, results.test_samples)
