"""Path loss and shadowing: the usual wireless-FL formula, and 3GPP TR 38.901 UMa, UMi and InH.

Distances are in metres on the ground, results in dB; `channel.Terrain` turns them into linear gains at once.
To add a path loss: a spec here with the methods of `LogDistance`, and its name in `PathLoss`.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.units import Metres
from wflsim.world.channel.fading import LIGHT_M_PER_S
from wflsim.world.channel.rates import Floats, by_name

Bools = NDArray[np.bool_]
FIELD_WAVES = 256
"""Plane waves that make up a Gaussian field."""


class Shadow(NamedTuple):
    """Log-normal shadowing: standard deviation in dB, and the distance in metres over which it stays alike."""

    sigma_db: float
    correlation_m: float


class GaussianField:
    """A Gaussian random field over the plane with unit variance and correlation exp(-distance/correlation_m).

    A sum of plane waves whose wave numbers follow the spectrum of that correlation, (1 + (k d)^2)^(-3/2): the value at
    any place is a function of (seed, name, place), without a grid, and neighbours share their shadow.
    """

    def __init__(self, seed: int, name: str, correlation_m: float) -> None:
        self.correlation_m = correlation_m
        rng = stream(seed, "landscape", name)
        # |k| by inversion of its distribution 1 - (1 + (k d)^2)^(-1/2), in strata for an even cover of the spectrum.
        tail = 1 - (rng.permutation(FIELD_WAVES) + rng.random(FIELD_WAVES)) / FIELD_WAVES
        wave_number = np.sqrt(np.maximum(tail**-2.0 - 1, 0.0)) / correlation_m
        direction = rng.uniform(0, 2 * math.pi, FIELD_WAVES)
        self._kx = wave_number * np.cos(direction)
        self._ky = wave_number * np.sin(direction)
        self._phase = rng.uniform(0, 2 * math.pi, FIELD_WAVES)

    def value_at(self, x: Floats, y: Floats) -> Floats:
        """Value of the field, standard normal, at places given in metres."""
        angle = np.multiply.outer(x, self._kx) + np.multiply.outer(y, self._ky) + self._phase
        return np.asarray(math.sqrt(2 / FIELD_WAVES) * np.cos(angle).sum(axis=-1))


class LogDistance(Spec):
    """128.1 + 37.6 lg d_km with 8 dB of shadowing, as in most papers on wireless federated learning."""

    name: Literal["log_distance"]
    at_1km_db: Annotated[float, Field(ge=0, le=300)] = 128.1
    """Path loss in dB at 1 km from the base station."""
    exponent: Annotated[float, Field(gt=0, le=10)] = 3.76
    """Path-loss exponent: ten times as far costs 10 x exponent dB more."""
    sigma_db: Annotated[float, Field(ge=0, le=30)] = 8.0
    """Standard deviation of the shadowing in dB; 0: no shadowing."""
    correlation: Annotated[Metres, Field(ge=0.1)] = 50.0
    """Distance over which shadowing stays alike: its correlation falls by 1/e."""

    def shadow(self, line_of_sight: bool) -> Shadow:
        """Shadowing with line of sight, or without."""
        return Shadow(self.sigma_db, self.correlation)

    def sight_probability(self, ground_m: Floats) -> Floats:
        """Probability of line of sight at these distances; always 1, because the formula does not distinguish."""
        return np.ones_like(ground_m)

    def loss_db(self, ground_m: Floats, sight: Bools, carrier_hz: float) -> Floats:
        """Path loss in dB at these distances, with line of sight or without at each."""
        return self.at_1km_db + 10 * self.exponent * np.log10(ground_m / 1e3)


class _Tr38901(Spec):
    """What the three models of 3GPP TR 38.901, table 7.4.1-1, have in common."""

    base_height: Metres
    """Height of the base station's antenna above the ground."""
    client_height: Metres
    """Height of the clients' antennas above the ground."""

    def distance_m(self, ground_m: Floats) -> Floats:
        """Distance in metres between the antennas."""
        return np.hypot(ground_m, self.base_height - self.client_height)

    def breakpoint_m(self, carrier_hz: float) -> float:
        """Breakpoint distance 4 (h_BS - 1)(h_UT - 1) f/c in metres, with the effective environment height of 1 m."""
        return 4 * (self.base_height - 1) * (self.client_height - 1) * carrier_hz / LIGHT_M_PER_S

    def two_slopes_db(self, ground_m: Floats, carrier_hz: float, at_1m: float, near: float, bend: float) -> Floats:
        """Path loss in dB with line of sight: `near` dB per decade up to the breakpoint, 40 beyond."""
        d, f = self.distance_m(ground_m), carrier_hz / 1e9
        d_bp, dh = self.breakpoint_m(carrier_hz), self.base_height - self.client_height
        far_db = at_1m + 40 * np.log10(d) + 20 * math.log10(f) - bend * math.log10(d_bp**2 + dh**2)
        return np.where(ground_m <= d_bp, at_1m + near * np.log10(d) + 20 * math.log10(f), far_db)


