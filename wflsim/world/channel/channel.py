"""The channel: the SNR of every client as a function of time.

A channel is a function of (seed, client, time) and keeps no state, so every policy meets the same one and a resumed run
meets it again. It is constant between the instants that `changes_s` names, so the duration of a transfer is a
cumulative sum, without an event per fading block. SNRs are linear; where noise grows with the band they hold on
`link.REFERENCE_HZ` of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from wflsim.units import db_to_ratio
from wflsim.world.channel.fading import Fading
from wflsim.world.channel.path_loss import GaussianField, PathLoss
from wflsim.world.channel.placement import Placement
from wflsim.world.channel.rates import Floats

STEP_M = 2.0
"""Metres after which path loss and shadowing of a moving client are computed anew."""
SIGHT_CORRELATION_M = 50.0
"""Distance in metres over which line of sight changes (TR 38.901, spatial consistency)."""


class Channel(Protocol):
    """The SNR of every client in one direction, whoever sends when."""

    @property
    def steady(self) -> bool:
        """Whether nothing ever changes, so that one sample is enough."""

    @property
    def step_s(self) -> float:
        """The shortest time in seconds between two changes; inf for a steady channel."""

    def snr(self, client: int, at_s: Floats) -> Floats:
        """Linear SNR of a client at these instants, on the reference band."""

    def changes_s(self, start_s: float, blocks: int) -> Floats:
        """`start_s`, then the next `blocks` instants at which the SNR of any client may change."""

    def highest_snr(self, client: int) -> float:
        """A linear SNR on the reference band that the client does not exceed for as long as a transfer may take."""


class ConstantChannel:
    """The same SNR at all times; the list of SNRs is dealt out to the clients in turn."""

    steady = True
    step_s = math.inf

    def __init__(self, snr: list[float]) -> None:
        self._snr = snr

    def snr(self, client: int, at_s: Floats) -> Floats:
        return np.full(len(at_s), self._snr[client % len(self._snr)])

    def changes_s(self, start_s: float, blocks: int) -> Floats:
        return np.array([start_s, math.inf])

    def highest_snr(self, client: int) -> float:
        return self._snr[client % len(self._snr)]


class Terrain:
    """Gain between the base station and each client without fading: path loss, line of sight and shadowing."""

    def __init__(self, model: PathLoss, placement: Placement, carrier_hz: float, seed: int) -> None:
        self._model = model
        self._placement = placement
        self._carrier_hz = carrier_hz
        self._sight = GaussianField(seed, "sight", SIGHT_CORRELATION_M)
        self._shadows = {sight: model.shadow(sight) for sight in (True, False)}
        self._shadow_fields = {
            sight: GaussianField(seed, f"shadow {sight}", shadow.correlation_m)
            for sight, shadow in self._shadows.items()
        }
        self.steady = placement.speed_m_per_s == 0
        self.step_s = math.inf if self.steady else STEP_M / placement.speed_m_per_s
        self._steady_gain: dict[int, float] = {}

    def gain(self, client: int, at_s: Floats) -> Floats:
        """Received over radiated power of a client at these instants, linear."""
        if not self.steady:
            return self._gain(client, block_starts_s(at_s, self.step_s))
        if client not in self._steady_gain:
            self._steady_gain[client] = float(self._gain(client, np.zeros(1))[0])
        return np.full(len(at_s), self._steady_gain[client])

    def highest_gain(self) -> float:
        """The gain at the least distance, in line of sight, with shadowing six standard deviations in its favour."""
        near_m, sight = np.array([self._placement.min_distance_m]), np.ones(1, dtype=np.bool_)
        loss_db = float(self._model.loss_db(near_m, sight, self._carrier_hz)[0])
        return db_to_ratio(6 * max(shadow.sigma_db for shadow in self._shadows.values()) - loss_db)

    def gain_between(self, one: int, two: int, at_s: Floats) -> Floats:
        """Received over radiated power between two clients at these instants, linear; the same in both directions.

        What lies around either end counts alike: line of sight and shadow follow the normalised sum of the fields at
        both, which has unit variance whatever the distance.
        """
        at_s = np.zeros_like(at_s) if self.steady else block_starts_s(at_s, self.step_s)
        (x, y), (u, v) = (self._placement.position(client, at_s) for client in (one, two))
        apart_m = np.hypot(x - u, y - v)

        def value_of(field: GaussianField) -> Floats:
            spread = np.sqrt(2 * (1 + np.exp(-apart_m / field.correlation_m)))
            return np.asarray((field.value_at(x, y) + field.value_at(u, v)) / spread)

        return self._gain_over(np.maximum(apart_m, self._placement.min_distance_m), value_of)

    def _gain(self, client: int, at_s: Floats) -> Floats:
        x, y = self._placement.position(client, at_s)
        return self._gain_over(self._placement.ground_m(x, y), lambda field: field.value_at(x, y))

    def _gain_over(self, ground_m: Floats, value_of: Callable[[GaussianField], Floats]) -> Floats:
        """Gain over these distances; `value_of` gives a random field's value for the path."""
        sight = ndtr(value_of(self._sight)) < self._model.sight_probability(ground_m)
        loss_db = self._model.loss_db(ground_m, sight, self._carrier_hz)
        for is_sight, shadow in self._shadows.items():
            if shadow.sigma_db > 0 and (sight == is_sight).any():
                loss_db = loss_db + (sight == is_sight) * shadow.sigma_db * value_of(self._shadow_fields[is_sight])
        return np.power(10.0, -loss_db / 10.0)


