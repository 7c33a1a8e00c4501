"""World-aware selection: who is asked, by channel, energy or time left. Ties are broken by the policy's own race."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from wflsim.exchange import Draw, Order, Weights
from wflsim.world.cell import Cell
from wflsim.world.device import Device, training_samples
from wflsim.world.radio import Radio
from wflsim.world.server import ServerSpec

FIRST_GUESS = Order(0, 0, 0, 0, 0, 0, 10**6, 100, 100, 0)
"""The work before any order was seen: a megabit and a hundred samples."""


class Selection:
    """Ranks the eligible clients; the best are taken. Equal weights: the world's choice is not a random draw."""

    def __init__(self, spec: ServerSpec, devices: Sequence[Device], cell: Cell, radio: Radio) -> None:
        self._selector = spec.selector
        self._chooses = spec.chooser is not None
        self._factor = spec.over_selection
        self._devices = devices
        self._cell = cell
        self._radio = radio
        self._typical = FIRST_GUESS

    def see(self, order: Order) -> None:
        """The heaviest order so far is taken as typical of the next: a loss evaluation is not what costs."""
        typical = self._typical
        if typical is FIRST_GUESS or (order.up_bits, order.backward_samples) > (
            typical.up_bits,
            typical.backward_samples,
        ):
            self._typical = order

    def pick(
        self, draw: Draw, race: NDArray[np.float64], eligible: Sequence[int], now_s: float
    ) -> tuple[list[int], Weights] | None:
        """(D, a), or None where the scenario leaves selection to the policy."""
        if not self._chooses:
            return None
        weight = np.ones(len(race)) if draw.by is None else np.asarray(draw.by, dtype=np.float64)
        runners = [client for client in eligible if weight[client] > 0]
        cost = self._cost(now_s)
        ranked = sorted(runners, key=lambda client: (cost(client), race[client] / weight[client]))
        chosen = sorted(ranked[: math.ceil(self._factor * draw.m - 1e-9)])
        return chosen, {client: 1.0 / len(chosen) for client in chosen}

    def _cost(self, now_s: float) -> Callable[[int], float]:
        """What to have little of."""
        up = self._cell.up
        if self._selector == "best_channel":
            return lambda client: -up.link.snr(client, up.band_hz, now_s)
        if self._selector == "least_energy":
            return lambda client: self._energy_j(client, now_s)
        if self._selector == "availability":
            return lambda client: -self._open_until_s(client, now_s)
        return lambda client: 0.0

    def _energy_j(self, client: int, now_s: float) -> float:
        """To compute and send a typical order, on the band as a whole."""
        up, traits, typical = self._cell.up, self._devices[client].traits, self._typical
        rate_bps = up.link.rate_bps(client, up.band_hz, now_s)
        if rate_bps == 0:
            return math.inf
        sending_w = traits.sending_w(self._radio.radiated_w(client, up.band_hz, now_s))
        sending_j = typical.up_bits * (sending_w / rate_bps + traits.transmit_j_per_bit)
        return training_samples(typical) * traits.j_per_sample + sending_j

    def _open_until_s(self, client: int, now_s: float) -> float:
        hours = self._devices[client].traits.hours
        return math.inf if hours is None else hours.closes_s(now_s)
