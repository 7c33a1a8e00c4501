"""One direction of the radio: from a channel and a rate rule to each client's rate and the time a transfer takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wflsim.units import ratio_to_db
from wflsim.world.bounds import BLOCKS_AT_MOST, refuse_blocks
from wflsim.world.channel.channel import Channel
from wflsim.world.channel.rates import LN2, Floats, RateRule

REFERENCE_HZ = 1e6
"""Width in hertz of the band on which a channel's SNR holds, where noise grows with the band."""
SAMPLES_REMEMBERED = 2**18
"""Samples of a steady channel that are kept: a band in equal shares has a width for every number of flows."""
BLOCKS_AT_FIRST = 16
"""Blocks of a changing channel that are computed at first; most transfers end within, for others the number doubles."""
BLOCKS_AT_ONCE = 2**13
"""Blocks of a changing channel that are computed at a time: an ergodic rate takes a thousand numbers per block."""


class Link:
    """The rate of each client over a band of given width, and how long a transfer takes at it."""

    def __init__(self, channel: Channel, rule: RateRule, noise_follows_band: bool, patience_s: float) -> None:
        """`patience_s`: a transfer that cannot move a bit for this many seconds is given up as an outage."""
        self.channel = channel
        self.rule = rule
        self.noise_follows_band = noise_follows_band
        self.patience_s = patience_s
        self.steady = channel.steady
        self._samples: dict[tuple[int, float], tuple[float, float | None, float]] = {}

    def snr(self, client: int, band_hz: float, at_s: float) -> float:
        """Linear SNR of a client on a band of this width."""
        return self._sample_channel(client, band_hz, at_s)[0]

    def snr_db(self, client: int, band_hz: float, at_s: float) -> float | None:
        """SNR of a client on a band of this width in dB; None where nothing is received at all."""
        return self._sample_channel(client, band_hz, at_s)[1]

    def rate_bps(self, client: int, band_hz: float, at_s: float) -> float:
        """Bits per second that a client can send on this band at this instant; 0 in outage."""
        return self._sample_channel(client, band_hz, at_s)[2]

    def rate_of_band(self, client: int, at_s: float) -> Callable[[float], float]:
        """The rate in bit/s as a function of the band in Hz, with the channel as it is at this instant."""
        snr = self.channel.snr(client, np.array([at_s]))

        def rate_bps(band_hz: float) -> float:
            return band_hz * float(self._efficiency(self._on_band(snr, band_hz))[0])

        return rate_bps

    def transfer_s(self, clients: Sequence[int], bits: float, band_hz: float, start_s: float) -> tuple[float, bool]:
        """Seconds that `bits` take at the rate of the worst of `clients`, and whether they arrive or are given up."""
        if bits <= 0:
            return 0.0, True
        if self.steady:
            rate_bps = min([self.rate_bps(client, band_hz, 0.0) for client in clients])
            return (bits / rate_bps, True) if rate_bps > 0 else (self.patience_s, False)
        self.refuse_endless(clients, bits, band_hz)
        left_bits, now_s, silent_s, blocks, computed = bits, start_s, 0.0, BLOCKS_AT_FIRST, 0
        while computed < BLOCKS_AT_MOST:
            changes_s = self.channel.changes_s(now_s, blocks)
            spans_s = np.diff(changes_s)
            rates_bps = self._rates(clients, band_hz, changes_s[:-1])
            sent_bits = np.cumsum(rates_bps * spans_s)
            last = int(np.searchsorted(sent_bits, left_bits))
            if not rates_bps[: last + 1].all():
                given_up_s, silent_s = self._silence(rates_bps[: last + 1], spans_s[: last + 1], silent_s)
                if given_up_s is not None:
                    return now_s + given_up_s - start_s, False
            if last < blocks:
                before_bits = float(sent_bits[last - 1]) if last else 0.0
                return float(changes_s[last]) + (left_bits - before_bits) / float(rates_bps[last]) - start_s, True
            left_bits -= float(sent_bits[-1])
            now_s = float(changes_s[-1])
            computed += blocks
            blocks = min(2 * blocks, BLOCKS_AT_ONCE)
        # Of a transfer that has not sent a bit yet, only the patience is known.
        waiting = self.patience_s / (now_s - start_s) if left_bits == bits else bits / (bits - left_bits)
        raise refuse_blocks(f"about {computed * waiting:.3g}", bits, clients[0], (now_s - start_s) / computed)

    def refuse_endless(self, clients: Sequence[int], bits: float, band_hz: float) -> None:
        """Refuse a transfer that even at Shannon's rate and the highest SNR sees too many blocks of its channel."""
        channel = self.channel
        if math.isinf(channel.step_s):
            return
        best = min(float(self._on_band(np.array([channel.highest_snr(client)]), band_hz)[0]) for client in clients)
        seconds = bits * LN2 / (band_hz * math.log1p(best)) if best > 0 else self.patience_s
        if seconds > BLOCKS_AT_MOST * channel.step_s:
            raise refuse_blocks(f"at least {seconds / channel.step_s:.3g}", bits, clients[0], channel.step_s)

    def moved_bits(self, clients: Sequence[int], band_hz: float, start_s: float, end_s: float) -> float:
        """Bits that pass between two instants at the rate of the worst of `clients`."""
        if self.steady:
            return min(self.rate_bps(client, band_hz, 0.0) for client in clients) * (end_s - start_s)
        moved_bits, now_s, blocks = 0.0, start_s, BLOCKS_AT_FIRST
        while now_s < end_s:
            changes_s = self.channel.changes_s(now_s, blocks)
            spans_s = np.diff(np.minimum(changes_s, end_s))
            moved_bits += float(np.sum(self._rates(clients, band_hz, changes_s[:-1]) * spans_s))
            if changes_s[-1] <= now_s:
                raise refuse_blocks("infinitely many", moved_bits, clients[0], 0.0)
            now_s = float(changes_s[-1])
            blocks = min(2 * blocks, BLOCKS_AT_ONCE)
        return moved_bits

    def _sample_channel(self, client: int, band_hz: float, at_s: float) -> tuple[float, float | None, float]:
        """SNR (linear, then in dB) and rate in bit/s at one instant; computed once if the channel is steady."""
        key = client, band_hz
        sample = self._samples.get(key) if self.steady else None
        if sample is None:
            snr = self._snr(client, band_hz, np.array([at_s]))
            rate_bps = band_hz * float(self._efficiency(snr)[0])
            sample = float(snr[0]), ratio_to_db(float(snr[0])) if snr[0] > 0 else None, rate_bps
            if self.steady:
                if len(self._samples) >= SAMPLES_REMEMBERED:
                    self._samples.clear()
                self._samples[key] = sample
        return sample

    def _snr(self, client: int, band_hz: float, at_s: Floats) -> Floats:
        return self._on_band(self.channel.snr(client, at_s), band_hz)

    def _on_band(self, snr: Floats, band_hz: float) -> Floats:
        """SNR on a band of this width, from that on the reference band."""
        return snr * (REFERENCE_HZ / band_hz) if self.noise_follows_band else snr

    def _efficiency(self, snr: Floats) -> Floats:
        """bit/s per Hz by the rate rule; NaN counts as 0, which means outage."""
        efficiency = self.rule.efficiency(snr)
        return np.where(efficiency > 0, efficiency, 0.0)

    def _rates(self, clients: Sequence[int], band_hz: float, at_s: Floats) -> Floats:
        """Rate in bit/s of the worst of `clients` at these instants."""
        worst = self._snr(clients[0], band_hz, at_s)
        for client in clients[1:]:
            worst = np.minimum(worst, self._snr(client, band_hz, at_s))
        return band_hz * self._efficiency(worst)

    def _silence(self, rates_bps: Floats, spans_s: Floats, silent_s: float) -> tuple[float | None, float]:
        """Go through blocks of these rates and lengths, the transfer having been silent for `silent_s` seconds before.

        Returns the seconds from the first block until the patience ends (None if it does not), and for how long the
        transfer has been silent at the end.
        """
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
