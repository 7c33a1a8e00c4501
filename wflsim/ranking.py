"""Which policy comes first, and how far another is behind it on the seeds that both have.

One rule for the terminal, the pages and the answers. The surest comes first: the one that reaches the target on the
largest share of its seeds. Of equally sure ones the cheapest in energy, counted over the runs that reached it: a run
that missed or diverged has no cost, only a lower bound, and never wins by being short. Where nothing was reached, or
no target was set, the best accuracy of the worst client comes first, runs that diverged behind those that did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from wflsim.tables import Interval, diverged

PAIRED = ("energy_j", "paper_energy_j", "time_s")
"""Costs whose differences are given for a pair."""


def ranked(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of `tables.over_seeds` of one regime, the best first; lines as good as each other keep their order."""
    by_target = any(_share(row) > 0 for row in rows)

    def key(row: dict[str, Any]) -> tuple[float, ...]:
        fair = _last(-row["final_worst"])
        if by_target:
            return -_share(row), _last(row["reached_energy_j"]), fair
        return row["diverged"] / row["seeds"], fair

    return sorted(rows, key=key)


@dataclass(frozen=True)
class Pair:
    """The best policy and another on the seeds that both have, where data, batches and sky are the same for both."""

    best: str
    other: str
    common: int
    """Seeds in common."""
    best_missed: int
    """Of those, seeds on which the best has only a lower bound of its cost; likewise `other_missed`."""
    other_missed: int
    wins: int
    """Of those, seeds on which the best spends less."""
    ratio: Interval
    """Logarithm of the best's energy over the other's; NaN where one of them spends nothing."""
    more: dict[str, Interval]
    """Per cost, how much more the other takes, in its unit."""

    @property
    def saved(self) -> Interval:
        """Share of the other's energy that the best saves (geometric mean over seeds), low before high."""
        return Interval(*(float(-np.expm1(value)) for value in (self.ratio.mean, self.ratio.high, self.ratio.low)))

    @property
    def told_apart(self) -> bool:
        """The best is known to spend less: its own costs are known, and the interval of what it saves excludes zero."""
        return not self.best_missed and bool(self.saved.low > 0)


def pair(runs: pd.DataFrame, best: str, other: str, has_target: bool) -> Pair:
    """Compare two policies of one table of runs (a line per policy and seed)."""
    one, two = (runs[runs["policy"] == name].set_index("seed") for name in (best, other))
    both = one.join(two.add_suffix("_other"), how="inner")
    if has_target:
        missed, missed_other = both["reached"] == 0, both["reached_other"] == 0
    else:
        missed, missed_other = (diverged(each).reindex(both.index) for each in (one, two))
    spent, spent_other = both["energy_j"].to_numpy(float), both["energy_j_other"].to_numpy(float)
    known = bool(len(both)) and bool((spent > 0).all() and (spent_other > 0).all())
    return Pair(
        best, other, len(both), int(missed.sum()), int(missed_other.sum()), int((spent < spent_other).sum()),
        Interval.of(np.log(spent / spent_other).tolist() if known else []),
        {name: Interval.of((both[f"{name}_other"] - both[name]).tolist()) for name in PAIRED},
    )  # fmt: skip


def _share(row: dict[str, Any]) -> float:
    return float(row.get("p_reach", 0.0))


def _last(value: float) -> float:
    """A number to sort by; what is not known comes last."""
    return float(value) if np.isfinite(value) else np.inf
