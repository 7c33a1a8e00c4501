"""What every column of every table means: the reference in docs/ and its test read it here.

Rows that a run writes (`rounds.csv`, `clients.csv`, `legs.csv`, `fleet.csv`) are described by the docstrings of their
fields in `wflsim.records`. The tables that are derived from them are described below.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from textwrap import dedent

from wflsim.records import WRITTEN

RUN = {
    "policy": "Label of the policy.",
    "seed": "Seed of the run: it decides the division of the data, the minibatches, the draws and the channel.",
    "reached": "1 if the run reached the target, else 0; 0 without a target.",
    "rounds": "Rounds until the target was reached; of the whole run where it was missed or there is none.",
    "energy_j": "Energy in joules of all devices until the target was reached, by the full accounting; of the whole "
    "run where it was missed (a lower bound) or there is none.",
    "paper_energy_j": "The same by the paper's formula, in joules.",
    "time_s": "Simulated seconds until the target was reached; of the whole run where it was missed or there is none.",
    "up_bits": "Bits sent up by all clients until then.",
    "down_bits": "Bits received by all clients until then.",
    "final_average": "Mean accuracy over clients at the last evaluation, from 0 to 1.",
    "final_worst": "Accuracy of the worst client at the last evaluation, from 0 to 1.",
    "final_std": "Standard deviation of the clients' accuracies at the last evaluation.",
    "final_worst10": "Mean accuracy of the lowest tenth of the clients at the last evaluation, from 0 to 1.",
    "final_jain": "Jain's fairness index of the clients' accuracies at the last evaluation, from 1/N to 1.",
    "latency_p50_s": "Median length of a round in simulated seconds.",
    "latency_p95_s": "95th percentile of the length of a round in simulated seconds.",
    "asked": "Orders that the server gave in the whole run.",
    "delivered": "Orders whose whole reply the server received.",
    "status": "How the run ended: done, diverged, or failed (sweeps only: it has no result).",
    "reason": "Why the run ended, in words (sweeps only).",
    "regime": "Number of the regime, counted from 0 (sweeps only); the swept keys stand beside it, one column each.",
}
"""Columns of `runs.csv`, a line per run."""

SUMMARY = {
    **{name: RUN[name] for name in RUN if name not in ("seed", "reached", "asked", "delivered", "status", "reason")},
    "seeds": "Number of seeds over which the line averages.",
    "diverged": "Number of seeds on which the training diverged.",
    "p_reach": "Share of seeds that reached the target (only with a target).",
    "reached_energy_j": "Mean energy in joules over the seeds that reached the target (only with a target).",
}
"""Columns of `summary.csv`, a line per policy (in a sweep per regime and policy): means over seeds."""

WORLD = {
    "policy": RUN["policy"],
    "seed": RUN["seed"],
    "straggler": "Client that kept the most phases waiting; empty if nobody ever did.",
    "straggler_share": "Share of that client's phases with company in which it was the last, from 0 to 1.",
    "lifetime_rounds": "Rounds until the first battery died; empty if none did.",
    "dead_clients": "Number of clients whose battery died.",
    "failed_orders": "Orders that brought no reply.",
    "failures": "The failed orders by outcome, such as `late:3 lost:1`.",
    "compute_j": "Joules that all devices spent computing.",
    "idle_j": "Joules that all devices spent waiting.",
    "receive_j": "Joules that all devices spent receiving.",
    "tail_j": "Joules that all devices spent keeping the radio awake after a transfer.",
    "transmit_j": "Joules that all devices spent sending.",
    **{
        f"{activity}_g": f"Grams of CO2 equivalent of {activity}_j, without what was harvested; only with `carbon`."
        for activity in ("compute", "idle", "receive", "tail", "transmit")
    },
}
"""Columns of `world.csv`, a line per run; an activity that no device had has no column."""

PARTITION = {
    "client": "Number of the client, counted from 0.",
    "class": "Number of the class, counted from 0.",
    "samples": "Training samples of this class that the client holds.",
    "test_samples": "Test samples of this class that the client holds.",
}
"""Columns of `partition-seed-N.csv`, a line per client and class."""

COSTS = {
    "policy": RUN["policy"],
    "regime": "Number of the regime, counted from 0.",
    "tau": "Local steps per round: the candidate.",
    "cost": "Mean over seeds of what reaching the target costs, in the unit of the objective; a lower bound where a "
    "seed missed it.",
    "p_best": "Probability that the candidate is the best, at least; empty with fewer than three seeds.",
    "regret": "How much more it costs than the best, as a share; empty where it reaches the target less surely.",
    "p_reach": "Share of seeds that reached the target.",
    "stopped": "Whether the candidate was given up early, having spent too much; then its cost is a lower bound.",
    "p_best_most": "Probability that the candidate is the best, at most.",
    "censored": "Seeds on which the target was missed without diverging.",
    "diverged": "Seeds on which the training diverged before the target.",
    "could_win": "Candidates that stop.rounds cut off and that could still be the best with more rounds.",
    "attained": "Accuracy at the last evaluation in the target's metric, mean over seeds, from 0 to 1.",
}
"""Columns of a tuning's `costs.csv`, a line per policy, regime and candidate."""