class PowerControl:
    """Open-loop power control: makes up for `share` of the path loss in dB, so that at share 1 `target_w` arrives."""

    def __init__(self, target_w: float, share: float) -> None:
        self._target_w = target_w
        self._share = share

    def power_w(self, most_w: float, gain: Floats) -> Floats:
        """Radiated power in watts at these gains, at most `most_w`."""
        return np.minimum(most_w, self._target_w * gain**-self._share)


class TerrainChannel:
    """What channels have in common whose SNR follows from radiated power, terrain and noise."""

    def __init__(self, terrain: Terrain, power_w: list[float], noise_w: list[float]) -> None:
        """`noise_w`: noise and interference in watts on the reference band, dealt out to the clients in turn."""
        self.terrain = terrain
        self.steady = terrain.steady
        self.step_s = terrain.step_s
        self._power_w = power_w
        self._noise_w = noise_w

    def most_w(self, client: int) -> float:
        """Most power in watts that is radiated to or by a client."""
        return self._power_w[client % len(self._power_w)]

    def noise_w(self, client: int) -> float:
        """Noise and interference in watts that a client's transfers meet on the reference band."""
        return self._noise_w[client % len(self._noise_w)]

    def changes_s(self, start_s: float, blocks: int) -> Floats:
        return regular_changes_s(start_s, blocks, self.step_s)

    def highest_snr(self, client: int) -> float:
        return self.most_w(client) * self.terrain.highest_gain() / self.noise_w(client)


class PathLossChannel(TerrainChannel):
    """SNR between the clients and the base station, if need be with power control."""

    def __init__(
        self, terrain: Terrain, power_w: list[float], noise_w: list[float], control: PowerControl | None
    ) -> None:
        super().__init__(terrain, power_w, noise_w)
        self._control = control

    def power_w(self, client: int, at_s: Floats) -> Floats:
        """Power in watts that is radiated to or by a client at these instants."""
        if self._control is None:
            return np.full(len(at_s), self.most_w(client))
        return self._control.power_w(self.most_w(client), self.terrain.gain(client, at_s))

    def snr(self, client: int, at_s: Floats) -> Floats:
        return self.power_w(client, at_s) * self.terrain.gain(client, at_s) / self.noise_w(client)


class FadingChannel:
    """Small-scale fading on top of another channel; both are held constant over a block."""

    def __init__(self, mean: Channel, fading: Fading) -> None:
        self._mean = mean
        self._fading = fading
        self.step_s = min(mean.step_s, fading.block_s)
        self.steady = math.isinf(self.step_s)

    def snr(self, client: int, at_s: Floats) -> Floats:
        block_s = np.zeros(len(at_s)) if self.steady else block_starts_s(at_s, self.step_s)
        return self._mean.snr(client, block_s) * self._fading.gain(client, block_s)

    def changes_s(self, start_s: float, blocks: int) -> Floats:
        return regular_changes_s(start_s, blocks, self.step_s)

    def highest_snr(self, client: int) -> float:
        """Ten times the mean: fading of more than 10 dB in the client's favour does not last."""
        return 10 * self._mean.highest_snr(client)


def block_starts_s(at_s: Floats, step_s: float) -> Floats:
    """The beginning of the block in which each instant lies; an instant a rounding error early is in the next."""
    return np.asarray(np.floor(at_s / step_s + 1e-9) * step_s)


def regular_changes_s(start_s: float, blocks: int, step_s: float) -> Floats:
    """`start_s` and the next multiples of the step; for an infinite step, never again."""
    if math.isinf(step_s):
        return np.array([start_s, math.inf])
    changes_s = (np.floor(start_s / step_s + 1e-9) + np.arange(blocks + 1.0)) * step_s
    changes_s[0] = start_s
    return np.asarray(changes_s)


def noise_w(band_hz: float, noise_figure: float, interference: float) -> float:
    """Noise power in watts on a band: thermal noise of -174 dBm/Hz, times the receiver's figure and a margin for
    interference from other cells."""
    return db_to_ratio(-174.0) * 1e-3 * band_hz * noise_figure * interference
