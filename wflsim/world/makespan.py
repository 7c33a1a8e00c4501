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
    # With an n-th of the band each, this is when the last would arrive: the optimum cannot be later.
    share_hz = band_hz / len(uploads)
    late_s = max(upload.ready_s + upload.bits / upload.rate_bps(share_hz) for upload in uploads)

    def surplus_hz(log_wait: float) -> float:
        return math.fsum(_needed_hz(u, last_s + math.exp(log_wait), band_hz) for u in uploads) - band_hz

    # In logarithms, since the wait after the last one is ready may be a tiny part of the whole.
    high = math.log(late_s - last_s) if late_s > last_s else -30.0
    low = high
    while surplus_hz(low) < 0:
        low -= 2.0
    end_s = last_s + math.exp(brentq(surplus_hz, low, high + 1e-9, xtol=1e-14, rtol=1e-14))
    needed_hz = [_needed_hz(upload, end_s, band_hz) for upload in uploads]
    return [hz * band_hz / math.fsum(needed_hz) for hz in needed_hz]


def _needed_hz(upload: Upload, end_s: float, most_hz: float) -> float:
    """The band on which this upload arrives at `end_s`; more than there is, if none does."""
    rate_bps = upload.bits / (end_s - upload.ready_s)
    if upload.rate_bps(most_hz) <= rate_bps:
        return most_hz * rate_bps / upload.rate_bps(most_hz)
    return float(brentq(lambda hz: upload.rate_bps(hz) - rate_bps, 1e-12 * most_hz, most_hz, xtol=1e-9, rtol=1e-14))
