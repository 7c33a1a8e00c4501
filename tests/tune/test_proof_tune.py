"""What tuning says, on the terminal, in its tables and in words: every number and bound is read back and derived from the costs."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from row_facts import interval, numbers

from wflsim.cli.tau_map import HOLLOW, tau_map
from wflsim.experiments.plan import Regime
from wflsim.scenario.blocks import CostSpec, KnobsSpec, TuneSpec
from wflsim.simulation.stop import Target
from wflsim.tune.choice import choose
from wflsim.tune.costs import cost_of, cost_of_facts, energy_column, shown
from wflsim.tune.folder import tables
from wflsim.tune.study import Line, Study
from wflsim.tune.words import answer

TAUS = (5, 10, 20)
COST = np.array([[30.0, 33.0, 31.0, 29.0, 32.0], [20.0, 21.0, 19.0, 22.0, 20.5], [26.0, 25.0, 27.0, 24.0, 26.5]])
YES = np.ones(COST.shape, dtype=bool)


def study_of(choices, keys=("radio.snr",), objective="energy"):
    """A study whose choices are given, one per regime; regimes are named by their number in dB."""
    worlds = SimpleNamespace(stop=SimpleNamespace(rounds=40))
    found = [Regime(n, dict.fromkeys(keys, f"{n} dB"), worlds) for n in range(len(choices))]
    spec = TuneSpec(knobs=KnobsSpec(tau=TAUS), objective=objective, cost=CostSpec(per_joule=1.0) if objective == "cost" else None)
    held = Study(spec, Target(accuracy=0.8), found, tuple(keys))
    held.choices = {("drdm", n): choice for n, choice in enumerate(choices)}
    held.lines = [Line("drdm", tau, 0, 12.0, True) for tau in TAUS]
    return held


def printed(found):
    """The tables on the terminal, each as rows of cells."""
    out = io.StringIO()
    for table in tau_map(found):
        Console(file=out, width=300).print(table)
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in out.getvalue().splitlines() if line.startswith("│")]


def subsets_won(cost, i):
    """Share of the subsets of seeds on which candidate i is the cheapest, the empty one won by nobody."""
    n, won = cost.shape[1], 0
    for mask in range(1, 2**n):
        chosen = [seed for seed in range(n) if mask >> seed & 1]
        won += int(cost[:, chosen].mean(axis=1).argmin() == i)
    return won / 2**n


def test_the_table_of_one_regime_by_hand():
    for i, (tau, cost, bounds, regret, best, reach) in enumerate(printed(study_of([choose(TAUS, COST, YES)], keys=()))):
        mean, low, high = interval(COST[i])
        assert tau == f"{TAUS[i]}{' *' if i == 1 else ''}"
        assert numbers(cost) == pytest.approx([mean], rel=5.01e-3)
        assert numbers(bounds) == pytest.approx([low, high], rel=5.01e-3)
        assert numbers(regret) == pytest.approx([mean / COST[1].mean() - 1], abs=5.01e-4)
        assert numbers(best) == pytest.approx([subsets_won(COST, i)], abs=5.01e-4)
        assert reach == "100 %"


def test_the_sentence_of_one_regime_by_hand():
    """Tau 10 wins whichever seed is left out, so on unseen seeds it costs what it costs."""
    text = answer(study_of([choose(TAUS, COST, YES)], keys=()))
    mean, low, high = interval(COST[1])
    assert text.startswith("drdm reaches 80 % worst accuracy with tau=10 for ")
    cost, unseen = text.split(" for ")[1].split(" (on seeds that did not choose it ")
    assert numbers(cost) == pytest.approx([mean, low, high], rel=5.01e-3)
    shown_mean, shown_low, shown_high = numbers(unseen.split(")")[0])
    assert shown_mean == pytest.approx(mean, rel=5.01e-3)
    assert shown_low <= low * 1.005 < shown_mean < high * 0.995 <= shown_high, "no surer than the winner's own interval"
    assert text.endswith(f", the best of these with {100 * subsets_won(COST, 1):.1f} % confidence.")
    assert "within 5 %" not in text


@pytest.mark.parametrize(("factor", "within"), [(1.049, (10, 20)), (1.051, (10,))])
def test_as_good_as_the_best_is_what_costs_up_to_five_percent_more(factor, within):
    cost = np.array([COST[0], COST[1], factor * COST[1]])
    found = choose(TAUS, cost, YES)
    assert found.within5 == within
    assert (", within 5 %: 10 20," in answer(study_of([found], keys=()))) == (len(within) == 2)


def test_the_map_goes_from_the_least_to_the_largest_tau_and_counts_edges():
    first, middle, last = (choose(TAUS, np.roll(COST, shift, axis=0), YES) for shift in (-1, 0, 1))
    assert [one.best.tau for one in (first, middle, last)] == [5, 10, 20]
    assert [one.edge for one in (first, middle, last)] == ["low", "", "high"]
    found = study_of([last, middle, first])
    text = answer(found)
    assert text.startswith("drdm, 80 % worst accuracy: tau* from 5 (snr 2 dB: tau=5 for ")
    assert ") to 20 (snr 0 dB: tau=20 for " in text
    assert "In 2 of 3 regimes tau* is the first or last candidate: try beyond." in text
    rows = printed(found)
    assert [row[0] for row in rows] == ["0 dB", "1 dB", "2 dB"]
    for row, tau in zip(rows, (20, 10, 5), strict=True):
        assert row[1].startswith(f"{tau}{'' if tau == 10 else '*'} (")
        assert numbers(row[1].split("(")[1]) == pytest.approx([COST[1].mean()], rel=5.01e-3)
        assert row[-1] == "100 %"
    table = tables(found)["map.csv"]
    assert table["tau_star"].tolist() == [20, 10, 5]
    for _, row in table.iterrows():
        assert (row["cost"], row["cost_low"], row["cost_high"]) == pytest.approx(interval(COST[1]))
    costs = tables(found)["costs.csv"]
    mine = costs[(costs["regime"] == 1) & (costs["tau"] == 20)].iloc[0]
    assert (mine["cost"], mine["cost_low"], mine["cost_high"]) == pytest.approx(interval(COST[2]))
    assert mine["regret"] == pytest.approx(COST[2].mean() / COST[1].mean() - 1)


def test_a_tau_that_missed_has_a_lower_bound_and_no_interval():
    reached = YES.copy()
    reached[0, 2] = False
    rows = printed(study_of([choose(TAUS, COST, reached)], keys=()))
    assert rows[0][1:3] == [">= 31 J", "-"]
    assert rows[0][-1] == "80 %"
    reached[:, 0] = False
    text = answer(study_of([choose(TAUS, COST, reached)], keys=()))
    assert "with tau=10 for at least 20.5 J (" in text or "with tau=10 for at least 20.5 J," in text
    assert "In 1 of 1 regimes even the best tau misses it on some seeds, and its cost is at least what is given." in text


def test_a_tau_that_was_cut_off_while_cheaper_is_hollow_and_said():
    reached, cost = YES.copy(), COST.copy()
    reached[2], cost[2] = False, 5.0
    found = study_of([choose(TAUS, cost, reached)], keys=())
    assert printed(found)[2][0] == f"20 {HOLLOW}"
    assert "stop.rounds=40 cut off tau=20, which could still win: raise stop.rounds." in answer(found)
    cost[2] = 50.0
    reached[2, :2] = True
    dear = study_of([choose(TAUS, cost, reached)], keys=())
    assert printed(dear)[2][0] == "20"
    assert "raise stop.rounds" not in answer(dear)


def test_nobody_reached_names_the_nearest():
    attained = np.array([[0.5] * 5, [0.7] * 5, [0.6] * 5])
    found = study_of([choose(TAUS, COST, ~YES, attained=attained)], keys=())
    assert answer(found).startswith("No tau brings drdm to 80 % worst accuracy; nearest: tau=10 with 70 %.")
    diverged = study_of([choose(TAUS, COST, ~YES, diverged=YES)], keys=())
    assert "every run diverged" in answer(diverged)
    some = study_of([choose(TAUS, COST, ~YES, attained=attained), choose(TAUS, COST, YES)])
    assert "No tau brings drdm to 80 % worst accuracy in 1 of 2 regimes; nearest: tau=10 with 70 %." in answer(some)
    assert printed(some)[0][1] == f"none{HOLLOW} (10: 70 %)"


def test_what_is_minimised():
    facts = {"energy_j": 3.0, "paper_energy_j": 2.0, "time_s": 100.0}
    full, paper = TuneSpec(), TuneSpec(accounting="paper")
    assert (energy_column(full), energy_column(paper)) == ("energy_j", "paper_energy_j")
    assert (cost_of_facts(full, facts), cost_of_facts(paper, facts)) == (3.0, 2.0)
    assert cost_of_facts(TuneSpec(objective="time"), facts) == 100.0
    money = TuneSpec(objective="cost", cost=CostSpec(per_joule=2.0, per_second=0.1))
    assert cost_of_facts(money, facts) == pytest.approx(16.0)
    assert cost_of(money, 1.0, 10.0) == pytest.approx(3.0)
    assert [shown(spec, 1234.5) for spec in (full, TuneSpec(objective="time"), money)] == ["1.23 kJ", "20.6 min", "1234"]
