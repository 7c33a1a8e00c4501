"""`wflsim check` counts what `run` and `tune` really do, and says how long the whole of it may take."""

from __future__ import annotations

import re
import subprocess
import sys

from small_scenarios import REGIMES, SMALL, TUNED, small_drdm

from wflsim.cli.forecast import forecast_run, forecast_tune, words
from wflsim.cli.preview import Stage
from wflsim.experiments.sweep import run_sweep
from wflsim.results.store import Store
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.tune.study import study

LIVE = "radio.loss.outage_threshold=1e-30 linear"


def kept():
    entries = Store().entries()
    return sum(entry.kind == "run" for entry in entries), sum(entry.kind == "trace" for entry in entries)


def test_the_counts_of_a_sweep_are_what_the_sweep_does(tmp_path):
    """Two worlds that replay and one that must be lived in, two policies, two seeds."""
    swept = "sweep={list: [{radio.snr: 0 dB}, {radio.snr: 9 dB}, {radio.loss.outage_threshold: 1e-30 linear}]}"
    scenario = build(parse(SMALL, "small.yaml"), [swept, "seeds=2"])
    before = forecast_run(scenario, Stage())
    assert (before.regimes, before.runs, before.trainings, before.live) == (3, 12, 4, 4)
    assert (before.held_runs, before.held_trainings, before.rounds) == (0, 0, (4 + 4) * 4)
    results = run_sweep(scenario, tmp_path / "sweep", workers=1)
    assert len(results.runs) == before.runs
    assert kept() == (before.runs, before.trainings)
    after = forecast_run(scenario, Stage())
    assert (after.held_runs, after.held_trainings, after.rounds, after.seconds) == (12, 4, 0, 0.0)
    wider = build(parse(SMALL, "small.yaml"), [swept.replace("0 dB}", "0 dB}, {radio.snr: 5 dB}", 1), "seeds=2"])
    more = forecast_run(wider, Stage())
    assert (more.runs, more.held_runs, more.trainings, more.held_trainings, more.rounds) == (16, 12, 4, 4, 0)
    assert "4 trainings, each replayed in 4 regimes and 4 co-simulations" in words("run", more)


def test_the_counts_of_tuning_are_what_tuning_does():
    scenario = small_drdm(*TUNED, REGIMES)
    before = forecast_tune(scenario, Stage())
    assert (before.regimes, before.trainings, before.live, before.runs, before.rounds) == (4, 9, 0, 36, 9 * 30)
    found = study(scenario, workers=1)
    assert kept() == (0, before.trainings)
    assert found.trained_rounds <= before.rounds
    after = forecast_tune(scenario, Stage())
    finished = [line for line in found.lines if line.reached]
    assert after.held_trainings == len(finished)
    unfinished = {line.tau for line in found.lines if not line.reached}
    assert (after.rounds > 0) == bool(unfinished), "what was given up early may be asked for again by another question"


def test_tuning_in_worlds_that_change_the_learning_is_counted_run_by_run():
    scenario = small_drdm(*TUNED, "stop.rounds=4", REGIMES, LIVE)
    before = forecast_tune(scenario, Stage())
    assert (before.trainings, before.live, before.runs, before.rounds) == (0, 36, 36, 36 * 4)
    study(scenario, workers=1)
    assert kept() == (36, 0)
    after = forecast_tune(scenario, Stage())
    assert (after.held_runs, after.rounds, after.seconds) == (36, 0, 0.0)


def test_a_search_over_tau_is_counted_at_its_largest():
    """60 trainings with three seeds are twenty taus at most; what a search left in the store is counted next time."""
    open_tau = [one for one in TUNED if not one.startswith("tune")]
    scenario = small_drdm(*open_tau, "tune.trainings=9", "tune.knobs.tau={most: 5}")
    before = forecast_tune(scenario, Stage())
    assert (before.trainings, before.held_trainings, before.searched) == (9, 0, True)
    assert "`wflsim tune`: 1 regime, at most 9 runs: at most 9 trainings. The store holds 0" in words("tune", before)
    found = study(scenario, workers=1)
    tried = {line.tau for line in found.lines}
    assert len(found.lines) <= before.trainings
    after = forecast_tune(scenario, Stage())
    assert after.held_trainings == sum(line.reached for line in found.lines if line.tau in tried)
    assert after.rounds < before.rounds


def test_a_hundred_regimes_take_longer_than_one(tmp_path):
    """The command, on a hundred regimes that must be lived in: all of them are in its estimate, and tuning is, too."""
    (tmp_path / "s.yaml").write_text(SMALL)
    values = "[" + ", ".join(f"{i} dB" for i in range(100)) + "]"
    command = [sys.executable, "-m", "wflsim", "check", "s.yaml", "--set", LIVE, "--set", "stop.rounds=50", "--set", "tune.knobs.tau=[1, 2, 4]"]
    swept = ["--set", f"sweep={{grid: {{radio.snr: {values}}}}}", "--set", "stop.target={accuracy: 0.9}"]
    done = subprocess.run([*command, *swept], cwd=tmp_path, capture_output=True, text=True, check=True)
    many = " ".join(done.stdout.split())
    assert "`wflsim run`: 100 regimes, 200 runs: 200 co-simulations" in many
    assert "`wflsim tune`: 100 regimes, 600 runs: 600 co-simulations" in many
    assert "At most 30000 rounds to train" in many
    one = forecast_run(build(parse(SMALL, "small.yaml"), [LIVE, "stop.rounds=50"]), Stage())
    assert (one.regimes, one.runs, one.live, one.rounds) == (1, 2, 2, 100)
    scale = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    whole, tuning = (float(number) * scale[unit] for number, unit in re.findall(r"at most about ([\d.]+) (\w+) on", many))
    assert whole > 10 * one.seconds
    assert tuning > whole
