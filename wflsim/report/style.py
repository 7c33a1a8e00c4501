"""One look for the page and the figures: colours, dashes and markers, told apart in grey too, and units on axes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wflsim.analysis.formats import LONG_TIMES, scale_of

# Okabe and Ito, without the yellow that vanishes on white; order chosen so that neighbours differ most
POLICIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5B5B5B")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MATPLOTLIB_DASHES = ("-", "--", ":", "-.", (0, (8, 3)), (0, (8, 3, 1, 3)))
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
MATPLOTLIB_MARKERS = ("o", "s", "D", "^", "P", "X", "*")

# What a device does; Tol's muted scheme, so that no activity is mistaken for a policy
ACTIVITIES = {
    "receive": "#6FB7DE",
    "compute": "#D9B44A",
    "transmit": "#2F7F5F",
    "idle": "#B9BCC2",
    "tail": "#8A8F99",
    "in vain": "#A23B5C",
}
HATCHES = {"receive": "", "compute": "//", "transmit": "xx", "idle": "", "tail": "..", "in vain": "\\\\\\"}
"""Patterns that tell the causes apart in print without colour."""


class Style(NamedTuple):
    """How one policy of one folder is drawn, everywhere."""

    colour: int
    """Number of the colour in POLICIES."""
    variant: int
    """Dash and marker: which folder it is from, and which round through the colours."""

    @property
    def token(self) -> str:
        """Name that the page resolves to the colour of its light or dark theme."""
        return f"@c{self.colour}"

    @property
    def hex(self) -> str:
        """The colour as #rrggbb."""
        return POLICIES[self.colour]

    @property
    def dash(self) -> str:
        """Dash pattern of lines, by the folder."""
        return DASHES[self.variant % len(DASHES)]

    @property
    def marker(self) -> str:
        """Shape of points, so that policies can be told apart without colour."""
        return MARKERS[(self.colour + self.variant) % len(MARKERS)]


def style(policy: int, folder: int = 0) -> Style:
    """The colour says the policy; the dash says the folder, and the eighth policy from the first."""
    return Style(policy % len(POLICIES), policy // len(POLICIES) + folder)


class Axis(NamedTuple):
    """How one axis of a chart is labelled: values are divided by `size`, so that ticks are short numbers."""

    title: str
    """Name of the quantity with its unit, for example "energy (kJ)"."""
    size: float
    """One unit of the axis in the unit of the values: 1000 for an axis in kJ of values in J."""
    unit: str
    """The unit of the axis, for example kJ."""


def si_axis(title: str, unit: str, largest: float) -> Axis:
    """An axis with the SI prefix that suits its largest value: energy up to 2.1e4 J becomes "energy (kJ)"."""
    if not np.isfinite(largest) or largest <= 0:
        return Axis(f"{title} ({unit})", 1.0, unit)
    size, prefix = scale_of(largest)
    return Axis(f"{title} ({prefix}{unit})", size, f"{prefix}{unit}")


def time_axis(title: str, largest_s: float) -> Axis:
    """An axis of time in seconds, minutes, hours or days, whichever suits its largest value."""
    for size, unit in LONG_TIMES:
        if largest_s >= 3 * size:
            return Axis(f"{title} ({unit})", size, unit)
    return si_axis(title, "s", largest_s)


def cost_axis(name: str, title: str, largest: float) -> Axis:
    """The axis of one of the cost columns: rounds, time_s, energy_j or bits."""
    if name == "rounds":
        return Axis(title, 1.0, "rounds")
    if name.endswith("_s"):
        return time_axis(title, largest)
    return si_axis(title, "J" if name.endswith("_j") else "bit", largest)


def log_ticks(values: NDArray[np.float64]) -> dict[str, list[float] | list[str]]:
    """Ticks 1, 2, 5, 10, ... of a logarithmic axis in full: plotly would write bare digits between powers of ten."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not len(positive):
        return {}
    low, high = (int(np.floor(np.log10(bound))) for bound in (positive.min(), positive.max()))
    ticks = [digit * 10.0**power for power in range(low, high + 1) for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if positive.min() / 2 < tick < positive.max() * 2]
    return {"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
