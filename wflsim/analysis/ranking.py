"""Which policy or candidate comes first, and how far another policy is behind it on the seeds that both have.

One rule for the terminal, the pages, tuning and the answers: the surest first, then the cheapest. The surest reaches
the target on the largest share of its seeds. Of equally sure ones the cheapest comes first, counted over the runs that
reached it: a run that missed or diverged has no cost, only a lower bound, and never wins by being short. Where nothing
was reached, or no target was set, the best accuracy of the worst client comes first, runs that diverged behind those
that did not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wflsim.analysis.tables import Interval, diverged

PAIRED = ("energy_j", "paper_energy_j", "time_s")
"""Costs whose differences are given for a pair."""
Row = dict[str, Any]
Ranking = Callable[[Sequence[Row]], list[Row]]
"""Puts the rows of one regime in order, the best first."""


def surest_then_cheapest(p_reach: float, cost: float, *then: float) -> tuple[float, ...]:
    """Sort key of the rule, the best lowest; `then` decides between equals, and what is not known comes last."""
    return -p_reach, *(float(value) if np.isfinite(value) else np.inf for value in (cost, *then))


def scores(
    cost: NDArray[np.float64],
    missed: NDArray[np.bool_],
    subsets: NDArray[np.float64],
    smooth: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> NDArray[np.float64]:
    """The rule as one number [candidate, subset], for every subset of seeds: the lowest is best, inf if none reached.

    `cost` and `missed` are [candidate, seed]; `subsets` is [subset, seed] with 1 where a seed belongs to it. All
    candidates have the same seeds, so that a missed seed more outweighs every difference of mean costs. `smooth` frees
    mean costs [candidate, subset] from noise, where candidates tell of each other; None: each speaks for itself.
    """
    reached = ~missed
    count = reached.astype(np.float64) @ subsets.T
    total = np.where(reached, cost, 0.0) @ subsets.T
    mean = np.full(total.shape, np.inf)
    np.divide(total, count, out=mean, where=count > 0)
    if smooth is not None:
        mean = smooth(mean)
    largest = max(np.where(reached, cost, 0.0).max(initial=0.0), mean[np.isfinite(mean)].max(initial=0.0))
    step = 1.0 + 2.0 * float(largest)
    return np.asarray(step * (missed.astype(np.float64) @ subsets.T) + mean, dtype=np.float64)


def ranked(rows: Sequence[Row]) -> list[Row]:
    """Summary rows (`tables.over_seeds`) of one regime, the best first; rows as good as each other keep their order."""
    by_target = any(row.get("p_reach", 0.0) > 0 for row in rows)

    def key(row: Row) -> tuple[float, ...]:
        if by_target:
            return surest_then_cheapest(row["p_reach"], row["reached_energy_j"], -row["final_worst"])
        return surest_then_cheapest(-row["diverged"] / row["seeds"], -row["final_worst"])

    return sorted(rows, key=key)


def ranked_choices(rows: Sequence[Row]) -> list[Row]:
    """Rows of a tuning map (map.csv) of one regime, one per policy that reached the target, the best first."""
    return sorted(rows, key=lambda row: surest_then_cheapest(_sure(row["p_reach"]), row["cost"]))


def winners(rows: pd.DataFrame, regimes: Iterable[Any], rank: Ranking) -> pd.DataFrame:
    """The best row of each of the regimes; none for a regime without rows."""
    records = records_of(rows)
    groups = ([row for row in records if row["regime"] == regime] for regime in dict.fromkeys(regimes))
    return pd.DataFrame([rank(group)[0] for group in groups if group], columns=rows.columns)


def records_of(rows: pd.DataFrame) -> list[Row]:
    """The rows of a frame as dictionaries by column name."""
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


@dataclass(frozen=True)
class Pair:
    """The best policy and another on the seeds that both have, where data, batches and channel are the same."""

    best: str
    other: str
    common: int
    """Number of seeds that both have."""
    best_missed: int
    """Number of common seeds on which the best has only a lower bound of its cost."""
    other_missed: int
    """Number of common seeds on which the other has only a lower bound of its cost."""
    wins: int
    """Number of common seeds on which the best spends less energy."""
    ratio: Interval
    """Logarithm of the best's energy over the other's; NaN where one of them spends nothing."""
    more: dict[str, Interval]
    """Per cost, how much more the other takes than the best, in the unit of the cost."""

    @property
    def saved(self) -> Interval:
        """Share of the other's energy that the best saves (geometric mean over seeds), low before high."""
        return Interval(*(float(-np.expm1(value)) for value in (self.ratio.mean, self.ratio.high, self.ratio.low)))

    @property
    def told_apart(self) -> bool:
        """The best is known to spend less: its own costs are known, and the interval of what it saves excludes zero."""
        return not self.best_missed and bool(self.saved.low > 0)


def pair(runs: pd.DataFrame, best: str, other: str, has_target: bool) -> Pair:
    """Compare two policies of one table of runs, which has a row per policy and seed."""
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


def against_best(rows: Sequence[Row], runs: pd.DataFrame, has_target: bool) -> list[Pair]:
    """The best of a regime's summary rows paired with every other one, in the order of the rows."""
    best = str(ranked(rows)[0]["policy"])
    return [pair(runs, best, str(row["policy"]), has_target) for row in rows if str(row["policy"]) != best]


def _sure(p_reach: float) -> float:
    """An unknown share counts as 1: older maps do not hold it, and list only policies that reached the target."""
    return 1.0 if p_reach != p_reach else float(p_reach)
