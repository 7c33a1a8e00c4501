"""Access to the shared radio medium: dedicated bands, TDMA, OFDMA or a planned split, up and down."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Annotated, Any, Literal

import simpy
from pydantic import Field

from wflsim.errors import ScenarioError
from wflsim.spec import choices
from wflsim.units import Seconds
from wflsim.world.access.least_energy import split_for_energy
from wflsim.world.access.makespan import Expected, Planned, split_band
from wflsim.world.access.medium import Dedicated, Flow, Medium, Turns
from wflsim.world.access.ofdma import EqualShare, NoisyShare
from wflsim.world.channel.link import Link
from wflsim.world.channel.placement import PlacementSpec
from wflsim.world.channel.radio import Radio

Access = Annotated[
    Literal["dedicated", "tdma", "ofdma", "makespan", "least_energy"],
    choices(
        dedicated="each client on a band of its own",
        tdma="one client after the other on the whole band",
        ofdma="all clients at once in equal shares of the band, dealt anew at each start and end",
        makespan="the band split so that the last upload of a phase arrives soonest",
        least_energy="the band split so that the uploads of a phase take the least energy and arrive by cell.deadline",
    ),
]


PLANS: tuple[Access, ...] = ("makespan", "least_energy")
"""Ways to share the band in which the uploads of a phase are planned when it begins."""


class CellSpec(PlacementSpec):
    """The radio cell: one base station, where its clients are, and how they share the band."""

    access: Access = "dedicated"
    """How clients share the band, up and down; `wflsim list access` describes each. Makespan and least_energy
    are for uploads, the downlink is then OFDMA."""
    deadline: Annotated[Seconds, Field(gt=0)] | None = None
    """Time from the beginning of a phase by which all uploads arrive under access least_energy; where they cannot, they
    arrive as soon as they can. Nobody is late by it (that is server.deadline). Null: none."""


class Broadcast(Flow):
    """One transmission to several clients. Those in outage when it is ordered are not among its `clients`."""

    __slots__ = ("on_air",)

    def __init__(self, clients: Sequence[int], bits: float, band_hz: float, begun_s: float) -> None:
        super().__init__(clients, bits, band_hz, begun_s)
        self.on_air: Flow | None = None
        """The flow on the downlink; None while the base station waits for the last receiver to wake."""

    @property
    def failed(self) -> bool:
        return self.on_air is not None and self.on_air.outage


class Cell:
    """The radio cell: one medium for each direction, and broadcasts at the rate of the worst receiver."""

    def __init__(self, spec: CellSpec, env: simpy.Environment, radio: Radio) -> None:
        self.env = env
        self.up = _medium(spec.access, env, radio.up, radio.up_hz, spec.deadline)
        # Planned bands are for uploads; what the base station sends to one client each goes in equal shares.
        self.down = _medium("ofdma" if spec.access in PLANS else spec.access, env, radio.down, radio.down_hz)
        self._access = spec.access

    def plan(self, uploads: Sequence[Expected]) -> None:
        """Plan the bands for the uploads of the phase that begins now, where access is planned."""
        if isinstance(self.up, Planned) and uploads:
            self.up.plan(uploads)

    @property
    def plans(self) -> bool:
        """Whether the uplink is planned phase by phase."""
        return isinstance(self.up, Planned)

    def refuse_plans(self) -> None:
        """Refuse an asynchronous policy on a planned uplink: nobody knows which uploads will meet."""
        if self.plans:
            raise ScenarioError(
                f"cell.access: {self._access} plans the uploads of one synchronous phase; an asynchronous policy needs "
                f"dedicated, tdma or ofdma"
            )

    def broadcast(self, clients: Sequence[int], bits: float, wake_s: float) -> Broadcast:
        """Start one transmission to all these clients in `wake_s` seconds, when the last has woken; those in outage do
        not slow the others down."""
        band_hz, now_s = self.down.band_hz, self.env.now
        reached = [client for client in clients if self.down.link.rate_bps(client, band_hz, now_s) > 0]
        flow = Broadcast(tuple(reached or clients), bits, band_hz, now_s + wake_s)
        if wake_s > 0:
            flow.turn = self.env.timeout(wake_s)
            flow.event = self.env.process(self._broadcast_later(flow, flow.turn))
        else:
            flow.on_air = self.down.start(flow.clients, bits)
            flow.turn, flow.event, flow.ends_s = flow.on_air.turn, flow.on_air.event, flow.on_air.ends_s
        return flow

    def heard_bits(self, flow: Flow) -> float:
        """Bits of an unfinished flow of the downlink that are through by now."""
        on_air = flow.on_air if isinstance(flow, Broadcast) else flow
        return 0.0 if on_air is None else self.down.moved_bits(on_air)

    def end_broadcast(self, flow: Broadcast) -> None:
        """Stop a broadcast to which nobody listens any more."""
        if flow.on_air is not None and not flow.event.processed:
            self.down.stop(flow.on_air)

    def _broadcast_later(self, flow: Broadcast, awake: simpy.Event) -> Generator[simpy.Event, Any, None]:
        yield awake
        flow.on_air = self.down.start(flow.clients, flow.bits)
        yield flow.on_air.event


def _medium(
    access: Access, env: simpy.Environment, link: Link, band_hz: float, deadline_s: float | None = None
) -> Medium:
    """The medium that the key cell.access names."""
    if access == "dedicated":
        return Dedicated(env, link, band_hz)
    if access == "tdma":
        return Turns(env, link, band_hz)
    if access == "makespan":
        return Planned(env, link, band_hz, lambda uploads, powers_w, hz: split_band(uploads, hz))
    if access == "least_energy":
        until_s = math.inf if deadline_s is None else deadline_s
        return Planned(
            env, link, band_hz, lambda uploads, powers_w, hz: split_for_energy(uploads, powers_w, hz, until_s)
        )
    return NoisyShare(env, link, band_hz) if link.noise_follows_band else EqualShare(env, link, band_hz)
