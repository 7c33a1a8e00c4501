"""One band for all who send at a time, in equal shares that are dealt anew whenever a transfer starts or ends (OFDMA).

Two cases. If a flow's spectral efficiency does not depend on its share, time is measured in band-seconds: a flow of L
bits at e bit/s per Hz needs L/e of them, the virtual clock runs at B/n(t), and who finishes next is the top of a heap,
O(log n) per event. A change of one flow's efficiency (fading) moves that flow only. If noise follows the band, a
smaller share means a better SNR, every start or end changes every rate, and an event costs O(n).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import partial

import simpy

from wflsim.world.bounds import BLOCKS_AT_MOST, refuse_blocks
from wflsim.world.links import Link
from wflsim.world.medium import Flow, Load


class SharedFlow(Flow):
    """A flow that has company."""

    __slots__ = ("blocks", "done", "efficiency", "finish", "left_bits", "load", "looked_s", "silent_since_s")

    def __init__(self, clients: Sequence[int], bits: float, band_hz: float, begun_s: float) -> None:
        super().__init__(clients, bits, band_hz, begun_s)
        self.done = False
        self.efficiency = 0.0
        """bit/s per Hz, as last looked at."""
        self.finish = math.inf
        """Reading of the virtual clock at which the last bit is through."""
        self.left_bits = bits
        self.looked_s = begun_s
        """`left_bits` and `efficiency` are of this instant (noise follows band), or of the virtual clock then."""
        self.silent_since_s: float | None = None
        self.load: Load | None = None
        """Bits by the share on which it begins, where that matters; the share is known when the instant has passed."""
        self.blocks = 0
        """Times that the channel was looked at because it may have changed."""

    def count_block(self, now_s: float) -> None:
        """Refuse a transfer over more changes of the channel than can be computed in reasonable time."""
        self.blocks += 1
        if self.blocks > BLOCKS_AT_MOST:
            passed = self.bits / max(self.bits - self.left_bits, 1e-300)
            step_s = (now_s - self.begun_s) / self.blocks
            raise refuse_blocks(f"about {self.blocks * passed:.3g}", self.bits, self.clients[0], step_s)


class EqualShare:
    """Efficiency independent of the share: a virtual clock and a heap."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        self.env = env
        self.link = link
        self.band_hz = band_hz
        self._heap: list[tuple[float, int, SharedFlow]] = []
        self._keys = 0
        self._active = 0
        self._clock = 0.0
        self._clock_s = 0.0
        """The virtual clock read `_clock` at this instant."""
        self._alarm_s = math.inf
        """When the one alarm that counts goes off; earlier ones find nothing to do."""

    def start(self, clients: Sequence[int], bits: float | Load) -> SharedFlow:
        # The SNR is the same on every share of the band, so the whole of it stands for any.
        flow = SharedFlow(clients, bits(self.band_hz) if callable(bits) else bits, self.band_hz, self.env.now)
        self.link.refuse_endless(clients, flow.bits, self.band_hz)
        flow.event = self.env.event()
        self._advance()
        self._active += 1
        self._look(flow)
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
        """Bits that are still to be sent, by the virtual clock."""
        if flow.efficiency > 0:
            flow.left_bits = min(flow.left_bits, max(0.0, (flow.finish - self._clock) * flow.efficiency))

    def _look(self, flow: SharedFlow) -> None:
        """Take up the channel as it is now, and look again when it may change."""
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
            again_s = self._next_look_s(flow)
            self.env.timeout(again_s - now_s).callbacks.append(partial(self._look_again, flow))

    def _next_look_s(self, flow: SharedFlow) -> float:
        change_s = math.inf if self.link.steady else float(self.link.sky.edges(self.env.now, 1)[1])
        if flow.silent_since_s is None:
            return change_s
        return min(change_s, flow.silent_since_s + self.link.patience_s)

    def _look_again(self, flow: SharedFlow, _: simpy.Event) -> None:
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
            self._look(flow)
        self._set_alarm()

    def _end(self, flow: SharedFlow) -> None:
        flow.done = True
        self._active -= 1

    def _set_alarm(self) -> None:
        """Wake up when the next flow is through, unless something wakes us before that anyway."""
        heap = self._heap
        while heap and (heap[0][2].done or heap[0][0] != heap[0][2].finish):
            heapq.heappop(heap)  # ended, or moved by a later look
        if not heap:
            return
        wait_s = max(0.0, (heap[0][0] - self._clock) * self._active / self.band_hz)
        if self.env.now + wait_s < self._alarm_s:
            self._alarm_s = self.env.now + wait_s
            self.env.timeout(wait_s).callbacks.append(self._on_alarm)

    def _on_alarm(self, _: simpy.Event) -> None:
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
    """Noise follows the band: each share has its own SNR, and all rates change with the number of flows."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float) -> None:
        self.env = env
        self.link = link
        self.band_hz = band_hz
        self._flows: list[SharedFlow] = []
        self._plan = 0
        """Counts re-allocations: an alarm of an older plan is void."""

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
        """Take off what was sent since the last look."""
        now_s = self.env.now
        for flow in self._flows:
            flow.left_bits = max(0.0, flow.left_bits - flow.efficiency * flow.band_hz * (now_s - flow.looked_s))
            flow.looked_s = now_s

    def _reallocate(self) -> None:
        """Equal shares for all from now on, until somebody is through or the channel changes."""
        self._plan += 1
        if not self._flows:
            return
        if any(flow.load is not None and flow.begun_s == self.env.now for flow in self._flows):
            # Others may still begin at this very instant: only when it has passed is the share known.
            self.env.timeout(0).callbacks.append(partial(self._load, self._plan))
        else:
            self._set_alarm()

    def _load(self, plan: int, _: simpy.Event) -> None:
        """The instant has passed: what has just begun learns how much it has to send on its share."""
        if plan != self._plan:
            return
        share_hz = self.band_hz / len(self._flows)
        for flow in self._flows:
            if flow.load is not None and flow.begun_s == self.env.now:
                flow.bits = flow.left_bits = flow.load(share_hz)
                self.link.refuse_endless(flow.clients, flow.bits, self.band_hz)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Take up every channel as it is now, on equal shares; wake up when that changes or somebody is through."""
        now_s, share_hz = self.env.now, self.band_hz / len(self._flows)
        next_s = math.inf if self.link.steady else float(self.link.sky.edges(now_s, 1)[1])
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
        """What passes in the shortest time that the clock can tell: less than that would be waited for for ever."""
        return 4 * math.ulp(self.env.now) * flow.efficiency * flow.band_hz + 1e-12 * flow.bits

    def _gives_up(self, flow: SharedFlow) -> bool:
        return flow.silent_since_s is not None and self.env.now >= flow.silent_since_s + self.link.patience_s

    def _end(self, flow: SharedFlow) -> None:
        flow.done = True
        self._flows.remove(flow)
