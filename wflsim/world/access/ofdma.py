"""OFDMA: one band for all who send at a time, in equal shares that change whenever a transfer starts or ends.

If a flow's spectral efficiency does not depend on its share (`EqualShare`), time is measured in band-seconds: a flow of
L bits at e bit/s per Hz needs L/e of them, the virtual clock runs at B/n(t), and who finishes next is the top of a
heap, O(log n) per event. A change of one flow's efficiency (fading) moves that flow only. If noise follows the band
(`NoisyShare`), a smaller share means a better SNR, every start or end changes every rate, and an event costs O(n).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import partial

import simpy

from wflsim.world.access.medium import Flow, Load
from wflsim.world.bounds import BLOCKS_AT_MOST, refuse_blocks
from wflsim.world.channel.link import Link


class SharedFlow(Flow):
    """A flow that shares the band with others."""

    __slots__ = ("blocks", "done", "efficiency", "finish", "left_bits", "load", "silent_since_s", "updated_s")

    def __init__(self, clients: Sequence[int], bits: float, band_hz: float, begun_s: float) -> None:
        super().__init__(clients, bits, band_hz, begun_s)
        self.done = False
        """Whether it has ended or was stopped."""
        self.efficiency = 0.0
        """bit/s per Hz when the channel was last sampled."""
        self.finish = math.inf
        """Reading of the virtual clock in band-seconds at which the last bit is through."""
        self.left_bits = bits
        """Bits still to be sent when the flow was last updated."""
        self.updated_s = begun_s
        """Simulated time at which `left_bits` was last updated (where noise follows the band)."""
        self.silent_since_s: float | None = None
        """Simulated time since which nothing could be sent; None if something can."""
        self.load: Load | None = None
        """Bits by the share on which it begins, where that matters; the share is known when the instant has passed."""
        self.blocks = 0
        """How often the channel was sampled because it may have changed."""

    def count_block(self, now_s: float) -> None:
        """Refuse a transfer over more changes of the channel than can be computed in reasonable time."""
        self.blocks += 1
        if self.blocks > BLOCKS_AT_MOST:
            passed = self.bits / max(self.bits - self.left_bits, 1e-300)
            step_s = (now_s - self.begun_s) / self.blocks
            raise refuse_blocks(f"about {self.blocks * passed:.3g}", self.bits, self.clients[0], step_s)


class EqualShare:
    """Equal shares where the spectral efficiency does not depend on the share: a virtual clock and a heap."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        self.env = env
        self.link = link
        self.band_hz = band_hz
        self._heap: list[tuple[float, int, SharedFlow]] = []
        """(finish, number that breaks ties, flow); entries of ended or re-keyed flows are skipped."""
        self._keys = 0
        self._active = 0
        """Flows that share the band now."""
        self._clock = 0.0
        """The virtual clock in band-seconds at `_clock_s`."""
        self._clock_s = 0.0
        """Simulated time at which the virtual clock was last read."""
        self._alarm_s = math.inf
        """Simulated time of the one alarm that counts; earlier ones find nothing to do."""

    def start(self, clients: Sequence[int], bits: float | Load) -> SharedFlow:
        # The SNR is the same on every share of the band, so the whole of it stands for any.
        flow = SharedFlow(clients, bits(self.band_hz) if callable(bits) else bits, self.band_hz, self.env.now)
        self.link.refuse_endless(clients, flow.bits, self.band_hz)
        flow.event = self.env.event()
        self._advance()
        self._active += 1
        self._sample_channel(flow)
        self._set_alarm()
        return flow

    def moved_bits(self, flow: Flow) -> float:
        assert isinstance(flow, SharedFlow)
        if not flow.done:
            self._advance()
            self._settle(flow)
        return flow.bits - flow.left_bits

    def stop(self, flow: Flow) -> None:
        assert isinstance(flow, SharedFlow)
        if not flow.done:
            self._advance()
            self._settle(flow)
            self._end(flow)
            self._set_alarm()

    def _advance(self) -> None:
        """Bring the virtual clock up to now."""
        if self._active:
            self._clock += (self.env.now - self._clock_s) * self.band_hz / self._active
        self._clock_s = self.env.now

    def _settle(self, flow: SharedFlow) -> None:
        """Update the bits that are still to be sent, by the virtual clock."""
        if flow.efficiency > 0:
            flow.left_bits = min(flow.left_bits, max(0.0, (flow.finish - self._clock) * flow.efficiency))

    def _sample_channel(self, flow: SharedFlow) -> None:
        """Set the flow's efficiency and finish by the channel as it is now, and sample again when it may change."""
        now_s = self.env.now
        self._settle(flow)
        flow.efficiency = min([self.link.rate_bps(c, self.band_hz, now_s) for c in flow.clients]) / self.band_hz
        if flow.efficiency > 0:
            flow.silent_since_s = None
            flow.finish = self._clock + flow.left_bits / flow.efficiency
            self._keys += 1
            heapq.heappush(self._heap, (flow.finish, self._keys, flow))
        else:
            flow.finish = math.inf
            flow.silent_since_s = now_s if flow.silent_since_s is None else flow.silent_since_s
        if not self.link.steady or flow.efficiency == 0:
            again_s = self._next_sample_s(flow)
            self.env.timeout(again_s - now_s).callbacks.append(partial(self._resample, flow))

    def _next_sample_s(self, flow: SharedFlow) -> float:
        """Simulated time at which the channel may change, or at which the patience with a silent flow ends."""
        change_s = math.inf if self.link.steady else float(self.link.channel.changes_s(self.env.now, 1)[1])
        if flow.silent_since_s is None:
            return change_s
        return min(change_s, flow.silent_since_s + self.link.patience_s)

    def _resample(self, flow: SharedFlow, _: simpy.Event) -> None:
        """Sample the channel of an unfinished flow again, or give the flow up if it was silent for too long."""
        if flow.done:
            return
        self._advance()
        self._settle(flow)
        flow.count_block(self.env.now)
        silent_since_s = flow.silent_since_s
        if silent_since_s is not None and self.env.now >= silent_since_s + self.link.patience_s:
            flow.outage = True
            self._end(flow)
            flow.event.succeed()
        else:
            self._sample_channel(flow)
        self._set_alarm()

    def _end(self, flow: SharedFlow) -> None:
        flow.done = True
        self._active -= 1

    def _set_alarm(self) -> None:
        """Set an alarm for the end of the next flow, unless one goes off before that anyway."""
        heap = self._heap
        while heap and (heap[0][2].done or heap[0][0] != heap[0][2].finish):
            heapq.heappop(heap)  # ended, or re-keyed by a later sample
        if not heap:
            return
        wait_s = max(0.0, (heap[0][0] - self._clock) * self._active / self.band_hz)
        if self.env.now + wait_s < self._alarm_s:
            self._alarm_s = self.env.now + wait_s
            self.env.timeout(wait_s).callbacks.append(self._on_alarm)

    def _on_alarm(self, _: simpy.Event) -> None:
        """End every flow that is through by now."""
        now_s = self.env.now
        if now_s < self._alarm_s:
            return  # not the one that counts
        self._alarm_s = math.inf
        self._advance()
        heap = self._heap
        while heap:
            finish, _key, flow = heap[0]
            if flow.done or finish != flow.finish:
                heapq.heappop(heap)
                continue
            # What is due within the resolution of the clock is due now: a wait of nothing would never end.
            wait_s = (finish - self._clock) * self._active / self.band_hz
            if now_s + wait_s > now_s and wait_s > 1e-12 * now_s:
                break
            heapq.heappop(heap)
            self._clock = max(self._clock, finish)
            flow.left_bits = 0.0
            self._end(flow)
            flow.event.succeed()
        self._set_alarm()


