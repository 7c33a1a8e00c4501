"""The medium owns the delay: a device starts a flow and waits for its event; it never computes a transfer time.

Each direction of the cell is one medium. A flow ends by its event, or is stopped early by whoever started it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import simpy

from wflsim.world.links import Link

Load = Callable[[float], float]
"""Bits of a flow as a function of the band in Hz on which it begins: how often it has to be sent depends on its SNR."""


class Flow:
    """Bits on their way over some band, to or from one client (or to several: a broadcast, paced by the worst)."""

    __slots__ = ("band_hz", "begun_s", "bits", "clients", "ends_s", "event", "outage", "turn")

    def __init__(self, clients: Sequence[int], bits: float, band_hz: float, begun_s: float) -> None:
        self.clients = clients
        self.bits = bits
        self.band_hz = band_hz
        """Allocated; of a band in equal shares, the whole of it."""
        self.begun_s = begun_s
        """When the first bit goes out."""
        self.ends_s = math.inf
        """When the event will happen, where that is known beforehand."""
        self.turn: simpy.Event | None = None
        """Where one has to wait before sending: happens when the first bit goes out."""
        self.event: simpy.Event
        """Happens when the last bit is through, or when the flow is given up."""
        self.outage = False
        """Given up: for too long nothing could be sent."""

    @property
    def failed(self) -> bool:
        """After the event: it was an outage."""
        return self.outage


class Medium(Protocol):
    """One direction of the cell."""

    link: Link
    band_hz: float

    def start(self, clients: Sequence[int], bits: float | Load) -> Flow:
        """Begin to move bits at the pace of the worst of `clients`."""

    def moved_bits(self, flow: Flow) -> float:
        """Bits of an unfinished flow that are through by now."""

    def stop(self, flow: Flow) -> None:
        """End an unfinished flow now; its event will not happen."""


class Dedicated:
    """A band for each: nobody feels anybody else, so the end of a flow is known when it starts."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        self.env = env
        self.link = link
        self.band_hz = band_hz

    def start(self, clients: Sequence[int], bits: float | Load) -> Flow:
        return self.start_on(self.band_hz, clients, bits)

    def start_on(self, band_hz: float, clients: Sequence[int], bits: float | Load) -> Flow:
        """On a band of another width."""
        flow = Flow(clients, bits(band_hz) if callable(bits) else bits, band_hz, self.env.now)
        flow.event = end_of(flow, self.env, self.link)
        return flow

    def moved_bits(self, flow: Flow) -> float:
        return self.link.moved_bits(flow.clients, flow.band_hz, flow.begun_s, self.env.now)

    def stop(self, flow: Flow) -> None:
        """Nobody else feels it."""


class Planned(Dedicated):
    """A band for each, cut to measure for one phase."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        super().__init__(env, link, band_hz)
        self.bands_hz: dict[int, float] = {}

    def start(self, clients: Sequence[int], bits: float | Load) -> Flow:
        return self.start_on(self.bands_hz[clients[0]], clients, bits)


def end_of(flow: Flow, env: simpy.Environment, link: Link) -> simpy.Event:
    """The end of a flow that has its band to itself from now on."""
    duration_s, arrives = link.transfer_s(flow.clients, flow.bits, flow.band_hz, env.now)
    flow.outage = not arrives
    flow.ends_s = env.now + duration_s
    return env.timeout(duration_s)
