"""Availability: the windows of time in which a device can be asked, as functions of (seed, client, time)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, Protocol

from pydantic import Field, model_validator

from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.units import Seconds


class Periodic(Spec):
    """Available for `open` out of every `period` (charging at night, for example), each client at its own hour."""

    name: Literal["periodic"]
    period: Annotated[Seconds, Field(ge=1e-3)]
    """Time from the beginning of one window to that of the next."""
    open: Annotated[Seconds, Field(ge=1e-3)]
    """Length of each window; less than the period."""

    @model_validator(mode="after")
    def _shorter(self) -> Periodic:
        if self.open >= self.period:
            raise ValueError(f"open ({self.open:g} s) must be shorter than the period ({self.period:g} s)")
        return self


class Windows(Spec):
    """Available in given windows, the same for all clients; never again after the last."""

    name: Literal["windows"]
    windows: Annotated[list[tuple[Seconds, Seconds]], Field(min_length=1)]
    """Windows as [from, to] pairs of simulated time since the beginning of the run, in increasing order."""

    @model_validator(mode="after")
    def _in_order(self) -> Windows:
        instants = [instant for window in self.windows for instant in window]
        if any(later <= earlier for earlier, later in pairwise(instants)):
            raise ValueError("windows must be [from, to] pairs in increasing order that do not touch")
        return self


AvailabilitySpec = Annotated[Periodic | Windows, Field(discriminator="name")]


class Hours(Protocol):
    """The windows in which one device can be asked."""

    def closes_s(self, at_s: float) -> float:
        """The end of the window that is open at this instant; the instant itself if none is."""

    def opens_s(self, at_s: float) -> float:
        """The first instant from this one on at which a window is open; inf if there is none."""


class PeriodicHours:
    """Windows [phase, phase + open) modulo the period, the phase being drawn for each client."""

    def __init__(self, spec: Periodic, seed: int, client: int) -> None:
        self._period_s = spec.period
        self._open_s = spec.open
        self._phase_s = float(stream(seed, "availability", client).uniform(0, spec.period))

    def closes_s(self, at_s: float) -> float:
        start_s = self._start_s(at_s)
        return max(at_s, start_s + self._open_s)

    def opens_s(self, at_s: float) -> float:
        return at_s if self.closes_s(at_s) > at_s else self._start_s(at_s) + self._period_s

    def _start_s(self, at_s: float) -> float:
        """Simulated time at which the latest window began."""
        start_s = math.floor((at_s - self._phase_s) / self._period_s) * self._period_s + self._phase_s
        # The clock is sent to `start + period`; a rounding error must not make that too early to count.
        return start_s + self._period_s if start_s + self._period_s <= at_s else start_s


class WindowHours:
    """The windows that a scenario lists."""

    def __init__(self, spec: Windows) -> None:
        self._windows = spec.windows

    def closes_s(self, at_s: float) -> float:
        return next((end_s for start_s, end_s in self._windows if start_s <= at_s < end_s), at_s)

    def opens_s(self, at_s: float) -> float:
        return next((max(at_s, start_s) for start_s, end_s in self._windows if at_s < end_s), math.inf)


def hours_of(spec: Periodic | Windows | None, seed: int, client: int) -> Hours | None:
    """The windows of one client's device; None if it is always available."""
    if spec is None:
        return None
    return PeriodicHours(spec, seed, client) if isinstance(spec, Periodic) else WindowHours(spec)
