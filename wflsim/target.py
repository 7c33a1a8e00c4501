"""When a run reached its target accuracy: one rule, asked by the stop rule, by the tables and by tuning.

The accuracy of the worst client jumps from one evaluation to the next. The first single evaluation above a line comes
the earlier the more often one looks: FedAvg on the quickstart's digits "reaches" 80 % after 54 rounds when every round
is evaluated and after 88 when every tenth is (`reports/statistics/hitting_time.md`). The mean over a window of rounds
does not depend on how often one looked inside it, and the middle of the first window that shows the target is where
the curve without its noise crosses it, to within a few rounds. `metrics` are what a target can be set for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


class Watch:
    """Follows the evaluations of one run, in order, and knows in which round the target was reached."""

    def __init__(self, accuracy: float, hold: int = 1, window: int = 1) -> None:
        """`hold`: evaluations in a row that must show the accuracy. `window`: rounds whose evaluations are averaged."""
        self._accuracy, self._hold, self._window = accuracy, hold, window
        self._recent: deque[tuple[int, float]] = deque()
        self._held = 0
        self._first = 0
        self.reached: int | None = None
        """The round (counted from 0) that reached the target; None as long as none has."""

    def see(self, round: int, value: float | None) -> bool:
        """Take in one evaluation (None: no client has test samples). True once the target is reached."""
        if self.reached is not None or value is None or math.isnan(value):
            return self.reached is not None
        self._recent.append((round, value))
        self._forget(round)
        if math.fsum(value for _, value in self._recent) / len(self._recent) < self._accuracy:
            self._held = 0
            return False
        if not self._held:
            self._first = _middle(round for round, _ in self._recent)
        self._held += 1
        if self._held == self._hold:
            self.reached = self._first
        return self.reached is not None

    def earliest(self, next_round: int) -> int:
        """The earliest round that can still prove to have reached it, if nothing before `next_round` is evaluated."""
        if self.reached is not None or self._held:
            return self._first
        self._forget(next_round)
        return _middle([*(round for round, _ in self._recent), next_round])

    def _forget(self, round: int) -> None:
        """Drop evaluations that lie before the window which ends with this round."""
        while self._recent and self._recent[0][0] <= round - self._window:
            self._recent.popleft()


def reached_in(evaluations: Iterable[tuple[int, float | None]], target: Mapping[str, Any]) -> int | None:
    """The round that reached the target, from (round, accuracy) pairs in order; None if none did."""
    watch = Watch(target["accuracy"], target.get("hold", 1), target.get("window", 1))
    for round, value in evaluations:
        if watch.see(round, value):
            break
    return watch.reached


def _middle(rounds: Iterable[int]) -> int:
    """The round in the middle of a window's evaluations; of two, the later."""
    held = list(rounds)
    return -(-sum(held) // len(held))


def metrics(accuracy: Sequence[float | None]) -> dict[str, float | None]:
    """Average, worst, std (ddof 0), worst10 (mean of the lowest tenth) and Jain's index of the clients' accuracies.

    Clients without test samples (None) are left out; if there is no other, every metric is None.
    """
    a = np.sort([value for value in accuracy if value is not None])
    if not len(a):
        return dict.fromkeys(("average", "worst", "std", "worst10", "jain"))
    squares = float(np.sum(a * a))
    return {
        "average": float(a.mean()),
        "worst": float(a[0]),
        "std": float(a.std()),
        "worst10": float(a[: max(1, len(a) // 10)].mean()),
        "jain": float(a.sum()) ** 2 / (len(a) * squares) if squares else 1.0,
    }


def worst_by_chance(average: float, test_samples: Sequence[int]) -> float:
    """Expected worst accuracy if every client were right with probability `average`: what equal clients would show.

    With X_i ~ Binomial(n_i, average): E[min_i X_i/n_i] is the integral over x of prod_i P(X_i/n_i >= x).
    """
    from scipy.stats import binom

    n = np.array([count for count in test_samples if count])
    x = (np.arange(2000) + 0.5) / 2000
    survival = binom.sf(np.ceil(x[:, None] * n) - 1, n, average)
    return float(survival.prod(axis=1).mean())
