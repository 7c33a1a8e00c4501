"""World-aware selection: clients are chosen by channel, energy or time left; the policy's own race breaks ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from wflsim.errors import Exhausted
from wflsim.exchange import Draw, Order, Outcome, Weights
from wflsim.world.access.access import Cell
from wflsim.world.channel.radio import Radio
from wflsim.world.fedcs import EMPTY_AT_MOST, Times, greedy
from wflsim.world.fleet.device import Device, Report
from wflsim.world.oort import Oort
from wflsim.world.server import ServerSpec

FIRST_GUESS = Order(0, 0, 0, 0, 0, 0, 10**6, 100, 100, 0, 4, 4)
"""The typical order as long as there was none: a megabit and a hundred samples in four batches."""


class Selection:
    """Chooses clients by cost, by a plan or by utility, with equal weights, because the choice is not a random draw."""

    def __init__(self, spec: ServerSpec, devices: Sequence[Device], cell: Cell, radio: Radio) -> None:
        self._selector = spec.selector
        self._chooses = spec.chooser is not None
        self._factor = spec.over_selection
        self._devices = devices
        self._cell = cell
        self._radio = radio
        self._typical = FIRST_GUESS
        self._fedcs = spec.fedcs
        self._aggregation_s = spec.aggregation
        self._empty = 0
        self.oort = Oort(spec.oort) if spec.selector == "oort" else None
        """What the selector oort knows; None with another selector."""
        self.planned_s: float | None = None
        """Duration of the phase that fedcs has planned last, in seconds; None if it has planned none."""

    def take_note(self, order: Order) -> None:
        """Take the heaviest order so far as typical of the next; a mere loss evaluation is none."""
        typical = self._typical
        if typical is FIRST_GUESS or (order.up_bits, order.backward_samples) > (
            typical.up_bits,
            typical.backward_samples,
        ):
            self._typical = order

    def hearing(self, now_s: Callable[[], float], began_s: float, report: Report, order: Order) -> Report:
        """The report of an order's outcome, from which oort also learns the client's loss and time."""
        oort = self.oort
        if oort is None or not order.backward_samples:
            return report

        def hear(outcome: Outcome) -> None:
            if outcome.fate == "delivered":
                oort.hear(order.client, order.utility, now_s() - began_s)
            report(outcome)

        return hear

    def select(
        self, draw: Draw, race: NDArray[np.float64], eligible: Sequence[int], now_s: float
    ) -> tuple[list[int], Weights] | None:
        """The cohort D and its weights a; None where the scenario leaves selection to the policy.

        `race`: the policy's exponential draws, one for each client.
        """
        if not self._chooses:
            return None
        weight = np.ones(len(race)) if draw.by is None else np.asarray(draw.by, dtype=np.float64)
        runners = [client for client in eligible if weight[client] > 0]
        wanted = math.ceil(self._factor * draw.m - 1e-9)
        if self.oort is not None:
            chosen = self.oort.select(wanted, runners, lambda client: sum(self.times(client, now_s)[1:]), race)
        else:
            cost = self._cost(now_s)
            ranked = sorted(runners, key=lambda client: (cost(client), race[client] / weight[client], client))
            chosen = sorted(ranked[:wanted])
            if self._selector == "fedcs" and self._typical is not FIRST_GUESS:
                asked = [self.times(client, now_s) for client in ranked[:wanted]]
                fitting, self.planned_s = greedy(asked, self._fedcs.deadline, self._aggregation_s)
                chosen = sorted(fitting)
        return chosen, {client: 1.0 / len(chosen) for client in chosen}

    def times(self, client: int, now_s: float) -> Times:
        """Seconds that a typical order would take a client in the channel as it is now; inf in outage."""
        typical, up, down = self._typical, self._cell.up, self._cell.down
        down_bits = typical.up_bits if typical is FIRST_GUESS else typical.shared_bits + typical.each_bits
        up_bps, down_bps = (way.link.rate_bps(client, way.band_hz, now_s) for way in (up, down))
        return Times(
            client,
            down_bits / down_bps if down_bps > 0 else math.inf,
            self._devices[client].compute_s(typical),
            typical.up_bits / up_bps if up_bps > 0 else math.inf,
        )

    def wait_s(self, orders: int) -> float:
        """Seconds that pass in a phase of so many orders because fedcs found nobody who fits: its deadline, or 0."""
        self._empty = 0 if orders else self._empty + 1
        return self._fedcs.deadline if self._selector == "fedcs" and not orders else 0.0

    def refuse_empty(self) -> None:
        """End the run after the third empty phase in a row."""
        if self._empty >= EMPTY_AT_MOST:
            raise Exhausted(
                f"server.selector fedcs: {EMPTY_AT_MOST} times in a row nobody fitted into the planned deadline of "
                f"{self._fedcs.deadline:g} s; raise server.fedcs.deadline, or the m of the policy"
            )

    def _cost(self, now_s: float) -> Callable[[int], float]:
        """Score by which clients are ranked; the m lowest are selected."""
        up = self._cell.up
        if self._selector == "best_channel":
            return lambda client: -up.link.snr(client, up.band_hz, now_s)
        if self._selector == "least_energy":
            return lambda client: self._energy_j(client, now_s)
        if self._selector == "availability":
            return lambda client: -self._open_until_s(client, now_s)
        return lambda client: 0.0

    def _energy_j(self, client: int, now_s: float) -> float:
        """Joules that a client needs to compute and send a typical order on the whole band; inf in outage."""
        up, device, typical = self._cell.up, self._devices[client], self._typical
        rate_bps = up.link.rate_bps(client, up.band_hz, now_s)
        if rate_bps == 0:
            return math.inf
        sending_w = device.traits.sending_w(self._radio.radiated_w(client, up.band_hz, now_s))
        sending_j = typical.up_bits * (sending_w / rate_bps + device.traits.modem.transmit_j_per_bit)
        return device.traits.processor.order_j(typical) + sending_j

    def _open_until_s(self, client: int, now_s: float) -> float:
        """Simulated time at which the client's window closes; inf if it is always available."""
        hours = self._devices[client].traits.hours
        return math.inf if hours is None else hours.closes_s(now_s)
