"""Availability: the windows of time in which a device can be asked, as functions of (seed, client, time).

By rule (`periodic`, `diurnal`, `churn`), as listed (`windows`) or from a file (`file`, read by `hours_files.py`).
Besides, `outages` let groups of clients go together: a basement, a base station, a power cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.units import DAY_S, Seconds, Share
from wflsim.world.bounds import LONGEST_WAIT_S
from wflsim.world.fleet.hours import Both, Hours, Listed, Window
from wflsim.world.fleet.hours_files import FileHours, hours_from_file

Long = Annotated[Seconds, Field(ge=1e-3)]
"""A time of at least a millisecond."""


class Periodic(Spec):
    """Available for `open` out of every `period` (charging at night, for example), each client at its own hour."""

    name: Literal["periodic"]
    period: Long
    """Time from the beginning of one window to that of the next."""
    open: Long
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


class Diurnal(Spec):
    """Available once a day from about the same hour on, like phones that charge at night; runs begin at midnight."""

    name: Literal["diurnal"]
    start: Annotated[Seconds, Field(ge=0, lt=DAY_S)] = 22 * 3600.0
    """Time of day at which a client's window usually opens."""
    length: Annotated[Seconds, Field(ge=1e-3, lt=DAY_S)] = 8 * 3600.0
    """Length of each window."""
    spread: Annotated[Seconds, Field(ge=0, le=DAY_S / 8)] = 3600.0
    """Standard deviation of the beginning, drawn for each client and day, at most three of them off."""


class Churn(Spec):
    """Clients that join, go, come back, and leave for ever; all times are exponential with the given means."""

    name: Literal["churn"]
    join: Seconds = 0.0
    """Mean time from the beginning of the run until a client first joins; 0: all are there at once."""
    stay: Long
    """Mean time for which a client stays."""
    away: Long
    """Mean time until a client that has gone comes back."""
    leave: Share = 0.0
    """Probability that a client that goes leaves for ever."""


AvailabilitySpec = Annotated[Periodic | Windows | Diurnal | Churn | FileHours, Field(discriminator="name")]


class OutagesSpec(Spec):
    """Correlated failures: groups of clients whose power or network fails together, and comes back together."""

    groups: Annotated[int, Field(ge=1, le=1_000_000)]
    """Number of groups; clients are dealt out to them in turn."""
    every: Long
    """Mean time from the end of one outage of a group to the beginning of the next; exponential."""
    length: Long
    """Mean length of an outage; exponential."""


class PeriodicHours:
    """Windows [phase, phase + open) modulo the period, the phase being drawn for each client."""

    def __init__(self, spec: Periodic, seed: int, client: int) -> None:
        self._period_s = spec.period
        self._open_s = spec.open
        self._phase_s = float(stream(seed, "availability", client).uniform(0, spec.period))

    def closes_s(self, at_s: float) -> float:
        """The end of the window that is open at this instant; the instant itself if none is."""
        start_s = self._start_s(at_s)
        return max(at_s, start_s + self._open_s)

    def opens_s(self, at_s: float) -> float:
        """The first instant from this one on at which a window is open."""
        return at_s if self.closes_s(at_s) > at_s else self._start_s(at_s) + self._period_s

    def _start_s(self, at_s: float) -> float:
        """Simulated time at which the latest window began."""
        start_s = math.floor((at_s - self._phase_s) / self._period_s) * self._period_s + self._phase_s
        # The clock is sent to `start + period`; a rounding error must not make that too early to count.
        return start_s + self._period_s if start_s + self._period_s <= at_s else start_s


def _diurnal(spec: Diurnal, seed: int, client: int) -> Iterator[Window]:
    """One window a day, from the one that began on the day before on."""
    for day in count(-1):
        late = float(stream(seed, "availability", client, day).normal()) if spec.spread else 0.0
        start_s = day * DAY_S + spec.start + spec.spread * min(3.0, max(-3.0, late))
        if start_s + spec.length > 0:
            yield max(0.0, start_s), start_s + spec.length


def _churn(spec: Churn, seed: int, client: int) -> Iterator[Window]:
    """Windows of a client that joins, stays, goes and comes back until it leaves for ever."""
    rng = stream(seed, "availability", client)
    now_s = float(rng.exponential(spec.join)) if spec.join else 0.0
    while now_s < LONGEST_WAIT_S:
        stays_s, away_s, leaves = float(rng.exponential(spec.stay)), float(rng.exponential(spec.away)), rng.random()
        yield now_s, now_s + stays_s
        if leaves < spec.leave:
            return
        now_s += stays_s + away_s


def _between_outages(spec: OutagesSpec, seed: int, group: int) -> Iterator[Window]:
    """Windows between the outages of a group."""
    rng, now_s = stream(seed, "outage", group), 0.0
    while now_s < LONGEST_WAIT_S:
        fails_s = now_s + float(rng.exponential(spec.every))
        yield now_s, fails_s
        now_s = fails_s + float(rng.exponential(spec.length))


def hours_of(
    spec: Periodic | Windows | Diurnal | Churn | FileHours | None, outages: OutagesSpec | None, seed: int, client: int
) -> Hours | None:
    """The windows of one client's device; None if it is always available."""
    own: Hours | None = None
    if isinstance(spec, Periodic):
        own = PeriodicHours(spec, seed, client)
    elif isinstance(spec, Windows):
        own = Listed(spec.windows)
    elif isinstance(spec, Diurnal):
        own = Listed(_diurnal(spec, seed, client))
    elif isinstance(spec, Churn):
        own = Listed(_churn(spec, seed, client))
    elif spec is not None:
        own = hours_from_file(spec, seed, client)
    if outages is None:
        return own
    shared = Listed(_between_outages(outages, seed, client % outages.groups))
    return shared if own is None else Both(own, shared)
