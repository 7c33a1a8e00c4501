"""The radio block of a scenario: where the SNR comes from, and what it means for power, band and rate.

Three readings of "SNR and bandwidth" are in use, and they disagree about energy:

    power_fixed     the power is given, and the SNR holds on whatever band is allocated (the paper's figure)
    power_for_snr   the power is whatever attains the SNR on the band; `power` is what 0 dB on 1 MHz takes
    snr_at_1mhz     the power is given, the SNR is quoted on 1 MHz, and noise grows with the band

With `path_loss` the SNR follows from powers, distances and noise, which always grows with the band.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from wflsim.spec import Spec, choices
from wflsim.units import Hertz, Ratio, Seconds, Share, Watts, db_to_ratio
from wflsim.world.bounds import within_db
from wflsim.world.channel.channel import (
    Channel,
    ConstantChannel,
    FadingChannel,
    PathLossChannel,
    PowerControl,
    Terrain,
    noise_w,
)
from wflsim.world.channel.fading import Fading, FadingSpec, averaged, rice_factor
from wflsim.world.channel.link import REFERENCE_HZ, Link
from wflsim.world.channel.loss import LossSpec
from wflsim.world.channel.path_loss import PathLoss, PathLossSpec
from wflsim.world.channel.placement import Placement
from wflsim.world.channel.rates import RateRule, RateSpec, Shannon
from wflsim.world.channel.traces import TraceChannel, TraceSpec

DEFAULT_SNR = 10.0
"""Linear SNR (10 dB) of a scenario that gives none."""
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

_TERRAINS: deque[tuple[Any, Terrain]] = deque(maxlen=8)
"""Terrains of late, each with what it was made of."""


class DownlinkSpec(Spec):
    """The direction from the base station to the clients; what is not given is as on the uplink."""

    snr: Dealt[Ratio] | None = None
    """Constant SNR of the downlink, or a list dealt out to the clients in turn; null: that of the uplink."""
    bandwidth: Hertz | None = None
    """Bandwidth of the downlink; null: that of the uplink."""
    power: Watts = 1.0
    """Power radiated by the base station (by default 30 dBm); has an effect only with path_loss, and is not part of
    the clients' energy."""
    noise_figure: Annotated[Ratio, within_db(-60, 100)] = db_to_ratio(9.0)
    """Noise figure of the clients' receivers."""


class PowerControlSpec(Spec):
    """Open-loop power control of the clients: they radiate target / gain^share, at most radio.power."""

    target: Watts
    """Power that arrives at the base station from a client whose whole path loss is made up for."""
    share: Share = 1.0
    """Share of the path loss in dB that is made up for; 1: all arrive, 0: all send with equal power."""


