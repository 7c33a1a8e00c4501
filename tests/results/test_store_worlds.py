"""Many worlds around one store: whatever happened before, a run gives the bytes of a run with an empty store.

All of them learn the same as far as they deliver. Some lose orders by a rate of 0 (0 W, no coverage), of which, to make it
hard, the scenario's list of influences is kept from knowing: what happened must decide, not what was promised.
"""

from __future__ import annotations

import json
import random
import warnings

import numpy as np
import pandas as pd
import pytest
from alone import run_alone

from wflsim.errors import ReplayRefused, ScenarioError
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run, why_live
from wflsim.experiments.sweep import run_sweep
from wflsim.results.folders import status
from wflsim.results.store import Store
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.simulation.stop import Stop
from wflsim.tune.study import study

POLICIES = ["{name: fedavg, m: 2, tau: 2, eta: 0.1}", "{name: drdm, m: 3, tau: 2, eta: 0.1}"]
BEYOND_FLOATS = {"path_loss": {"name": "log_distance", "at_1km_db": 300, "exponent": 10, "sigma_db": 0}, "power": "1e-300 W", "downlink": {"power": "1e-300 W"}}
"""With clients at a million kilometres, 1e-300 W arrive as 1e-390 W, which is 0: an outage that no key announces."""
FAR = {"radius": "1e9 m", "distances": ["1e9 m"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tiny data, and channel traces with and without holes."""
    folder = tmp_path_factory.mktemp("worlds")
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.normal(size=(60, 4)) + 2 * np.eye(3, 4)[y]).astype(np.float32)
    np.savez(folder / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    for number in range(4):
        snr_db = rng.uniform(-5, 25, (6, 4))
        if number % 2:
            snr_db[rng.integers(0, 6), rng.integers(0, 4)] = -200
        lines = [",".join(f"{value:.2f}" for value in (0.4 * row, *snr_db[row])) for row in range(6)]
        (folder / f"walk{number}.csv").write_text("time_s,client_0,client_1,client_2,client_3\n" + "\n".join(lines) + "\n")
    return folder


def scenario_in(place, world, rounds=3, more=""):
    text = f"""
name: w
clients: 4
data: {{name: npz, path: {place / "data.npz"}}}
partition: {{name: iid}}
model: {{name: linear}}
train: {{batch: 8}}
policies: [{", ".join(POLICIES)}]
stop: {{rounds: {rounds}}}
{more}
"""
    source = parse(text, str(place / "w.yaml"))
    source.data |= json.loads(json.dumps(world))
    return build(source)


def random_world(rng, place):
    """A world in which something may go wrong, or nothing."""
    radio = {"bandwidth": rng.choice(["2 kHz", "20 kHz"]), "patience": rng.choice(["0.3 s", "2 s"])}
    cell = {"access": rng.choice(["dedicated", "tdma", "ofdma", "makespan"])}
    kind = rng.random()
    if kind < 0.3:
        radio["snr"] = [rng.choice(["0 linear", "-20 dB", "0 dB", "10 dB", "20 dB"]) for _ in range(rng.randint(1, 4))]
        radio["reading"] = rng.choice(["power_fixed", "snr_at_1mhz"])
    elif kind < 0.5:
        radio["trace"] = {"file": f"walk{rng.randrange(4)}.csv"}
    elif kind < 0.53:
        radio, cell = {**radio, **BEYOND_FLOATS}, {**cell, **FAR}
    else:
        radio["path_loss"] = rng.choice(["uma", "umi", "log_distance"])
        radio["power"] = [rng.choice(["0 W", "100 mW", "1 W", "1 W"]) for _ in range(rng.randint(1, 4))]
        cell["speed"] = rng.choice(["0 m/s", "3 km/h"])
    radio["rate"] = rng.choice(["shannon", "shannon", "gap", "cqi", {"name": "fixed", "efficiency_bps_per_hz": 0.5}])
    if rng.random() < 0.3 and "trace" not in radio:
        radio["fading"] = rng.choice(
            [{"name": "rician", "k": "80 dB", "time": "ergodic"}, {"name": "rayleigh", "time": "ergodic"},
             {"name": "rayleigh", "block": "200 ms"}]
        )  # fmt: skip
    world = {"radio": radio, "cell": cell, "devices": {"cycles_per_sample": rng.choice([1e5, 1e7])}, "server": {}}
    if rng.random() < 0.1:
        radio["loss"] = {"probability": 0.3}
    if rng.random() < 0.1:
        world["server"] = {"deadline": "0.5 s"}
    if rng.random() < 0.1:
        world["devices"]["battery"] = rng.choice(["0.05 J", "100 J"])
    return world


def outcome_of(scenario, policy, folder):
    """The bytes of all tables, or the sentence with which the run was refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run_alone(scenario, policy, 0, folder)
    except ScenarioError as error:
        return str(error)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".csv", ".jsonl")}


