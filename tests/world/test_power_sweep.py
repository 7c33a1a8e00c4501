"""The sweep of radiated power: the committed curves are the program's, and a linear amplifier is cheapest where theory says."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from studies import power_sweep
from wflsim.units import dbm_to_w
from wflsim.world.fleet.modem import MODEMS

COMMITTED = pd.read_csv(Path(__file__).resolve().parents[2] / "reports/world/power_sweep.csv")


def cheapest_w(modem, gain_per_w):
    """Found by uploads in a world alone, between 0 dBm and the modem's limit."""
    found = minimize_scalar(lambda lg_w: power_sweep.upload(modem, 10**lg_w, gain_per_w)[1], bounds=(-3, math.log10(MODEMS[modem]["max_power"])),
                            method="bounded", options={"xatol": 1e-5})  # fmt: skip
    return 10**found.x


def test_the_least_energy_of_a_linear_amplifier_lies_inside_at_31_6_milliwatts():
    """(1+s) ln(1+s) - s = P_c eta g with g = 1000/W: 31.6 mW for wifi_nic, 15 dBm in the committed sweep."""
    assert 1e3 * cheapest_w("wifi_nic", 1000.0) == pytest.approx(31.6, abs=0.05)
    assert 1e3 * power_sweep.linear_optimum_w("wifi_nic", 1000.0) == pytest.approx(31.6, abs=0.05)
    best = power_sweep.least(COMMITTED).set_index(["gain_per_w", "modem"])
    assert best.loc[(1000.0, "wifi_nic"), ["radiated_dbm", "inside"]].tolist() == [15.0, True]


@pytest.mark.parametrize("modem", ["wifi_phone", "nr_mmwave", "lora", "ble"])
def test_other_linear_amplifiers_follow_the_same_equation(modem):
    """Joules per bit that do not follow the power (nr_mmwave) do not move the optimum."""
    assert cheapest_w(modem, 1000.0) == pytest.approx(power_sweep.linear_optimum_w(modem, 1000.0), rel=2e-3)


def test_the_committed_table_is_what_uploads_cost():
    """Every eleventh point is sent anew; every modem goes from 0 dBm to its own limit."""
    for row in COMMITTED.iloc[::11].itertuples():
        took_s, joules = power_sweep.upload(row.modem, dbm_to_w(row.radiated_dbm), row.gain_per_w)
        assert (1 / took_s, joules) == pytest.approx((row.mbit_per_s, row.j_per_mbit), rel=1e-5)
    ends = COMMITTED.groupby("modem")["radiated_dbm"].agg(["min", "max"])
    assert set(ends.index) == set(MODEMS)
    assert (ends["min"] == 0).all()
    limits = {"wifi_nic": 20, "wifi_phone": 20, "lora": 14, "ble": 8}
    assert ends["max"].to_dict() == {modem: limits.get(modem, 23) for modem in MODEMS}


def test_an_upload_by_hand():
    """wifi_nic at 20 dBm and an SNR of 1 on 1 MHz: 1 Mbit/s, 0.82 W + 0.1 W / 0.1 for a second."""
    assert power_sweep.upload("wifi_nic", 0.1, 10.0) == pytest.approx((1.0, 1.82))
    assert power_sweep.upload("ideal", 0.1, 10.0) == pytest.approx((1.0, 0.1))