class RadioSpec(Spec):
    """The radio between clients and base station. The SNR comes from one of snr, path_loss and trace."""

    snr: Dealt[Ratio] | None = None
    """Constant SNR of the uplink, or a list dealt out to the clients in turn; null: 10 dB, unless path_loss or trace
    is given."""
    path_loss: PathLossSpec | None = None
    """Path loss and shadowing from which, with powers, distances and noise, the SNR follows; null: the SNR is given."""
    trace: TraceSpec | None = None
    """Channel trace from which the SNR is read; null: none."""
    reading: Reading = "power_fixed"
    """What a given SNR (snr or trace) means for power and band; `wflsim list reading` describes each."""
    bandwidth: Hertz = 1e6
    """Bandwidth of the uplink: of each client if cell.access is dedicated, of the whole cell if the band is shared."""
    power: Dealt[Watts] = Field(default_factory=lambda: [0.1])
    """Power radiated by a client while it sends, or a list dealt out to the clients in turn."""
    power_control: PowerControlSpec | None = None
    """Power control on the uplink, with path_loss; null: every client radiates `power`."""
    carrier: Annotated[Hertz, Field(ge=1e3, le=1e13)] = 2e9
    """Carrier frequency; TR 38.901 path losses and the Doppler shift of fading depend on it."""
    noise_figure: Annotated[Ratio, within_db(-60, 100)] = db_to_ratio(5.0)
    """Noise figure of the base station's receiver."""
    interference_margin: Annotated[Ratio, within_db(-60, 100)] = 1.0
    """Factor by which interference from other cells raises the noise; by default 0 dB, none."""
    interference: Dealt[Watts] = Field(default_factory=lambda: [0.0])
    """Power of others that arrives at the base station on a band of width `bandwidth` beside the noise, or a list dealt
    out to the clients in turn (by resource block, say). Like noise it is in proportion to the band; by default none."""
    fading: FadingSpec | None = None
    """Small-scale fading on top of the mean SNR; null: none."""
    rate: RateSpec = Shannon()
    """Rate rule: from SNR to bit/s per Hz; by default Shannon's capacity."""
    loss: LossSpec = LossSpec()
    """How uploads fail and are sent again; by default they do not fail."""
    downlink: DownlinkSpec = DownlinkSpec()
    """What differs in the direction from the base station to the clients; by default nothing."""
    patience: Seconds = 10.0
    """How long a transfer may stand still, unable to move a single bit, before it is given up as an outage."""

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
    """The links of both directions, and the power that clients radiate."""

    def __init__(self, spec: RadioSpec, place: Placement, seed: int, power_w: Sequence[float] | None = None) -> None:
        """`power_w`: watts that each client radiates; None: those of the spec."""
        self._power_w = list(spec.power if power_w is None else power_w)
        self._power_for_snr = spec.reading == "power_for_snr" and spec.path_loss is None
        self._path_loss_channel: PathLossChannel | None = None
        up, down = self._channels(spec, place, seed)
        self.mean_up: Channel = up
        """The channel of the uplink, without fading."""
        self.up = self._link(spec, up, seed, "up")
        self.down = self._link(spec, down, seed, "down")
        self.up_hz = spec.bandwidth
        self.down_hz = spec.bandwidth if spec.downlink.bandwidth is None else spec.downlink.bandwidth
        self.loss = spec.loss
        self.lossless = spec.loss.none

    def radiated_w(self, client: int, band_hz: float, at_s: float) -> float:
        """Power in watts that leaves a client's antenna while it sends on this band."""
        if self._path_loss_channel is not None:
            return float(self._path_loss_channel.power_w(client, np.array([at_s]))[0])
        power_w = self._power_w[client % len(self._power_w)]
        if self._power_for_snr:
            power_w *= self.up.snr(client, band_hz, at_s) * band_hz / REFERENCE_HZ
        return power_w

    def most_w(self, client: int) -> float:
        """The most watts that a client may radiate on its own band: those it always does, unless its power follows the
        channel."""
        if self._path_loss_channel is not None:
            return self._power_w[client % len(self._power_w)]
        return self.radiated_w(client, self.up_hz, 0.0)

    def _channels(self, spec: RadioSpec, place: Placement, seed: int) -> tuple[Channel, Channel]:
        """The channels of uplink and downlink, without fading."""
        if spec.path_loss is not None:
            terrain = _terrain(spec.path_loss, place, spec.carrier, seed)
            loop = spec.power_control
            control = None if loop is None else PowerControl(loop.target, loop.share)
            here_w, there_w = (
                noise_w(REFERENCE_HZ, figure, spec.interference_margin)
                for figure in (spec.noise_figure, spec.downlink.noise_figure)
            )
            heard_w = [here_w + others_w * REFERENCE_HZ / spec.bandwidth for others_w in spec.interference]
            self._path_loss_channel = PathLossChannel(terrain, self._power_w, heard_w, control)
            return self._path_loss_channel, PathLossChannel(terrain, [spec.downlink.power], [there_w], None)
        up: Channel
        up = TraceChannel(spec.trace) if spec.trace is not None else ConstantChannel(spec.snr or [DEFAULT_SNR])
        return up, up if spec.downlink.snr is None else ConstantChannel(spec.downlink.snr)

    @staticmethod
    def _link(spec: RadioSpec, channel: Channel, seed: int, direction: str) -> Link:
        if spec.fading is not None and spec.fading.time == "block":
            channel = FadingChannel(channel, Fading(spec.fading, spec.carrier, seed, direction))
        return Link(channel, rate_rule(spec), spec.noise_follows_band, spec.patience)


def _terrain(model: PathLoss, place: Placement, carrier_hz: float, seed: int) -> Terrain:
    """The terrain of a cell, with the gains that it has computed; the latest are kept, because worlds that differ in
    power or band share it."""
    asked = model, place.causes, carrier_hz, seed
    for known, terrain in list(_TERRAINS):
        if known == asked:
            return terrain
    terrain = Terrain(model, place, carrier_hz, seed)
    _TERRAINS.append((asked, terrain))
    return terrain


def rate_rule(spec: RadioSpec) -> RateRule:
    """The rate rule of a radio, averaged over the fading where that is ergodic."""
    ergodic = spec.fading is not None and spec.fading.time == "ergodic"
    return averaged(spec.rate, rice_factor(spec.fading)) if ergodic and spec.fading is not None else spec.rate
