"""Facts derived from rows: by hand on a few legs, and on a world with deaths and deadlines."""

import subprocess
import sys

import pytest

from wflsim.exchange import Order
from wflsim.record import Leg, RoundRow
from wflsim.world.carrier import World, WorldSpec
from wflsim.world.facts import died_in, failures, latency_s, stragglers, world_facts


def leg(client, activity, start_s, end_s, outcome="ok", round=0, phase=0, energy_j=1.0):
    return Leg(round, phase, client, activity, start_s, end_s, 0, None, None, 0, energy_j, 0.0, 0.0, outcome)


def row(round, start_s, end_s):
    return RoundRow(round, start_s, end_s, *[0] * 7, *[None] * 6)


def test_by_hand():
    legs = [
        leg(0, "compute", 0, 1), leg(0, "transmit", 1, 2), leg(0, "idle", 2, 5), leg(1, "compute", 0, 5),
        leg(0, "transmit", 5, 9, "lost", round=1), leg(1, "transmit", 5, 8, round=1), leg(1, "tail", 8, 9, round=1),
        leg(1, "transmit", 9, 10, "dead", round=2), leg(0, "idle", 9, 12, round=2),
    ]  # fmt: skip
    assert stragglers(legs) == {1: 1, 0: 1}
    assert failures(legs) == {"lost": 1, "dead": 1}
    assert died_in(legs) == {1: 2}
    facts = world_facts([row(0, 0, 5), row(1, 5, 9), row(2, 9, 12)], legs)
    assert (facts.p50_latency_s, facts.lifetime_rounds, facts.dead) == (4, 3, 1)
    assert facts.energy_j == {"compute": 2, "transmit": 4, "idle": 2, "tail": 1}


def test_latency_is_a_percentile_over_rounds():
    assert latency_s([row(s, 10 * s, 10 * s + s) for s in range(101)]) == (pytest.approx(50), pytest.approx(95))


def test_a_world_that_wears_out():
    spec = WorldSpec.model_validate(
        {
            "radio": {"snr": "0 dB", "bandwidth": "1 MHz"},
            "devices": [{"cycles_per_sample": 1e6, "battery": "1 J"}, {"cycles_per_sample": 4e6}],
            "server": {"deadline": "3 s"},
        }
    )
    world, rounds = World(spec, 2, 0), []
    for s in range(8):
        start_s = world.now_s
        world.gather([Order(c, s, 0, 0, 0, 0, 10**6, 1000, 1000, 0) for c in world.eligible()], None)
        world.end_round()
        rounds.append(row(s, start_s, world.now_s))
    facts = world_facts(rounds, world.take_legs())
    assert facts.failures == {"late": 8, "dead": 1}
    assert (facts.lifetime_rounds, facts.dead) == (5, 1)  # 0.2 J of work and 0.01 J of waiting a round
    assert (facts.straggler, facts.p95_latency_s) == (1, 3.0)


def test_facts_need_neither_torch_nor_simpy():
    check = "import sys, wflsim.world.facts; sys.exit(any(m in sys.modules for m in ('torch', 'simpy')))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
