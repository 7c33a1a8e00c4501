"""What a phase is expected to bring if nothing goes wrong: when each order will have received and computed.

For plans that are made when a phase begins: of the cell's bands, and of the devices' clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wflsim.exchange import Order
from wflsim.world.access.access import Broadcast, Cell
from wflsim.world.access.makespan import Expected
from wflsim.world.channel.radio import Radio
from wflsim.world.fleet.device import Device


def heard_s(cell: Cell, broadcasts: Mapping[int, Broadcast]) -> dict[int, float]:
    """By ordinal of the ask: seconds from now until its broadcast will be through."""
    link, now_s = cell.down.link, cell.env.now
    return {
        ask: flow.begun_s - now_s + link.transfer_s(flow.clients, flow.bits, flow.band_hz, flow.begun_s)[0]
        for ask, flow in broadcasts.items()
    }


def expected_uploads(
    orders: Sequence[Order],
    devices: Sequence[Device],
    cell: Cell,
    radio: Radio,
    broadcasts: Mapping[int, Broadcast],
) -> list[Expected]:
    """The uploads of the phase that begins now, for an uplink that is planned; else none."""
    if not cell.plans:
        return []
    down, now_s, through_s = cell.down, cell.env.now, heard_s(cell, broadcasts)
    uploads = []
    for order in orders:
        device = devices[order.client]
        if order.up_bits and device.ready(now_s):
            own_s, _ = down.link.transfer_s((order.client,), order.each_bits, down.band_hz, now_s)
            ready_s = through_s.get(order.ask, 0.0) + own_s + device.compute_s(order)
            sending_w = device.traits.sending_w(radio.radiated_w(order.client, cell.up.band_hz, now_s))
            uploads.append(Expected(order.client, order.up_bits, ready_s, sending_w))
    return uploads
