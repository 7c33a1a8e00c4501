"""Time-division access (TDMA): one flow after the other on the whole band, first come, first served.

The queue is our own, not a `simpy.Resource`: a Resource grants the next request two events after a release. Events of
other devices at the same instant would then come first, and an asynchronous policy would see another order of replies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import simpy

from wflsim.world.access.medium import Flow, Load, end_of
from wflsim.world.channel.link import Link


class QueuedFlow(Flow):
    """A flow that may have to wait; its bits are known when its turn comes."""

    __slots__ = ("load",)
    load: Load
    """Bits on the air by the band on which the flow begins."""


class Turns:
    """The flow whose turn it is has the whole band; the others wait for their turn."""

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
