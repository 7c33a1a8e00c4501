"""One direction of the radio: SNR and rate of each client as functions of simulated time.

A `Sky` answers with the linear SNR on a reference band; it is a function of (seed, client, time) and holds no state, so
every policy sees the same one and a resumed run sees it again. It is constant between the instants that `edges` names,
so the time a transfer takes is a cumulative sum, without an event per fading block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wflsim.units import ratio_to_db
from wflsim.world.bounds import BLOCKS_AT_MOST, refuse_blocks
from wflsim.world.rates import LN2, Floats, RateRule

if TYPE_CHECKING:
    from wflsim.world.sky import SteppedSky

REFERENCE_HZ = 1e6
"""Where noise follows the band, a sky's SNR is meant on this much of it."""
LOOKS_AT_MOST = 2**18
"""To remember: bands in equal shares have as many widths as there were numbers of flows."""
BLOCKS_AT_FIRST = 16
"""To look ahead; most transfers are over by then, and the others double it."""
BLOCKS_AT_ONCE = 2**13
"""To look ahead at a time: an ergodic rate takes a thousand numbers per block."""


class Sky(Protocol):
    """The channel of every client, without regard to who sends when."""

    steady: bool
    """Nothing changes in time: one look is enough."""

    def snr(self, client: int, at_s: Floats) -> Floats:
        """Linear SNR of a client at these instants, on the reference band."""

    def edges(self, start_s: float, blocks: int) -> Floats:
        """`start_s` and the next `blocks` instants at which any SNR may change."""


