"""The radio block of a scenario: what the SNR is, and what it means for power, band and rate.

Three readings of "SNR and bandwidth" are in use, and they disagree about energy:

    power_fixed     the power is given, and the SNR holds on whatever band is allocated (the paper's figure)
    power_for_snr   the power is whatever attains the SNR on the band; `power` is what 0 dB on 1 MHz takes
    snr_at_1mhz     the power is given, the SNR is quoted on 1 MHz, and noise grows with the band

With `path_loss` the SNR follows from powers, distances and noise, which always grows with the band.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from wflsim.units import Hertz, Ratio, Seconds, Share, Spec, Watts, choices, db_to_ratio
from wflsim.world.bounds import within_db
from wflsim.world.fading import Fading, FadingSpec, averaged, rice_factor
from wflsim.world.links import REFERENCE_HZ, Link
from wflsim.world.loss import LossSpec
from wflsim.world.path_loss import PathLossSpec
from wflsim.world.placement import Placement, PlacementSpec
from wflsim.world.rates import RateRule, RateSpec, Shannon
from wflsim.world.sky import ConstantSky, FadedSky, PowerControl, SteppedSky, Terrain, TerrainSky, noise_w
from wflsim.world.snr_trace import TraceSky, TraceSpec

DEFAULT_SNR = 10.0
Item = TypeVar("Item")
Dealt = Annotated[
    list[Item], Field(min_length=1), BeforeValidator(lambda given: given if isinstance(given, list) else [given])
]
"""One value for everybody, or a list dealt out to the clients in turn."""
Reading = Annotated[
    Literal["power_fixed", "power_for_snr", "snr_at_1mhz"],
    choices(
        power_fixed="the power is given, and the SNR holds on whatever band is allocated",
        power_for_snr="the power is whatever attains the SNR on the band",
        snr_at_1mhz="the power is given, the SNR is quoted on 1 MHz, and noise grows with the band",
    ),
]


class DownlinkSpec(Spec):
    """From the base station to the clients. What is not given is as on the uplink."""

    snr: Dealt[Ratio] | None = None
    bandwidth: Hertz | None = None
    power: Watts = 1.0
    """Radiated by the base station (30 dBm); matters with path loss only, and is not in the clients' energy."""
    noise_figure: Annotated[Ratio, within_db(-60, 100)] = db_to_ratio(9.0)
    """Of the clients' receivers."""


class PowerControlSpec(Spec):
    """Open loop: radiate target / gain^share, at most `power`. Share 1: all arrive alike; 0: all send alike."""

    target: Watts
    share: Share = 1.0


class RadioSpec(Spec):
    """The air between the clients and their base station. The SNR comes from one of snr, path_loss, trace."""

    snr: Dealt[Ratio] | None = None
    """Constant SNR of the uplink (10 dB if nothing else says it)."""
    path_loss: PathLossSpec | None = None
    trace: TraceSpec | None = None
    reading: Reading = "power_fixed"
    """Of snr and trace."""
    bandwidth: Hertz = 1e6
    """Of each client on a dedicated band, of the whole cell where it is shared."""
    power: Dealt[Watts] = Field(default_factory=lambda: [0.1])
    """Radiated by a client while it sends."""
    power_control: PowerControlSpec | None = None
    carrier: Annotated[Hertz, Field(ge=1e3, le=1e13)] = 2e9
    noise_figure: Annotated[Ratio, within_db(-60, 100)] = db_to_ratio(5.0)
    """Of the base station's receiver."""
    interference_margin: Annotated[Ratio, within_db(-60, 100)] = 1.0
    """By how much other cells raise the noise."""
    fading: FadingSpec | None = None
    rate: RateSpec = Shannon()
    loss: LossSpec = LossSpec()
    downlink: DownlinkSpec = DownlinkSpec()
    patience: Seconds = 10.0
    """A transfer that cannot move a single bit for this long is given up as an outage."""

    @model_validator(mode="after")
    def _one_source(self) -> RadioSpec:
        given = [name for name in ("snr", "path_loss", "trace") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"the SNR must come from one place, not from {' and '.join(given)}")
        if self.power_control is not None and self.path_loss is None:
            raise ValueError("power_control needs path_loss: without it nothing depends on the power")
        if self.downlink.snr is not None and self.path_loss is not None:
            raise ValueError("downlink.snr and path_loss contradict each other: give downlink.power instead")
        if self.reading == "power_for_snr" and (self.trace is not None or self.fading is not None):
            raise ValueError("reading: power_for_snr needs a constant snr, without trace or fading, to attain")
        if self.loss.outage_threshold is not None and self.fading is not None:
            raise ValueError(
                "loss.outage_threshold already averages over Rayleigh fading; with fading, let rate be cqi or fixed: "
                "their outages follow the channel"
            )
        return self


    @property
    def noise_follows_band(self) -> bool:
        """Whether a wider band has a lower SNR, because the power is given and noise grows with the band."""
        return self.path_loss is not None or self.reading == "snr_at_1mhz"


