"""Numbers as people read them: units with prefixes, durations, shares, and means with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"))
"""Sizes and their SI prefixes, the largest first."""
LONG_TIMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
"""Units of time above the second, in seconds, the largest first."""
Show = Callable[[float], str]
"""Turns a number into text with its unit."""


def scale_of(value: float) -> tuple[float, str]:
    """The largest SI prefix that does not exceed a positive value, with its size."""
    return next(((size, prefix) for size, prefix in SCALES if value >= size), SCALES[-1])


def si(value: float, unit: str) -> str:
    """Three digits and an SI prefix: 1312.4 J is written 1.31 kJ, and what is no number is written "-"."""
    if not np.isfinite(value):
        return "-"
    if value == 0:
        return f"0 {unit}"
    size, prefix = scale_of(abs(value))
    return f"{value / size:.3g} {prefix}{unit}"


def joules(value: float) -> str:
    """Energy, for example 1.31 kJ."""
    return si(value, "J")


def bits(value: float) -> str:
    """An amount of data, for example 3.2 Mbit."""
    return si(value, "bit")


def duration(seconds: float) -> str:
    """A time in seconds, minutes, hours or days, whichever gives a number of at least two."""
    if not np.isfinite(seconds):
        return "-"
    for size, unit in LONG_TIMES:
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return si(seconds, "s")


def percent(share: float) -> str:
    """A share with one decimal if it needs one: 0.8 is written 80 %, and 0.8125 is written 81.2 %."""
    return "-" if not np.isfinite(share) else f"{100 * share:.1f} %".replace(".0 %", " %")


def whole(share: float) -> str:
    """A share without decimals: 0.594 is written 59 %."""
    return f"{100 * share:.0f} %".replace("-0 %", "0 %")


def count(value: float) -> str:
    """A mean of whole numbers: three digits, or all digits before the decimal point."""
    return "-" if not np.isfinite(value) else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def cost_text(value: float, unit: str) -> str:
    """A cost that tuning minimises, in its unit: J, s, or whatever a weighted cost is counted in."""
    if unit == "J":
        return joules(value)
    if unit == "s":
        return duration(value)
    return f"{value:.4g} {unit}".strip() if np.isfinite(value) else "-"


COLUMNS: tuple[tuple[str, str, Show], ...] = (
    ("rounds", "rounds", lambda value: f"{value:.3g}"),
    ("energy_j", "energy", joules),
    ("paper_energy_j", "energy (paper's formula)", joules),
    ("time_s", "simulated time", duration),
    ("up_bits", "sent up", bits),
    ("down_bits", "received", bits),
)
"""Costs of a summary: name of the column, heading, and how a number is written."""
FINALS = (("final_average", "average accuracy"), ("final_worst", "worst accuracy"), ("final_std", "std over clients"))
"""Accuracies of a summary's last evaluation: name of the column and heading."""


def between(mean: str, low: str, high: str) -> str:
    """A mean and its interval: 12.3 J [11.1 J, 13.6 J]."""
    return f"{mean} [{low}, {high}]"


def interval(row: Mapping[str, float], name: str, show: Show) -> str:
    """The column `name` of a summary row with its interval; the mean alone where no interval is known."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    text = show(row[name])
    return between(text, show(low), show(high)) if np.isfinite(low) and np.isfinite(high) else text


def cost(row: Mapping[str, Any], name: str, show: Show) -> str:
    """A cost of a summary row with its interval, or "at least" a mean that is only a lower bound."""
    return f"at least {show(row[name])}" if is_bound(row) else interval(row, name, show)


def is_bound(row: Mapping[str, Any]) -> bool:
    """Whether the costs of a summary row are lower bounds: a run missed the target or, without target, diverged."""
    return bool(row["p_reach"] < 1 if "p_reach" in row else row.get("diverged", 0))
