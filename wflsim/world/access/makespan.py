"""Planned access: the band is split so that the last upload of a phase arrives soonest (least makespan).

All clients finish together at the optimum, so the end T is found by bisection: for each T, client i needs the band b
that carries L_i bits in the T - ready_i seconds it has left, and the bands must add up to B. With fixed SNR the rate is
e b; where noise follows the band it is b log2(1 + g/b), which no band can bring above g/ln 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import simpy
from scipy.optimize import brentq

from wflsim.errors import ScenarioError
from wflsim.world.access.medium import Dedicated, Flow, Load
from wflsim.world.channel.link import Link

RateOfBand = Callable[[float], float]
"""bit/s that a client gets out of a band in Hz; increasing and concave, 0 for 0."""


class Expected(NamedTuple):
    """An upload that a phase will bring, if nothing goes wrong."""

    client: int
    bits: float
    ready_s: float
    """Seconds from the beginning of the phase until the client has computed."""
    sending_w: float
    """Watts that the client draws while it sends."""


class Upload(NamedTuple):
    """One upload as the split needs to know it."""

    bits: float
    ready_s: float
    """Seconds from the beginning of the phase until the client has computed."""
    rate_bps: RateOfBand


Split = Callable[[Sequence[Upload], Sequence[float], float], list[float]]
"""Bands in Hz by uploads, the watts that each client draws while it sends, and the width of the whole band in Hz."""


class Planned(Dedicated):
    """A band for each client, of a width that is planned anew for every phase."""

    def __init__(self, env: simpy.Environment, link: Link, band_hz: float, split: Split) -> None:
        super().__init__(env, link, band_hz)
        self._bands_hz: dict[int, float] = {}
        self._split = split

    def plan(self, uploads: Sequence[Expected]) -> None:
        """Split the band for the uploads of the phase that begins now, with the channel as it is now."""
        known = [
            Upload(upload.bits, upload.ready_s, self.link.rate_of_band(upload.client, self.env.now))
            for upload in uploads
        ]
        bands_hz = self._split(known, [upload.sending_w for upload in uploads], self.band_hz)
        self._bands_hz = {upload.client: hz for upload, hz in zip(uploads, bands_hz, strict=True)}

    def start(self, clients: Sequence[int], bits: float | Load) -> Flow:
        return self.start_on(self._bands_hz[clients[0]], clients, bits)


def split_band(uploads: Sequence[Upload], band_hz: float) -> list[float]:
    """The band in Hz of each upload under which the last ends soonest; they add up to `band_hz`."""
    if len(uploads) == 1:
        return [band_hz]
    refuse_outage("makespan", uploads, band_hz)
    last_s = max(upload.ready_s for upload in uploads)
    share_hz = band_hz / len(uploads)

    # The unknown is the logarithm of the wait from the instant at which the last one is ready: it may be a tiny part of
    # the whole, and adding it to `last_s` would lose it.
    def bands_hz(log_wait: float) -> list[float]:
        return [needed_hz(u, math.exp(log_wait) + (last_s - u.ready_s), band_hz) for u in uploads]

    def surplus_hz(log_wait: float) -> float:
        return math.fsum(bands_hz(log_wait)) - band_hz

    # With an n-th of the band each, this is how long the last would take: the optimum cannot be later.
    high = math.log(max(u.bits / u.rate_bps(share_hz) - (last_s - u.ready_s) for u in uploads))
    while surplus_hz(high) > 0:  # by a rounding error only
        high += 1e-6
    low = high - 1.0
    while surplus_hz(low) < 0:
        low -= 2.0
    found_hz = bands_hz(brentq(surplus_hz, low, high, xtol=1e-14, rtol=1e-14))
    return [hz * band_hz / math.fsum(found_hz) for hz in found_hz]


def refuse_outage(access: str, uploads: Sequence[Upload], band_hz: float) -> None:
    """Refuse to split the band where a client could not send even on all of it."""
    if not all(upload.rate_bps(band_hz) > 0 for upload in uploads):
        raise ScenarioError(
            f"cell.access {access}: a client cannot send at all (radio.rate says outage), so no split lets all arrive; "
            f"use ofdma or tdma"
        )


def needed_hz(upload: Upload, seconds: float, most_hz: float) -> float:
    """The band in Hz on which this upload takes so many seconds; above `most_hz` if no band there is does."""
    rate_bps = upload.bits / seconds
    most_bps = upload.rate_bps(most_hz)
    if most_bps <= rate_bps:
        return most_hz * rate_bps / most_bps
    # The rate is concave in the band, so the part of the band cannot be larger than the part of the rate.
    low_hz = most_hz * rate_bps / most_bps
    while upload.rate_bps(low_hz) > rate_bps:
        low_hz /= 16.0
    # In logarithms: where the power is the limit, a band of any width carries nearly the same.
    low, high = math.log(low_hz) - 1e-9, math.log(most_hz)
    return math.exp(brentq(lambda log: upload.rate_bps(math.exp(log)) - rate_bps, low, high, xtol=1e-15, rtol=1e-15))
