"""The split of one band under which the last upload of a phase arrives soonest.

All clients finish together at the optimum, so the end T is found by bisection: for each T, client i needs the band b
that carries L_i bits in the T - ready_i seconds it has left, and the bands must add up to B. With fixed SNR the rate is
e b; where noise follows the band it is b log2(1 + g/b), which no band can bring above g/ln 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scipy.optimize import brentq

from wflsim.errors import ScenarioError

RateOfBand = Callable[[float], float]
"""bit/s that a client gets out of a band in Hz; increasing and concave, 0 for 0."""


class Upload(NamedTuple):
    """One client's share of a phase, as far as it is known beforehand."""

    bits: float
    ready_s: float
    """Computing ends this long after the phase began."""
    rate_bps: RateOfBand


def split_band(uploads: Sequence[Upload], band_hz: float) -> list[float]:
    """The band in Hz of each upload; they add up to `band_hz`."""
    if len(uploads) == 1:
        return [band_hz]
    if not all(upload.rate_bps(band_hz) > 0 for upload in uploads):
        raise ScenarioError(
            "cell.access makespan: a client cannot send at all (radio.rate says outage), so no split lets all arrive; "
            "use ofdma or tdma"
        )
    last_s = max(upload.ready_s for upload in uploads)
    share_hz = band_hz / len(uploads)

    # The unknown is the logarithm of the wait from the instant at which the last one is ready: it may be a tiny part of
    # the whole, and adding it to `last_s` would lose it.
    def needed_hz(log_wait: float) -> list[float]:
        return [_needed_hz(u, math.exp(log_wait) + (last_s - u.ready_s), band_hz) for u in uploads]

    def surplus_hz(log_wait: float) -> float:
        return math.fsum(needed_hz(log_wait)) - band_hz

    # With an n-th of the band each, this is how long the last would take: the optimum cannot be later.
    high = math.log(max(u.bits / u.rate_bps(share_hz) - (last_s - u.ready_s) for u in uploads))
    while surplus_hz(high) > 0:  # by a rounding error only
        high += 1e-6
    low = high - 1.0
    while surplus_hz(low) < 0:
        low -= 2.0
    found_hz = needed_hz(brentq(surplus_hz, low, high, xtol=1e-14, rtol=1e-14))
    return [hz * band_hz / math.fsum(found_hz) for hz in found_hz]


def _needed_hz(upload: Upload, seconds: float, most_hz: float) -> float:
    """The band on which this upload takes so long; more than there is, if none does."""
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
