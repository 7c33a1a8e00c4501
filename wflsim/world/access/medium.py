"""A medium carries the flows of one direction of the cell. Here are the simplest: a band for each client, and turns.

A device starts a flow and waits for its event; it never computes a transfer time itself. A flow ends by its event, or
is stopped early by whoever started it. To add a way to share the band: a class with the methods of `Medium`, a name in
`access.Access`, and a line in `access._medium`.

The queue of turns (TDMA) is our own, not a `simpy.Resource`: a Resource grants the next request two events after a
release. Events of other devices at the same instant would then come first, and an asynchronous policy would see another
order of replies.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import simpy

from wflsim.world.channel.link import Link

Load = Callable[[float], float]
"""Bits on the air of a flow as a function of the band in Hz on which it begins: the SNR there decides how often blocks
are sent again."""


class Flow:
    """Bits on their way over some band, to or from one client, or to several in a broadcast paced by the worst."""

    __slots__ = ("band_hz", "begun_s", "bits", "clients", "ends_s", "event", "outage", "turn")

    def __init__(self, clients: Sequence[int], bits: float, band_hz: float, begun_s: float) -> None:
        self.clients = clients
        self.bits = bits
        """Bits on the air in all, attempts that fail included."""
        self.band_hz = band_hz
        """Width in hertz of the band on which it is sent; where that varies, as last computed."""
        self.begun_s = begun_s
        """Simulated time at which the first bit goes out."""
        self.ends_s = math.inf
        """Simulated time of the event, where that is known beforehand; else inf."""
        self.turn: simpy.Event | None = None
        """Happens when the first bit goes out; None if that is at once."""
        self.event: simpy.Event
        """Happens when the last bit is through, or when the flow is given up."""
        self.outage = False
        """Whether the flow is given up because for too long nothing could be sent; valid once it has begun."""

    @property
    def failed(self) -> bool:
        """Whether the flow ended in an outage; valid after the event."""
        return self.outage


class Medium(Protocol):
    """What carries the flows of one direction of the cell."""

    link: Link
    """Rates of the clients in this direction."""
    band_hz: float
    """Width in hertz of the whole band, or of each client's own."""

    def start(self, clients: Sequence[int], bits: float | Load) -> Flow:
        """Begin to move bits at the rate of the worst of `clients`."""

    def moved_bits(self, flow: Flow) -> float:
        """Bits of an unfinished flow that are through by now."""

    def stop(self, flow: Flow) -> None:
        """End an unfinished flow now; its event will not happen."""


class Dedicated:
    """A band for each client: flows do not affect each other, so the end of a flow is known when it starts."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        self.env = env
        self.link = link
        self.band_hz = band_hz

    def start(self, clients: Sequence[int], bits: float | Load) -> Flow:
        return self.start_on(self.band_hz, clients, bits)

    def start_on(self, band_hz: float, clients: Sequence[int], bits: float | Load) -> Flow:
        """Begin a flow on a band of this width."""
        flow = Flow(clients, bits(band_hz) if callable(bits) else bits, band_hz, self.env.now)
        flow.event = end_of(flow, self.env, self.link)
        return flow

    def moved_bits(self, flow: Flow) -> float:
        return self.link.moved_bits(flow.clients, flow.band_hz, flow.begun_s, self.env.now)

    def stop(self, flow: Flow) -> None:
        """Nothing to do: no other flow is affected."""


def end_of(flow: Flow, env: simpy.Environment, link: Link) -> simpy.Event:
    """The event at which a flow ends that has its band to itself from now on; sets its `outage` and `ends_s`."""
    duration_s, arrives = link.transfer_s(flow.clients, flow.bits, flow.band_hz, env.now)
    flow.outage = not arrives
    flow.ends_s = env.now + duration_s
    return env.timeout(duration_s)


class QueuedFlow(Flow):
    """A flow that may have to wait; its bits are known when its turn comes."""

    __slots__ = ("load",)
    load: Load
    """Bits on the air by the band on which the flow begins."""


class Turns:
    """Time division (TDMA): flows have the whole band one after the other, first come, first served."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        self.env = env
        self.link = link
        self.band_hz = band_hz
        self._sending: QueuedFlow | None = None
        self._queue: deque[QueuedFlow] = deque()

    def start(self, clients: Sequence[int], bits: float | Load) -> Flow:
        flow = QueuedFlow(clients, 0.0, self.band_hz, self.env.now)
        flow.load = bits if callable(bits) else lambda band_hz: bits
        flow.event = self.env.event()
        if self._sending is None:
            self._begin(flow)
        else:
            flow.turn = self.env.event()
            self._queue.append(flow)
        return flow

    def moved_bits(self, flow: Flow) -> float:
        if flow in self._queue:
            return 0.0
        return self.link.moved_bits(flow.clients, flow.band_hz, flow.begun_s, self.env.now)

    def stop(self, flow: Flow) -> None:
        if flow is self._sending:
            self._begin_next()
        else:
            self._queue = deque(waiting for waiting in self._queue if waiting is not flow)

    def _begin(self, flow: QueuedFlow) -> None:
        """Give the band to this flow."""
        self._sending = flow
        flow.begun_s = self.env.now
        flow.bits = flow.load(self.band_hz)
        if flow.turn is not None:
            flow.turn.succeed()
        end_of(flow, self.env, self.link).callbacks.append(lambda _: self._end(flow))

    def _end(self, flow: Flow) -> None:
        """End a flow whose last bit is through, unless it was stopped before."""
        if flow is self._sending:
            flow.event.succeed()
            self._begin_next()

    def _begin_next(self) -> None:
        """Give the band to the flow that has waited longest, if any waits."""
        self._sending = None
        if self._queue:
            self._begin(self._queue.popleft())
