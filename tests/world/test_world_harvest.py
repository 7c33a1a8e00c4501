"""Harvest and carbon: energy is conserved, empty batteries recover, and grams follow the time of day."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from pydantic import ValidationError
from test_world_books import expected_power_w, resting_j

from wflsim.errors import Exhausted, ScenarioError
from wflsim.exchange import Order
from wflsim.world.fleet.carbon import CarbonSpec, intensity_of
from wflsim.world.fleet.harvest import DiurnalHarvest, FileHarvest, harvest_of
from wflsim.world.fleet.series import FileSeries, Series, series_of
from wflsim.world.spec import WorldSpec, influences, remarks
from wflsim.world.world import World

CLIENTS = 4


def order(client, s, up=60_000, samples=120):
    return Order(client, s, 0, 0, 20_000, 3_000, up, samples, samples, up, 5, 5)


def random_fleet(dice: Random, power_file: str) -> WorldSpec:
    device = {
        "cycles_per_sample": dice.choice([1e5, 4e6]), "kappa": dice.choice([1e-28, 3e-27]), "frequency": 1e9, "compute_idle_power": dice.choice([0.0, 0.2]),
        "step_overhead": dice.choice([0.0, 0.02]), "listen_power": dice.choice([0.01, 0.3]), "sleep_power": dice.choice([0.0, 0.05]),
        "receive_energy_per_bit": dice.choice([0.0, 5e-8]), "transmit_energy_per_bit": dice.choice([0.0, 4e-7]), "wake": dice.choice([0.0, 0.1]), "wake_power": 1.2,
        "tail": dice.choice([0.0, 0.4]), "tail_power": 0.7, "battery": dice.choice([0.3, 1.0, 5.0]), "dropout": dice.choice([0.0, 0.2]), "spread": dice.choice([0.0, 0.5]),
    }  # fmt: skip
    harvest = dice.choice([
        None, {"name": "constant", "power": dice.choice([0.02, 0.5, 4.0])}, {"name": "diurnal", "peak": 2.0, "sunrise": 0},
        {"name": "file", "file": power_file, "column": "w", "scale": dice.choice([0.1, 1.0]), "start": dice.choice([0.0, 2.5])},
    ])  # fmt: skip
    if harvest:
        device["harvest"] = harvest
    if dice.random() < 0.3:
        device["availability"] = {"name": "churn", "stay": "2 s", "away": "1 s"}
    server = {"idle": dice.choice(["participants", "all"]), "aggregation": dice.choice([0.0, 0.7, 30.0])}
    if dice.random() < 0.5:
        server["deadline"] = dice.choice([0.3, 1.0])
    access = dice.choice(["dedicated", "tdma"])
    kinds = [device, {"share": 0.5, "battery": 2.0, "harvest": {"name": "constant", "power": 0.3}}][: dice.choice([1, 2])]
    fleet = {"fleet": {}} if dice.random() < 0.5 else {}
    return WorldSpec.model_validate({"radio": {"snr": ["3 dB", "10 dB"], "bandwidth": "200 kHz"}, "cell": {"access": access}, "devices": kinds, "server": server, **fleet})


def lived(spec, seed, rounds=5):
    w, legs = World(spec, CLIENTS, seed), []
    try:
        for s in range(rounds):
            w.gather([order(client, s) for client in w.eligible()], None)
            w.end_round()
            legs += w.take_legs()
    except Exhausted:
        legs += w.take_legs()
    return w, legs


@pytest.fixture(scope="module")
def power_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("power") / "w.csv"
    path.write_text("time,w\n0,0.5\n1,-3\n2,4\n2.5,0\n4,1.5\n")
    return str(path)


def test_energy_is_conserved_in_300_random_fleets(power_file):
    """Legs add up to what the battery has lost plus what it has taken in; what it has not taken in is listed apart."""
    died = revived = spilled = 0
    for number in range(300):
        spec = random_fleet(Random(number), power_file)
        w, legs = lived(spec, number)
        for device in w._devices:
            meter, kind = device.meter, spec.devices[device.traits.kind]
            meter.pass_time(9, w.now_s)
            legs += w.take_legs()
            own = [leg for leg in legs if leg.client == device.client]
            drawn_j = math.fsum(leg.energy_j for leg in own)
            assert drawn_j == pytest.approx(kind.battery - meter.left_j + meter.harvested_j, abs=1e-9), number
            assert -1e-9 <= meter.left_j <= kind.battery + 1e-9
            came_j = 0.0 if device.traits.harvest is None else device.traits.harvest.total(0.0, w.now_s)
            assert meter.harvested_j + meter.spilled_j == pytest.approx(came_j, abs=1e-9), number
            check_states(own, kind, number)
            dead = [leg.end_s for leg in own if leg.outcome == "dead"]
            died += bool(dead)
            revived += bool(dead) and any(leg.start_s > dead[0] for leg in own)
            spilled += meter.spilled_j > 0
    assert (died > 100, revived > 50, spilled > 50) == (True, True, True), (died, revived, spilled)


def check_states(own, kind, number):
    """At every instant one activity, beside computing and waiting perhaps a tail; and each leg draws what both states do."""
    edges = sorted({at_s for leg in own for at_s in (leg.start_s, leg.end_s)})
    for start_s, end_s in pairwise(edges):
        if end_s - start_s < 1e-9:
            continue
        middle_s = (start_s + end_s) / 2
        now = [leg.activity for leg in own if leg.start_s < middle_s < leg.end_s]
        assert len([what for what in now if what != "tail"]) <= 1, number
        assert now.count("tail") <= 1, number
        assert "tail" not in now or not {"receive", "transmit"} & set(now), number
    for leg in own:
        per_bit_j = {"receive": kind.receive_energy_per_bit, "transmit": kind.transmit_energy_per_bit}.get(leg.activity, 0.0) * leg.bits
        expected_j = expected_power_w(leg, kind, 0.1) * (leg.end_s - leg.start_s) + per_bit_j
        rests = [resting_j(leg, own, kind.model_copy(update={"listen_power": rest_w})) for rest_w in (kind.listen_power, kind.sleep_power)]
        slack = 1e-9 + (per_bit_j + kind.transmit_energy_per_bit if leg.outcome != "ok" else 0.0)
        assert any(abs(leg.energy_j - expected_j - rest_j) <= slack for rest_j in rests), (number, leg)


def test_a_battery_that_was_empty_works_again_at_5_percent():
    """By hand: 1 J, drained by 2 W of computing in 0.5 s; 0.01 W fill it to 0.05 J in five seconds."""
    device = {"cycles_per_sample": 1e9, "frequency": 1e9, "kappa": 2e-27, "battery": 1.0, "harvest": {"name": "constant", "power": 0.01}}
    w = World(WorldSpec.model_validate({"devices": device}), 1, 0)
    w.gather([Order(0, 0, 0, 0, 0, 0, 1000, 9, 9, 0, 1, 1)], None)
    (leg,) = w.take_legs()
    death_s = 1 / (2 - 0.01)
    assert (leg.activity, leg.outcome, leg.end_s) == ("compute", "dead", pytest.approx(death_s))
    assert leg.energy_j == pytest.approx(2 * death_s)
    assert w.eligible() == [0]
    assert w.now_s == pytest.approx(death_s + 5)
    w.end_round()
    assert w.take_harvest() == (pytest.approx(0.01 * w.now_s), 0.0)


def test_without_harvest_an_empty_battery_is_the_end():
    w = World(WorldSpec.model_validate({"devices": {"cycles_per_sample": 1e9, "kappa": 2e-27, "battery": 1.0}}), 1, 0)
    w.gather([Order(0, 0, 0, 0, 0, 0, 1000, 9, 9, 0, 1, 1)], None)
    with pytest.raises(Exhausted, match="1 have an empty battery"):
        w.eligible()
    assert w.take_harvest() is None


def test_a_full_battery_spills():
    device = {"battery": 1.0, "harvest": {"name": "constant", "power": 0.5}, "cycles_per_sample": 0}
    w = World(WorldSpec.model_validate({"devices": device, "server": {"aggregation": "10 s"}, "radio": {"snr": "20 dB"}}), 1, 0)
    w.gather([order(0, 0)], None)
    w.end_round()
    drawn_j = sum(leg.energy_j for leg in w.take_legs())
    assert w.take_harvest() == (pytest.approx(drawn_j), pytest.approx(0.5 * w.now_s - drawn_j))


def test_sleeping_devices_run_dry_at_night_and_return_in_the_morning():
    """Idle time counts: 0.1 W empty 1080 J three hours after midnight; from six on the sun fills 5 % (54 J)."""
    device = {"sleep_power": 0.1, "battery": 1080.0, "harvest": {"name": "diurnal", "peak": "1 W"}}
    w = World(WorldSpec.model_validate({"devices": device, "server": {"idle": "all", "aggregation": "4 h"}}), 1, 0)
    w.gather([order(0, 0)], None)
    w.end_round()
    idle = w.take_legs()[-1]
    assert (idle.activity, idle.outcome, round(idle.end_s / 3600, 2)) == ("idle", "dead", 3.0)
    w.eligible()
    sun = harvest_of(DiurnalHarvest(name="diurnal", peak=1.0))
    assert sun.total(0, w.now_s) == pytest.approx(54)
    assert 6 * 3600 < w.now_s < 7 * 3600


def brute(series, start_s, end_s):
    steps = np.linspace(start_s, end_s, 200_001)
    return float(np.mean([series.at(float(at_s)) for at_s in (steps[1:] + steps[:-1]) / 2])) * (end_s - start_s)


@pytest.mark.parametrize("shift_s", [0.0, 3.3, 25.0])
def test_series_sums_and_instants(shift_s):
    series = Series([0, 1, 4, 5], [2.0, 0.0, 3.0, 1.0], 7.0, shift_s)
    for start_s, end_s in ((0, 1.5), (2.2, 30.1), (6.9, 7.1), (14, 14)):
        assert series.total(start_s, end_s) == pytest.approx(brute(series, start_s, end_s), abs=2e-3)
        assert series.mean(start_s, end_s) == pytest.approx(series.total(start_s, end_s) / (end_s - start_s) if end_s > start_s else series.at(start_s))
        for amount in (0.5, 3.0, 100.0):
            at_s = series.reaches_s(start_s, amount)
            assert series.total(start_s, at_s) == pytest.approx(amount)
            assert series.total(start_s, at_s - 1e-6) < amount
    at_s, seen = 0.0, []
    while at_s < 14:
        seen.append(series.at(at_s))
        at_s = series.changes_s(at_s)
    assert len(seen) >= 8
    assert all(one != two for one, two in pairwise(seen))
    assert Series([0], [0.0], 9.0).reaches_s(0, 1) == math.inf


def test_the_sun_of_a_day_has_its_exact_energy():
    sun = harvest_of(DiurnalHarvest(name="diurnal", peak=3.0, sunrise=5.2 * 3600, sunset=19.9 * 3600))
    assert sun.total(0, 86400) == pytest.approx(2 / math.pi * 3.0 * 14.7 * 3600)
    assert sun.at(5 * 3600) == sun.at(20 * 3600) == 0.0
    assert sun.at(12.55 * 3600) == pytest.approx(3.0, rel=1e-3)
    with pytest.raises(ValidationError, match="must come after sunrise"):
        DiurnalHarvest(name="diurnal", peak=1, sunrise="9 h", sunset="8 h")


def test_grams_by_cause_and_time_of_day(tmp_path):
    (tmp_path / "grid.csv").write_text("UTC time,carbon_intensity\n2021-07-01 00:00:00+00:00,360\n2021-07-01 01:00:00+00:00,720\n")
    blocks = {"devices": {"cycles_per_sample": 1e7}, "server": {"aggregation": "1 h"}}
    def grams(carbon):
        w = World(WorldSpec.model_validate({**blocks, "carbon": carbon}), 1, 0)
        for s in range(2):
            w.gather([order(0, s)], None)
            w.end_round()
        return [(leg.co2e_g, leg.energy_j, leg.round) for leg in w.take_legs()]
    for co2e_g, energy_j, _ in grams({"intensity": "400 g/kWh"}):
        assert co2e_g == pytest.approx(400 * energy_j / 3.6e6)
    for co2e_g, energy_j, s in grams({"file": str(tmp_path / "grid.csv")}):
        assert co2e_g == pytest.approx((360 if s == 0 else 720) * energy_j / 3.6e6)
    late = grams({"file": str(tmp_path / "grid.csv"), "start": "1 h"})
    assert [co2e_g / energy_j * 3.6e6 for co2e_g, energy_j, _ in late] == pytest.approx([720] * 4 + [360] * 4)
    assert grams(None)[0][0] is None


def test_harvested_joules_count_no_grams():
    """A full battery of 100 J gives 10 J in ten seconds and takes in as many of the hundred that come: 100 of 110 J were the grid's."""
    device = {"cycles_per_sample": 1e9, "frequency": 1e9, "kappa": 1e-27, "battery": 100.0, "harvest": {"name": "constant", "power": "10 W"}}
    w = World(WorldSpec.model_validate({"devices": device, "carbon": {"intensity": "360 g/kWh"}}), 1, 0)
    w.gather([Order(0, 0, 0, 0, 0, 0, 1, 10, 10, 0, 1, 1)], None)
    leg = w.take_legs()[0]
    assert leg.co2e_g == pytest.approx(360 * leg.energy_j / 3.6e6 * 100 / 110)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,w\n0,1\n1,x\n", r"w\.csv:3: expected a time and a number"), ("time,w\n0,1\n0,2\n", r"w\.csv:3: its time is not later"),
        ("time,w\n0,1\n", "at least two"), ("time,watts\n0,1\n", r"w\.csv:1: there is no column 'w'; there are time, watts"), ("", "no column"),
        ("time,w\n0,1\nnoon,2\n", r"w\.csv:3"), ("time,w\n0,nan\n1,2\n", r"w\.csv:2: w is nan"), ("time,w\n0,1\n1\n", r"w\.csv:3"),
    ],
)  # fmt: skip
def test_malformed_files_are_refused_with_their_line(tmp_path, text, words):
    (tmp_path / "w.csv").write_text(text)
    with pytest.raises(ValidationError, match=words):
        FileHarvest(name="file", file=str(tmp_path / "w.csv"), column="w")


