"""One look for the page and the figures: colour-blind safe, and told apart in grey by dashes and markers."""

from __future__ import annotations

from typing import NamedTuple

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
"""In print, without colour."""


class Style(NamedTuple):
    """How one policy of one folder is drawn, everywhere."""

    colour: int
    variant: int

    @property
    def token(self) -> str:
        """Resolved by the page to the colour of its light or dark theme."""
        return f"@c{self.colour}"

    @property
    def hex(self) -> str:
        return POLICIES[self.colour]

    @property
    def dash(self) -> str:
        return DASHES[self.variant % len(DASHES)]

    @property
    def marker(self) -> str:
        return MARKERS[(self.colour + self.variant) % len(MARKERS)]


def style(policy: int, folder: int = 0) -> Style:
    """The colour says the policy; the dash says the folder, and the eighth policy from the first."""
    return Style(policy % len(POLICIES), policy // len(POLICIES) + folder)
