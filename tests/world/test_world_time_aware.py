"""FedCS and Oort: selections by hand, plans within the deadline, what nobody's fitting does, and losses that are paid."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from rigs import CLIENTS, Rows, learner, live, resumed, rounds, world
from small_scenarios import small

from wflsim.errors import ScenarioError
from wflsim.exchange import Draw, Order
from wflsim.policies.drdm import DRDM
from wflsim.policies.fedavg import FedAvg
from wflsim.simulation.loop import drive
from wflsim.simulation.training import Training
from wflsim.world.fedcs import Times, greedy, planned_s
from wflsim.world.oort import Oort, OortSpec
from wflsim.world.world import World, WorldSpec, influences


def random_times(rng, clients):
    return [Times(i, *rng.exponential([1.0, 3.0, 2.0]).tolist()) for i in range(clients)]


def by_hand(candidates, deadline_s, aggregation_s):
    """Algorithm 3, written once more from the paper's formula, with explicit sets."""
    S, K, theta = [], {one.client: one for one in candidates}, 0.0
    rank = {one.client: k for k, one in enumerate(candidates)}
    while K:
        heard = max((candidates[rank[i]].down_s for i in S), default=0.0)
        cost = {i: max(heard, one.down_s) - heard + one.up_s + max(0.0, one.compute_s - theta) for i, one in K.items()}
        x = min(K, key=lambda i: (cost[i], rank[i]))
        one = K.pop(x)
        after = theta + one.up_s + max(0.0, one.compute_s - theta)
        if max(heard, one.down_s) + after + aggregation_s <= deadline_s:
            S, theta = [*S, x], after
    return S


def test_fedcs_by_hand():
    """A: 1 + 2 s, B: 4 + 1 s, C: 0 + 3 s, no downlink. A and C add 3 s each: A is first. Then at 3 s: B adds 1 + 1, C
    adds 3: B, at 5 s. Then C, at 8 s."""
    A, B, C = Times(0, 0, 1, 2), Times(1, 0, 4, 1), Times(2, 0, 0, 3)
    assert greedy([A, B, C], 8.0, 0.0) == ([0, 1, 2], 8.0)
    assert greedy([A, B, C], 7.9, 0.0) == ([0, 1], 5.0)
    assert greedy([A, B, C], 4.0, 0.0) == ([0], 3.0)
    assert greedy([C, B, A], 3.0, 0.0) == ([2], 3.0), "the tie goes to the first"
    assert greedy([A, B, C], 2.9, 0.0) == ([], 0.0)
    assert greedy([A, B, C], 8.0, 0.5) == ([0, 1], 5.5)
    assert greedy([A._replace(down_s=math.inf), C], 9.0, 0.0) == ([2], 3.0), "nobody in outage fits"


def test_over_300_random_worlds_fedcs_equals_a_hand_written_greedy_and_keeps_its_deadline():
    equal, fewer = 0, []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        times, deadline_s = random_times(rng, 5), float(rng.uniform(2, 15))
        chosen, plan_s = greedy(times, deadline_s, 0.1)
        assert chosen == by_hand(times, deadline_s, 0.1)
        assert plan_s <= deadline_s
        if chosen:
            assert plan_s == pytest.approx(planned_s([times[i] for i in chosen], 0.1), rel=1e-12)
        best = max(
            (k for k in range(1, 6) for order in permutations(times, k) if planned_s(order, 0.1) <= deadline_s), default=0
        )
        equal += len(chosen) == best
        fewer.append(best - len(chosen))
    assert min(fewer) >= 0
    assert (equal, sum(fewer)) == (270, 30), "as many as brute force in 90 %, 0.1 clients fewer on average"


