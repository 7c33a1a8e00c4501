"""The cell: how the clients share the air, up and down."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal

import simpy

from wflsim.world.medium import Dedicated, Flow, Medium
from wflsim.world.placement import PlacementSpec
from wflsim.world.radio import Radio


class CellSpec(PlacementSpec):
    """One base station and its clients."""

    access: Literal["dedicated"] = "dedicated"
    """dedicated: each client has the bandwidth to itself."""


class Cell:
    """One medium for each direction. What all receivers share is broadcast at the rate of the worst of them."""

    def __init__(self, spec: CellSpec, env: simpy.Environment, radio: Radio) -> None:
        self.env = env
        self.up: Medium = Dedicated(env, radio.up, radio.up_hz)
        self.down: Medium = Dedicated(env, radio.down, radio.down_hz)

    def broadcast(self, clients: Sequence[int], bits: float, wake_s: float) -> Flow:
        """One transmission for all of them, once the last has woken.

        Clients in outage hear nothing and do not slow the others: they are not among the flow's clients.
        """
        link, band_hz, now_s = self.down.link, self.down.band_hz, self.env.now
        reached = [client for client in clients if link.rate_bps(client, band_hz, now_s) > 0]
        receivers = tuple(reached or clients)
        if wake_s == 0:
            return self.down.start(receivers, bits)
        flow = Flow(receivers, bits, band_hz, now_s + wake_s)
        flow.turn = self.env.timeout(wake_s)
        flow.event = self.env.process(self._broadcast_later(flow))
        return flow

    def _broadcast_later(self, flow: Flow) -> Generator[simpy.Event, Any, None]:
        assert flow.turn is not None
        yield flow.turn
        on_air = self.down.start(flow.clients, flow.bits)
        yield on_air.event
        flow.outage = on_air.outage
