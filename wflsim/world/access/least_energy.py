"""Planned access for the least energy: the band goes where a hertz saves most, and every upload meets a deadline.

Client i sends L_i bits at the rate r_i(b) of its band b and draws P_i watts meanwhile: P_i L_i/r_i(b) joules in all,
which falls with b and is convex. The bands add up to B, and each must carry the bits in the time that the deadline
leaves. So one price of a hertz, in joules, holds for all: a client takes the band at which another hertz would save
just that much, or the one that the deadline asks for, if that is wider. It is the split of Yang et al. (2021) at given
powers and clocks. Where the deadline cannot be met by all, the split is that of the least makespan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.optimize import brentq

from wflsim.world.access.makespan import RateOfBand, Upload, needed_hz, refuse_outage, split_band

STEP = 1e-4
"""Relative step of the band over which the saving of another hertz is taken."""
LEAST_SHARE = 1e-9
"""Least share of the band that a client gets."""


def split_for_energy(
    uploads: Sequence[Upload], powers_w: Sequence[float], band_hz: float, deadline_s: float
) -> list[float]:
    """The band in Hz of each upload under which all together take the least energy; they add up to `band_hz`.

    `powers_w`: watts that each client draws while it sends. `deadline_s`: seconds from the beginning of the phase by
    which all are to arrive; inf: none.
    """
    if len(uploads) == 1:
        return [band_hz]
    refuse_outage("least_energy", uploads, band_hz)
    left_s = [deadline_s - upload.ready_s for upload in uploads]
    if min(left_s) <= 0:
        return split_band(uploads, band_hz)
    floor_hz = LEAST_SHARE * band_hz
    least_hz = [
        max(floor_hz, needed_hz(upload, seconds, band_hz)) if seconds < math.inf else floor_hz
        for upload, seconds in zip(uploads, left_s, strict=True)
    ]
    if math.fsum(least_hz) >= band_hz:
        return split_band(uploads, band_hz)

    def bands_hz(log_price: float) -> list[float]:
        return [
            _band_at(math.exp(log_price), upload, power_w, low_hz, band_hz)
            for upload, power_w, low_hz in zip(uploads, powers_w, least_hz, strict=True)
        ]

    savings = [
        _saving(upload, power_w, hz)
        for upload, power_w, low_hz in zip(uploads, powers_w, least_hz, strict=True)
        for hz in (low_hz, band_hz)
    ]
    low, high = math.log(min(savings)) - 1.0, math.log(max(savings)) + 1.0
    price = brentq(lambda log: math.fsum(bands_hz(log)) - band_hz, low, high, xtol=1e-13, rtol=1e-13)
    found_hz = bands_hz(price)
    return [hz * band_hz / math.fsum(found_hz) for hz in found_hz]


def _saving(upload: Upload, power_w: float, hz: float) -> float:
    """Joules that another hertz would save of an upload on a band of this width."""
    rate: RateOfBand = upload.rate_bps
    slower_s, faster_s = (upload.bits / rate(hz * factor) for factor in (1 - STEP, 1 + STEP))
    return power_w * (slower_s - faster_s) / (2 * STEP * hz)


def _band_at(price_j: float, upload: Upload, power_w: float, low_hz: float, high_hz: float) -> float:
    """The band in Hz at which another hertz saves an upload as many joules as it costs, within these limits."""
    if _saving(upload, power_w, low_hz) <= price_j:
        return low_hz
    if _saving(upload, power_w, high_hz) >= price_j:
        return high_hz

    def surplus(log_hz: float) -> float:
        return math.log(_saving(upload, power_w, math.exp(log_hz)) / price_j)

    return math.exp(brentq(surplus, math.log(low_hz), math.log(high_hz), xtol=1e-13, rtol=1e-13))