MAP = {
    **{name: COSTS[name] for name in ("policy", "regime", "cost", "p_reach", "p_best", "could_win")},
    "tau_star": "The chosen tau; empty if none reaches the target.",
    "unit": "Unit of the costs: J, s, or the currency of `tune.cost`.",
    "within5": "Every tau whose cost is within 5 % of the least.",
    "edge": "low or high if the chosen tau is the first or last candidate, so that a better one may lie beyond.",
    "why_edge": "Why a search over a range of tau went no further, such as an end of the range; empty where it had no "
    "need to, and where the candidates were listed.",
    "cost_unseen": "Mean cost on seeds that did not choose the tau, in the same unit.",
    "censored": "Seeds on which the chosen tau missed the target without diverging.",
    "diverged": "Seeds on which the chosen tau diverged.",
}
"""Columns of a tuning's `map.csv`, a line per policy and regime; the swept keys have a column each."""

CURVES = {
    "policy": RUN["policy"],
    "tau": COSTS["tau"],
    "seed": RUN["seed"],
    "rounds_to_target": "Rounds until the target was reached; of the whole training where it was missed.",
    "reached": "Whether the training reached the target.",
    "diverged": "Whether the training diverged before it.",
}
"""Columns of a tuning's `curves.csv`, a line per training."""

DERIVED: dict[str, dict[str, str]] = {
    "runs.csv": RUN, "summary.csv": SUMMARY, "world.csv": WORLD, "partition-seed-N.csv": PARTITION,
    "map.csv": MAP, "costs.csv": COSTS, "curves.csv": CURVES,
}  # fmt: skip
"""By file, the columns of the derived tables with their meaning."""

BOUNDS = {"_low": "Lower end of the 95 % interval of", "_high": "Upper end of the 95 % interval of"}
"""Endings of columns that belong to another one."""


def field_docstrings(kind: type) -> dict[str, str]:
    """The docstring below each field of a class, on one line; fields without one are left out."""
    body = ast.parse(dedent(inspect.getsource(kind))).body[0]
    if not isinstance(body, ast.ClassDef):
        return {}
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        field.target.id: " ".join(inspect.cleandoc(below.value.value).split())
        for field, below in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def written_tables() -> dict[str, dict[str, str]]:
    """By file, the columns of the rows that a run writes, with their meaning; empty where a docstring is missing."""
    return {
        name: {field: field_docstrings(kind).get(field, "") for field in kind.__annotations__}
        for name, kind in WRITTEN.items()
    }


def meaning(columns: Mapping[str, str], column: str) -> str:
    """What a column of a table means: its own words, or those of the column whose interval it bounds; else empty."""
    for ending, words in BOUNDS.items():
        if column not in columns and column.endswith(ending) and column.removesuffix(ending) in columns:
            return f"{words} {column.removesuffix(ending)}; empty where there is none."
    return columns.get(column, "")