class NoisyShare:
    """Equal shares where noise follows the band: each share has its own SNR, and all rates change with their number."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        self.env = env
        self.link = link
        self.band_hz = band_hz
        self._flows: list[SharedFlow] = []
        self._plan = 0
        """Number of re-allocations so far: an alarm of an older one is void."""

    def start(self, clients: Sequence[int], bits: float | Load) -> SharedFlow:
        flow = SharedFlow(clients, 0.0 if callable(bits) else bits, self.band_hz, self.env.now)
        flow.load = bits if callable(bits) else None
        self.link.refuse_endless(clients, flow.bits, self.band_hz)
        flow.event = self.env.event()
        self._settle()
        self._flows.append(flow)
        self._reallocate()
        return flow

    def moved_bits(self, flow: Flow) -> float:
        assert isinstance(flow, SharedFlow)
        if not flow.done:
            self._settle()
        return flow.bits - flow.left_bits

    def stop(self, flow: Flow) -> None:
        assert isinstance(flow, SharedFlow)
        if not flow.done:
            self._settle()
            self._end(flow)
            self._reallocate()

    def _settle(self) -> None:
        """Update the bits that all flows still have to send."""
        now_s = self.env.now
        for flow in self._flows:
            flow.left_bits = max(0.0, flow.left_bits - flow.efficiency * flow.band_hz * (now_s - flow.updated_s))
            flow.updated_s = now_s

    def _reallocate(self) -> None:
        """Give all flows equal shares from now on, until one is through or the channel changes."""
        self._plan += 1
        if not self._flows:
            return
        if any(flow.load is not None and flow.begun_s == self.env.now for flow in self._flows):
            # Others may still begin at this very instant: only when it has passed is the share known.
            self.env.timeout(0).callbacks.append(partial(self._set_loads, self._plan))
        else:
            self._set_alarm()

    def _set_loads(self, plan: int, _: simpy.Event) -> None:
        """Set the bits of flows that began at this instant, now that it has passed and their share is known."""
        if plan != self._plan:
            return
        share_hz = self.band_hz / len(self._flows)
        for flow in self._flows:
            if flow.load is not None and flow.begun_s == self.env.now:
                flow.bits = flow.left_bits = flow.load(share_hz)
                self.link.refuse_endless(flow.clients, flow.bits, self.band_hz)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Sample every channel on equal shares; set an alarm for when one may change or a flow is through."""
        now_s, share_hz = self.env.now, self.band_hz / len(self._flows)
        next_s = math.inf if self.link.steady else float(self.link.channel.changes_s(now_s, 1)[1])
        for flow in self._flows:
            flow.band_hz = share_hz
            rate_bps = min(self.link.rate_bps(client, share_hz, now_s) for client in flow.clients)
            flow.efficiency = rate_bps / share_hz
            if rate_bps > 0:
                flow.silent_since_s = None
                next_s = min(next_s, now_s + flow.left_bits / rate_bps)
            else:
                flow.silent_since_s = now_s if flow.silent_since_s is None else flow.silent_since_s
                next_s = min(next_s, flow.silent_since_s + self.link.patience_s)
        self.env.timeout(max(0.0, next_s - now_s)).callbacks.append(partial(self._on_alarm, self._plan))

    def _on_alarm(self, plan: int, _: simpy.Event) -> None:
        """End the flows that are through or given up, and re-allocate."""
        if plan != self._plan:
            return
        self._settle()
        for flow in list(self._flows):
            if not self.link.steady:
                flow.count_block(self.env.now)
            flow.outage = self._gives_up(flow)
            if flow.outage or flow.left_bits <= self._resolution_bits(flow):
                self._end(flow)
                flow.event.succeed()
        self._reallocate()

    def _resolution_bits(self, flow: SharedFlow) -> float:
        """Bits that pass in the shortest time the clock can tell; a smaller rest would be waited for for ever."""
        return 4 * math.ulp(self.env.now) * flow.efficiency * flow.band_hz + 1e-12 * flow.bits

    def _gives_up(self, flow: SharedFlow) -> bool:
        return flow.silent_since_s is not None and self.env.now >= flow.silent_since_s + self.link.patience_s

    def _end(self, flow: SharedFlow) -> None:
        flow.done = True
        self._flows.remove(flow)
