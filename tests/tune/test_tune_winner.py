"""What tuning may say about its winner: calibrated chances, a cost without the winner's curse, nothing of what missed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scripted_tuning import Scripted
from small_scenarios import PAPERS_CNN, TUNED, small_drdm

from studies import winner
from wflsim.cli.tau_map import tau_map
from wflsim.rng import stream
from wflsim.tune.choice import choose
from wflsim.tune.folder import tune
from wflsim.tune.search import search
from wflsim.tune.study import study

ROOT = Path(__file__).resolve().parents[2]


def everybody(cost):
    return np.ones(np.shape(cost), dtype=bool)


def studies(taus, seeds, count, variation=0.2):
    """Tables of costs of equally good taus, half of the variance common to a seed."""
    draw = stream(1, "test", taus, seeds)
    noise = draw.normal(size=(count, 1, seeds)) + draw.normal(size=(count, taus, seeds))
    return np.exp(variation / 2**0.5 * noise - variation**2 / 2)


@pytest.mark.parametrize(("seeds", "allowed"), [(3, 0.0), (5, 2 / 32), (10, 0.10)])
def test_of_two_equal_taus_one_is_rarely_called_the_best(seeds, allowed):
    """With n seeds the chance of being best is at least 95 % in at most 10 % of studies; exactly 2/2^5 with five."""
    count = 400
    sure = np.mean([max(one.p_best for one in choose([1, 2], cost, everybody(cost)).candidates) >= 0.95 for cost in studies(2, seeds, count)])
    assert sure <= allowed + 2.6 * np.sqrt(allowed * (1 - allowed) / count)


def test_two_seeds_claim_nothing():
    cost = np.array([[1.0, 1.1], [9.0, 9.1]])
    assert all(np.isnan(one.p_best) for one in choose([1, 2], cost, everybody(cost)).candidates)


def test_the_chance_counts_subsets_of_seeds():
    """Differences 1, 1, -1.5: tau 1 wins {0}, {1}, {0,1}, {0,1,2}; tau 2 wins {2}, {0,2}, {1,2}; nobody the empty one."""
    cost = np.array([[1.0, 1.0, 2.5], [2.0, 2.0, 1.0]])
    assert [one.p_best for one in choose([1, 2], cost, everybody(cost)).candidates] == [4 / 8, 3 / 8]
    same = np.ones((2, 4))
    assert [one.p_best for one in choose([1, 2], same, everybody(same)).candidates] == [15 / 32, 15 / 32], "equals share"


def test_the_cost_on_unseen_seeds_by_hand():
    """Seed by seed, the winner on the other two seeds pays: left out 0, tau 2 (3 < 4) pays 5; 1: tau 1 pays 1; 2: tau 1, 3."""
    cost = np.array([[1.0, 1.0, 3.0], [5.0, 2.0, 1.0]])
    found = choose([1, 2], cost, everybody(cost))
    assert found.best.tau == 1
    assert found.unseen.mean == pytest.approx((5 + 1 + 3) / 3)
    assert found.unseen.low <= found.best.cost.low
    assert found.unseen.high >= found.best.cost.high


def test_the_winner_of_equal_taus_costs_on_unseen_seeds_what_it_truly_costs():
    """Six equal taus, five seeds: its own cost is low and its interval misses; on unseen seeds neither."""
    tables = studies(6, 5, 500)
    found = [choose(range(1, 7), cost, everybody(cost)) for cost in tables]
    own = np.mean([choice.best.cost.mean for choice in found]) - 1
    unseen = np.array([choice.unseen.mean for choice in found]) - 1
    covered = np.mean([choice.unseen.low <= 1 <= choice.unseen.high for choice in found])
    assert own < -0.05
    assert abs(unseen.mean()) < 2.6 * unseen.std() / np.sqrt(len(found))
    assert 0.93 <= covered <= 0.995


def test_early_stopping_never_raises_the_chance_of_the_winner():
    """Whole curves against the same curves cut short: same winner, same 5 % set, same costs, a chance that is no higher."""
    rounds = np.ceil(40 * studies(6, 5, 120, variation=0.6) * (1 + 0.2 * np.arange(6))[:, None])
    gave_up = 0
    for each in rounds:
        stopped, full, _ = winner.early(each)
        gave_up += any(one.stopped for one in stopped.candidates)
        assert (stopped.best.tau, stopped.within5, stopped.best.cost, stopped.unseen) == (full.best.tau, full.within5, full.best.cost, full.unseen)
        assert stopped.best.p_best <= full.best.p_best
        for one, other in zip(stopped.candidates, full.candidates, strict=True):
            assert one.p_best <= other.p_best <= one.p_best_most
    assert gave_up > 60


def test_one_bad_seed_does_not_make_the_others_count_for_nothing():
    """The worst case of early stopping: tau 2 is cheaper on four seeds and very dear on the fifth, where it is cut short."""
    full = np.array([[10.0, 10.0, 10.0, 10.0, 10.0], [9.0, 9.0, 9.0, 9.0, 90.0]])
    seen, reached = full.copy(), everybody(full)
    seen[1, 4], reached[1, 4] = 30.0, False
    early = choose([1, 2], seen, reached, [False, True])
    late = choose([1, 2], full, everybody(full))
    assert early.best.tau == late.best.tau == 1
    assert early.best.p_best == late.best.p_best == 16 / 32, "the subsets with the fifth seed"


def test_the_winners_page_follows_from_its_table():
    assert (ROOT / "reports/statistics/winner.md").read_text() == winner.page()


def test_committed_table_says_what_the_study_says():
    table = pd.read_csv(ROOT / "reports/statistics/winner.csv")
    equal = table[table["table"] == "equal"]
    assert len(equal) == 36
    assert equal["unseen_bias"].abs().max() < 0.02
    assert equal["unseen_covers"].between(0.94, 0.99).all()
    assert (equal["sure_now"] <= 0.10 + 2.6 * np.sqrt(0.09 / 2000)).all()
    line = table[(table["taus"] == 2) & (table["seeds"] == 5) & (table["variation"] == 0.1) & (table["common"] == 0.5)].iloc[0]
    again = winner.line(winner.Setting(2, 5, 0.1, 0.5), 200)
    assert again["sure_now"] == pytest.approx(line["sure_now"], abs=0.05)
    stopped = table[table["table"] == "early stopping"]
    assert (stopped["chance_raised"] == 0).all()
    assert (stopped["same_winner_and_costs"] == 1).all()


# what missed, diverged, or was cut off


def test_a_run_that_diverged_is_never_cheap():
    """Tau 1 dies in round 3 on every seed; tau 2 reaches. And where both reach on two seeds of three, early death is no discount."""
    cost = np.array([[0.3, 0.3, 0.3], [5.0, 5.0, 5.0]])
    dead = np.array([[True] * 3, [False] * 3])
    found = choose([1, 2], cost, ~dead, diverged=dead)
    assert found.best.tau == 2
    assert np.isnan(found.candidates[0].cost.mean)
    assert (found.candidates[0].diverged, found.candidates[0].censored, found.candidates[0].p_best) == (3, 0, 0)
    assert found.could_win == ()
    cost = np.array([[5.0, 5.0, 0.1], [4.0, 4.0, 20.0]])
    reached = np.array([[True, True, False], [True, True, False]])
    diverged = np.array([[False, False, True], [False, False, False]])
    assert choose([1, 2], cost, reached, diverged=diverged).best.tau == 2, "4 < 5 where they reached"


def test_nobody_reached_means_no_winner():
    cost = np.array([[1.0, 2.0], [3.0, 4.0]])
    nobody = np.zeros((2, 2), dtype=bool)
    found = choose([1, 2], cost, nobody, attained=np.array([[0.2, 0.3], [0.4, 0.5]]))
    assert found.best is None
    assert (found.nearest.tau, found.nearest.attained) == (2, pytest.approx(0.45))
    assert found.within5 == ()
    everyone_dead = choose([1, 2], cost, nobody, diverged=~nobody)
    assert everyone_dead.best is None
    assert everyone_dead.could_win == ()


def test_a_tau_that_was_cut_off_while_cheaper_could_still_win():
    """Tau 2 spent 8 of the winner's 10 when stop.rounds came; tau 3 spent 11; tau 4 diverged; tau 5 spent its budget."""
    cost = np.array([[10.0] * 3, [8.0] * 3, [11.0] * 3, [8.0] * 3, [8.0] * 3])
    reached = np.array([[True] * 3] + [[False] * 3] * 4)
    diverged, exhausted = np.zeros((5, 3), dtype=bool), np.zeros((5, 3), dtype=bool)
    diverged[3, 0] = exhausted[4, 2] = True
    found = choose([1, 2, 3, 4, 5], cost, reached, diverged=diverged, exhausted=exhausted)
    assert found.best.tau == 1
    assert found.could_win == (2,)
    assert found.best.p_best == 0, "if tau 2 had reached at once, tau 1 would never be best"
    assert found.candidates[1].p_best_most == 7 / 8