class Link:
    """What a sky and a rate rule mean for a transfer of bits over a band."""

    def __init__(
        self,
        sky: Sky,
        rule: RateRule,
        noise_follows_band: bool,
        patience_s: float,
        counted: SteppedSky | None = None,
    ) -> None:
        """`counted`: the sky once more, if it can say beforehand in how many blocks a transfer would see it change."""
        self.sky = sky
        self.rule = rule
        self.noise_follows_band = noise_follows_band
        self.patience_s = patience_s
        self.steady = sky.steady
        self._counted = counted
        self._looked: dict[tuple[int, float], tuple[float, float | None, float]] = {}

    def snr(self, client: int, band_hz: float, at_s: float) -> float:
        """Linear SNR on a band of this width."""
        return self._look(client, band_hz, at_s)[0]

    def snr_db(self, client: int, band_hz: float, at_s: float) -> float | None:
        """The same in dB, for the rows; None where nothing is received at all."""
        return self._look(client, band_hz, at_s)[1]

    def rate_bps(self, client: int, band_hz: float, at_s: float) -> float:
        """What the client can send right now on this band; 0 in outage."""
        return self._look(client, band_hz, at_s)[2]

    def rate_of_band(self, client: int, at_s: float) -> Callable[[float], float]:
        """The rate as a function of the band in Hz, for whoever cuts bands to measure; one look at the channel."""
        snr = self.sky.snr(client, np.array([at_s]))

        def rate_bps(band_hz: float) -> float:
            return band_hz * float(self._efficiency(self._on_band(snr, band_hz))[0])

        return rate_bps

    def transfer_s(self, clients: Sequence[int], bits: float, band_hz: float, start_s: float) -> tuple[float, bool]:
        """How long `bits` take at the rate of the worst of `clients`, and whether they arrive or are given up."""
        if bits <= 0:
            return 0.0, True
        if self.steady:
            rate_bps = min([self.rate_bps(client, band_hz, 0.0) for client in clients])
            return (bits / rate_bps, True) if rate_bps > 0 else (self.patience_s, False)
        self.refuse_endless(clients, bits, band_hz)
        left_bits, now_s, silent_s, blocks, seen = bits, start_s, 0.0, BLOCKS_AT_FIRST, 0
        while seen < BLOCKS_AT_MOST:
            edges_s = self.sky.edges(now_s, blocks)
            spans_s = np.diff(edges_s)
            rates_bps = self._rates(clients, band_hz, edges_s[:-1])
            sent_bits = np.cumsum(rates_bps * spans_s)
            last = int(np.searchsorted(sent_bits, left_bits))
            if not rates_bps[: last + 1].all():
                given_up_s, silent_s = self._silence(rates_bps[: last + 1], spans_s[: last + 1], silent_s)
                if given_up_s is not None:
                    return now_s + given_up_s - start_s, False
            if last < blocks:
                before_bits = float(sent_bits[last - 1]) if last else 0.0
                return float(edges_s[last]) + (left_bits - before_bits) / float(rates_bps[last]) - start_s, True
            left_bits -= float(sent_bits[-1])
            now_s = float(edges_s[-1])
            seen += blocks
            blocks = min(2 * blocks, BLOCKS_AT_ONCE)
        # Of a transfer that is still silent nothing is known but how long it may stay so.
        waiting = self.patience_s / (now_s - start_s) if left_bits == bits else bits / (bits - left_bits)
        raise refuse_blocks(f"about {seen * waiting:.3g}", bits, clients[0], (now_s - start_s) / seen)

    def refuse_endless(self, clients: Sequence[int], bits: float, band_hz: float) -> None:
        """Refuse a transfer over too many blocks before it begins, where that is certain: no rule beats Shannon's."""
        sky = self._counted
        if sky is None or math.isinf(sky.step_s):
            return
        best = min(float(self._on_band(np.array([sky.best(client)]), band_hz)[0]) for client in clients)
        seconds = bits * LN2 / (band_hz * math.log1p(best)) if best > 0 else self.patience_s
        if seconds > BLOCKS_AT_MOST * sky.step_s:
            raise refuse_blocks(f"at least {seconds / sky.step_s:.3g}", bits, clients[0], sky.step_s)

    def moved_bits(self, clients: Sequence[int], band_hz: float, start_s: float, end_s: float) -> float:
        """Bits that pass between two instants at the rate of the worst of `clients`."""
        if self.steady:
            return min(self.rate_bps(client, band_hz, 0.0) for client in clients) * (end_s - start_s)
        moved_bits, now_s, blocks = 0.0, start_s, BLOCKS_AT_FIRST
        while now_s < end_s:
            edges_s = self.sky.edges(now_s, blocks)
            spans_s = np.diff(np.minimum(edges_s, end_s))
            moved_bits += float(np.sum(self._rates(clients, band_hz, edges_s[:-1]) * spans_s))
            if edges_s[-1] <= now_s:
                raise refuse_blocks("infinitely many", moved_bits, clients[0], 0.0)
            now_s = float(edges_s[-1])
            blocks = min(2 * blocks, BLOCKS_AT_ONCE)
        return moved_bits

    def _look(self, client: int, band_hz: float, at_s: float) -> tuple[float, float | None, float]:
        """SNR (linear and in dB) and rate at one instant; once and for all if nothing changes."""
        key = client, band_hz
        seen = self._looked.get(key) if self.steady else None
        if seen is None:
            snr = self._snr(client, band_hz, np.array([at_s]))
            rate_bps = band_hz * float(self._efficiency(snr)[0])
            seen = float(snr[0]), ratio_to_db(float(snr[0])) if snr[0] > 0 else None, rate_bps
            if self.steady:
                if len(self._looked) >= LOOKS_AT_MOST:
                    self._looked.clear()
                self._looked[key] = seen
        return seen

    def _snr(self, client: int, band_hz: float, at_s: Floats) -> Floats:
        return self._on_band(self.sky.snr(client, at_s), band_hz)

    def _on_band(self, snr: Floats, band_hz: float) -> Floats:
        """From the reference band to another."""
        return snr * (REFERENCE_HZ / band_hz) if self.noise_follows_band else snr

    def _efficiency(self, snr: Floats) -> Floats:
        """bit/s per Hz by the rule; what is no number is no rate, which means outage."""
        efficiency = self.rule.efficiency(snr)
        return np.where(efficiency > 0, efficiency, 0.0)

    def _rates(self, clients: Sequence[int], band_hz: float, at_s: Floats) -> Floats:
        worst = self._snr(clients[0], band_hz, at_s)
        for client in clients[1:]:
            worst = np.minimum(worst, self._snr(client, band_hz, at_s))
        return band_hz * self._efficiency(worst)

    def _silence(self, rates_bps: Floats, spans_s: Floats, silent_s: float) -> tuple[float | None, float]:
        """When an outage outlasts the patience (after the start of these blocks), and how long the last one lasts."""
        passed_s = 0.0
        for rate_bps, span_s in zip(rates_bps.tolist(), spans_s.tolist(), strict=True):
            if rate_bps > 0:
                silent_s = 0.0
            elif silent_s + span_s > self.patience_s:
                return passed_s + self.patience_s - silent_s, silent_s
            else:
                silent_s += span_s
            passed_s += span_s
        return None, silent_s
