"""Sweeps: one training for all regimes that learn alike, nothing computed twice, the same bytes whatever happens."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from commands import hears_ctrl_c, interrupt
from small_scenarios import BIG, SMALL

import wflsim
from wflsim.errors import ScenarioError
from wflsim.experiments import compute as compute_module
from wflsim.experiments import keepers
from wflsim.experiments.compare import compare
from wflsim.experiments.compute import compute_group
from wflsim.experiments.keepers import InStore
from wflsim.experiments.plan import plan, regimes
from wflsim.experiments.pool import Died, Processes, ThisProcess
from wflsim.experiments.sweep import run_sweep
from wflsim.results.store import Store
from wflsim.scenario import build, dump, load
from wflsim.scenario.source import parse

GRID = "sweep={grid: {radio.snr: [0 dB, 10 dB], radio.bandwidth: [100 kHz, 1 MHz]}}"


def small(*overrides):
    return build(parse(SMALL, "small.yaml"), overrides)


def test_grid_zip_and_list_are_crossed_in_the_order_of_the_file():
    scenario = small(
        "sweep={grid: {radio.snr: [0 dB, 10 dB]}, zip: {radio.power: [0.1, 0.2], devices.frequency: [1 GHz, 2 GHz]}, "
        "list: [{stop.rounds: 3}, {partition.alpha: 1, stop.rounds: 5}]}"
    )
    found = regimes(scenario)
    assert len(found) == 8
    assert found[0].values == {"radio.snr": "0 dB", "radio.power": "0.1", "devices.frequency": "1 GHz", "stop.rounds": "3", "partition.alpha": ""}
    assert found[1].scenario.partition.alpha == 1
    assert found[1].scenario.stop.rounds == 5
    assert [regime.scenario.devices[0].frequency for regime in found[:4]] == [1e9, 1e9, 2e9, 2e9]
    assert found[-1].scenario.radio.snr == pytest.approx([10.0])
    assert [regime.number for regime in found] == list(range(8))
    assert found[0].scenario.sweep is None


def trace_file(path, snr_db):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = ",".join(f"client_{i}" for i in range(6))
    path.write_text(f"time_s,{columns}\n" + "".join(f"{t},{','.join([str(snr_db)] * 6)}\n" for t in (0, 1)))


def test_files_that_a_sweep_names_are_looked_for_beside_the_scenario(tmp_path, monkeypatch):
    """Whoever asks from wherever: the working directory has files of the same names with other numbers in them."""
    for name, snr_db in (("near.csv", 20), ("more/far.csv", 0)):
        trace_file(tmp_path / "lab" / name, snr_db)
        trace_file(tmp_path / "elsewhere" / name, 7)
    (tmp_path / "lab" / "s.yaml").write_text(
        SMALL.replace("snr: 10 dB, ", "") + "sweep: {list: [{radio.trace: {file: near.csv}}, {radio.trace.file: more/far.csv}]}\n"
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    scenario = load("../lab/s.yaml")
    found = regimes(scenario)
    assert [Path(regime.scenario.radio.trace.file) for regime in found] == [tmp_path / "lab/near.csv", tmp_path / "lab/more/far.csv"]
    assert found[1].values["radio.trace.file"] == "more/far.csv"  # as it was written
    (tmp_path / "copy.yaml").write_text(dump(scenario))  # as in a result folder
    assert [regime.scenario for regime in regimes(load(tmp_path / "copy.yaml"))] == [regime.scenario for regime in found]
    (tmp_path / "lab" / "near.csv").unlink()
    with pytest.raises(ScenarioError, match=r"no such file: .*lab/near.csv; names are relative to the scenario file"):
        regimes(load("../lab/s.yaml"))


def test_only_a_sweep_that_names_files_depends_on_its_folder(tmp_path):
    plain = "sweep={grid: {radio.snr: [0 dB, -3.5 dB], radio.fading.speed: [5 m/s, 3.6 km/h], radio.fading.name: [rayleigh]}}"
    assert small(plain).sweep.folder is None
    (tmp_path / "near").mkdir()
    trace_file(tmp_path / "near" / "a.csv", 3)
    given = small(f"sweep={{list: [{{radio.snr: null, radio.trace: {{file: a.csv}}}}], folder: '{tmp_path}/near'}}")
    assert regimes(given)[0].scenario.radio.trace.file == str(tmp_path / "near" / "a.csv")


def test_a_scenario_with_sweep_and_tune_blocks_survives_being_written_down():
    scenario = small(GRID, "tune={knobs: {tau: [2, 5]}, objective: cost, cost: {per_joule: 2}, rounds_to_target: {5: 48, 10: 41.5}}")
    assert build(parse(dump(scenario), "again.yaml")) == scenario


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("{}", "a sweep needs at least one of grid, zip, list"),
        ("{grid: {radio.snr: []}}", "sweep.grid.radio.snr"),
        ("{zip: {radio.snr: [0 dB], radio.power: [1, 2]}}", r"equally many values; got radio.snr: 1, radio.power: 2"),
        ("{grid: {seeds: [1, 2]}}", "seeds cannot be swept"),
        ("{grid: {radio.snr: [0 dB]}, list: [{radio.snr: 1 dB}]}", "radio.snr is swept twice"),
        ("{list: [{}]}", "an item of list changes no key"),
        ("{grids: {}}", "unknown key, did you mean 'grid'"),
    ],
)
def test_bad_sweep_blocks_are_explained(sweep, words):
    with pytest.raises(ScenarioError, match=words):
        small(f"sweep={sweep}")


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("{grid: {radio.snr: [0 dB, 10 Db]}}", r"sweep, regime 1 \(radio.snr=10 Db\): radio.snr.*: got '10 Db'.*did you mean 'dB'"),
        ("{grid: {radio.snrs: [0 dB]}}", r"sweep, regime 0 \(radio.snrs=0 dB\): radio.snrs: unknown key, did you mean 'snr'"),
        ("{grid: {policies.fedavgg.tau: [1]}}", r"sweep, regime 0 \(policies.fedavgg.tau=1\): no item 'fedavgg', did you mean 'fedavg'"),
        ("{grid: {clients: [3]}}", r"sweep, regime 0 \(clients=3\): policies.0.m: draws 4 of only 3 clients"),
        ("{grid: {clients.x: [3]}}", r"clients is a single value and has no key 'x'"),
    ],
)
def test_errors_of_a_regime_name_the_sweep_key(sweep, words):
    with pytest.raises(ScenarioError, match=words):
        regimes(small(f"sweep={sweep}"))


def test_one_training_per_learning_digest_however_many_regimes(tmp_path, monkeypatch):
    from wflsim.simulation.training import Training

    trained = []
    original = Training.round
    monkeypatch.setattr(Training, "round", lambda self, s: trained.append((self.policy.name, self.seed, s)) or original(self, s))
    scenario = small(GRID, "seeds=2")
    results = run_sweep(scenario, tmp_path / "a", workers=1)
    assert len(results.runs) == 4 * 2 * 2
    assert sorted(trained) == sorted({(name, seed, s) for name in ("fedavg", "drdm") for seed in (0, 1) for s in range(4)})
    trained.clear()
    again = run_sweep(scenario, tmp_path / "b", workers=1)
    assert not trained
    assert again.runs.equals(results.runs)
    assert (tmp_path / "a/runs.csv").read_bytes() == (tmp_path / "b/runs.csv").read_bytes()
    assert (tmp_path / "a/summary.csv").read_bytes() == (tmp_path / "b/summary.csv").read_bytes()
    about = json.loads((tmp_path / "a/run.json").read_text())
    assert (about["kind"], about["keys"], about["status"]) == ("sweep", ["radio.snr", "radio.bandwidth"], "done")


def test_a_run_of_a_sweep_is_the_run_of_its_regime(tmp_path, monkeypatch):
    scenario = small(GRID, "stop.target={accuracy: 0.2}")
    results = run_sweep(scenario, tmp_path / "sweep", workers=1)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "other"))
    regime = regimes(scenario)[2]
    runs = wflsim.run(regime.scenario, tmp_path / "run", workers=1).runs
    ours = results.runs[results.runs["regime"] == 2].reset_index(drop=True)
    for name in runs.columns:
        assert ours[name].tolist() == runs[name].tolist(), name
    joined = compare([tmp_path / "sweep", tmp_path / "run"])
    assert set(joined.lines["policy"]) == {"fedavg", "drdm"}, "the same seeds of the same policy in the same world are the same runs"
    here = joined.lines[joined.lines["regime"] == "radio.snr 10 dB, radio.bandwidth 100 kHz"]
    assert list(here["seeds"]) == [len(scenario.seeds)] * 2
    assert joined.keys == ["radio.snr", "radio.bandwidth"]


def test_live_runs_stand_alone_and_their_regimes_are_their_own(tmp_path):
    scenario = small("sweep={list: [{radio.snr: 0 dB}, {radio.loss.probability: 0.3}, {server.deadline: 1 ms}]}")
    runs = plan(regimes(scenario))
    assert [run.exact for run in runs] == [True, True, False, False, False, False]
    assert len({InStore(Path()).group(run) for run in runs}) == 6
    results = run_sweep(scenario, tmp_path, workers=1)
    delivered = results.runs.groupby("regime")["delivered"].sum()
    assert delivered[0] > delivered[1] > delivered[2] == 0


def test_a_failing_run_is_tried_twice_reported_and_stops_nobody(tmp_path, monkeypatch):
    tried = []
    original = keepers.costs_of

    def costs_of(run, training):
        if run.regime == 1 and run.policy == 0:
            tried.append(run.digest)
            raise RuntimeError("boom")
        return original(run, training)

    monkeypatch.setattr(keepers, "costs_of", costs_of)
    results = run_sweep(small(GRID), tmp_path, workers=1)
    assert len(tried) == 2
    assert list(results.runs["status"]).count("failed") == 1
    (reason,) = results.failures["reason"]
    assert reason.startswith(f"RuntimeError: boom ({__file__}, line ")
    assert len(results.summary) == 7
    monkeypatch.setattr(keepers, "costs_of", original)
    assert list(run_sweep(small(GRID), tmp_path, workers=1).runs["status"]) == ["done"] * 8


def _dies(item):
    number, folder = item
    if number == 1 and not (Path(folder) / "died").exists():
        (Path(folder) / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2:
        raise ValueError("two")
    return number * 10


def test_a_worker_that_dies_takes_only_its_own_item_with_it(tmp_path):
    items = [(number, str(tmp_path)) for number in range(5)]
    answers = dict(Processes(2).run(_dies, items))
    assert isinstance(answers.pop(1), Died)
    assert isinstance(answers.pop(2), ValueError)
    assert answers == {0: 0, 3: 30, 4: 40}
    assert dict(ThisProcess().run(_dies, items[1:2])) == {0: 10}


def _compute_group_of_a_mortal(group, wait):
    mark = Path(os.environ["WFLSIM_STORE"]) / "died"
    original = keepers.costs_of

    def costs_of(run, training):
        if run.regime == 2 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return original(run, training)

    keepers.costs_of = costs_of
    try:
        return compute_group(group, wait)
    finally:
        keepers.costs_of = original


def test_two_processes_one_of_which_is_killed_give_the_bytes_of_one(tmp_path, monkeypatch):
    run_sweep(small(GRID), tmp_path / "one", workers=1)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "other"))
    monkeypatch.setattr(compute_module, "compute_group", _compute_group_of_a_mortal)
    run_sweep(small(GRID), tmp_path / "two", workers=2)
    assert (tmp_path / "other/died").exists()
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


def test_ctrl_c_leaves_a_valid_folder_and_130(tmp_path):
    (tmp_path / "big.yaml").write_text(BIG.replace("rounds: 5", "rounds: 500"))
    command = [sys.executable, "-m", "wflsim", "run", "big.yaml", "--workers", "2", "--out", "out"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hears_ctrl_c
    )
    while process.poll() is None and not list(Store().root.glob("locks/*")):
        time.sleep(0.02)
    interrupt(process, tmp_path / "out")


SWEEP = [sys.executable, "-m", "wflsim", "run", "big.yaml", "--workers", "1", "--out"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("undisturbed")
    (cwd / "big.yaml").write_text(BIG)
    scenario = load(cwd / "big.yaml")
    before = os.environ.get("WFLSIM_STORE")
    os.environ["WFLSIM_STORE"] = str(cwd / "store")
    try:
        run_sweep(scenario, cwd / "whole", workers=1)
    finally:
        os.environ.pop("WFLSIM_STORE") if before is None else os.environ.__setitem__("WFLSIM_STORE", before)
    runs = pd.read_csv(cwd / "whole/runs.csv")
    assert len(runs) == 200
    assert set(runs["status"]) == {"done"}
    return {name: (cwd / "whole" / name).read_bytes() for name in ("runs.csv", "summary.csv")}


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in ("runs.csv", "summary.csv")}


def test_two_hundred_runs_killed_twice_end_with_the_same_bytes(undisturbed, tmp_path):
    (tmp_path / "big.yaml").write_text(BIG)
    store, rng, counts = Store(), random.Random(3), []
    for _ in range(2):
        before = len(list(store.root.glob("runs/*/*.json")))
        process = subprocess.Popen([*SWEEP, "out"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(store.root.glob("runs/*/*.json"))) < before + 20 + rng.randrange(30):
            time.sleep(0.01)
        process.kill()
        process.wait()
        counts.append(len(list(store.root.glob("runs/*/*.json"))))
    assert 0 < counts[0] < counts[1] < 200, counts
    stamps = {path: path.stat().st_mtime_ns for path in store.root.glob("runs/*/*.json")}
    assert subprocess.run([*SWEEP, "out"], cwd=tmp_path, capture_output=True).returncode == 0
    assert bytes_of(tmp_path / "out") == undisturbed
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items()), "a finished run was computed again"


LOGGED = """
import sys
from pathlib import Path
from wflsim.scenario import load
from wflsim.experiments import keepers
from wflsim.experiments.sweep import run_sweep
original = keepers.costs_of
def costs_of(run, training):
    with open(sys.argv[2], "a") as log:
        log.write(run.digest + "\\n")
    return original(run, training)
keepers.costs_of = costs_of
run_sweep(load("big.yaml"), sys.argv[1], workers=1)
"""


def test_two_processes_on_one_store_do_no_run_twice_and_corrupt_nothing(undisturbed, tmp_path):
    (tmp_path / "big.yaml").write_text(BIG)
    both = [
        subprocess.Popen([sys.executable, "-c", LOGGED, name, f"{name}.log"], cwd=tmp_path) for name in ("one", "two")
    ]
    assert [process.wait() for process in both] == [0, 0]
    logs = [(tmp_path / f"{name}.log").read_text().split() if (tmp_path / f"{name}.log").exists() else [] for name in ("one", "two")]
    assert len(logs[0]) + len(logs[1]) == len({*logs[0], *logs[1]}) == 200
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two") == undisturbed
