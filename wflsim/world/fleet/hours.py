"""Hours: when one device can be asked, as a sequence of windows that is made as far as somebody looks."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Protocol

from wflsim.errors import ScenarioError

Window = tuple[float, float]
"""Begin and end of a window, in seconds of simulated time."""
WINDOWS_AT_MOST = 1_000_000
"""Most windows of one device that are made; each is kept."""


class Hours(Protocol):
    """The windows in which one device can be asked."""

    def closes_s(self, at_s: float) -> float:
        """The end of the window that is open at this instant; the instant itself if none is."""

    def opens_s(self, at_s: float) -> float:
        """The first instant from this one on at which a window is open; inf if there is none."""


class Listed:
    """Windows in increasing order, of which as many are made as are needed; windows that touch are one."""

    def __init__(self, windows: Iterable[Window]) -> None:
        self._coming: Iterator[Window] = iter(windows)
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._complete = False
        self._made = 0

    def closes_s(self, at_s: float) -> float:
        """The end of the window that is open at this instant; the instant itself if none is."""
        place = self._place(at_s)
        return self._ends[place] if place >= 0 and self._ends[place] > at_s else at_s

    def opens_s(self, at_s: float) -> float:
        """The first instant from this one on at which a window is open; inf if there is none."""
        if at_s == math.inf:
            return math.inf
        place = self._place(at_s)
        if place >= 0 and self._ends[place] > at_s:
            return at_s
        return self._starts[place + 1] if place + 1 < len(self._starts) else math.inf

    def _place(self, at_s: float) -> int:
        """Position of the latest window that has begun, -1 if none has; the next one after it is made, too."""
        while not self._complete and (len(self._starts) < 2 or self._starts[-1] <= at_s):
            self._make_one()
        return bisect_right(self._starts, at_s) - 1

    def _make_one(self) -> None:
        self._made += 1
        if self._made > WINDOWS_AT_MOST:
            raise ScenarioError(
                f"a device would have more than {WINDOWS_AT_MOST:,} windows of availability in this run: choose longer "
                f"times in devices.availability (stay, away) and outages (every, length), or let runs end earlier"
            )
        window = next(self._coming, None)
        if window is None:
            self._complete = True
        elif self._ends and window[0] <= self._ends[-1]:
            self._ends[-1] = max(self._ends[-1], window[1])
        elif window[1] > window[0]:
            self._starts.append(window[0])
            self._ends.append(window[1])


class Both:
    """Windows in which two devices, or a device and what it depends on, can both be asked."""

    def __init__(self, one: Hours, other: Hours) -> None:
        self._one = one
        self._other = other

    def closes_s(self, at_s: float) -> float:
        """The end of the window that is open at this instant; the instant itself if none is."""
        return min(self._one.closes_s(at_s), self._other.closes_s(at_s))

    def opens_s(self, at_s: float) -> float:
        """The first instant from this one on at which a window is open; inf if there is none."""
        while at_s < math.inf:
            later_s = self._other.opens_s(self._one.opens_s(at_s))
            if later_s == at_s:
                return at_s
            at_s = later_s
        return math.inf
