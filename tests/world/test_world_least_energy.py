"""The split of least energy: against an independent solution by scipy, at its limits, and in a world."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.world.access.least_energy import split_for_energy
from wflsim.world.access.makespan import Upload, split_band
from wflsim.world.world import World, WorldSpec

BITS = np.array([2e6, 3e6, 1e6, 2.5e6, 1.5e6])
READY_S = np.array([0.1, 0.3, 0.5, 0.2, 0.4])
GAIN_HZ = np.array([1.0, 30.0, 5.0, 100.0, 2.0]) * 1e6
"""SNR times band of each client: it halves on twice the band."""
POWERS_W = np.array([0.3, 1.0, 0.5, 2.0, 0.8])
BAND_HZ = 1e7


def rates(band_hz, fixed=False):
    gain = GAIN_HZ / (1e6 if fixed else band_hz)
    return band_hz * np.log2(1 + gain)


def uploads(fixed=False):
    def rate(i):
        return lambda hz: float(rates(np.full(5, hz), fixed)[i])

    return [Upload(BITS[i], READY_S[i], rate(i)) for i in range(5)]


@pytest.mark.parametrize("fixed", [False, True], ids=["noise follows the band", "the SNR holds on any band"])
@pytest.mark.parametrize("deadline_s", [math.inf, 3.0, 1.9], ids=str)
def test_five_clients_equal_an_independent_solution_by_scipy(deadline_s, fixed):
    ours = np.array(split_for_energy(uploads(fixed), POWERS_W, BAND_HZ, deadline_s))

    def energy(share):
        return float(np.sum(POWERS_W * BITS / rates(share * BAND_HZ, fixed)))

    limits = [{"type": "eq", "fun": lambda share: share.sum() - 1}]
    if deadline_s < math.inf:
        left_s = deadline_s - READY_S
        limits.append({"type": "ineq", "fun": lambda share: (rates(share * BAND_HZ, fixed) * left_s - BITS) / 1e6})
        assert np.all(READY_S + BITS / rates(ours, fixed) <= deadline_s * (1 + 1e-9))
    start = np.array(split_band(uploads(fixed), BAND_HZ)) / BAND_HZ
    found = minimize(energy, start, bounds=[(1e-4, 1)] * 5, constraints=limits, method="SLSQP", options={"ftol": 1e-15, "maxiter": 2000})
    assert ours.sum() == pytest.approx(BAND_HZ)
    assert energy(ours / BAND_HZ) == pytest.approx(found.fun, rel=1e-6)
    assert ours / BAND_HZ == pytest.approx(found.x, abs=1e-3)


def test_at_fixed_efficiency_the_bands_follow_the_square_root_of_the_joules():
    """P L/(e b) is least under a common band where b is in proportion to sqrt(P L/e)."""
    ours = np.array(split_for_energy(uploads(fixed=True), POWERS_W, BAND_HZ, math.inf))
    shares = np.sqrt(POWERS_W * BITS / np.log2(1 + GAIN_HZ / 1e6))
    assert ours == pytest.approx(BAND_HZ * shares / shares.sum(), rel=1e-6)


def test_a_deadline_that_cannot_be_met_is_the_least_makespan():
    for deadline_s in (0.2, 0.45, 0.55):
        assert split_for_energy(uploads(), POWERS_W, BAND_HZ, deadline_s) == split_band(uploads(), BAND_HZ)
    assert split_for_energy(uploads()[:1], POWERS_W[:1], BAND_HZ, 1.0) == [BAND_HZ]


ORDERS = [Order(client, 0, 0, 0, 0, 0, 2 * 10**6, 0, 0, 0) for client in range(4)]


def sent(access, **cell):
    """Joules while sending, and the end of each upload, of four clients of unequal power and SNR."""
    devices = [{"circuit_power": watts} for watts in (0.1, 2.0, 0.5, 0.1)]
    radio = {"snr": ["20 dB", "10 dB", "0 dB", "5 dB"], "reading": "snr_at_1mhz", "bandwidth": "2 MHz"}
    world = World(WorldSpec.model_validate({"radio": radio, "devices": devices, "cell": {"access": access, **cell}}), 4, 0)
    world.gather(ORDERS, None)
    legs = [leg for leg in world.take_legs() if leg.activity == "transmit"]
    return sum(leg.energy_j for leg in legs), [leg.end_s for leg in sorted(legs, key=lambda leg: leg.client)]


def test_in_a_world_it_takes_less_energy_than_the_least_makespan_and_keeps_its_deadline():
    soonest_j, soonest_s = sent("makespan")
    free_j, free_s = sent("least_energy")
    bound_j, bound_s = sent("least_energy", deadline=1.05 * max(soonest_s))
    tight_j, tight_s = sent("least_energy", deadline=0.5 * max(soonest_s))
    assert max(free_s) > 1.05 * max(soonest_s)
    assert max(bound_s) <= 1.05 * max(soonest_s) * (1 + 1e-9)
    assert free_j < bound_j < soonest_j
    assert (tight_j, *tight_s) == pytest.approx((soonest_j, *soonest_s))


def test_it_is_refused_for_asynchronous_policies_and_stepped_rates():
    world = World(WorldSpec.model_validate({"cell": {"access": "least_energy"}}), 4, 0)
    with pytest.raises(ScenarioError, match="least_energy plans the uploads of one synchronous phase"):
        world.send(ORDERS)
    with pytest.raises(ValueError, match="smooth rates"):
        WorldSpec.model_validate({"cell": {"access": "least_energy"}, "radio": {"path_loss": "uma", "rate": "cqi"}})
