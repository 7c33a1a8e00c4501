"""The roster: every client with its device and its place, as the world is built of them and `fleet.csv` tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wflsim.records import FleetRow
from wflsim.world.channel.placement import Placement
from wflsim.world.fleet.draw import Deal, deal
from wflsim.world.fleet.traits import Traits, build_fleet, pool_devices, radiated_powers_w

if TYPE_CHECKING:
    from wflsim.world.spec import WorldSpec


class Roster(NamedTuple):
    """Who has which device, and where everybody is."""

    traits: list[Traits]
    """By client: its device in plain numbers."""
    placement: Placement
    """Where clients are."""
    powers_w: list[float]
    """By client: watts that it radiates, at most those where there is power control."""


def call_roster(
    spec: WorldSpec, clients: int, seed: int, flops_per_sample: float, samples: Sequence[int] | None = None
) -> Roster:
    """Give every client its device and its place. `samples`: training samples of each client; None: not known."""
    pool = pool_devices(spec.devices, clients, seed, flops_per_sample, spec.fleet is not None)
    dealt, placement = Deal(list(range(clients)), None), Placement(spec.cell, seed)
    if spec.fleet is not None:
        distances_m = _distances_m(placement, clients) if spec.radio.path_loss is not None else None
        dealt = deal(spec.fleet, [device.processor.s_per_sample for device in pool], samples, distances_m, seed)
        placement = Placement(spec.cell, seed, dealt.places)
    fleet = build_fleet(spec.devices, pool, dealt.devices, seed, spec.outages)
    return Roster(fleet, placement, radiated_powers_w(fleet, spec.radio.power))


def fleet_rows(spec: WorldSpec, roster: Roster, samples: Sequence[int] | None) -> list[FleetRow]:
    """The rows of fleet.csv, one per client."""
    clients, placed = len(roster.traits), spec.radio.path_loss is not None
    away_m: Sequence[float | None] = _distances_m(roster.placement, clients) if placed else [None] * clients
    rows = []
    for client, (traits, power_w) in enumerate(zip(roster.traits, roster.powers_w, strict=True)):
        kind = spec.devices[traits.kind]
        rows.append(
            FleetRow(
                client=client,
                kind=traits.kind,
                compute=kind.compute,
                modem=kind.modem,
                clock_hz=kind.frequency or kind.max_frequency or 0.0,
                sample_s=traits.processor.s_per_sample,
                active_w=traits.processor.active_w,
                idle_w=traits.processor.idle_w,
                radiated_w=power_w,
                battery_j=traits.battery_j,
                distance_m=away_m[client],
                samples=None if samples is None else int(samples[client]),
                group=None if spec.outages is None else client % spec.outages.groups,
            )
        )
    return rows


def _distances_m(placement: Placement, clients: int) -> list[float]:
    """Distance of each client from the base station at the beginning, in metres on the ground."""
    at_first = np.zeros(1)
    return [float(placement.ground_m(*placement.position(client, at_first))[0]) for client in range(clients)]
