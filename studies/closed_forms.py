"""Published optima in closed form: FEDL's speeds, upload times and local accuracy; a band split under a deadline.

    python -m studies.closed_forms        prints the two published instances of FEDL

FEDL (Tran, Bao, Zomaya, Nguyen, Hong, INFOCOM 2019): N clients upload in turn (TDMA) and compute side by side. With
kappa the price of a second, the objective is (E_com + kappa T_com + ln(1/theta) (E_cmp + kappa T_cmp)) / (1 - theta),
where E_cmp = sum alpha/2 C D f^2 and T_com = sum of the upload times. Each of its three parts has a closed form.
Symbols are the paper's; SI units, nats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import lambertw

Floats = NDArray[np.float64]


class Instance(NamedTuple):
    """Clients and their limits, one value per client where it is an array."""

    cycles: Floats
    """C D: cycles of one local pass over the data."""
    f_min: float
    """Least processor frequency in hertz."""
    f_max: Floats
    """Largest processor frequency in hertz."""
    noise_w: Floats
    """N0/h: noise power over channel gain in watts."""
    nats: float
    """S: size of an upload in nats."""
    band_hz: float
    p_min: float
    """Least radiated power in watts."""
    p_max: float
    alpha: float
    """Effective capacitance."""


class Solution(NamedTuple):
    """The optimum."""

    t_cmp: float
    e_cmp: float
    t_com: float
    e_com: float
    theta: float
    objective: float


def solve(given: Instance, kappa: float) -> Solution:
    """The optimum for the price kappa of a second."""
    t_cmp = _compute_time(given, kappa)
    f = np.clip(given.cycles / t_cmp, given.f_min, given.f_max)
    e_cmp = float((given.alpha / 2 * given.cycles * f**2).sum())
    t = _upload_times(given, kappa)
    rate = given.nats / given.band_hz / t
    e_com = float((t * given.noise_w * np.expm1(rate)).sum())
    t_com = float(t.sum())
    compute, talk = e_cmp + kappa * t_cmp, e_com + kappa * t_com
    eta = compute / (compute + talk)
    # ln(theta) + 1/theta = 1/eta has one root below 1, where the left side falls from infinity to 1
    theta = float(brentq(lambda x: np.log(x) + 1 / x - 1 / eta, 1e-12, 1.0, xtol=1e-16, rtol=1e-15))
    return Solution(t_cmp, e_cmp, t_com, e_com, theta, (talk - np.log(theta) * compute) / (1 - theta))


def _compute_time(given: Instance, kappa: float) -> float:
    """T_cmp: the optimum T of alpha/2 sum CD f(T)^2 + kappa T, f = CD/T within its limits.

    N3 are the clients within their limits; those at f_max cannot be faster than T (N1), those at f_min need not (N2).
    """
    fastest = float((given.cycles / given.f_max).max())
    free = np.ones(len(given.cycles), dtype=np.bool_)
    while True:
        t = max(fastest, float((given.alpha * (given.cycles[free] ** 3).sum() / kappa) ** (1 / 3)))
        still = given.cycles / t > given.f_min
        if (still == free).all() or not still.any():
            return t
        free = still


def _upload_times(given: Instance, kappa: float) -> Floats:
    """tau_n = (S/B) / (1 + W((kappa h/N0 - 1)/e)), within the limits of the power."""
    unit = given.nats / given.band_hz
    free = unit / (1 + lambertw((kappa / given.noise_w - 1) / np.e).real)
    shortest, longest = (unit / np.log1p(p / given.noise_w) for p in (given.p_max, given.p_min))
    return np.asarray(np.clip(free, shortest, longest), dtype=np.float64)


def split_for_energy(nats: Floats, seconds: Floats, noise_w_per_hz: Floats, band_hz: float) -> Floats:
    """Bands in hertz that let every client send its nats in its seconds for the least radiated energy together.

    The band split of Yang, Chen, Saad, Hong, Shikh-Bahaei (IEEE Trans. Wireless Commun. 2021) with deadline and
    processor speeds given; `noise_w_per_hz` is N0/g. Client i radiates n_i b_i t_i (e^z - 1) joules, z = L_i/(t_i b_i),
    and its derivative in b_i equals minus the price of a hertz at the optimum, so z = 1 + W((price/(n_i t_i) - 1)/e).
    """

    def bands(log_price: float) -> Floats:
        z = 1 + lambertw((np.exp(log_price) / (noise_w_per_hz * seconds) - 1) / np.e).real
        return np.asarray(nats / (seconds * z), dtype=np.float64)

    # with an equal band each, somebody would pay this much for a hertz more, and somebody this little
    z = nats * len(nats) / (seconds * band_hz)
    price = np.log(noise_w_per_hz * seconds * (np.exp(z) * (z - 1) + 1))
    found = brentq(lambda one: bands(one).sum() - band_hz, price.min() - 1e-9, price.max() + 1e-9, xtol=1e-14)
    return bands(found)


def radiated_j(nats: Floats, seconds: Floats, noise_w_per_hz: Floats, bands_hz: Floats) -> float:
    """Energy that all clients radiate together."""
    return float((noise_w_per_hz * bands_hz * seconds * np.expm1(nats / (seconds * bands_hz))).sum())


PUBLISHED = Instance(
    np.array([28, 24, 15, 17, 10]) * np.array([42285183.15, 55696563.57, 44570296.31, 54280258.95, 56162908.65]),
    0.3e9,
    np.array([1.15687247, 1.49071420, 1.66966444, 1.00974651, 1.71062029]) * 1e9,
    np.array([5.55452571, 1.76770953, 0.95276861, 0.37525753, 0.14609533]),
    25e3, 1e6, 0.2, 1.0, 2e-28,
)  # fmt: skip
"""The five clients whose solutions for kappa 0.1 and 1 are known."""


def main() -> None:
    for kappa in (0.1, 1.0):
        print(kappa, solve(PUBLISHED, kappa))


if __name__ == "__main__":
    main()