def test_fedcs_in_a_world_asks_those_who_fit_and_rows_show_plan_and_duration():
    spec = {"server": {"selector": "fedcs", "fedcs": {"deadline": "0.16 s"}}, "cell": {"access": "tdma"}, "devices": {"cycles_per_sample": 1e6}}
    rows, _ = live(FedAvg(m=6, tau=3, eta=0.1), spec, count=4)
    typical = rows.trace[0].steps[0].orders[0]
    assert (rows.rounds[0].planned_s, rows.rounds[0].asked) == (None, 6), "nothing is known yet: all are asked"
    for row in rows.rounds[1:]:
        assert 0 < row.planned_s <= 0.16
        assert row.end_s - row.start_s == pytest.approx(row.planned_s, rel=0.15)
    once_s = typical.up_bits / (200e3 * np.log2(11))
    assert rows.rounds[1].planned_s == pytest.approx(once_s + typical.backward_samples * 1e-3 + rows.rounds[1].asked * once_s)


def test_fading_breaks_a_plan_and_both_durations_are_shown():
    radio = {"snr": "5 dB", "bandwidth": "20 kHz", "fading": {"name": "rayleigh", "speed": "1 m/s"}}
    spec = {"radio": radio, "server": {"selector": "fedcs", "fedcs": {"deadline": "4 s"}}, "cell": {"access": "tdma"}}
    rows, _ = live(FedAvg(m=6, tau=1), spec, count=12)
    took = [(row.end_s - row.start_s, row.planned_s) for row in rows.rounds[1:] if row.asked]
    assert all(plan <= 4 for _, plan in took)
    assert any(real > 4 for real, _ in took)


@pytest.mark.parametrize("policy", [FedAvg(m=4), DRDM(m=4)], ids=lambda policy: policy.name)
def test_when_nobody_fits_the_clock_moves_by_the_deadline_and_the_third_time_ends_the_run(policy):
    spec = {"server": {"selector": "fedcs", "fedcs": {"deadline": "1 ms"}}}
    rows, training = Rows(), Training(policy, learner(), 0)
    reason = drive(training, world(spec), rows, rounds(9), CLIENTS, 0)
    assert [(row.asked, row.planned_s) for row in rows.rounds[1:]] == [(0, 0.0)] * len(rows.rounds[1:])
    assert [row.end_s - row.start_s for row in rows.rounds[1:]] == pytest.approx([1e-3] * (4 - policy.about.phases)), "three empty phases"
    assert "fedcs: 3 times in a row nobody fitted into the planned deadline of 0.001 s" in reason


def test_fedcs_and_an_asynchronous_policy_do_not_go_together():
    with pytest.raises(ScenarioError, match="fedcs plans phases, and fedasync is asynchronous and has none"):
        small("policies=[{name: fedasync, m: 2}]", "server.selector=fedcs")


def test_oort_by_hand():
    """Clip at the largest, no decay. After round 1: utilities 10, 40, 20, times 1, 2, 4 s; quantile 0.5 of the times of all
    (new ones 3 s): 3 s."""
    oort = Oort(OortSpec(clip=1.0, pace=0.5, epsilon=0.5, epsilon_decay=1.0, epsilon_min=0.0, cut_off=1.0))
    for client, utility, took_s in ((0, 10.0, 1.0), (1, 40.0, 2.0), (2, 20.0, 4.0)):
        oort.hear(client, utility, took_s)
    oort.end_round()
    fresh = math.sqrt(0.1 * math.log(2) / 1)
    found = oort.scores(range(5), lambda client: 3.0)
    assert found == pytest.approx({0: 10 + fresh, 1: 40 + fresh, 2: (20 + fresh) * (3 / 4) ** 2})
    race = np.array([1.0, 1.0, 1.0, 0.5, 0.4])
    assert oort.select(2, range(5), lambda client: 3.0, race) == [1, 4], "the best one, and the first of the new ones"
    assert oort.select(2, range(5), lambda client: 1.0 if client == 3 else 9.0, race) == [1, 3], "new ones by speed"
    assert oort.select(4, range(5), lambda client: 3.0, race) == [1, 2, 3, 4], "0 is below the cut-off, the second best"
    assert oort.select(5, range(5), lambda client: 3.0, race) == [0, 1, 2, 3, 4]


