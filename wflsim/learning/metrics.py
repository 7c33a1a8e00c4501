"""Fairness of accuracies over clients, and how low the worst of them would be by chance alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
