"""Means with 95 % intervals: of costs, of accuracies and differences, of shares. Each is a formula, without chance.

Which formula covers what is measured by `studies/interval_coverage.py`; its table is in `reports/statistics/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

LEVEL = 0.95
LOG_SPREAD = 1.5
"""Standard deviation of logarithms that is believed, as a multiple of the coefficient of variation."""


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval over seeds; bounds are NaN where one value, or none, tells nothing of the spread."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], lowest: float = -np.inf, highest: float = np.inf) -> Interval:
        """Student's t, cut to the possible values: for accuracies, differences and logarithms of ratios."""
        if len(values) < 2:
            return cls(float(np.mean(values)) if len(values) else np.nan, np.nan, np.nan)
        mean = float(np.mean(values))
        half = _quantile(len(values)) * float(np.std(values, ddof=1)) / np.sqrt(len(values))
        return cls(mean, max(mean - half, lowest), min(mean + half, highest))

    @classmethod
    def of_costs(cls, values: Sequence[float]) -> Interval:
        """For the mean of positive, skewed values (joules, seconds, rounds, bits): a factor up and down from the mean.

        The factor is that of Cox's interval for a log-normal mean with Student's quantile (Olsson 2005), exp(+-t
        sqrt(s^2/n + s^4/(2(n-1)))), s the standard deviation of the logarithms. Student's t covers 86 % instead of
        95 % of log-normal costs with CV 1 at n=5; this covers 93.4 % or more, and at CV 0.1 is 1 % wider
        (`reports/statistics/interval_coverage.md`). One value far below the others makes s huge without making the
        mean uncertain, so s counts up to LOG_SPREAD times the coefficient of variation. Zeros have no logarithm:
        then it is Student's t.
        """
        costs, n = np.asarray(values, dtype=np.float64), len(values)
        if n < 2 or not (costs > 0).all():
            return cls.of(values, lowest=0.0)
        mean = float(costs.mean())
        if (costs == costs[0]).all():
            return cls(mean, mean, mean)
        spread = min(float(np.log(costs).std(ddof=1)), LOG_SPREAD * float(costs.std(ddof=1)) / mean)
        factor = float(np.exp(_quantile(n) * np.sqrt(spread**2 / n + spread**4 / (2 * (n - 1)))))
        return cls(mean, mean / factor, mean * factor)

    @classmethod
    def of_share(cls, successes: int, trials: int) -> Interval:
        """A share of trials, by Clopper and Pearson: its interval has a width even where all or none succeeded."""
        low, high = stats.binomtest(successes, trials).proportion_ci(LEVEL, method="exact")
        return cls(successes / trials, float(low), float(high))

    def columns(self, name: str) -> dict[str, float]:
        """The three columns of a table that hold it: the mean under `name`, the bounds under name_low and name_high."""
        return {name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high}


@cache
def _quantile(n: int) -> float:
    """Quantile of Student's t for a 95 % interval of the mean of n values."""
    return float(stats.t.ppf((1 + LEVEL) / 2, n - 1))
