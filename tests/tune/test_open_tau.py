"""Searching tau in a range: planted optima are found, every edge has a reason, and what is recommended was really tried."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_scenarios import small_drdm

from studies import open_tau
from studies.known_answer import MAP, law
from wflsim.errors import ScenarioError
from wflsim.scenario import load
from wflsim.scenario.blocks import TauRange
from wflsim.tune.dry import DryRounds, dry_round
from wflsim.tune.fit import curve
from wflsim.tune.folder import tables
from wflsim.tune.growth import LEVELS_OFF, NO_FEWER, SPENT, UNREACHED, explore, ladder
from wflsim.tune.search import Progress
from wflsim.tune.setting import with_tau
from wflsim.tune.study import study
from wflsim.tune.words import answer

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "scenarios/published_energy_map.yaml"


class Exact:
    """Candidates without noise: two seeds that need S(tau) rounds, of which each costs tau + rho."""

    def __init__(self, rounds, rhos=(10.0,), reached=lambda tau: True, attained=lambda tau: 0.0):
        self.rounds, self.rhos, self.reached, self.attained = rounds, np.array(rhos), reached, attained
        self.tried = set()

    def progress(self, tau):
        shape = (len(self.rhos), 2)
        rounds = np.full(shape, float(self.rounds(tau)))
        there = np.full(shape, self.reached(tau)) & (tau in self.tried)
        done = tau in self.tried
        return Progress((tau + self.rhos)[:, None] * rounds * done, there, done, attained=np.full(shape, self.attained(tau)), rounds=rounds)

    def extend(self, taus):
        self.tried |= set(taus)


@pytest.mark.parametrize("span", [TauRange(), TauRange(least=7), TauRange(least=3, most=3), TauRange(least=4, most=1700)])
def test_neighbours_on_the_ladder_are_at_most_a_factor_two_apart(span):
    rungs = ladder(span)
    assert rungs[0] == span.least
    assert span.most is None or rungs[-1] == span.most
    assert all(low < high <= 2 * low for low, high in pairwise(rungs))


@pytest.mark.parametrize("rho", [0.5, 12.0, 150.0, 3000.0])
def test_the_exact_optimum_lies_inside_and_has_tried_neighbours_within_a_factor_two(rho):
    """S = 900 tau^-0.4: no whole number up to 20,000 is 5 % cheaper than the best that was tried."""
    def cost(tau):
        return 900 * tau**-0.4 * (tau + rho)

    found = explore(TauRange(), 10, Exact(lambda tau: 900 * tau**-0.4, (rho,)), 30)
    best = min(found.taus, key=cost)
    assert cost(best) <= 1.05 * cost(np.arange(1.0, 20_000)).min()
    if best > 1:
        assert found.why == [""]
        assert any(best / 2 <= tau < best for tau in found.taus)
    else:
        assert found.why == [NO_FEWER]
    assert any(best < tau <= 2 * best for tau in found.taus)


def test_a_sharp_knee_between_two_rungs_is_found_where_nothing_is_noisy():
    """S falls like 1/tau up to 24 and then no more: 24 costs 1,700, the rungs 20 and 30 cost 1,800 and 2,000."""
    found = explore(TauRange(), 10, Exact(lambda tau: 1200 / min(tau, 24), (10.0,)), 30)
    assert min(1200 / min(tau, 24) * (tau + 10) for tau in found.taus) <= 1.05 * 1700


def test_every_end_of_the_search_is_said_in_words():
    flat = Exact(lambda tau: 20 + 4000 / tau**2, (1e9,))
    assert explore(TauRange(), 10, flat, 30).why == [LEVELS_OFF]
    assert max(flat.tried) <= 300, "20.4 rounds at tau=100, 20.0 at 300"
    steep = Exact(lambda tau: 900 / tau, (1e9,))
    assert explore(TauRange(most=40), 10, steep, 30).why == ["tune.knobs.tau.most is 40"]
    assert explore(TauRange(), 10, Exact(lambda tau: 900 / tau, (1e9,)), 6).why == [SPENT]
    assert explore(TauRange(least=5), 10, Exact(lambda tau: 90.0, (0.0,)), 30).why == ["tune.knobs.tau.least is 5"]
    assert explore(TauRange(), 10, Exact(lambda tau: 90.0, (0.0,)), 30).why == [NO_FEWER]


def test_where_nothing_reaches_the_target_the_search_follows_the_accuracy():
    never = Exact(lambda tau: 50.0, reached=lambda tau: False, attained=lambda tau: min(tau, 100) / 200)
    found = explore(TauRange(), 10, never, 30)
    assert found.why == [UNREACHED]
    assert found.taus[-1] == 200, "one beyond the best, which is 100"


def test_no_more_taus_are_tried_than_trainings_are_allowed():
    for allowed in (1, 2, 3, 7):
        exact = Exact(lambda tau: 900 * tau**-0.4, (3000.0, 0.1))
        assert len(explore(TauRange(), 10, exact, allowed).taus) <= allowed
        assert len(exact.tried) <= allowed


def test_the_curve_smooths_what_the_seeds_do_not_contradict_and_nothing_else():
    taus = [2, 5, 10, 20, 50, 100]
    rng = np.random.default_rng(0)
    power = 300 * np.array(taus)[:, None] ** -0.4 * np.exp(0.1 * rng.normal(size=(6, 5)))
    everybody, none = np.ones((6, 5), dtype=bool), np.zeros(6, dtype=bool)
    smooth = curve(taus, power, everybody, power, none)
    assert np.linalg.matrix_rank(smooth.matrix) == 3
    assert np.abs(np.log(smooth.rounds / (300 * np.array(taus) ** -0.4))).max() < 0.1
    bumpy = np.array([100, 20, 90, 15, 80, 10.0])[:, None] * np.exp(0.01 * rng.normal(size=(6, 5)))
    assert curve(taus, bumpy, everybody, bumpy, none).rounds == pytest.approx(bumpy.mean(axis=1))
    one_seed = curve(taus, power[:, :1], everybody[:, :1], power[:, :1], none)
    assert one_seed.resolution == np.inf
    left_out = curve(taus, power, everybody & (np.arange(6) != 2)[:, None], power, np.arange(6) == 4)
    assert left_out.taus.tolist() == [2, 5, 20, 100], "neither what missed nor what was given up"


@pytest.mark.parametrize("number", [0, 3, 9])
def test_planted_optima_are_found_through_the_noise_of_the_seeds(number):
    found = open_tau.row(open_tau.CASES[number], trials=20)
    assert found["set_holds_one"] >= 0.95
    assert found["chosen_within_5"] >= 0.9
    assert found["trainings"] <= open_tau.TRAININGS


def test_the_committed_page_follows_from_its_table_and_says_what_the_search_is_worth():
    table = pd.read_csv(open_tau.REPORT / "open_tau.csv")
    assert open_tau.page(table) == (open_tau.REPORT / "open_tau.md").read_text()
    assert table["case"].tolist() == [case.name for case in open_tau.CASES]
    fair = table[~table["case"].isin(open_tau.BEYOND)]
    assert fair["set_holds_one"].min() >= 0.95
    assert (table["trainings"] <= open_tau.TRAININGS).all()


@pytest.mark.slow
def test_an_open_tau_of_the_published_table_is_the_brute_force_whole_number_in_every_regime():
    found = study(load(PUBLISHED, ["tune.knobs.tau={least: 1, most: 2000}"]), workers=1)
    brute = [min(range(1, 2001), key=lambda tau: law(tau) * (tau + rho)) for rho in MAP]
    assert [choice.best.tau for choice in found.choices.values()] == brute
    assert brute[0] == 589
    ends = [choice.why_edge for choice in found.choices.values()]
    assert [why for why in ends if why] == [NO_FEWER] * brute.count(1)
    beyond = sum(not 5 <= tau <= 30 for tau in brute)
    assert f"in {beyond} of 35 regimes tau* lies beyond it, where the rounds to target are extrapolated" in found.notes[1]
    assert f"In {brute.count(1)} of 35 regimes tau* is 1: there are no fewer steps than 1." in answer(found)


def test_a_round_of_many_steps_has_the_work_of_one_that_is_rehearsed(monkeypatch):
    scenario = small_drdm()
    variant = with_tau(scenario, 0, 41)
    rehearsed = []
    monkeypatch.setattr("wflsim.tune.dry.dry_round", lambda *given: rehearsed.append(given[1].tau) or dry_round(*given))
    assert DryRounds(scenario, 0).round(41, 3) == dry_round(variant, variant.policies[0], 3)
    assert max(rehearsed) <= 16


def test_only_a_power_law_goes_beyond_the_published_table():
    with pytest.raises(ScenarioError, match="beyond the taus 5 to 30 of rounds_to_target, and only interpolate: power_law"):
        load(PUBLISHED, ["tune.knobs.tau={least: 1}", "tune.interpolate=pchip"])
    assert load(PUBLISHED, ["tune.knobs.tau={least: 6, most: 9}", "tune.interpolate=pchip"]).tune is not None


def test_the_old_spelling_is_answered_with_the_new_one():
    with pytest.raises(ScenarioError, match=r"tune\.tau: it is called tune\.knobs\.tau now; rename it"):
        small_drdm("tune.tau=[1, 2]")


OPEN = ("stop.rounds=40", "stop.target={accuracy: 0.5, hold: 3}", "seeds=2")


def test_a_search_is_shared_by_all_regimes_and_comes_out_again_without_training():
    scenario = small_drdm(*OPEN, "sweep={grid: {radio.snr: [-10 dB, 20 dB]}}", "radio.bandwidth=20 kHz")
    first = study(scenario, workers=1)
    again = study(scenario, workers=1)
    assert first.trained_rounds > 0
    assert again.trained_rounds == 0
    assert all(a.equals(b) for a, b in zip(tables(first).values(), tables(again).values(), strict=True))
    tried = [[one.tau for one in choice.candidates] for choice in first.choices.values()]
    assert all(each == tried[0] for each in tried)
    assert len(tried[0]) * 2 <= 60
    assert any("fewer than 20 rounds" in note for note in first.notes)
    for choice in first.choices.values():
        near = [tau / choice.best.tau for tau in tried[0]]
        assert (any(0.5 <= one < 1 for one in near) and any(1 < one <= 2 for one in near)) or choice.why_edge
    narrow = study(small_drdm(*OPEN, "radio.snr=-10 dB", "radio.bandwidth=20 kHz", "tune.trainings=6"), workers=1)
    assert narrow.trained_rounds == 0, "what was learnt for one map is not trained again for another"
    assert len(narrow.choices["drdm", 0].candidates) <= 3


def test_a_search_where_the_world_changes_the_learning_counts_every_run():
    live = "radio.loss.outage_threshold=1e-30 linear"
    found = study(small_drdm(*OPEN, "stop.rounds=12", "seeds=2", live, "tune.trainings=8"), workers=1)
    assert "at most 8 trainings, each in its own world, because" in found.notes[0]
    assert len(found.choices["drdm", 0].candidates) == 4
