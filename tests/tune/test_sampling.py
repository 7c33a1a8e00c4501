"""Sampling of settings by Optuna: planted optima, the same sequence again, and what is said where it is missing."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from small_scenarios import small

from wflsim.errors import WflsimError
from wflsim.scenario.knobs import TauRange
from wflsim.tune.attempt import attempt, dearest, is_sampled
from wflsim.tune.costs import Limits
from wflsim.tune.sampling import Axes, sample
from wflsim.tune.search import Progress
from wflsim.tune.setting import Setting
from wflsim.tune.space import Space
from wflsim.tune.study import study

BITS = tuple(map(json.dumps, (2, 4, 6, 8, 12, 16)))
M = tuple(map(json.dumps, (2, 4, 6, 8, 10, 15, 20)))
SPACE = Space(TauRange(most=100), {"m": M, "train.compress.up.bits": BITS}, (), None)


class Planted:
    """A valley over the logarithms of tau, m and bits, with its floor elsewhere in every regime; known at once."""

    def __init__(self, floors):
        self.floors = floors
        self.asked = []

    def cost(self, setting, floor):
        place = np.log([setting.tau, *(json.loads(value) for _, value in setting.knobs)])
        return float(np.exp(0.3 * ((place - np.log(floor)) ** 2).sum()))

    def progress(self, setting, /):
        known = setting in self.asked
        cost = np.array([[self.cost(setting, floor)] * 3 for floor in self.floors]) * known
        return Progress(cost, np.full(cost.shape, known), known, rounds=cost, time_s=cost, client_j=cost)

    def extend(self, settings, /):
        self.asked += settings


def test_a_sample_finds_the_valley_of_every_regime_with_a_fraction_of_the_trainings():
    floors = [(5, 4, 12), (50, 15, 4)]
    planted = Planted(floors)
    tried, given_up = sample(SPACE, planted, 60, Limits(), np.inf)
    assert len(tried) == len(set(tried)) == 60 < Axes(SPACE).size / 6
    assert given_up == set()
    for floor in floors:
        assert min(planted.cost(setting, floor) for setting in tried) < 1.1, "of a cost that reaches 100 and more"
    again = Planted(floors)
    assert sample(SPACE, again, 60, Limits(), np.inf)[0] == tried
    assert again.asked == planted.asked, "in batches of a fixed size: the order is the same, too"


def test_all_combinations_are_tried_where_they_are_allowed_and_a_sample_otherwise():
    listed = SPACE._replace(taus=[1, 5])
    assert not is_sampled(listed, 84)
    assert is_sampled(listed, 83)
    assert not is_sampled(Space([1, 2, 3], {}, (), None), 1), "a list of tau alone is trained whole"
    whole = attempt(listed, 5, Planted([(5, 4, 12)]), 84, Limits(), keep_all=True)
    assert whole.settings == [Setting(tau, (("m", m), ("train.compress.up.bits", bits))) for tau in (1, 5) for m in M for bits in BITS]
    assert len(dearest(SPACE, 5, 30)) == 30
    assert sample(listed, Planted([(5, 4, 12)]), 100, Limits(), np.inf)[0][83:84], "there are no more than 84"


def test_a_study_with_too_many_settings_says_that_it_samples_and_comes_out_the_same_again(monkeypatch):
    many = small("policies=[{name: fedavg, m: 4, tau: 3, eta: 0.1}]", "stop.rounds=4", "stop.target={accuracy: 0.3, metric: average}", "seeds=1", "tune.trainings=5",
                 "tune.knobs={tau: [1, 4], m: [2, 4, 6], eta: [0.05, 0.1]}")  # fmt: skip
    found = study(many, workers=1)
    assert "fedavg: 5 of 12 settings are tried, sampled by Optuna: tune.trainings allows no more" in found.notes
    assert len(found.choices["fedavg", 0].candidates) == 5
    assert repr(study(many, workers=2).choices) == repr(found.choices), "on two workers"
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(WflsimError, match=r"pip install 'wflsim\[tune\]'"):
        study(many, workers=1)