class Radio:
    """Both directions, and the radiated power."""

    def __init__(self, spec: RadioSpec, place: PlacementSpec, seed: int) -> None:
        self._power_w = spec.power
        self._power_for_snr = spec.reading == "power_for_snr" and spec.path_loss is None
        self._terrain_sky: TerrainSky | None = None
        up, down = self._skies(spec, place, seed)
        self.up = self._link(spec, up, seed, "up")
        self.down = self._link(spec, down, seed, "down")
        self.up_hz = spec.bandwidth
        self.down_hz = spec.bandwidth if spec.downlink.bandwidth is None else spec.downlink.bandwidth
        self.loss = spec.loss
        self.lossless = spec.loss.probability == 0 and spec.loss.outage_threshold is None

    def radiated_w(self, client: int, band_hz: float, at_s: float) -> float:
        """Power that leaves the client's antenna while it sends on this band."""
        if self._terrain_sky is not None:
            return float(self._terrain_sky.power_w(client, np.array([at_s]))[0])
        power_w = self._power_w[client % len(self._power_w)]
        if self._power_for_snr:
            power_w *= self.up.snr(client, band_hz, at_s) * band_hz / REFERENCE_HZ
        return power_w

    def _skies(self, spec: RadioSpec, place: PlacementSpec, seed: int) -> tuple[SteppedSky, SteppedSky]:
        """Up and down, without fading."""
        if spec.path_loss is not None:
            terrain = Terrain(spec.path_loss, Placement(place, seed), spec.carrier, seed)
            loop = spec.power_control
            control = None if loop is None else PowerControl(loop.target, loop.share)
            here_w, there_w = (
                noise_w(REFERENCE_HZ, figure, spec.interference_margin)
                for figure in (spec.noise_figure, spec.downlink.noise_figure)
            )
            self._terrain_sky = TerrainSky(terrain, self._power_w, here_w, control)
            return self._terrain_sky, TerrainSky(terrain, [spec.downlink.power], there_w, None)
        up: SteppedSky
        up = TraceSky(spec.trace) if spec.trace is not None else ConstantSky(spec.snr or [DEFAULT_SNR])
        return up, up if spec.downlink.snr is None else ConstantSky(spec.downlink.snr)

    @staticmethod
    def _link(spec: RadioSpec, sky: SteppedSky, seed: int, direction: str) -> Link:
        if spec.fading is not None and spec.fading.time == "block":
            sky = FadedSky(sky, Fading(spec.fading, spec.carrier, seed, direction))
        return Link(sky, rate_rule(spec), spec.noise_follows_band, spec.patience, counted=sky)


def rate_rule(spec: RadioSpec) -> RateRule:
    """From SNR to bit/s per Hz, averaged over the fading where that is ergodic."""
    ergodic = spec.fading is not None and spec.fading.time == "ergodic"
    return averaged(spec.rate, rice_factor(spec.fading)) if ergodic and spec.fading is not None else spec.rate
