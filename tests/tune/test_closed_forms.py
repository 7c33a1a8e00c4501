"""FEDL's published rows, and the band split of least energy against an independent solution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from studies.closed_forms import PUBLISHED, radiated_j, solve, split_for_energy

ROWS = {
    0.1: (2.17333502, 0.11372141, 0.36663462, 0.25058024, 0.33907574, 0.97634502),
    1.0: (1.02343616, 0.50694986, 0.27411944, 0.27169898, 0.47680139, 3.2096929),
}


@pytest.mark.parametrize("kappa", ROWS)
def test_the_published_rows_of_fedl(kappa):
    """To 2e-8 of the value, or half of the last digit that is printed."""
    assert tuple(solve(PUBLISHED, kappa)) == pytest.approx(ROWS[kappa], rel=2e-8, abs=5e-9)


def test_no_neighbour_of_fedls_solution_is_cheaper():
    best = solve(PUBLISHED, 1.0)
    compute, talk = best.e_cmp + best.t_cmp, best.e_com + best.t_com
    around = best.theta * np.array([0.99, 1.0, 1.01])
    values = (talk - np.log(around) * compute) / (1 - around)
    assert values.argmin() == 1
    assert values[1] == pytest.approx(best.objective)


def test_the_split_of_five_clients_under_a_deadline_is_the_one_that_scipy_finds():
    """A deadline of 1 s of which computing takes a part; least radiated energy by sequential quadratic programming."""
    nats, band_hz = np.array([2e5, 3e5, 1e5, 2.5e5, 1.5e5]), 1e6
    seconds = 1.0 - np.array([0.1, 0.3, 0.5, 0.2, 0.4])
    noise = np.array([1.0, 0.3, 2.0, 0.7, 5.0]) * 1e-7
    ours = split_for_energy(nats, seconds, noise, band_hz)
    assert ours.sum() == pytest.approx(band_hz, rel=1e-12)

    def energy(share):
        return radiated_j(nats, seconds, noise, share * band_hz)

    limits = {"type": "eq", "fun": lambda share: share.sum() - 1}
    found = minimize(energy, np.full(5, 0.2), bounds=[(1e-3, 1)] * 5, constraints=limits, method="SLSQP", options={"ftol": 1e-15, "maxiter": 1000})
    assert radiated_j(nats, seconds, noise, ours) == pytest.approx(found.fun, rel=1e-6)
    assert ours / band_hz == pytest.approx(found.x, abs=1e-4)
    assert radiated_j(nats, seconds, noise, ours) < 0.999 * energy(np.full(5, 0.2))
