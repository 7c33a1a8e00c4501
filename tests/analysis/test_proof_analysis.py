"""Numbers in words, the ranking rule and the sentences about a folder, by hand and at their limits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from report_folders import run_folder

from wflsim.analysis.answer import goal_text, modes
from wflsim.analysis.formats import cost_text, count, duration, percent, si, whole
from wflsim.analysis.intervals import Interval
from wflsim.analysis.ranking import ranked, scores, surest_then_cheapest
from wflsim.analysis.tables import Results, run_facts
from wflsim.errors import StoreError
from wflsim.results.rows import Tables


@pytest.mark.parametrize(("value", "text"), [
    (1e9, "1 GJ"), (9.994e8, "999 MJ"), (1e6, "1 MJ"), (9.994e5, "999 kJ"), (1000.0, "1 kJ"), (999.4, "999 J"), (1.0, "1 J"), (0.9994, "999 mJ"),
    (1e-3, "1 mJ"), (9.994e-4, "999 uJ"), (1.5e-6, "1.5 uJ"), (1e-6, "1 uJ"), (5e-7, "0.5 uJ"), (0.0, "0 J"), (-2500.0, "-2.5 kJ"), (np.nan, "-"), (np.inf, "-"),
])  # fmt: skip
def test_a_prefix_begins_where_its_size_does(value, text):
    assert si(value, "J") == text
    assert cost_text(value, "J") == text


@pytest.mark.parametrize(("seconds", "text"), [
    (119.0, "119 s"), (120.0, "2 min"), (7199.0, "120 min"), (7200.0, "2 h"), (172_799.0, "48 h"), (172_800.0, "2 d"), (0.25, "250 ms"), (0.0, "0 s"), (np.nan, "-"),
])  # fmt: skip
def test_a_longer_unit_of_time_begins_at_two_of_it(seconds, text):
    assert duration(seconds) == text
    assert cost_text(seconds, "s") == text


def test_shares_counts_and_costs_of_no_unit():
    assert [percent(share) for share in (0.8, 0.8125, 0.9996, 0.9994, np.nan)] == ["80 %", "81.2 %", "100 %", "99.9 %", "-"]
    assert [whole(share) for share in (0.594, 0.006, -0.004, -0.1)] == ["59 %", "1 %", "0 %", "-10 %"]
    assert [count(value) for value in (7.0, 7.25, 99.94, 100.4, 1234.0, np.nan)] == ["7", "7.25", "99.9", "100", "1234", "-"]
    assert [cost_text(value, "cost") for value in (1.23456, np.inf)] == ["1.235 cost", "-"]


@pytest.mark.parametrize(("target", "text"), [
    ({"metric": "worst", "accuracy": 0.8}, "80 % worst-case accuracy"),
    ({"metric": "average", "accuracy": 0.9, "window": 1}, "90 % average accuracy"),
    ({"metric": "worst", "accuracy": 0.8, "window": 20}, "80 % worst-case accuracy (mean over 20 rounds)"),
    ({"metric": "worst", "accuracy": 0.8, "window": 2}, "80 % worst-case accuracy (mean over 2 rounds)"),
    (None, "the end of the run"),
])  # fmt: skip
def test_a_target_in_words_says_over_how_many_rounds_it_is_averaged(target, text):
    assert goal_text(target) == text


def test_policies_that_were_told_alike_share_a_line(tmp_path):
    folder = run_folder(tmp_path / "run", labels=("fedavg", "drdm", "afl"), seeds=2, rounds=2)
    for label, mode in (("fedavg", "replay of all 12 rounds"), ("drdm", "replay of all 40 rounds"), ("afl", "live: losses")):
        for seed in range(2):
            held = folder / label / f"seed-{seed}" / "status.json"
            held.write_text(json.dumps({**json.loads(held.read_text()), "mode": mode}))
    assert modes(Results(folder)) == ["fedavg, drdm: replay of all rounds", "afl: live: losses"]


# --- the surest, then the cheapest

def test_scores_by_hand():
    """Candidates: cheap but once missed; dear; never reached. Subsets: the first seed, the second, both."""
    cost, missed = np.array([[1.0, 9.0], [4.0, 6.0], [2.0, 2.0]]), np.array([[False, True], [False, False], [True, True]])
    found = scores(cost, missed, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    step = 1 + 2 * 6  # outweighs every difference of means of costs that count
    assert found[0].tolist() == [1.0, np.inf, step + 1.0]
    assert found[1].tolist() == [4.0, 6.0, 5.0]
    assert found[2].tolist() == [np.inf] * 3
    assert found.argmin(axis=0).tolist() == [0, 1, 1]


def test_the_sort_key_puts_what_is_not_known_last():
    keys = [surest_then_cheapest(1.0, 5.0), surest_then_cheapest(1.0, np.nan), surest_then_cheapest(0.9, 1.0), surest_then_cheapest(1.0, 5.0, np.nan)]
    assert sorted(range(4), key=keys.__getitem__) == [0, 3, 1, 2]
    assert surest_then_cheapest(1.0, 5.0, 2.0) < surest_then_cheapest(1.0, 5.0, 3.0)


def line(policy, **more):
    return {"policy": policy, "seeds": 4, "diverged": 0, "final_worst": 0.5, "reached_energy_j": 10.0, **more}


def test_of_equals_the_better_worst_client_comes_first_and_without_target_who_did_not_diverge():
    assert [row["policy"] for row in ranked([line("a", p_reach=1.0, final_worst=0.6), line("b", p_reach=1.0, final_worst=0.7)])] == ["b", "a"]
    assert [row["policy"] for row in ranked([line("a", final_worst=0.9, diverged=1), line("b")])] == ["b", "a"]
    assert [row["policy"] for row in ranked([line("a"), line("b", final_worst=0.51)])] == ["b", "a"]
    assert [row["policy"] for row in ranked([line("a", p_reach=0.0, final_worst=0.4), line("b", p_reach=0.0)])] == ["b", "a"]


def test_of_a_share_the_interval_has_a_width_at_either_end():
    """Clopper and Pearson with all of n: the lower bound is 0.025^(1/n); with none, one minus that."""
    assert (Interval.of_share(4, 4).low, Interval.of_share(4, 4).high) == pytest.approx((0.025**0.25, 1.0))
    assert (Interval.of_share(0, 5).low, Interval.of_share(0, 5).high) == pytest.approx((0.0, 1 - 0.025**0.2))


def test_equal_costs_have_an_interval_without_width_to_the_last_bit():
    rng = np.random.default_rng(0)
    for n in range(2, 12):
        for cost in rng.lognormal(size=100).tolist():
            found = Interval.of_costs([cost] * n)
            assert found.low == found.mean == found.high == pytest.approx(cost, rel=1e-15)


# --- what is missing

def test_a_run_without_rows_missed_and_cost_nothing_that_is_known(tmp_path):
    rounds = Results(run_folder(tmp_path / "run", seeds=1, rounds=3)).rounds
    facts = run_facts(rounds.iloc[:0], {"metric": "worst", "accuracy": 0.8})
    assert [facts[name] for name in ("reached", "energy_j", "rounds", "time_s", "asked", "delivered")] == [0.0] * 6
    assert all(np.isnan(facts[name]) for name in ("final_worst", "final_average", "latency_p50_s", "latency_p95_s"))


def test_the_last_evaluation_counts_and_not_the_last_round(tmp_path):
    rounds = Results(run_folder(tmp_path / "run", seeds=1, rounds=4)).rounds
    own = rounds[rounds["policy"] == "drdm"].copy()
    own.loc[own.index[-1], ["worst", "average", "std", "worst10", "jain"]] = np.nan
    facts = run_facts(own, None)
    assert facts["final_worst"] == own["worst"].iloc[-2]
    assert facts["rounds"] == 4
    assert facts["energy_j"] == pytest.approx(own["energy_j"].sum())
    assert facts["reached"] == 0.0


def test_results_that_cannot_be_written_are_said(tmp_path):
    (tmp_path / "taken").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"cannot make .*taken/drdm: Not a directory; make room for it, or name another folder with --out"):
        Tables(tmp_path / "taken" / "drdm")