def test_no_tau_is_given_up_that_one_left_out_seed_would_make_the_best():
    class Two(Scripted):
        def progress(self, tau):
            whole = {1: np.array([[10.0, 10.0, 10.0]]), 2: np.array([[9.0, 9.0, 40.0]])}[tau]
            at = np.minimum(whole, self.upto[tau])
            return type(super().progress(tau))(at, at >= whole, bool((at >= whole).all()))

    two = Two({1: 10, 2: 40}, {1: [1.0], 2: [1.0]}, 100)
    assert search([1, 2], two) == set(), "without the third seed tau 2 is the best"


def test_a_target_out_of_reach_has_no_winner_anywhere(tmp_path):
    """Sentence, tables, picture, terminal and page: no tau is recommended, and the nearest is named."""
    from wflsim.report.charts.chart import to_json
    from wflsim.report.compose import compose, gather

    _, found = tune(small_drdm(*TUNED, "stop.target.accuracy=1.0", "stop.rounds=3", "sweep={grid: {radio.snr: [0 dB, 9 dB], radio.bandwidth: [20 kHz, 1 MHz]}}"), tmp_path, workers=1)
    text = (tmp_path / "answer.txt").read_text()
    assert text.startswith("No tau brings drdm to 100 % worst accuracy in any of 4 regimes; nearest: tau=")
    assert "reaches" not in text.splitlines()[0]
    assert "raise stop.rounds" in text
    chosen = pd.read_csv(tmp_path / "map.csv")
    assert chosen["tau_star"].isna().all()
    assert chosen["cost"].isna().all()
    assert (chosen["p_reach"] == 0).all()
    assert set(pd.read_csv(tmp_path / "costs.csv")["censored"]) == {3}
    curves = pd.read_csv(tmp_path / "curves.csv")
    assert not curves["reached"].any()
    assert set(curves["rounds_to_target"]) == {3.0}
    assert "none" in str(next(iter(tau_map(found))).columns[1]._cells[0])
    page = compose(gather([tmp_path]))
    assert page.openings[0].answer.startswith("No τ reaches 100 % worst-case accuracy; nearest: ")
    words = to_json([chart.views for chart in page.charts])
    assert "none" in words
    assert "nan" not in words.lower()


