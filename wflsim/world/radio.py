"""The radio block of a scenario: what the SNR is, and what it means for power, band and rate.

Three readings of "SNR and bandwidth" are in use, and they disagree about energy:

    power_fixed     the power is given, and the SNR holds on whatever band is allocated (the paper's figure)
    power_for_snr   the power is whatever attains the SNR on the band; `power` is what 0 dB on 1 MHz takes
    snr_at_1mhz     the power is given, the SNR is quoted on 1 MHz, and noise grows with the band
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from wflsim.units import Hertz, Ratio, Seconds, Spec, Watts
from wflsim.world.links import REFERENCE_HZ, Link, Sky
from wflsim.world.loss import LossSpec
from wflsim.world.rates import Floats, RateSpec, Shannon

Reading = Literal["power_fixed", "power_for_snr", "snr_at_1mhz"]


class DownlinkSpec(Spec):
    """From the base station to the clients. What is not given is as on the uplink."""

    snr: Ratio | list[Ratio] | None = None
    bandwidth: Hertz | None = None


class RadioSpec(Spec):
    """The air between the clients and their base station."""

    snr: Ratio | list[Ratio] = 10.0
    """Constant SNR of the uplink; a list is dealt out to the clients in turn."""
    bandwidth: Hertz = 1e6
    """Of each client on a dedicated band, of the whole cell where it is shared."""
    power: Watts | list[Watts] = 0.1
    """Radiated by a client while it sends; a list is dealt out to the clients in turn."""
    reading: Reading = "power_fixed"
    rate: RateSpec = Shannon()
    loss: LossSpec = LossSpec()
    downlink: DownlinkSpec = DownlinkSpec()
    patience: Seconds = 10.0
    """A transfer that cannot move a single bit for this long is given up as an outage."""


class ConstantSky:
    """The same SNR for ever."""

    steady = True

    def __init__(self, snr: float | list[float]) -> None:
        self._snr = dealt(snr)

    def snr(self, client: int, at_s: Floats) -> Floats:
        return np.full(len(at_s), self._snr[client % len(self._snr)])

    def edges(self, start_s: float, blocks: int) -> Floats:
        return np.array([start_s, np.inf])


class Radio:
    """Both directions, and the radiated power."""

    def __init__(self, spec: RadioSpec, seed: int) -> None:
        downlink_snr = spec.snr if spec.downlink.snr is None else spec.downlink.snr
        self.up = self._link(spec, ConstantSky(spec.snr))
        self.down = self._link(spec, ConstantSky(downlink_snr))
        self.up_hz = spec.bandwidth
        self.down_hz = spec.bandwidth if spec.downlink.bandwidth is None else spec.downlink.bandwidth
        self.loss = spec.loss
        self.lossless = spec.loss.probability == 0 and spec.loss.outage_threshold is None
        self._power_w = dealt(spec.power)
        self._power_for_snr = spec.reading == "power_for_snr"

    def radiated_w(self, client: int, band_hz: float, at_s: float) -> float:
        """Power that leaves the client's antenna while it sends on this band."""
        power_w = self._power_w[client % len(self._power_w)]
        if self._power_for_snr:
            power_w *= self.up.snr(client, band_hz, at_s) * band_hz / REFERENCE_HZ
        return power_w

    @staticmethod
    def _link(spec: RadioSpec, sky: Sky) -> Link:
        return Link(sky, spec.rate, spec.reading == "snr_at_1mhz", spec.patience)


def dealt(given: Any) -> list[float]:
    """One value for everybody, or a list dealt out in turn."""
    return list(given) if isinstance(given, list) else [given]
