"""`tune.subject_to`: what misses a limit cannot win, and where nothing keeps to it, the nearest is named."""

from __future__ import annotations

import numpy as np
import pytest
from small_scenarios import small_drdm

from wflsim.errors import ScenarioError
from wflsim.scenario.blocks import SubjectTo, TauRange
from wflsim.tune.choice import Runs, choose_from
from wflsim.tune.costs import Limits
from wflsim.tune.growth import UNMET, explore
from wflsim.tune.search import Progress
from wflsim.tune.study import study
from wflsim.tune.words import answer

COST = np.array([[1.0, 1.2, 1.1, 0.9], [2.0, 2.1, 2.2, 1.9], [3.0, 3.1, 3.2, 2.9]])
TIME = np.array([[90.0] * 4, [50.0] * 4, [20.0] * 4])


def runs(reached=None, time_s=TIME, client_j=None):
    nobody = np.zeros(COST.shape, dtype=bool)
    there = ~nobody if reached is None else np.array(reached, dtype=bool)
    return Runs(COST, there, np.zeros(3, dtype=bool), nobody, nobody, np.zeros(COST.shape), None, time_s, client_j)


def test_the_cheapest_that_keeps_the_time_wins():
    taus = [1, 2, 4]
    assert choose_from(taus, runs()).best.tau == 1
    found = choose_from(taus, runs(), Limits(time_s=60.0))
    assert found.best.tau == 2
    assert [one.p_best for one in found.candidates] == [0, 15 / 16, 0], "tau 1 is no rival; nobody wins the empty set"
    assert np.isnan(found.candidates[0].regret)
    assert found.within5 == (2,), "tau 1 is cheaper, and too slow"
    assert choose_from(taus, runs(), Limits(time_s=50.0)).best.tau == 2, "at most means at most"
    assert choose_from(taus, runs(client_j=10 * TIME), Limits(client_j=300.0)).best.tau == 4


def test_nothing_keeps_to_it_and_the_nearest_is_named():
    found = choose_from([1, 2, 4], runs(), Limits(time_s=10.0))
    assert found.best is None
    assert found.nearest.tau == 4
    assert found.unmet == "time 20 s instead of at most 10 s"


def test_reach_is_a_limit_and_not_a_preference():
    """Tau 1 misses one seed of four: the surest wins without a limit, with one of 0.7 the cheapest that keeps it."""
    some = [[True, True, False, True], [True] * 4, [True] * 4]
    assert choose_from([1, 2, 4], runs(some)).best.tau == 2
    found = choose_from([1, 2, 4], runs(some), Limits(reach=0.7))
    assert (found.best.tau, found.best.p_reach, found.best.censored) == (1, 0.75, 1)
    assert np.isnan(found.best.cost.low), "a run that was cut off leaves a lower bound"
    assert choose_from([1, 2, 4], runs(some), Limits(reach=0.8)).best.tau == 2
    nobody = choose_from([1, 2, 4], runs([[True, False, False, False]] * 3), Limits(reach=0.5))
    assert nobody.best is None
    assert nobody.unmet == "P(reach) 25 % instead of at least 50 %"


class Slow:
    """Candidates of which a larger tau is dearer and faster: 100 rounds, 1,000/tau seconds."""

    def __init__(self):
        self.tried = set()

    def progress(self, tau):
        one = np.full((1, 3), float(tau in self.tried))
        return Progress(one * 100 * tau, one > 0, tau in self.tried, rounds=np.full((1, 3), 100.0), time_s=one * 1000 / tau)

    def extend(self, taus):
        self.tried |= set(taus)


def test_a_search_goes_where_the_limit_is_kept():
    found = explore(TauRange(), 2, Slow(), 30, Limits(time_s=10.0))
    assert 100 in found.taus, "1,000/tau <= 10 from tau=100 on"
    assert explore(TauRange(most=20), 2, Slow(), 30, Limits(time_s=10.0)).why == [UNMET]


def test_limits_are_read_with_their_units_and_refused_where_nothing_runs():
    given = small_drdm("tune.subject_to={time: 10 min, energy_per_client: 5 J, reach: 90 %}").tune.subject_to
    assert Limits.of(given) == Limits(600.0, 5.0, 0.9)
    assert Limits.of(SubjectTo()) == Limits.of(None) == Limits()
    with pytest.raises(ScenarioError, match="rounds_to_target holds no runs that could keep to subject_to"):
        small_drdm("tune={rounds_to_target: {5: 48, 6: 40}, subject_to: {reach: 0.9}}")


def test_a_study_says_that_nothing_keeps_to_the_limits(tmp_path):
    asked = ("stop.rounds=30", "stop.target={accuracy: 0.5, hold: 3}", "seeds=2", "tune.knobs.tau=[1, 3]")
    free = study(small_drdm(*asked), workers=1)
    slow = study(small_drdm(*asked, "tune.subject_to.time=1 us"), workers=1)
    assert free.choices["drdm", 0].best is not None
    assert slow.choices["drdm", 0].best is None
    assert "No tau of drdm keeps to tune.subject_to; nearest: tau=" in answer(slow)
    assert "instead of at most 1 us" in answer(slow).replace("µ", "u")
    spent = min(one.cost.mean for one in free.choices["drdm", 0].candidates if one.p_reach == 1)
    tight = study(small_drdm(*asked, f"tune.subject_to.energy_per_client={spent / 6 * 0.999} J"), workers=1)
    assert tight.choices["drdm", 0].best is None, "six clients share the least energy that reaches the target"
    wide = study(small_drdm(*asked, f"tune.subject_to.energy_per_client={spent / 6 * 1.001} J"), workers=1)
    assert wide.choices["drdm", 0].best.cost.mean == spent