@pytest.mark.parametrize("world", ["radio.snr=10 dB", "radio.loss.outage_threshold=1e-30 linear"], ids=["replayed", "live"])
def test_a_tau_whose_training_diverges_is_not_recommended(world):
    """At this step size tau=8 diverges within a few rounds on every seed; tau=1 lives and misses. Early death was cheapest."""
    found = study(small_drdm("policies=[{name: drdm, m: 4, tau: 3, eta: 20}]", "stop.rounds=12", "stop.target={accuracy: 0.3}", "seeds=3", "tune.knobs.tau=[1, 8]", world), workers=1)
    choice = next(iter(found.choices.values()))
    alive, dead = choice.candidates
    assert (alive.diverged, alive.censored, dead.diverged, dead.censored) == (0, 3, 3, 0)
    assert choice.best is None
    assert np.isnan(dead.cost.mean)
    assert choice.nearest is alive
    assert [line.diverged for line in found.lines] == [False] * 3 + [True] * 3


CUT = ("stop.target={accuracy: 0.5, hold: 3}", "seeds=3", "tune.knobs.tau=[1, 8]", "radio.snr=30 dB", "radio.bandwidth=10 MHz", PAPERS_CNN)


def test_a_real_tau_that_stop_rounds_cut_off_is_said_and_drawn_hollow(tmp_path):
    """With 12 rounds tau=8 is the only sure one; with 100 it turns out that tau=1 costs less than half of it."""
    from wflsim.report.compose import compose, gather

    _, short = tune(small_drdm("stop.rounds=12", *CUT), tmp_path / "short", workers=1)
    _, long = tune(small_drdm("stop.rounds=100", *CUT), tmp_path / "long", workers=1)
    early, late = (next(iter(found.choices.values())) for found in (short, long))
    assert (early.best.tau, early.could_win, late.best.tau, late.could_win) == (8, (1,), 1, ())
    assert early.best.p_best == 0
    assert late.best.p_best == 7 / 8
    words = (tmp_path / "short/answer.txt").read_text()
    assert "stop.rounds=12 cut off tau=1, which could still win: raise stop.rounds." in words
    assert "raise stop.rounds" not in (tmp_path / "long/answer.txt").read_text()
    assert pd.read_csv(tmp_path / "short/map.csv")["could_win"].tolist() == [1]
    assert pd.read_csv(tmp_path / "short/costs.csv")["censored"].tolist() == [2, 0]
    assert str(next(iter(tau_map(short))).columns[0]._cells[0]) == "1 ○"
    page = compose(gather([tmp_path / "short"]))
    assert any("stop.rounds cut off τ = 1 here" in line for line in page.warnings)
    costs = next(chart for chart in page.charts if chart.id == "tau-costs")
    symbols = costs.views[""]["data"][-1]["marker"]["symbol"]
    assert [symbol.endswith("-open") for symbol in symbols] == [True, False]


