"""Units on axes: one prefix for a whole axis, so that ticks are short numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wflsim.answer import SCALES


class Axis(NamedTuple):
    """Divide by `size` and write `title`."""

    title: str
    size: float
    unit: str


def si_axis(title: str, unit: str, largest: float) -> Axis:
    """energy, J, 2.1e4 -> energy (kJ)."""
    if not np.isfinite(largest) or largest <= 0:
        return Axis(f"{title} ({unit})", 1.0, unit)
    size, prefix = next(((s, p) for s, p in SCALES if largest >= s), SCALES[-1])
    return Axis(f"{title} ({prefix}{unit})", size, f"{prefix}{unit}")


def time_axis(title: str, largest_s: float) -> Axis:
    """Seconds, minutes, hours or days, as people say them."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if largest_s >= 3 * size:
            return Axis(f"{title} ({unit})", size, unit)
    return si_axis(title, "s", largest_s)


def cost_axis(name: str, title: str, largest: float) -> Axis:
    """The axis of one of the columns rounds, time_s, energy_j, bits."""
    if name == "rounds":
        return Axis(title, 1.0, "rounds")
    if name.endswith("_s"):
        return time_axis(title, largest)
    return si_axis(title, "J" if name.endswith("_j") else "bit", largest)


def log_ticks(values: NDArray[np.float64]) -> dict[str, list[float] | list[str]]:
    """1, 2, 5, 10, ... in full: plotly's own digits between the powers read as if they were values."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not len(positive):
        return {}
    low, high = (int(np.floor(np.log10(bound))) for bound in (positive.min(), positive.max()))
    ticks = [digit * 10.0**power for power in range(low, high + 1) for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if positive.min() / 2 < tick < positive.max() * 2]
    return {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