def test_oort_clips_cuts_off_and_stops_exploring():
    oort = Oort(OortSpec(clip=0.5, alpha=0.0, epsilon=0.0, epsilon_min=0.0, cut_off=0.9))
    for client, utility in enumerate((1.0, 2.0, 3.0, 100.0)):
        oort.hear(client, utility, 1.0)
    fresh = 0.0
    assert oort.scores(range(4), lambda client: 1.0) == pytest.approx({0: 1.0, 1: 2.0, 2: 2.5 + fresh, 3: 2.5})
    fair = np.ones(4)
    assert oort.select(2, range(4), lambda client: 1.0, fair) == [2, 3], "client 1 is below 0.9 of the second best"
    loose = Oort(OortSpec(clip=0.5, alpha=0.0, epsilon=0.0, epsilon_min=0.0, cut_off=0.4))
    loose.utility, loose._last, loose._took_s = oort.utility, oort._last, oort._took_s
    assert loose.select(2, range(4), lambda client: 1.0, np.array([0.01, 1.0, 1.0, 1.0])) == [0, 2], "above the cut-off by the race"


def test_oorts_pacer_allows_more_time_when_utilities_fall():
    oort = Oort(OortSpec(window=2, pace=0.3, pace_step=0.2))
    for utility in (9.0, 9.0, 5.0, 5.0, 6.0, 6.0):
        oort.hear(0, utility, 1.0)
        oort.end_round()
    assert oort._pace == pytest.approx(0.5), "once: 10 after 18, not 12 after 10"


def test_oorts_reports_are_one_scalar_of_every_training_client_and_are_right():
    spec = {"server": {"selector": "oort"}}
    rows, training = live(DRDM(m=4, tau=3, eta=0.1), spec, count=3)
    plain, _ = live(DRDM(m=4, tau=3, eta=0.1), count=3)
    for entry, other in zip(rows.trace, plain.trace, strict=True):
        assert {order.up_bits for order in entry.steps[0].orders} == {other.steps[0].orders[0].up_bits + 32}
        assert all(order.utility > 0 for order in entry.steps[0].orders)
        assert {(order.up_bits, order.utility) for order in entry.steps[1].orders} == {(32, 0)}
    first = rows.trace[0].steps[0].orders[0]
    # ten classes and a model of zeros: the first loss is ln 10, and the following ones are near it
    assert first.utility / training.learner.samples[first.client] == pytest.approx(math.log(10), rel=0.3)
    assert influences(WorldSpec.model_validate(spec)) == ["server.selector"]


@pytest.mark.parametrize("selector", ["fedcs", "oort"])
@pytest.mark.parametrize("policy", [FedAvg(m=3, tau=2), DRDM(m=3, tau=2)], ids=lambda policy: policy.name)
def test_cut_and_resumed_is_the_uninterrupted_run(selector, policy, tmp_path):
    radio = {"snr": ["10 dB", "0 dB", "5 dB"], "bandwidth": "100 kHz", "loss": {"probability": 0.3}}
    spec = {"radio": radio, "devices": {"spread": 0.5}, "server": {"selector": selector, "fedcs": {"deadline": "3 s"}}}
    whole, again = resumed(policy, spec, count=8, cut=4, folder=tmp_path)
    assert again.legs == whole.legs
    assert again.trace == whole.trace
    assert again.rounds[4:] == whole.rounds[4:]


def test_the_worlds_choice_is_the_selectors():
    spec = WorldSpec.model_validate({"server": {"selector": "oort"}})
    made = World(spec, 4, 0)
    made.gather([Order(0, 0, 0, 0, 0, 0, 1000, 10, 10, 0, utility=5.0), Order(1, 0, 0, 0, 0, 0, 1000, 10, 10, 0, utility=9.0)], None)
    made.end_round()
    D, a = made.select(Draw(2), np.ones(4), [0, 1, 2, 3])
    assert len(D) == 2
    assert a == dict.fromkeys(D, 0.5)
    assert made._selection.oort.utility == {0: 5.0, 1: 9.0}