def around_one_store(count, seed, place, tmp_path, monkeypatch):
    monkeypatch.setattr("wflsim.world.spec._silence", lambda radio: {}, raising=False)
    rng = random.Random(seed)
    scenarios = []
    while len(scenarios) < count:
        try:
            scenarios.append((scenario_in(place, random_world(rng, place)), rng.randrange(2)))
        except ScenarioError:
            continue  # blocks that do not fit together
    expected, lossy, unannounced = [], 0, 0
    for number, (scenario, policy) in enumerate(scenarios):
        monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / f"empty{number}"))
        expected.append(outcome_of(scenario, policy, tmp_path / f"alone{number}"))
        if isinstance(expected[-1], dict):
            rows = [line.split(",") for line in expected[-1]["rounds.csv"].decode().splitlines()[1:]]
            failed = any(row[3] != row[4] for row in rows)
            lossy += failed
            unannounced += failed and why_live(scenario.world, scenario.policies[policy]) is None
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "shared"))
    runs = [(number, turn) for number in range(count) for turn in range(2)]
    rng.shuffle(runs)
    replayed = 0
    for number, turn in runs:
        folder = tmp_path / f"shared{number}-{turn}"
        assert outcome_of(*scenarios[number], folder) == expected[number], (number, scenarios[number][0].world)
        replayed += str(status(folder).get("mode")).startswith("replay")
    return lossy, unannounced, replayed


def test_thirty_random_worlds_around_one_store(place, tmp_path, monkeypatch):
    lossy, unannounced, replayed = around_one_store(30, 1, place, tmp_path, monkeypatch)
    assert lossy >= 5
    assert unannounced >= 1
    assert replayed >= 10


@pytest.mark.slow
def test_three_hundred_random_worlds_around_one_store(place, tmp_path, monkeypatch):
    lossy, unannounced, replayed = around_one_store(300, 2, place, tmp_path, monkeypatch)
    assert lossy >= 50
    assert unannounced >= 5
    assert replayed >= 100


GOOD = {"radio": {"path_loss": {"name": "log_distance", "sigma_db": 0}, "power": "1 W", "patience": "0.3 s"}, "cell": {"distances": ["100 m"]}}
SILENT = {"radio": {**BEYOND_FLOATS, "patience": "0.3 s"}, "cell": FAR}


def test_a_world_that_loses_orders_unannounced_leaves_nothing_in_the_store(place, tmp_path):
    silent, good = scenario_in(place, SILENT), scenario_in(place, GOOD)
    assert why_live(silent.world, silent.policies[0]) is None, "this world announces no influence: what happens must count"
    outcome_of(silent, 0, tmp_path / "silent")
    assert Store().entries() == []
    mode = status(tmp_path / "silent")["mode"]
    assert mode.startswith("live: trained in its own world, because in round 0 the order of client ")
    assert mode.endswith(" was lost")
    outcome_of(good, 0, tmp_path / "good")
    assert status(tmp_path / "good")["mode"].startswith("live: trained in its own world; nothing in this world")


def test_a_good_trace_is_not_replayed_in_a_world_that_loses_orders(place, tmp_path, monkeypatch):
    """A trace of 5 good rounds is in the store; the world in which orders fail is trained live all the same."""
    outcome_of(scenario_in(place, GOOD, 5), 0, tmp_path / "good")
    kept = {entry.name: entry.rounds for entry in Store().entries()}
    silent = scenario_in(place, SILENT)
    shared = outcome_of(silent, 0, tmp_path / "silent")
    assert status(tmp_path / "silent")["mode"].startswith("live: trained in its own world, because in round 0")
    assert {entry.name: entry.rounds for entry in Store().entries()} == kept, "the good trace stays as it was"
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "empty"))
    assert shared == outcome_of(silent, 0, tmp_path / "alone")


