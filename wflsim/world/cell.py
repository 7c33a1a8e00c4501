"""The cell: how the clients share the air, up and down."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import simpy

from wflsim.errors import ScenarioError
from wflsim.units import choices
from wflsim.world.links import Link
from wflsim.world.makespan import Upload, split_band
from wflsim.world.medium import Dedicated, Flow, Medium, Planned
from wflsim.world.placement import PlacementSpec
from wflsim.world.radio import Radio
from wflsim.world.sharing import EqualShare, NoisyShare
from wflsim.world.turns import Turns

Access = Annotated[
    Literal["dedicated", "tdma", "ofdma", "makespan"],
    choices(
        dedicated="each client on a band of its own",
        tdma="one client after the other on the whole band",
        ofdma="all clients at once in equal shares of the band, dealt anew at each start and end",
        makespan="the band split so that the last upload of a phase arrives soonest",
    ),
]


class CellSpec(PlacementSpec):
    """One base station and its clients."""

    access: Access = "dedicated"
    """How clients share the band, up and down; `wflsim list access` describes each."""


class Expected(NamedTuple):
    """An upload that a phase will bring, as planned for."""

    client: int
    bits: float
    ready_s: float


class Broadcast(Flow):
    """One transmission for many. Clients that it cannot reach are not among its clients."""

    __slots__ = ("on_air",)

    def __init__(self, clients: Sequence[int], bits: float, band_hz: float, begun_s: float) -> None:
        super().__init__(clients, bits, band_hz, begun_s)
        self.on_air: Flow | None = None
        """None while the base station waits for the last receiver to wake."""

    @property
    def failed(self) -> bool:
        return self.on_air is not None and self.on_air.outage


class Cell:
    """One medium for each direction. What all receivers share is broadcast at the rate of the worst of them."""

    def __init__(self, spec: CellSpec, env: simpy.Environment, radio: Radio) -> None:
        self.env = env
        self.up = _medium(spec.access, env, radio.up, radio.up_hz)
        # Bands cut to measure are for uploads; what the base station sends to one client each goes in equal shares.
        self.down = _medium("ofdma" if spec.access == "makespan" else spec.access, env, radio.down, radio.down_hz)

    def plan(self, uploads: Sequence[Expected]) -> None:
        """Where bands are cut to measure: cut them for the uploads of this phase."""
        if isinstance(self.up, Planned) and uploads:
            rates = [self.up.link.rate_of_band(client, self.env.now) for client, _, _ in uploads]
            bands_hz = split_band(
                [Upload(bits, ready_s, rate) for (_, bits, ready_s), rate in zip(uploads, rates, strict=True)],
                self.up.band_hz,
            )
            self.up.bands_hz = {upload.client: hz for upload, hz in zip(uploads, bands_hz, strict=True)}

    @property
    def plans(self) -> bool:
        """Whether bands are cut to measure."""
        return isinstance(self.up, Planned)

    def refuse_plans(self) -> None:
        """Where nobody knows which uploads will meet, a split cannot be planned."""
        if self.plans:
            raise ScenarioError(
                "cell.access: makespan plans the uploads of one synchronous phase; an asynchronous policy needs "
                "dedicated, tdma or ofdma"
            )

    def broadcast(self, clients: Sequence[int], bits: float, wake_s: float) -> Broadcast:
        """One transmission for all of them, once the last has woken; those in outage do not slow the others."""
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
        """Bits of an unfinished flow to clients that are through by now."""
        on_air = flow.on_air if isinstance(flow, Broadcast) else flow
        return 0.0 if on_air is None else self.down.moved_bits(on_air)

    def end_broadcast(self, flow: Broadcast) -> None:
        """Nobody listens any more."""
        if flow.on_air is not None and not flow.event.processed:
            self.down.stop(flow.on_air)

    def _broadcast_later(self, flow: Broadcast, awake: simpy.Event) -> Generator[simpy.Event, Any, None]:
        yield awake
        flow.on_air = self.down.start(flow.clients, flow.bits)
        yield flow.on_air.event


def _medium(access: Access, env: simpy.Environment, link: Link, band_hz: float) -> Medium:
    if access == "dedicated":
        return Dedicated(env, link, band_hz)
    if access == "tdma":
        return Turns(env, link, band_hz)
    if access == "makespan":
        return Planned(env, link, band_hz)
    return NoisyShare(env, link, band_hz) if link.noise_follows_band else EqualShare(env, link, band_hz)