def test_the_page_begins_with_the_policy_that_won(tmp_path):
    """map.csv names fedavg first; drdm wins: tables, charts and the choice of policies begin with drdm."""
    from report_folders import tune_folder

    from wflsim.report.compose import compose, gather

    folder = tune_folder(tmp_path / "tune")
    chosen = pd.read_csv(folder / "map.csv")
    assert (chosen[chosen["policy"] == "drdm"]["cost"].to_numpy() < chosen[chosen["policy"] == "fedavg"]["cost"].to_numpy()).all()
    chosen.iloc[::-1].to_csv(folder / "map.csv", index=False)
    page = compose(gather([folder]))
    assert list(page.charts[0].controls[0].options.values()) == ["drdm", "fedavg"]
    assert [row[2].text for row in page.tables[0].rows] == ["drdm"] * 6 + ["fedavg"] * 6
    lines = [trace["name"] for trace in page.charts[1].views["0"]["data"] if "name" in trace]
    assert lines == ["drdm", "fedavg"]


def test_progress_without_a_terminal_is_a_line_with_the_time_left():
    """After 30 s and 40 of 160 rounds 90 s are left; before the first round nothing is claimed."""
    from wflsim.cli.progress import PlainLines
    from wflsim.experiments.compute import Tick

    now, said = [0.0], []
    lines = PlainLines(said.append, lambda: now[0])
    lines.write()
    lines.take(Tick("drdm, tau=5", 10, 170, "rounds"))
    lines.write()
    now[0] = 30.0
    lines.take(Tick("drdm, tau=5", 50, 170, "rounds"))
    lines.write()
    assert said == [
        "drdm, tau=5: 10 of at most 170 rounds, 0 s so far, time left not known yet",
        "drdm, tau=5: 50 of at most 170 rounds, 30 s so far, ETA at most about 90 s",
    ]


def test_tuning_without_a_terminal_is_not_silent(tmp_path, monkeypatch):
    """Real ticks of a real study, written every few milliseconds: rounds only grow, and end at what was looked at."""
    import io

    from rich.console import Console

    from wflsim.cli import progress

    monkeypatch.setattr(progress, "PLAIN_S", 0.01)
    file, ticks = io.StringIO(), []
    with progress.shown(Console(file=file, force_terminal=False)) as watch:
        found = study(small_drdm("stop.rounds=12", *CUT), workers=1, watch=lambda tick: (ticks.append(tick), watch(tick)))
    done = [tick.done for tick in ticks]
    assert done == sorted(done)
    assert ticks[0].at_most == 2 * 3 * 12
    assert all(tick.done <= tick.at_most for tick in ticks)
    assert found.trained_rounds >= done[-1]
    assert "rounds, " in file.getvalue()
    assert "ETA at most about" in file.getvalue()