def test_orders_that_fail_late_part_from_the_store_in_that_round(place, tmp_path, monkeypatch):
    """Rounds before the hole in the coverage come from the store, those after it from training; bytes as without a store."""
    columns = "\n".join(f"{t},{-200 if t >= 0.8 else 10},10,10,10" for t in (0, 0.2, 0.4, 0.6, 0.8, 1000))
    (place / "hole.csv").write_text("time_s,client_0,client_1,client_2,client_3\n" + columns + "\n")
    world = {"radio": {"trace": {"file": "hole.csv"}, "bandwidth": "2 kHz", "patience": "0.2 s"}}
    monkeypatch.setattr("wflsim.world.spec._silence", lambda radio: {})  # as if the hole were not seen beforehand
    outcome_of(scenario_in(place, GOOD, 12), 1, tmp_path / "good")
    scenario = scenario_in(place, world, 12)
    shared = outcome_of(scenario, 1, tmp_path / "hole")
    mode = status(tmp_path / "hole")["mode"]
    parted = int(mode.split("in round ")[1].split()[0])
    assert mode.startswith(f"live: trained in its own world, because in round {parted} the order of client 0 was lost")
    assert 0 < parted < 11
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "empty"))
    assert shared == outcome_of(scenario, 1, tmp_path / "alone")


@pytest.mark.parametrize("stored", [3, 6, 12])
def test_a_run_that_parted_from_the_store_is_resumed_with_the_same_bytes(place, tmp_path, monkeypatch, stored):
    """Interrupted after every round, checkpoint or not, with a good trace of few or many rounds in the store."""
    columns = "\n".join(f"{t},{-200 if 0.8 <= t < 3 else 10},10,10,10" for t in (0, 0.4, 0.8, 3, 1000))
    (place / "dip.csv").write_text("time_s,client_0,client_1,client_2,client_3\n" + columns + "\n")
    scenario = scenario_in(place, {"radio": {"trace": {"file": "dip.csv"}, "bandwidth": "2 kHz", "patience": "0.2 s"}}, 10)
    monkeypatch.setattr("wflsim.world.spec._silence", lambda radio: {})
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "empty"))
    expected = outcome_of(scenario, 1, tmp_path / "alone")
    assert Store().entries() == []
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "store"))
    outcome_of(scenario_in(place, GOOD, stored), 1, tmp_path / "good")
    folder = tmp_path / "cut"

    class Cut(Stop):
        at = 0

        def __call__(self, row):
            if row.round == Cut.at:
                raise KeyboardInterrupt
            return super().__call__(row)

    monkeypatch.setattr("wflsim.experiments.keepers.Stop", Cut)
    for Cut.at in range(10):
        with pytest.raises(KeyboardInterrupt):
            run_alone(scenario, 1, 0, folder, checkpoint_every_s=0.0 if Cut.at % 2 else None)
    Cut.at = -1
    assert outcome_of(scenario, 1, folder) == expected
    assert "in round" in status(folder)["mode"]
    assert [entry.rounds for entry in Store().entries()] == [stored], "the store holds the good trace and nothing else"


def test_sweeps_keep_a_failing_regime_away_from_the_good_ones(place, tmp_path, monkeypatch):
    """One curve goes through all regimes of a sweep: in whatever order, each has the facts that it has alone."""
    monkeypatch.setattr("wflsim.world.spec._silence", lambda radio: {}, raising=False)
    powers = ["0 W", "1 W", ["1 W", "1 W", "0 W"], "2 W"]

    def runs(name, values):
        monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / name))
        scenario = scenario_in(place, GOOD, 3, "sweep: " + json.dumps({"grid": {"radio.power": values}}))
        return run_sweep(scenario, tmp_path / f"runs-{name}", workers=1).runs.drop(columns=["regime"])

    together = runs("together", powers)
    assert (together["delivered"] < together["asked"]).tolist() == [True, True, False, False, True, True, False, False]
    alone = [runs(f"alone{number}", [power]) for number, power in enumerate(powers)]
    assert together.equals(pd.concat(alone, ignore_index=True))


def test_tuning_in_a_world_that_loses_orders_is_done_live(place, tmp_path):
    scenario = scenario_in(place, SILENT, "3, target: {accuracy: 0.5}", "tune: {knobs: {tau: [1, 2]}}")
    found = study(scenario, workers=1)
    assert [("the order of client" in note and "was lost" in note) for note in found.notes] == [True, True], found.notes
    assert not any(line.reached for line in found.lines), "nothing arrived, so nothing was learnt"


def test_a_curve_refuses_to_extend_what_it_cannot_keep(place):
    training = CachedTraining(Run(scenario_in(place, GOOD), 0, 0), Store())
    training._leave_store("in round 0 the order of client 1 was lost")
    with pytest.raises(ReplayRefused, match="client 1 was lost; run it live"):
        training.extend(2)
