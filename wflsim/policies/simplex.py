"""Exact Euclidean projection onto the simplex with a floor, {lam : lam_i >= floor, sum lam = 1}.

J. Duchi et al., "Efficient projections onto the l1-ball for learning in high dimensions", ICML 2008. With a floor eps
the problem is the same one after lam = eps + u, where u lies on a simplex of radius 1 - N eps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def project(v: Vector, floor: float = 0.0) -> Vector:
    """The nearest point to v with every entry at least `floor` and sum 1."""
    N = len(v)
    radius = 1.0 - N * floor
    if radius < -1e-12:
        raise ValueError(f"floor={floor} leaves no simplex for N={N} clients; it must be below 1/N={1 / N:.3g}")
    if not np.isfinite(v).all():
        return np.full(N, np.nan)  # a loss is not finite; the simulation ends the run and says so
    if radius < 1e-12:  # to rounding, a single point
        return np.full(N, 1 / N)
    # Any constant added to v changes nothing; near its maximum the differences keep all their digits.
    v = v - v.max()
    u = np.sort(v)[::-1]
    kappa = (np.cumsum(u) - radius) / np.arange(1, N + 1)
    rho = np.flatnonzero(u > kappa)[-1]  # the first entry is always above: u_1 - (u_1 - radius) > 0
    lam: Vector = floor + np.maximum(v - kappa[rho], 0.0)
    return lam
