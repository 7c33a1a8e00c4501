"""Just in time: devices that would wait for the slowest of their phase compute at a lower clock instead.

Before a phase begins, every order's work and link are known, and so is when the slowest will have sent its reply. A
device that would be through earlier waits until then anyway, idling and listening; so it may as well compute more
slowly, and lower clocks take less energy per cycle. The plan is made with the channel as it is when the phase begins,
and without losses. A modem that stays awake while its device computes is not let fall asleep, where waking costs more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wflsim.errors import ScenarioError
from wflsim.exchange import Order, Until
from wflsim.world.access.access import Broadcast, Cell
from wflsim.world.expected import heard_s
from wflsim.world.fleet.compute import Processor
from wflsim.world.fleet.device import Device
from wflsim.world.fleet.meter import resting_s
from wflsim.world.fleet.traits import Traits

MARGIN = 1e-12
"""Share of the time left by which a plan ends early, so that a rounding error does not prolong the phase."""
CLOCKS = 9
"""Clocks that are compared where a lower one need not be better: the power follows the clock by less than its first
power."""


class Window(NamedTuple):
    """What is expected of one order from the beginning of its computation on; times in simulated seconds."""

    start_s: float
    """When computing begins."""
    asleep_s: float
    """When the modem's tail ends, if nothing is sent before."""
    upload_s: float
    """Seconds that the upload takes."""

    def sent_s(self, traits: Traits, compute_s: float) -> float:
        """When the reply is sent, if computing takes so many seconds."""
        done_s = self.start_s + compute_s
        return done_s + (traits.modem.wake_s if self.upload_s and done_s >= self.asleep_s else 0.0) + self.upload_s


def slow_down(
    orders: Sequence[Order],
    devices: Sequence[Device],
    cell: Cell,
    broadcasts: Mapping[int, Broadcast],
    until: Until,
) -> None:
    """Set the clocks for the orders of the phase that begins now, where devices have a range of clocks."""
    if all(device.traits.processor.least_clock == 1.0 for device in devices):
        return
    now_s = cell.env.now
    through_s = heard_s(cell, broadcasts)
    served = [order for order in orders if devices[order.client].ready(now_s)]
    windows = [_window(order, devices[order.client], cell, through_s.get(order.ask)) for order in served]
    deadline_s = math.inf if until.deadline_s is None else now_s + until.deadline_s
    sent_s = [
        window.sent_s(device.traits, device.compute_s(order))
        for order, window, device in zip(served, windows, (devices[order.client] for order in served), strict=True)
    ]
    end_s = max((sent for sent in sent_s if sent <= deadline_s), default=now_s)
    for order, window, sent in zip(served, windows, sent_s, strict=True):
        device = devices[order.client]
        device.processor, device.saved_j = device.traits.processor, 0.0
        if order.forward_samples and sent < end_s and until.first is None:
            device.processor, device.saved_j = cheapest(device.traits, order, window, end_s)


def refuse_just_in_time(devices: Sequence[Device], why: str) -> None:
    """Refuse a policy whose devices have no slowest of their phase to wait for."""
    if any(device.traits.processor.least_clock < 1.0 for device in devices):
        raise ScenarioError(
            f"devices.dvfs: just_in_time slows down to the slowest of a synchronous phase; {why}: let dvfs be fixed"
        )


def cheapest(traits: Traits, order: Order, window: Window, end_s: float) -> tuple[Processor, float]:
    """The processor at the clock with which an order takes the least energy until `end_s`, by which it is to be sent,
    and the joules by which that is less than at its own clock."""
    full, modem = traits.processor, traits.modem
    left_s = (end_s - window.start_s - window.upload_s) * (1 - MARGIN)
    awake_s = window.asleep_s - window.start_s
    wakes_s = modem.wake_s if window.upload_s else 0.0
    lowest = [full.clock_for(order, min(left_s, awake_s * (1 - MARGIN)))] if awake_s > full.order_s(order) else []
    lowest.append(full.clock_for(order, left_s - wakes_s))
    clocks = {
        float(clock)
        for low in lowest
        for clock in (np.geomspace(low, 1.0, CLOCKS) if full.clock_exponent < 1 else (low,))
    }
    best, least_j = full, (full_j := expected_j(traits, full, order, window, end_s))
    for processor in (full.slowed(clock) for clock in sorted(clocks)):
        in_time = window.sent_s(traits, processor.order_s(order)) <= end_s
        joules = expected_j(traits, processor, order, window, end_s)
        if in_time and joules < least_j:
            best, least_j = processor, joules
    return best, full_j - least_j


def expected_j(traits: Traits, processor: Processor, order: Order, window: Window, end_s: float) -> float:
    """Joules of a device from the beginning of its computation to the end of the phase, without those of sending and of
    tails, which any clock takes alike."""
    modem, compute_s = traits.modem, processor.order_s(order)
    done_s, sent_s = window.start_s + compute_s, window.sent_s(traits, compute_s)
    computing_j = processor.active_w * compute_s + modem.sleep_w * resting_s(window.start_s, done_s, window.asleep_s)
    waking_j = traits.waking_w * (sent_s - done_s - window.upload_s)
    asleep_s = sent_s + modem.tail_s if window.upload_s else window.asleep_s
    waiting_j = processor.idle_w * (end_s - sent_s) + modem.listen_w * resting_s(sent_s, end_s, asleep_s)
    return computing_j + waking_j + waiting_j


def _window(order: Order, device: Device, cell: Cell, through_s: float | None) -> Window:
    """What is expected of an order, whose broadcast is through in `through_s` seconds (None: it has none)."""
    modem, link, now_s = device.traits.modem, cell.down.link, cell.env.now
    start_s, asleep_s = now_s, device.meter.asleep_s
    if through_s is not None:
        start_s += through_s
        asleep_s = start_s + modem.tail_s
    if order.each_bits:
        start_s += modem.wake_s if start_s >= asleep_s else 0.0
        start_s += link.transfer_s((order.client,), order.each_bits, cell.down.band_hz, start_s)[0]
        asleep_s = start_s + modem.tail_s
    rate_bps = cell.up.link.rate_bps(order.client, cell.up.band_hz, now_s)
    return Window(start_s, asleep_s, order.up_bits / rate_bps if rate_bps > 0 else cell.up.link.patience_s)