class _Street(_Tr38901):
    """What urban macro and micro cells share: two slopes with line of sight, one without."""

    client_height: Annotated[Metres, Field(gt=1, lt=13)] = 1.5

    shadows: ClassVar[tuple[Shadow, Shadow]]
    """Shadowing with and without line of sight."""
    open_m: ClassVar[float]
    """Distance in metres over which the chance of a line of sight falls by 1/e."""
    los: ClassVar[tuple[float, float, float]]
    """With line of sight: loss at 1 m and 1 GHz in dB, slope in dB per decade, and factor of the breakpoint term."""
    nlos: ClassVar[tuple[float, float, float, float]]
    """Without: loss at 1 m and 1 GHz in dB, dB per decade of distance and of frequency, dB per metre of height."""

    def shadow(self, line_of_sight: bool) -> Shadow:
        return self.shadows[0 if line_of_sight else 1]

    def sight_probability(self, ground_m: Floats) -> Floats:
        d = np.maximum(ground_m, 18.0)
        return 18 / d + np.exp(-d / self.open_m) * (1 - 18 / d)

    def loss_db(self, ground_m: Floats, sight: Bools, carrier_hz: float) -> Floats:
        los_db = self.two_slopes_db(ground_m, carrier_hz, *self.los)
        d, f = self.distance_m(ground_m), carrier_hz / 1e9
        at_1m, decade, frequency, height = self.nlos
        nlos_db = at_1m + decade * np.log10(d) + frequency * math.log10(f) - height * (self.client_height - 1.5)
        return np.where(sight, los_db, np.maximum(los_db, nlos_db))


class Uma(_Street):
    """Urban macro cell of TR 38.901: base stations above the roofs."""

    name: Literal["uma"]
    base_height: Metres = 25.0

    shadows = (Shadow(4.0, 37.0), Shadow(6.0, 50.0))
    open_m = 63.0
    los = (28.0, 22.0, 9.0)
    nlos = (13.54, 39.08, 20.0, 0.6)


class Umi(_Street):
    """Urban micro cell of TR 38.901: base stations below the roofs, in street canyons."""

    name: Literal["umi"]
    base_height: Metres = 10.0

    shadows = (Shadow(4.0, 10.0), Shadow(7.82, 13.0))
    open_m = 36.0
    los = (32.4, 21.0, 9.5)
    nlos = (22.4, 35.3, 21.3, 0.3)


class Inh(_Tr38901):
    """Indoor hotspot of TR 38.901: an open office, up to 150 m."""

    name: Literal["inh"]
    base_height: Metres = 3.0
    client_height: Metres = 1.0

    def shadow(self, line_of_sight: bool) -> Shadow:
        return Shadow(3.0, 10.0) if line_of_sight else Shadow(8.03, 6.0)

    def sight_probability(self, ground_m: Floats) -> Floats:
        near = np.exp(-(np.maximum(ground_m, 5.0) - 5) / 70.8)
        return np.where(ground_m <= 49, near, 0.54 * np.exp(-(ground_m - 49) / 211.7))

    def loss_db(self, ground_m: Floats, sight: Bools, carrier_hz: float) -> Floats:
        d, f = self.distance_m(ground_m), carrier_hz / 1e9
        los_db = 32.4 + 17.3 * np.log10(d) + 20 * math.log10(f)
        nlos_db = 17.3 + 38.3 * np.log10(d) + 24.9 * math.log10(f)
        return np.where(sight, los_db, np.maximum(los_db, nlos_db))


PathLoss = LogDistance | Uma | Umi | Inh
PathLossSpec = Annotated[PathLoss, Field(discriminator="name"), BeforeValidator(by_name)]
