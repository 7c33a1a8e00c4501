"""Path loss: the usual wireless-FL formula, and 3GPP TR 38.901 UMa, UMi and InH with line of sight or without.

Distances in metres on the ground, results in dB; the rest of wflsim turns them into linear gains at once.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from wflsim.units import Metres, Spec
from wflsim.world.fading import LIGHT_M_PER_S
from wflsim.world.rates import Floats, by_name

Bools = NDArray[np.bool_]


class Shadow(NamedTuple):
    """Log-normal shadowing of clients with line of sight, or without."""

    sigma_db: float
    correlation_m: float


class LogDistance(Spec):
    """128.1 + 37.6 lg d_km with 8 dB of shadowing, as in most papers on wireless federated learning."""

    kind: Literal["log_distance"]
    at_1km_db: Annotated[float, Field(ge=0, le=300)] = 128.1
    exponent: Annotated[float, Field(gt=0, le=10)] = 3.76
    sigma_db: Annotated[float, Field(ge=0, le=30)] = 8.0
    correlation: Annotated[Metres, Field(ge=0.1)] = 50.0

    def shadow(self, line_of_sight: bool) -> Shadow:
        return Shadow(self.sigma_db, self.correlation)

    def sight_probability(self, ground_m: Floats) -> Floats:
        """The formula does not distinguish."""
        return np.ones_like(ground_m)

    def loss_db(self, ground_m: Floats, sight: Bools, carrier_hz: float) -> Floats:
        return self.at_1km_db + 10 * self.exponent * np.log10(ground_m / 1e3)


class _Tr38901(Spec):
    base_height: Metres
    client_height: Metres

    def distance_m(self, ground_m: Floats) -> Floats:
        """Between the antennas."""
        return np.hypot(ground_m, self.base_height - self.client_height)

    def breakpoint_m(self, carrier_hz: float) -> float:
        """4 (h_BS - 1)(h_UT - 1) f/c, with the effective environment height of 1 m."""
        return 4 * (self.base_height - 1) * (self.client_height - 1) * carrier_hz / LIGHT_M_PER_S

    def two_slopes_db(self, ground_m: Floats, carrier_hz: float, at_1m: float, near: float, bend: float) -> Floats:
        """Line of sight: `near` dB per decade up to the breakpoint, 40 beyond."""
        d, f = self.distance_m(ground_m), carrier_hz / 1e9
        d_bp, dh = self.breakpoint_m(carrier_hz), self.base_height - self.client_height
        far_db = at_1m + 40 * np.log10(d) + 20 * math.log10(f) - bend * math.log10(d_bp**2 + dh**2)
        return np.where(ground_m <= d_bp, at_1m + near * np.log10(d) + 20 * math.log10(f), far_db)


class Uma(_Tr38901):
    """Urban macro: base stations above the roofs."""

    kind: Literal["uma"]
    base_height: Metres = 25.0
    client_height: Annotated[Metres, Field(gt=1, lt=13)] = 1.5

    def shadow(self, line_of_sight: bool) -> Shadow:
        return Shadow(4.0, 37.0) if line_of_sight else Shadow(6.0, 50.0)

    def sight_probability(self, ground_m: Floats) -> Floats:
        d = np.maximum(ground_m, 18.0)
        return 18 / d + np.exp(-d / 63) * (1 - 18 / d)

    def loss_db(self, ground_m: Floats, sight: Bools, carrier_hz: float) -> Floats:
        los_db = self.two_slopes_db(ground_m, carrier_hz, 28.0, 22.0, 9.0)
        d, f = self.distance_m(ground_m), carrier_hz / 1e9
        nlos_db = 13.54 + 39.08 * np.log10(d) + 20 * math.log10(f) - 0.6 * (self.client_height - 1.5)
        return np.where(sight, los_db, np.maximum(los_db, nlos_db))


class Umi(_Tr38901):
    """Urban micro: street canyons."""

    kind: Literal["umi"]
    base_height: Metres = 10.0
    client_height: Annotated[Metres, Field(gt=1, lt=13)] = 1.5

    def shadow(self, line_of_sight: bool) -> Shadow:
        return Shadow(4.0, 10.0) if line_of_sight else Shadow(7.82, 13.0)

    def sight_probability(self, ground_m: Floats) -> Floats:
        d = np.maximum(ground_m, 18.0)
        return 18 / d + np.exp(-d / 36) * (1 - 18 / d)

    def loss_db(self, ground_m: Floats, sight: Bools, carrier_hz: float) -> Floats:
        los_db = self.two_slopes_db(ground_m, carrier_hz, 32.4, 21.0, 9.5)
        d, f = self.distance_m(ground_m), carrier_hz / 1e9
        nlos_db = 22.4 + 35.3 * np.log10(d) + 21.3 * math.log10(f) - 0.3 * (self.client_height - 1.5)
        return np.where(sight, los_db, np.maximum(los_db, nlos_db))


class Inh(_Tr38901):
    """Indoor hotspot, open office, up to 150 m."""

    kind: Literal["inh"]
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
PathLossSpec = Annotated[PathLoss, Field(discriminator="kind"), BeforeValidator(by_name)]
