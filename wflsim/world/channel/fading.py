"""Small-scale fading as a function of (seed, client, time): a sum of plane waves, so any instant can be asked for.

h(t) = sqrt(K/(K+1)) (one direct wave) + sqrt(1/(K+1)) (64 scattered waves from all around, equal power, random phase).
Its power has mean 1; its scattered part has Clarke's autocorrelation J0(2 pi f_D t), f_D = v f_c/c. K = 0 is Rayleigh.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field
from scipy.special import i0e

from wflsim.rng import stream
from wflsim.spec import Spec
from wflsim.units import MetresPerSecond, Ratio, Seconds, db_to_ratio
from wflsim.world.channel.rates import Averaged, Floats, RateRule, by_name

LIGHT_M_PER_S = 299_792_458.0
WAVES = 64
"""Scattered plane waves that make up the channel of a client."""
FASTEST_M_PER_S = 30_000.0
"""Highest speed in m/s that a scenario may give, faster than any satellite."""
NARROW_K = 100.0
"""From this Rice factor on, |h| is so nearly normal that its mean and spread say where to integrate."""
POINTS = 1200
"""Points at which the density of |h|^2 is taken for an average over fading."""


class _Fading(Spec):
    """Keys of either kind of fading."""

    time: Literal["block", "ergodic"] = "block"
    """block: the rate follows the channel, block by block; ergodic: the rate is averaged over all states of it."""
    speed: Annotated[MetresPerSecond, Field(le=FASTEST_M_PER_S)] = 3 / 3.6
    """Speed of the client, or of what moves around it; with radio.carrier it gives the Doppler shift f_D."""
    block: Annotated[Seconds, Field(ge=1e-6)] | None = None
    """How long the channel is held constant; null: the coherence time 0.423/f_D."""


class Rayleigh(_Fading):
    """Fading without a direct path."""

    name: Literal["rayleigh"]


class Rician(_Fading):
    """Fading with a direct path of K times the power of all other paths together."""

    name: Literal["rician"]
    k: Ratio = db_to_ratio(9.0)
    """Rice factor K; by default 9 dB, the mean of line-of-sight clients in TR 38.901 UMa and UMi."""


FadingSpec = Annotated[Rayleigh | Rician, Field(discriminator="name"), BeforeValidator(by_name)]


class Fading:
    """Fading of every client in one direction (`up` or `down`): h(t), and its power |h(t)|^2 with mean 1."""

    def __init__(self, spec: Rayleigh | Rician, carrier_hz: float, seed: int, direction: str) -> None:
        self.doppler_hz = spec.speed * carrier_hz / LIGHT_M_PER_S
        coherence_s = 0.423 / self.doppler_hz if self.doppler_hz > 0 else math.inf
        self.block_s = coherence_s if spec.block is None else spec.block
        self._k = rice_factor(spec)
        self._seed = seed
        self._direction = direction
        self._waves: dict[int, tuple[Floats, Floats]] = {}

    def amplitude(self, client: int, at_s: Floats) -> tuple[Floats, Floats]:
        """Real and imaginary part of h of a client at these instants."""
        omega, phase = self._waves_of(client)
        angle = np.multiply.outer(at_s, omega) + phase
        scattered, direct = math.sqrt(1 / (self._k + 1) / WAVES), math.sqrt(self._k / (self._k + 1))
        weights = np.concatenate(([direct], np.full(WAVES, scattered)))
        return np.cos(angle) @ weights, np.sin(angle) @ weights

    def gain(self, client: int, at_s: Floats) -> Floats:
        """|h|^2 of a client at these instants: the factor on its mean SNR."""
        real, imaginary = self.amplitude(client, at_s)
        return np.asarray(real**2 + imaginary**2)

    def _waves_of(self, client: int) -> tuple[Floats, Floats]:
        """Angular frequency in rad/s and phase of a client's waves, the direct one first."""
        if client not in self._waves:
            rng = stream(self._seed, "fading", self._direction, client)
            # Evenly spread arrival angles with one random rotation: closer to J0 than independent angles.
            angles = (2 * math.pi * np.arange(WAVES) + rng.uniform(-math.pi, math.pi)) / WAVES
            arrival = np.concatenate(([rng.uniform(0, 2 * math.pi)], angles))
            phase = rng.uniform(0, 2 * math.pi, WAVES + 1)
            self._waves[client] = 2 * math.pi * self.doppler_hz * np.cos(arrival), phase
        return self._waves[client]


def rice_factor(spec: Rayleigh | Rician) -> float:
    """Rice factor K, linear; 0 without a direct path."""
    return spec.k if isinstance(spec, Rician) else 0.0


def averaged(rule: RateRule, k: float) -> Averaged:
    """A rate rule averaged over Rician fading, by the trapezoidal rule where the density of |h|^2 is not negligible.

    Up to NARROW_K over ln |h|^2, whose density decays both ways. Above, over |h| within nine standard deviations of the
    direct wave, because the density becomes narrower than any fixed grid and shrinks to the point |h| = 1.
    """
    if k <= NARROW_K:
        gain = np.exp(np.linspace(-24.0, 5.0, POINTS))
        bessel = 2 * np.sqrt(k * (1 + k) * gain)
        weights = gain * np.exp(bessel - k - (1 + k) * gain) * i0e(bessel)
    else:
        direct, sigma = math.sqrt(k / (1 + k)), math.sqrt(0.5 / (1 + k))
        offset = np.linspace(-9.0, 9.0, POINTS)
        amplitude = direct + sigma * offset
        gain = amplitude**2
        weights = amplitude * np.exp(-(offset**2) / 2) * i0e(amplitude * direct / sigma**2)
    return Averaged(rule, gain, weights / weights.sum())
