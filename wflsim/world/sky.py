"""Skies: where the SNR of every client comes from. Each is a function of (seed, client, time) and keeps no state."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from wflsim.units import db_to_ratio
from wflsim.world.fading import Fading
from wflsim.world.links import Sky
from wflsim.world.path_loss import PathLoss
from wflsim.world.placement import Placement
from wflsim.world.rates import Floats
from wflsim.world.shadowing import Landscape

STEP_M = 2.0
"""Moving clients' path loss and shadow are looked at anew every so many metres."""
SIGHT_CORRELATION_M = 50.0
"""Line of sight changes over distances like this (TR 38.901, spatial consistency)."""


class SteppedSky(Sky, Protocol):
    """A sky that changes at known intervals, on which fading can be laid."""

    @property
    def step_s(self) -> float:
        """The shortest time between two changes; inf for a steady sky."""

    def best(self, client: int) -> float:
        """An SNR that the client does not exceed, on the reference band, for as long as a transfer may take."""


class ConstantSky:
    """The same SNR for ever."""

    steady = True
    step_s = math.inf

    def __init__(self, snr: list[float]) -> None:
        self._snr = snr

    def snr(self, client: int, at_s: Floats) -> Floats:
        return np.full(len(at_s), self._snr[client % len(self._snr)])

    def edges(self, start_s: float, blocks: int) -> Floats:
        return np.array([start_s, math.inf])

    def best(self, client: int) -> float:
        return self._snr[client % len(self._snr)]


class Terrain:
    """Large-scale gain between the base station and each client: path loss, line of sight, shadow."""

    def __init__(self, model: PathLoss, placement: Placement, carrier_hz: float, seed: int) -> None:
        self._model = model
        self._placement = placement
        self._carrier_hz = carrier_hz
        self._sight = Landscape(seed, "sight", SIGHT_CORRELATION_M)
        self._shadows = {sight: model.shadow(sight) for sight in (True, False)}
        self._landscapes = {
            sight: Landscape(seed, f"shadow {sight}", shadow.correlation_m) for sight, shadow in self._shadows.items()
        }
        self.steady = placement.speed_m_per_s == 0
        self.step_s = math.inf if self.steady else STEP_M / placement.speed_m_per_s
        self._steady_gain: dict[int, float] = {}

    def gain(self, client: int, at_s: Floats) -> Floats:
        """Received over radiated power, linear."""
        if not self.steady:
            return self._gain(client, quantised(at_s, self.step_s))
        if client not in self._steady_gain:
            self._steady_gain[client] = float(self._gain(client, np.zeros(1))[0])
        return np.full(len(at_s), self._steady_gain[client])

    def best_gain(self) -> float:
        """Nearest to the base station, in sight, in the light of six sigma."""
        near_m, sight = np.array([self._placement.min_distance_m]), np.ones(1, dtype=np.bool_)
        loss_db = float(self._model.loss_db(near_m, sight, self._carrier_hz)[0])
        return db_to_ratio(6 * max(shadow.sigma_db for shadow in self._shadows.values()) - loss_db)

    def _gain(self, client: int, at_s: Floats) -> Floats:
        x, y = self._placement.position(client, at_s)
        ground_m = self._placement.ground_m(x, y)
        sight = ndtr(self._sight.height(x, y)) < self._model.sight_probability(ground_m)
        loss_db = self._model.loss_db(ground_m, sight, self._carrier_hz)
        for is_sight, shadow in self._shadows.items():
            if shadow.sigma_db > 0 and (sight == is_sight).any():
                loss_db = loss_db + (sight == is_sight) * shadow.sigma_db * self._landscapes[is_sight].height(x, y)
        return np.power(10.0, -loss_db / 10.0)


class TerrainSky:
    """SNR of a radiated power after its way over the terrain."""

    def __init__(self, terrain: Terrain, power_w: list[float], noise_w: float, control: PowerControl | None) -> None:
        self._terrain = terrain
        self._power_w = power_w
        self._noise_w = noise_w
        self._control = control
        self.steady = terrain.steady
        self.step_s = terrain.step_s

    def power_w(self, client: int, at_s: Floats) -> Floats:
        """Radiated."""
        most_w = self._power_w[client % len(self._power_w)]
        if self._control is None:
            return np.full(len(at_s), most_w)
        return self._control.power_w(most_w, self._terrain.gain(client, at_s))

    def snr(self, client: int, at_s: Floats) -> Floats:
        return self.power_w(client, at_s) * self._terrain.gain(client, at_s) / self._noise_w

    def edges(self, start_s: float, blocks: int) -> Floats:
        return np.array([start_s, math.inf]) if self.steady else uniform_edges(start_s, blocks, self.step_s)

    def best(self, client: int) -> float:
        return self._power_w[client % len(self._power_w)] * self._terrain.best_gain() / self._noise_w


class PowerControl:
    """Open loop: the power that would arrive as `target_w` if `share` of the path loss were made up for, in dB."""

    def __init__(self, target_w: float, share: float) -> None:
        self._target_w = target_w
        self._share = share

    def power_w(self, most_w: float, gain: Floats) -> Floats:
        """Never more than the radio has."""
        return np.minimum(most_w, self._target_w * gain**-self._share)


class FadedSky:
    """Fading on top of another sky; both are held constant over a block."""

    steady = False

    def __init__(self, under: SteppedSky, fading: Fading) -> None:
        self._under = under
        self._fading = fading
        self.step_s = min(under.step_s, fading.block_s)
        self.steady = math.isinf(self.step_s)

    def snr(self, client: int, at_s: Floats) -> Floats:
        block_s = np.zeros(len(at_s)) if self.steady else quantised(at_s, self.step_s)
        return self._under.snr(client, block_s) * self._fading.gain(client, block_s)

    def edges(self, start_s: float, blocks: int) -> Floats:
        return np.array([start_s, math.inf]) if self.steady else uniform_edges(start_s, blocks, self.step_s)

    def best(self, client: int) -> float:
        return 10 * self._under.best(client)


def quantised(at_s: Floats, step_s: float) -> Floats:
    """The beginning of the block of each instant; a hair early counts as in time."""
    return np.asarray(np.floor(at_s / step_s + 1e-9) * step_s)


def uniform_edges(start_s: float, blocks: int, step_s: float) -> Floats:
    """`start_s` and the next multiples of the step."""
    edges_s = (np.floor(start_s / step_s + 1e-9) + np.arange(blocks + 1.0)) * step_s
    edges_s[0] = start_s
    return np.asarray(edges_s)


def noise_w(band_hz: float, noise_figure: float, interference: float) -> float:
    """Thermal noise of -174 dBm/Hz over a band, raised by the receiver's figure and a margin for other cells."""
    return db_to_ratio(-174.0) * 1e-3 * band_hz * noise_figure * interference