def test_negative_irradiance_is_zero_and_a_negative_intensity_refused(tmp_path):
    (tmp_path / "w.csv").write_text("DATE,MST,w\n6/1/2023,00:00,-5\n6/1/2023,00:01,7\n")
    held = FileHarvest(name="file", file=str(tmp_path / "w.csv"), column="w", time=["DATE", "MST"], scale=0.1)
    assert harvest_of(held).values == [0.0, pytest.approx(0.7)]
    with pytest.raises(ScenarioError, match=r"w\.csv:2: w is -5"):
        series_of(FileSeries(file=held.file, column="w", time=("DATE", "MST")))
    with pytest.raises(ValidationError, match="must not be negative"):
        CarbonSpec(file=held.file, column="w", time=["DATE", "MST"])


def test_what_contradicts_is_refused_and_what_is_read_is_said(power_file):
    with pytest.raises(ValidationError, match="harvest fills a battery, and there is none"):
        WorldSpec.model_validate({"devices": {"harvest": {"name": "constant", "power": 1}}})
    for wrong in ({}, {"intensity": 400, "file": power_file}):
        with pytest.raises(ValidationError, match="one of the two"):
            CarbonSpec.model_validate(wrong)
    spec = WorldSpec.model_validate({"devices": {"battery": 2e3, "harvest": {"name": "file", "file": power_file, "column": "w"}}, "carbon": {"intensity": 1}})
    assert "devices.harvest.file w.csv, w: 5 values over 0.001389 h, -3 to 4, mean 0.2; it starts over at its end" in remarks(spec)
    assert influences(spec) == ["devices.battery"]  # carbon cannot change what is learnt
    assert intensity_of(CarbonSpec(intensity="1000 lb/MWh")).at(0) * 3.6e6 == pytest.approx(453.59237)
