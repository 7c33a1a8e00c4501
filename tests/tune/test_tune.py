"""Choosing tau: the published table to the printed digits, censoring, early stopping, and the map by replay = by live."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scripted_tuning import Scripted
from small_scenarios import REGIMES, SMALL, TUNED, small_drdm

import wflsim
from studies import known_answer
from wflsim.errors import ScenarioError
from wflsim.records import Evaluation, TraceRound
from wflsim.scenario import load
from wflsim.simulation.stop import Target
from wflsim.tune.choice import choose
from wflsim.tune.costs import reach
from wflsim.tune.folder import tables, tune
from wflsim.tune.published import rounds_law
from wflsim.tune.search import search
from wflsim.tune.study import study

ROOT = Path(__file__).resolve().parents[2]
# The published energy map (docs/radio_and_energy.md): tau* and joules, SNR -10 ... 20 dB down, 1, 2, 5, 10, 20 MHz across
PUBLISHED = """
30 20087 30 10318 30 4457 30 2503 29 1526
30 7326  30 3938  30 1905 20 1206 10 772
30 3236  30 1893  16 1038 8 664   5 427
30 1855  20 1177  8 652   5 420   5 297
23 1317  12 842   5 467   5 320   5 247
16 1035  8 662    5 375   5 274   5 224
12 863   6 552    5 326   5 250   5 211
"""


def test_the_published_table_gives_the_35_cells_to_the_printed_digits(tmp_path):
    folder, found = tune(load(ROOT / "scenarios/published_energy_map.yaml"), tmp_path)
    numbers = [int(word) for word in PUBLISHED.split()]
    ours = [(choice.best.tau, round(choice.best.cost.mean)) for choice in found.choices.values()]
    assert ours == list(zip(numbers[::2], numbers[1::2], strict=True))
    law = rounds_law({5: 48, 10: 41, 20: 32, 30: 25}, "power_law")
    assert law(1) == pytest.approx(88.60708, abs=1e-5)
    assert np.log(law(10) / law(1)) / np.log(10) == pytest.approx(-0.3557551, abs=1e-7)
    frame = pd.read_csv(folder / "map.csv")
    assert list(frame.columns) == [
        "policy", "regime", "radio.snr", "radio.bandwidth", "tau_star", "cost", "cost_low", "cost_high", "unit", "p_reach", "within5", "edge", "why_edge",
        "cost_unseen", "cost_unseen_low", "cost_unseen_high", "p_best", "could_win", "censored", "diverged",
    ]  # fmt: skip
    assert frame["radio.snr"].iloc[0] == "-10 dB"
    assert (frame["edge"] == "high").sum() == 10
    assert len(pd.read_csv(folder / "costs.csv")) == 35 * 26
    about = json.loads((folder / "run.json").read_text())
    assert {"kind": "tune", "objective": "energy", "accounting": "paper"}.items() <= about.items()
    assert (folder / "map.png").stat().st_size > 10_000


def test_pchip_goes_through_the_points():
    law = rounds_law({5: 48, 10: 41, 20: 32, 30: 25}, "pchip")
    assert [law(tau) for tau in (5, 10, 20, 30)] == pytest.approx([48, 41, 32, 25])
    assert 25 < law(25) < 32


def test_the_surest_tau_wins_and_what_misses_is_never_dropped():
    cost = np.array([[1.0, 1.0, 1.0], [2.0, 2.1, 1.9], [2.0, 2.2, 1.95], [9.0, 9.0, 9.0]])
    reached = np.array([[True, True, False], [True] * 3, [True] * 3, [True] * 3])
    choice = choose([1, 2, 3, 4], cost, reached)
    assert choice.best.tau == 2
    assert choice.within5 == (2, 3)
    assert choice.edge == ""
    assert choice.candidates[0].p_reach == pytest.approx(2 / 3)
    assert choice.candidates[0].cost.mean == 1.0, "the run that missed counts with all it spent"
    # of the 8 subsets of seeds, the first wins the three that are made of seeds 0 and 1; all but the empty one, if its
    # third run had reached with what it spent: then nothing is left for the others
    assert (choice.candidates[0].p_best, choice.candidates[0].p_best_most) == (3 / 8, 7 / 8)
    assert [one.p_best for one in choice.candidates[1:]] == [0, 0, 0]
    assert choice.could_win == (1,), "at 1.0 it was cut off while cheaper than the 2.0 of the best"
    assert choose([1, 2], np.array([[1.0], [2.0]]), np.ones((2, 1), dtype=bool)).edge == "low"


def test_the_hitting_round_is_the_first_of_the_held_evaluations():
    def entry(number, value):
        return TraceRound(number, [], None if value is None else Evaluation([value, 1.0], [0.0, 0.0], None))

    trace = [entry(s, value) for s, value in enumerate([0.9, None, 0.2, 0.9, None, 0.95])]
    assert reach(trace, Target(accuracy=0.8)) == (0, True)
    assert reach(trace, Target(accuracy=0.8, hold=2)) == (3, True)
    assert reach(trace, Target(accuracy=0.8, hold=3)) == (3, False)
    assert reach(trace[:3], Target(accuracy=0.8, hold=2)) == (None, False)
    assert reach(trace, Target(accuracy=0.55, metric="average", hold=3)) == (0, True)


def test_early_stopping_gives_up_only_what_has_lost_in_every_regime():
    one = Scripted({1: 10, 2: 30, 3: 11}, {1: [1.0], 2: [1.0], 3: [0.95]}, 100)
    assert search([1, 2, 3], one) == {2}
    assert one.upto[2] == 11, "10.5 is 5 % more than 10; the 11th round is the first beyond"
    two = Scripted({1: 10, 2: 30}, {1: [1.0, 9.0], 2: [1.0, 1.0]}, 100)
    assert search([1, 2], two) == set(), "tau 2 is the best of the second regime"


def test_no_tau_is_given_up_while_the_incumbent_misses_sometimes():
    curves = Scripted({1: None, 2: 50}, {1: [0.1], 2: [1.0]}, 60)
    assert search([1, 2], curves) == set()


@pytest.mark.parametrize("blocks", [3, 40])
def test_the_map_by_replay_is_the_map_by_training_in_every_regime(tmp_path, monkeypatch, blocks):
    """The same question with replay forbidden: every number of it comes out the same, whatever the blocks."""
    monkeypatch.setattr("wflsim.tune.curves.BLOCKS", blocks)
    scenario = small_drdm(*TUNED, REGIMES)
    replayed = study(scenario, workers=1)
    assert replayed.trained_rounds > 0
    again = study(scenario, workers=1)
    assert again.trained_rounds == 0
    assert all(a.equals(b) for a, b in zip(tables(again).values(), tables(replayed).values(), strict=True))
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "other"))
    # an outage threshold so low that nothing is ever lost: the world could change the learning, and does not
    lived = study(small_drdm(*TUNED, REGIMES, "radio.loss.outage_threshold=1e-30 linear"), workers=1)
    assert any("36 trainings, each in its own world (replay would need 9)" in note for note in lived.notes)
    assert "radio.loss.outage_threshold" in lived.notes[0]
    for key, choice in replayed.choices.items():
        for one, other in zip(choice.candidates, lived.choices[key].candidates, strict=True):
            if not one.stopped:
                assert one.cost == other.cost
                assert one.p_reach == other.p_reach
        assert choice.best.tau == lived.choices[key].best.tau
        assert choice.within5 == lived.choices[key].within5


@pytest.mark.parametrize("objective", ["energy", "time", "cost"])
def test_costs_are_those_that_a_run_with_this_tau_writes_down(objective, tmp_path):
    """Joules and seconds until the target, summed by hand over the rounds.csv of plain runs in the same worlds."""
    found = study(small_drdm(*TUNED, "sweep={grid: {radio.snr: [-10 dB, 20 dB]}}", "tune.cost={per_joule: 2, per_second: 0.5}", f"tune.objective={objective}"), workers=1)
    spent = {}
    compared = 0
    for (_, number), choice in found.choices.items():
        for one in choice.candidates:
            if one.stopped or one.censored:
                continue
            regime = found.regimes[number].scenario
            policy = regime.policies[0].model_copy(update={"tau": one.tau})
            out = tmp_path / f"{number}-{one.tau}"
            wflsim.run(regime.model_copy(update={"policies": (policy,)}), out, workers=1)
            for seed in range(3):
                rows = pd.read_csv(out / "drdm" / f"seed-{seed}" / "rounds.csv")
                above = (rows["worst"] >= 0.5).to_numpy()
                first = next(s for s in range(len(rows)) if above[s : s + 3].sum() == 3)
                spent[seed] = rows["energy_j"][: first + 1].sum(), rows["end_s"][first]
            joules, seconds = np.mean(list(spent.values()), axis=0)
            expected = {"energy": joules, "time": seconds, "cost": 2 * joules + 0.5 * seconds}[objective]
            assert one.cost.mean == pytest.approx(expected, rel=1e-9)
            compared += 1
    assert compared >= 3


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("stop.rounds=3",), "tune needs a target: stop.target in the scenario, or --target 0.8"),
        ((*TUNED, "sweep={grid: {partition.alpha: [1, 2]}}"), "regime 0 changes partition; a tune map goes over worlds only"),
        ((*TUNED, "policies=[{name: afl}]"), "tune: afl cannot have tau=3"),
        ((*TUNED, "tune.objective=cost"), "objective cost needs cost"),
        ((*TUNED, "tune.knobs.tau=[3, 3]"), "the same tau is given twice"),
        ((*TUNED, "tune.rounds_to_target={5: 48}"), "at least two values of tau"),
        ((*TUNED, "tune.rounds_to_target={5: 48, 9: -1}"), "tune.rounds_to_target.9: got -1"),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(overrides, words):
    with pytest.raises(ScenarioError, match=words):
        study(small_drdm(*overrides), workers=1)


def test_the_command_prints_a_map_and_an_answer_and_writes_the_folder(tmp_path):
    (tmp_path / "s.yaml").write_text(SMALL)
    settings = ["--set", "policies=[{name: drdm, m: 4, eta: 0.1}]", "--set", REGIMES, "--set", "seeds=2", "--set", "stop.rounds=20"]
    command = [sys.executable, "-m", "wflsim", "tune", "s.yaml", "--target", "0.5", "--metric", "worst", "--tau", "1,5", "--workers", "1"]
    done = subprocess.run([*command, *settings], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "results: runs/small-tune" in done.stdout
    assert "50 % worst accuracy: tau* from" in " ".join(done.stdout.split())
    folder = tmp_path / "runs/small-tune"
    assert {path.name for path in folder.iterdir()} >= {"scenario.yaml", "run.json", "map.csv", "costs.csv", "curves.csv", "map.png"}
    searched = subprocess.run([*command[:-3], "{most: 1}", *settings, "--out", "one"], cwd=tmp_path, capture_output=True, text=True)
    assert "tau* from 1" in " ".join(searched.stdout.split()), searched.stderr
    again = subprocess.run([*command, *settings, "--json"], cwd=tmp_path, capture_output=True, text=True)
    printed = json.loads(again.stdout)
    assert len(printed["map"]) == 4
    assert printed["answer"] in (folder / "answer.txt").read_text()


@pytest.mark.slow
def test_known_answers_are_found_and_early_stopping_changes_none(tmp_path):
    for taus, rhos in ((known_answer.GRID, known_answer.ONE), (known_answer.EVERY, known_answer.ONE), (known_answer.GRID, known_answer.MAP)):
        found = known_answer.outcome(taus, rhos)
        assert found.regret_ok >= 0.95
        assert 0.90 <= found.coverage <= 0.98
        assert found.same == 1.0
        if taus == known_answer.EVERY:
            assert found.saved >= 0.30
