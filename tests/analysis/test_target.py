"""When a target is reached: one rule for the stop rule, the tables and tuning, and not a matter of how often one looks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from wflsim.analysis.tables import hit
from wflsim.errors import ScenarioError
from wflsim.records import Evaluation, RoundRow, TraceRound
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.simulation.stop import Stop, StopSpec, Target
from wflsim.tune.costs import reach


def noisy(slow: float, noise: float, seed: int, rounds: int = 300) -> np.ndarray:
    level = 0.9 * (1 - np.exp(-np.arange(1, rounds + 1) / slow))
    return np.minimum(1.0, level + np.random.default_rng(seed).normal(0, noise, rounds))


def frame(values, every=1):
    shown = [value if (s + 1) % every == 0 else None for s, value in enumerate(values)]
    return pd.DataFrame({"round": range(len(values)), "worst": shown})


def row(s: int, worst: float | None) -> RoundRow:
    held = dict.fromkeys(RoundRow._fields, 0)
    return RoundRow(**{**held, "round": s, "worst": worst, "average": worst})


@pytest.mark.parametrize("slow", [12.0, 40.0])
def test_a_window_gives_the_round_of_the_noiseless_crossing_however_often_one_looks(slow):
    """The issue's table: single evaluations of a noisy curve move by far more than their resolution, means do not."""
    curves = [noisy(slow, 0.06, seed) for seed in range(60)]
    crossing = slow * np.log(9)

    def mean(every, **rule):
        target = {"metric": "worst", "accuracy": 0.8, **rule}
        return np.mean([hit(frame(values, every), target) + 1 for values in curves])

    means = {every: mean(every, window=20) for every in (1, 2, 5, 10)}
    for every, found in means.items():
        assert abs(found - crossing) < 4 + every / 2, (every, found)
    assert max(means.values()) - min(means.values()) < 9, "the resolution of every tenth round"
    if slow > 20:
        assert mean(10, hold=1) - mean(1, hold=1) > 15, "what the window is for"


def test_by_hand():
    """Means over three rounds: .2, .5, .6, .77, .9 -> the window of rounds 2, 3, 4 is the first at .7, its middle is 3."""
    values = frame([0.2, 0.8, 0.8, 0.7, 0.9, 0.9])
    assert hit(values, {"metric": "worst", "accuracy": 0.75, "window": 3}) == 2
    assert hit(values, {"metric": "worst", "accuracy": 0.79, "window": 3}) == 3
    assert hit(values, {"metric": "worst", "accuracy": 0.85, "window": 2}) == 5, "of two middles the later"
    assert hit(values, {"metric": "worst", "accuracy": 0.95, "window": 2}) is None
    holes = frame([None, 0.2, None, 0.8, None, 0.8, None, 0.8])
    assert hit(holes, {"metric": "worst", "accuracy": 0.8, "window": 4}) == 4, "rounds 3 and 5; their middle was not evaluated"


@pytest.mark.parametrize("rule", [{"hold": 1}, {"hold": 3}, {"window": 2}, {"window": 10}, {"window": 20}])
@pytest.mark.parametrize("every", [1, 3])
def test_stop_rule_tables_and_tuning_name_the_same_round(rule, every):
    target = Target(accuracy=0.8, **rule)
    for seed in range(20):
        rounds = frame(noisy(15.0, 0.1, seed, 120), every)
        shown = [None if value != value else value for value in rounds["worst"]]
        at = hit(rounds, {"metric": "worst", **target.model_dump()})
        trace = [TraceRound(s, [], None if value is None else Evaluation([value, 1.0], [0.0, 0.0], None)) for s, value in enumerate(shown)]
        found = reach(trace, target)
        assert (found.first if found.held else None) == at
        stop = Stop(StopSpec(rounds=120, target=target))
        ended = next(s for s, value in enumerate(shown) if stop(row(s, value)))
        stopped = rounds.iloc[: ended + 1]
        assert hit(stopped, {"metric": "worst", **target.model_dump()}) == at, "the run stops no earlier than its proof"
        if at is not None and ended > at + 1:
            assert hit(stopped.iloc[:-1], {"metric": "worst", **target.model_dump()}) is None, "and no later"


@pytest.mark.parametrize("rule", [{"hold": 1}, {"hold": 4}, {"window": 7}, {"window": 20}])
def test_tuning_never_walks_past_a_round_that_may_still_prove_to_be_the_one(rule):
    """`reach` of every prefix: the earliest possible round is never after the round that did reach it."""
    target = Target(accuracy=0.8, **rule)
    for seed in range(10):
        trace = [
            TraceRound(s, [], Evaluation([value, 1.0], [0.0, 0.0], None) if s % 2 else None)
            for s, value in enumerate(noisy(15.0, 0.1, seed, 120))
        ]
        at = reach(trace, target).first
        assert reach(trace, target).held
        for upto in range(1, 121):
            early = reach(trace[:upto], target)
            assert early.held or early.first is None or early.first <= at
            assert early.held or early.first is not None or upto <= at, "what is walked so far is not beyond it"


def test_two_cures_for_one_noise_are_refused_in_words():
    text = """
name: x
clients: 4
data: {name: digits}
partition: {alpha: 1}
model: {name: linear}
policies: [{name: fedavg, m: 2, tau: 1, eta: 0.1}]
radio: {snr: 10 dB}
stop:
  rounds: 9
  target: {accuracy: 0.5, hold: 2, window: 5}
"""
    with pytest.raises(ScenarioError, match="hold: 2 and window: 5 are two cures for one noise; keep the window"):
        build(parse(text, "x.yaml"))
