"""A Gaussian landscape over the plane: unit variance, correlation exp(-distance/d). Neighbours share their shadow.

A sum of plane waves whose wave numbers follow the spectrum of the exponential correlation, (1 + (k d)^2)^(-3/2); so the
value at any place is a function of (seed, name, place), without a grid.
"""

from __future__ import annotations

import math

import numpy as np

from wflsim.rng import stream
from wflsim.world.rates import Floats

WAVES = 256


class Landscape:
    """One such landscape."""

    def __init__(self, seed: int, name: str, correlation_m: float) -> None:
        rng = stream(seed, "landscape", name)
        # |k| by inversion of its distribution 1 - (1 + (k d)^2)^(-1/2), in strata for an even cover of the spectrum.
        tail = 1 - (rng.permutation(WAVES) + rng.random(WAVES)) / WAVES
        wave_number = np.sqrt(np.maximum(tail**-2.0 - 1, 0.0)) / correlation_m
        direction = rng.uniform(0, 2 * math.pi, WAVES)
        self._kx = wave_number * np.cos(direction)
        self._ky = wave_number * np.sin(direction)
        self._phase = rng.uniform(0, 2 * math.pi, WAVES)

    def height(self, x: Floats, y: Floats) -> Floats:
        """Standard normal at each place."""
        angle = np.multiply.outer(x, self._kx) + np.multiply.outer(y, self._ky) + self._phase
        return np.asarray(math.sqrt(2 / WAVES) * np.cos(angle).sum(axis=-1))
