"""When a run ends and what it evaluates: every stop rule from both sides, by hand count; and kills at bad moments."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import small_scenarios
from alone import run_alone
from quadratics import problem, run
from rigs import CLIENTS, Rows, learner, world

from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run
from wflsim.policies.fedavg import FedAvg
from wflsim.records import RoundRow
from wflsim.results.folders import status
from wflsim.results.store import Store
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.simulation.loop import Instant, drive
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training
from wflsim.target import metrics

SMALL = small_scenarios.SMALL.replace("  - {name: fedavg, m: 4, tau: 3, eta: 0.1}\n", "")
"""DRDM alone."""


def row(round=0, end_s=1.0, energy_j=1.0, worst=None, average=None):
    return RoundRow(round=round, start_s=0.0, end_s=end_s, asked=1, delivered=1, energy_j=energy_j, radiated_j=0.0, paper_energy_j=0.0,
                    up_bits=0, down_bits=0, loss=None, average=average, worst=worst, std=None, worst10=None, jain=None)  # fmt: skip


def ends(spec, rows):
    """(number of rounds, reason), fed with one row after the other."""
    stop = Stop(StopSpec.model_validate({"rounds": 100, **spec}))
    for count, one in enumerate(rows, 1):
        if (reason := stop(one._replace(round=count - 1))) is not None:
            return count, reason
    return None


@pytest.mark.parametrize(("time_s", "expected"), [(2.9, 3), (3.0, 3), (3.001, 4), (0.5, 1)])
def test_time_is_up_after_the_round_that_reaches_it(time_s, expected):
    """Rounds end at 1, 2, 3, ... seconds."""
    rows = [row(end_s=float(s + 1)) for s in range(10)]
    assert ends({"time": time_s}, rows) == (expected, "time is up")


@pytest.mark.parametrize(("energy_j", "expected"), [(5.9, 3), (6.0, 3), (6.001, 4), (0.1, 1)])
def test_energy_is_spent_after_the_round_that_reaches_it(energy_j, expected):
    """2 J a round, all clients together."""
    rows = [row(energy_j=2.0) for _ in range(10)]
    assert ends({"energy": energy_j}, rows) == (expected, "energy spent")


@pytest.mark.parametrize("rounds", [1, 4])
def test_all_rounds_are_done_after_so_many(rounds):
    assert ends({"rounds": rounds}, [row() for _ in range(10)]) == (rounds, "all rounds done")


WORST = [0.5, 0.8, 0.79, 0.8, 0.85, 0.9]
AVERAGE = [0.8, 0.7, 0.95, 0.95, 0.96, 0.97]


@pytest.mark.parametrize(("target", "expected"), [
    ({"accuracy": 0.8}, 2), ({"accuracy": 0.801}, 5), ({"accuracy": 0.8, "hold": 2}, 5), ({"accuracy": 0.8, "hold": 3}, 6),
    ({"metric": "average", "accuracy": 0.8}, 1), ({"metric": "average", "accuracy": 0.9}, 3),
    ({"metric": "average", "accuracy": 0.9, "hold": 3}, 5), ({"metric": "worst", "accuracy": 0.9}, 6),
])  # fmt: skip
def test_the_target_is_reached_on_its_metric_and_held_without_a_gap(target, expected):
    rows = [row(worst=worst, average=average) for worst, average in zip(WORST, AVERAGE, strict=True)]
    assert ends({"target": target}, rows) == (expected, "target reached")


def test_a_target_is_not_reached_below_it_and_rounds_without_evaluation_do_not_break_the_hold():
    rows = [row(worst=0.9, average=0.9), row(), row(worst=0.9, average=0.9), row()]
    assert ends({"target": {"accuracy": 0.9, "hold": 2}}, rows) == (3, "target reached")
    assert ends({"target": {"accuracy": 0.901}}, rows) is None
    assert ends({"target": {"accuracy": 0.9}, "at_target": False}, rows) is None


def test_of_several_rules_the_first_that_applies_ends_the_run():
    rows = [row(end_s=float(s + 1), energy_j=2.0) for s in range(10)]
    assert ends({"rounds": 5, "time": 4.0, "energy": 100.0}, rows) == (4, "time is up")
    assert ends({"rounds": 5, "time": 40.0, "energy": 6.0}, rows) == (3, "energy spent")
    assert ends({"rounds": 2, "time": 4.0, "energy": 100.0}, rows) == (2, "all rounds done")


@pytest.mark.parametrize(("rule", "reason"), [("time", "time is up"), ("energy", "energy spent")])
def test_a_run_in_a_world_ends_in_the_round_that_crosses_the_limit(rule, reason):
    """The limit is put between the ends of the second and the third round of the same run without it."""
    free = Rows()
    drive(Training(FedAvg(m=3, tau=2), learner(), 0), world(), free, Stop(StopSpec(rounds=4)), CLIENTS, 0)
    cost = [one.end_s for one in free.rounds] if rule == "time" else np.cumsum([one.energy_j for one in free.rounds]).tolist()
    for limit, rounds in (((cost[1] + cost[2]) / 2, 3), (cost[2] * (1 - 1e-9), 3), (cost[2] * (1 + 1e-9), 4)):
        rows = Rows()
        stop = Stop(StopSpec.model_validate({"rounds": 9, rule: limit}))
        assert drive(Training(FedAvg(m=3, tau=2), learner(), 0), world(), rows, stop, CLIENTS, 0) == reason
        assert len(rows.rounds) == rounds


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_only_every_nth_round_is_evaluated_and_with_the_model_after_it(every):
    p = problem(5)
    _, kept = run(FedAvg(m=3, tau=2), p.learner(), 7, evaluate_every=every)
    shown = {s: entry.evaluation for s, entry in enumerate(kept.trace) if entry.evaluation is not None}
    assert list(shown) == [s for s in range(7) if (s + 1) % every == 0]
    for s, evaluation in shown.items():
        np.testing.assert_allclose(evaluation.loss, [p.f(i, kept.states[s].w.numpy()) for i in range(5)], atol=1e-12)


def test_rows_of_rounds_that_are_not_evaluated_say_nothing_about_accuracy():
    rows = Rows()
    drive(Training(FedAvg(m=3, tau=1), learner(), 0, 2), Instant(CLIENTS), rows, Stop(StopSpec(rounds=5)), CLIENTS, 0)
    assert [one.worst is None for one in rows.rounds] == [True, False, True, False, True]
    assert sorted({one.round for one in rows.clients}) == [1, 3]


@pytest.mark.parametrize(("clients", "lowest"), [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (100, 10)])
def test_the_worst_tenth_is_rounded_down_but_never_empty(clients, lowest):
    """Accuracies 0, 1/n, 2/n, ...: the mean of the k lowest is (k - 1)/(2n)."""
    accuracy = (np.random.default_rng(0).permutation(clients) / clients).tolist()
    found = metrics(accuracy)
    assert found["worst10"] == pytest.approx((lowest - 1) / (2 * clients))
    assert found["worst"] == 0.0
    assert found["average"] == pytest.approx((clients - 1) / (2 * clients))
    assert found["std"] == pytest.approx(math.sqrt((clients**2 - 1) / 12) / clients)  # of a discrete uniform


def test_jains_index_and_clients_without_tests():
    """One of four clients has everything: 1/4; all alike: 1. A client without test samples counts nowhere."""
    assert metrics([1.0, 0.0, 0.0, 0.0])["jain"] == pytest.approx(0.25)
    assert metrics([0.4, 0.4, 0.4])["jain"] == pytest.approx(1.0)
    assert metrics([0.0, 0.0])["jain"] == 1.0
    assert metrics([None, 0.2, None, 0.6]) == metrics([0.6, 0.2])
    assert set(metrics([None, None]).values()) == {None}


# --- kills at bad moments

def small(*overrides):
    return build(parse(SMALL, "small.yaml"), overrides)


def trained(store, rounds):
    training = CachedTraining(Run(small(), 0, 0), store)
    training.extend(rounds)
    return training


def test_a_checkpoint_ahead_of_the_seal_is_not_gone_on_from(tmp_path):
    """Killed between writing the checkpoint of round 6 and the seal: the trace ends after 3 rounds, and so must training."""
    whole = trained(Store(tmp_path / "whole"), 8).trace
    ahead, killed = Store(tmp_path / "ahead"), Store(tmp_path / "killed")
    trained(ahead, 6)
    trained(killed, 3)
    (source,) = Path(tmp_path / "ahead").rglob("checkpoint.pt")
    (target,) = Path(tmp_path / "killed").rglob("checkpoint.pt")
    shutil.copy(source, target)
    assert trained(killed, 8).trace == whole


def test_a_shorter_run_is_a_prefix_of_a_longer_one(tmp_path):
    """Losses and checkpoints included: the rows of three rounds are the first rows of six."""
    lossy = "radio.loss={probability: 0.2}"
    run_alone(small("stop.rounds=6", lossy), 0, 0, tmp_path / "long")
    run_alone(small("stop.rounds=3", lossy), 0, 0, tmp_path / "short", checkpoint_every_s=0.0)
    long, short = ({path.name: path.read_bytes() for path in (tmp_path / name).glob("*.csv")} for name in ("long", "short"))
    assert long.pop("fleet.csv") == short.pop("fleet.csv")  # who has which device does not depend on rounds
    assert all(long[name].startswith(short[name]) and len(short[name]) < len(long[name]) for name in short)
    assert status(tmp_path / "short")["reason"] == status(tmp_path / "long")["reason"] == "all rounds done"
