"""Devices: compute models, radio states, batteries, windows, dropouts, losses, and who is selected."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from wflsim.errors import Exhausted, ScenarioError
from wflsim.exchange import Draw, Order, Outcome
from wflsim.rng import stream
from wflsim.world.channel.loss import LossSpec, failure_probability, send_attempts
from wflsim.world.fleet.availability import Periodic, PeriodicHours, Windows
from wflsim.world.fleet.hours import Listed
from wflsim.world.fleet.spec import DeviceSpec
from wflsim.world.fleet.traits import pool_devices
from wflsim.world.world import World, WorldSpec, influences

RADIO = {"snr": "0 dB", "bandwidth": "1 MHz", "power": "100 mW"}  # 1 Mbit/s either way


def world(clients=1, seed=0, flops=3.61e6, **blocks):
    return World(WorldSpec.model_validate({"radio": RADIO, **blocks}), clients, seed, flops)


def order(client=0, round=0, phase=0, shared=0, up=1_000_000, samples=1000):
    return Order(client, round, phase, 0, shared, 0, up, samples, samples, 0)


def test_the_flop_model_counts_three_forward_passes_per_training_sample():
    device = {"speed": "1 GFLOP/s", "compute_active_power": "4 W"}
    w = world(devices=device, flops=1e6)
    w.gather([order(samples=100), order()._replace(client=0)][:1], None)
    compute = w.take_legs()[0]
    assert compute.end_s == pytest.approx(100 * 3e6 / 1e9)
    assert compute.energy_j == pytest.approx(4 * 0.3)
    with pytest.raises(ScenarioError, match="FLOP"):
        world(devices=device, flops=0.0)
    world(devices={"cycles_per_sample": 1e6}, flops=0.0)


def test_profiles_fill_in_what_is_not_said():
    pi = DeviceSpec.model_validate({"compute": "raspberry_pi_4", "modem": "lte", "compute_idle_power": "1 W"})
    assert (pi.speed, pi.compute_active_power, pi.circuit_power, pi.compute_idle_power) == (15e9, 6.4, 0.89, 1.0)
    assert DeviceSpec.model_validate(pi.model_dump(mode="json")) == pi
    for wrong in ({"compute": "abacus"}, {"modem": ["ideal"]}, float("nan"), "raspberry_pi_4"):
        with pytest.raises(ValidationError):
            DeviceSpec.model_validate(wrong)


def test_kinds_are_dealt_out_by_share_and_speeds_spread_lognormally():
    specs = [
        DeviceSpec(share=3, cycles_per_sample=1e6, spread=0.6),
        DeviceSpec(share=1, speed="1 GFLOP/s", compute_active_power="1 W"),
    ]
    fleet = pool_devices(specs, 2000, seed=1, flops_per_sample=1e6)
    cpus = [np.log(traits.processor.s_per_sample / 1e-3) for traits in fleet if traits.kind == 0]
    assert len(cpus) == 1500
    assert np.mean(cpus) == pytest.approx(0, abs=2.576 * 0.6 / math.sqrt(1500))
    assert np.std(cpus) == pytest.approx(0.6, rel=0.06)
    assert pool_devices(specs, 8, 1, 1e6) == fleet[:8]


def test_lte_states_promotion_energy_per_bit_and_tail():
    phone = {"modem": "lte_2012", "cycles_per_sample": 1e6, "frequency": "1 GHz", "kappa": 0}
    w = world(devices=phone)
    w.gather([order(shared=500_000, samples=2000)], None)
    assert [(leg.activity, leg.bits, leg.start_s, leg.end_s) for leg in w.take_legs()] == [
        ("receive", 0, 0.0, 0.26),
        ("receive", 500_000, 0.26, pytest.approx(0.76)),
        ("tail", 0, pytest.approx(0.76), pytest.approx(2.76)),
        ("compute", 0, pytest.approx(0.76), pytest.approx(2.76)),
        ("transmit", 1_000_000, pytest.approx(2.76), pytest.approx(3.76)),
    ]
    w = world(devices=phone)
    w.gather([order(shared=500_000, samples=2000)], None)
    w.gather([order(round=1, samples=20_000)], None)  # 20 s of work: the radio falls asleep and must wake again
    legs = w.take_legs()
    energy = {
        name: sum(leg.energy_j for leg in legs if leg.activity == name) for name in ("receive", "transmit", "tail")
    }
    assert energy["receive"] == pytest.approx(0.26 * 1.21 + 0.5 * 1.288 + 500_000 * 52e-9)
    assert energy["transmit"] == pytest.approx(2 * (1.288 + 438e-9 * 1e6) + 0.26 * 1.21)
    assert energy["tail"] == pytest.approx((2 + 10) * 1.06)


def test_phones_hear_a_broadcast_when_the_last_of_them_is_awake():
    phone = {"modem": "lte", "compute_idle_power": "1 W"}
    w = world(devices=phone, clients=2)
    w.gather([order(0, shared=0, up=8, samples=0)], None)  # client 0 is awake now, client 1 asleep
    start_s = w.now_s
    w.take_legs()
    w.gather([order(c, round=1, shared=100_000, samples=0) for c in (0, 1)], None)
    heard = [(leg.client, leg.activity, leg.bits, round(leg.start_s - start_s, 6)) for leg in w.take_legs()]
    assert sorted(row for row in heard if row[1] in ("idle", "receive") and row[3] < 0.3) == [
        (0, "idle", 0, 0.0),
        (0, "receive", 100_000, 0.26),
        (1, "receive", 0, 0.0),
        (1, "receive", 100_000, 0.26),
    ]


def test_a_battery_dies_in_the_middle_of_a_leg_and_gives_all_it_had():
    device = {"cycles_per_sample": 1e6, "kappa": 1e-28, "battery": "0.15 J", "listen_power": 0}  # computing: 0.1 W
    w = world(devices=device)
    (first,) = w.gather([order()], None)  # 0.1 J to compute, 0.1 J to send: it dies half way
    assert (first.fate, first.computed) == ("dead", True)
    compute, transmit = w.take_legs()
    assert (transmit.outcome, transmit.end_s, transmit.bits) == ("dead", pytest.approx(1.5), pytest.approx(5e5, abs=1))
    assert compute.energy_j + transmit.energy_j == pytest.approx(0.15, rel=1e-12)
    assert w.gather([order(round=1)], None) == [Outcome(0, "dead", False)]
    with pytest.raises(Exhausted, match="1 have an empty battery"):
        w.eligible()


def test_idle_time_drains_batteries_where_it_counts():
    device = {"cycles_per_sample": 1e6, "kappa": 0, "compute_idle_power": "1 W", "receive_power": 0}
    w = world(clients=2, devices=[device, {**device, "battery": "5 J"}], server={"idle": "all"}, radio={**RADIO, "power": 0})
    for s in range(4):
        assert w.eligible() == ([0, 1] if s < 2 else [0])
        w.gather([order(0, round=s, up=0, samples=3000)], None)
        w.end_round()
    dead = [leg for leg in w.take_legs() if leg.outcome == "dead"]
    assert [(leg.client, leg.activity, leg.end_s) for leg in dead] == [(1, "idle", 5.0)]


def test_windows_close_on_orders_and_the_clock_jumps_to_the_next():
    windows = {"name": "windows", "windows": [[0, 1.5], [10, 20]]}
    w = world(devices={"cycles_per_sample": 1e6, "availability": windows})
    assert w.gather([order()], None) == [Outcome(0, "gone", True)]
    assert (w.now_s, w.take_legs()[-1].outcome) == (1.5, "gone")
    assert (w.eligible(), w.now_s) == ([0], 10.0)
    assert w.gather([order(round=1)], None) == [Outcome(0, "delivered", True)]
    w.gather([order(round=2, samples=9000)], None)
    with pytest.raises(Exhausted, match="no window"):
        w.eligible()


def test_orders_wait_as_eligible_does_so_that_a_replay_needs_no_draws():
    spec = {"cycles_per_sample": 1e6, "availability": {"name": "periodic", "period": "100 s", "open": "8 s"}}

    def legs(ask):
        w = world(clients=5, devices=spec, seed=3)
        for s in range(20):
            cohort = w.eligible() if ask else cohorts[s]
            if ask:
                cohorts.append(cohort)
            w.gather([order(c, round=s) for c in cohort], None)
        return w.take_legs()

    cohorts = []
    assert legs(ask=True) == legs(ask=False)
    assert len({tuple(cohort) for cohort in cohorts}) > 2


def test_opening_hours():
    hours = PeriodicHours(Periodic(name="periodic", period=100, open=30), 1, 4)
    phase = hours._phase_s
    for start in (phase - 100, phase, phase + 1e6):
        assert hours.opens_s(start + 50) == pytest.approx(start + 100)
        assert hours.closes_s(start + 10) == pytest.approx(start + 30)
        assert hours.closes_s(start + 50) == start + 50
        opened = hours.opens_s(start + 50)
        assert hours.opens_s(opened) == opened
    explicit = Listed(Windows(name="windows", windows=[(1, 2), (5, 6)]).windows)
    assert [explicit.opens_s(t) for t in (0, 1.5, 2, 7)] == [1, 1.5, 5, math.inf]
    with pytest.raises(ValidationError, match="increasing"):
        Windows(name="windows", windows=[(1, 2), (2, 3)])


def test_dropouts_happen_as_often_as_said_and_stop_the_work():
    w = world(clients=50, devices={"cycles_per_sample": 1e6, "dropout": 0.3})
    fates = [o for s in range(40) for o in w.gather([order(c, round=s) for c in range(50)], None)]
    dropped = [o for o in fates if o.fate == "dropped"]
    assert len(dropped) / 2000 == pytest.approx(0.3, abs=2.576 * math.sqrt(0.21 / 2000))
    assert not any(o.computed for o in dropped)
    shares = [leg.end_s - leg.start_s for leg in w.take_legs() if leg.outcome == "dropped"]
    assert np.mean(shares) == pytest.approx(0.5, abs=2.576 * math.sqrt(1 / 12 / len(shares)))


def test_harq_attempts_and_residual_loss():
    """Mean attempts (1-p^K)/(1-p), residual p^K."""
    p, K, n = 0.4, 3, 20_000
    trials = [send_attempts(LossSpec(attempts=K), 1000, p, stream(0, "test", i)) for i in range(n)]
    attempts = np.array([trial.attempts for trial in trials])
    lost = np.mean([not trial.delivered for trial in trials])
    assert attempts.mean() == pytest.approx((1 - p**K) / (1 - p), abs=2.576 * attempts.std() / math.sqrt(n))
    assert lost == pytest.approx(p**K, abs=2.576 * math.sqrt(p**K * (1 - p**K) / n))
    assert all(trial.air_bits == 1000 * trial.attempts for trial in trials)


def one_block_after_the_other(draws, bits, block, attempts, p):
    """(attempts, bits on the air, delivered), told as a story: each block is sent until it is through or given up."""
    sent = tried = 0
    for number, draw in enumerate(draws):
        size = min(block, bits - number * block)
        failures = 0
        while failures < attempts and draw < p ** (failures + 1):  # fails k times in a row with probability p^k
            failures += 1
        sent += size * min(failures + 1, attempts)
        tried += min(failures + 1, attempts)
        if failures == attempts:
            return tried, sent, False
    return tried, sent, True


def test_sending_ends_at_the_first_block_that_exhausts_its_attempts():
    """Against the story, draw by draw; the upload arrives with probability (1-p^4)^10, a block takes (1-p^4)/(1-p) attempts."""
    p, n = 0.3, 4000
    spec = LossSpec(attempts=4, block=100)
    trials = [send_attempts(spec, 950, p, stream(0, "test", i)) for i in range(n)]
    for i, trial in enumerate(trials):
        assert (trial.attempts, trial.air_bits, trial.delivered) == one_block_after_the_other(stream(0, "test", i).random(10), 950, 100, 4, p)
    arrives = (1 - p**4) ** 10
    share = np.mean([t.delivered for t in trials])
    assert share == pytest.approx(arrives, abs=2.576 * math.sqrt(arrives * (1 - arrives) / n))
    single = [send_attempts(LossSpec(attempts=4), 950, p, stream(1, "test", i)) for i in range(n)]
    assert np.mean([t.attempts for t in single]) == pytest.approx((1 - p**4) / (1 - p), abs=0.03)
    assert all(t.air_bits == 950 * t.attempts for t in single)


def test_rayleigh_outage_probability():
    spec = LossSpec(outage_threshold="1.08 linear")
    assert failure_probability(spec, 10.0) == pytest.approx(1 - math.exp(-0.108))
    w = world(clients=50, radio={"snr": "10 dB", "loss": {"outage_threshold": "1.08 linear"}})
    fates = [o.fate for s in range(40) for o in w.gather([order(c, round=s, samples=1) for c in range(50)], None)]
    p = 1 - math.exp(-0.108)
    assert fates.count("lost") / 2000 == pytest.approx(p, abs=2.576 * math.sqrt(p * (1 - p) / 2000))


def test_failed_attempts_cost_time_and_energy():
    w = world(clients=200, radio={**RADIO, "loss": {"probability": 0.5, "attempts": 8}}, devices={"kappa": 0})
    w.gather([order(c, samples=0) for c in range(200)], None)
    sent = [leg for leg in w.take_legs() if leg.activity == "transmit"]
    assert {leg.attempts for leg in sent} >= {1, 2, 3, 4}
    for leg in sent:
        assert leg.end_s - leg.start_s == pytest.approx(leg.attempts * 1.0)
        assert leg.radiated_j == pytest.approx(0.1 * leg.attempts)
        assert leg.bits == 1_000_000


def race(n):
    return np.arange(n, 0, -1, dtype=float)


def test_selectors():
    radio = {"snr": ["0 dB", "20 dB", "10 dB", "-10 dB"]}
    kinds = [{"cycles_per_sample": 1e6, "frequency": f} for f in ("1 GHz", "8 GHz", "1 GHz", "1 GHz")]
    best = world(4, radio=radio, server={"selector": "best_channel"})
    assert best.select(Draw(2), race(4), [0, 1, 2, 3]) == ([1, 2], {1: 0.5, 2: 0.5})
    assert best.select(Draw(2), race(4), [0, 3]) == ([0, 3], {0: 0.5, 3: 0.5})
    thrifty = world(4, radio=radio, devices=kinds, server={"selector": "least_energy"})
    assert thrifty.select(Draw(2), race(4), [0, 1, 2, 3])[0] == [0, 2]  # the fast processor burns 64 times as much
    hours = [{"availability": {"name": "windows", "windows": [[0, end]]}} for end in (5, 50, 500)] + [{}]
    lasting = world(4, devices=hours, server={"selector": "availability"})
    assert lasting.select(Draw(2), race(4), [0, 1, 2, 3])[0] == [2, 3]
    assert world(4).select(Draw(2), race(4), [0, 1, 2, 3]) is None


def test_over_selection_asks_more_and_keeps_the_race():
    w = world(5, server={"over_selection": 1.5, "first": 2})
    chosen, weights = w.select(Draw(2), race(5), [0, 1, 2, 3, 4])
    assert (chosen, sum(weights.values())) == ([2, 3, 4], pytest.approx(1))
    lam = np.array([1.0, 0, 0, 1e-3, 1e-3])
    assert w.select(Draw(2, by=lam), race(5), [0, 1, 2, 3, 4])[0] == [0, 3, 4]


def test_an_outage_loses_the_order_on_either_side():
    w = world(2, radio={"snr": ["10 dB", "-20 dB"], "rate": "cqi", "patience": "2 s"})
    outcomes = w.gather([order(c, shared=1000) for c in (0, 1)], None)
    assert [(o.fate, o.computed) for o in outcomes] == [("delivered", True), ("lost", False)]
    deaf = [leg for leg in w.take_legs() if leg.client == 1]
    assert (deaf[0].activity, deaf[0].outcome, deaf[0].bits) == ("receive", "outage", 0)
    w = world(1, radio={"snr": "-20 dB", "rate": "cqi", "patience": "2 s", "downlink": {"snr": "10 dB"}})
    assert w.gather([order()], None)[0].fate == "lost"
    sent = w.take_legs()[-1]
    assert (sent.outcome, sent.bits, sent.end_s - sent.start_s) == ("outage", 0, pytest.approx(2.0))


@pytest.mark.parametrize("access", ["dedicated", "tdma", "ofdma"])
def test_a_broadcast_that_nobody_can_hear_loses_every_order(access):
    w = world(2, radio={"snr": "-20 dB", "rate": "cqi", "patience": "2 s"}, cell={"access": access})
    assert [(o.fate, o.computed) for o in w.gather([order(c, shared=1000) for c in (0, 1)], None)] == [
        ("lost", False)
    ] * 2
    assert [(leg.activity, leg.outcome, leg.end_s) for leg in w.take_legs()] == [("receive", "outage", 2.0)] * 2


def test_the_heaviest_order_is_typical_for_the_thrifty_selector():
    kinds = [{"cycles_per_sample": 1e7, "frequency": "1 GHz"}, {"cycles_per_sample": 1e6, "frequency": "1 GHz"}]
    w = world(2, devices=kinds, radio={"snr": ["20 dB", "10 dB"]}, server={"selector": "least_energy"})
    assert w.select(Draw(1), race(2), [0, 1])[0] == [1]  # a hundred samples: computing decides
    w.gather([order(0, up=10**9, samples=1)], None)
    w.gather([order(0, round=1, up=32, samples=1)], None)
    assert w.select(Draw(1), race(2), [0, 1])[0] == [0]  # a gigabit was seen: the channel decides


def test_certain_failure_exhausts_the_attempts():
    trial = send_attempts(LossSpec(attempts=3), 100, 1.0, stream(0, "test"))
    assert (trial.attempts, trial.air_bits, trial.delivered) == (3, 300.0, False)


@pytest.mark.parametrize(
    ("blocks", "keys"),
    [
        ({"radio": {"rate": "cqi"}}, []),
        ({"radio": {"rate": "cqi", "snr": "-8 dB"}}, ["radio.rate.name"]),
        ({"radio": {"rate": "cqi", "path_loss": "uma"}}, ["radio.rate.name"]),
        ({"radio": {"path_loss": "uma", "fading": "rayleigh"}, "cell": {"access": "ofdma", "speed": "3 km/h"}}, []),
        ({"devices": [{}, {"battery": "1 kJ"}]}, ["devices.1.battery"]),
        ({"devices": {"dropout": 0.1}}, ["devices.dropout"]),
        ({"server": {"selector": "best_channel", "over_selection": 2}}, ["server.selector", "server.over_selection"]),
    ],
)
def test_influences(blocks, keys):
    assert influences(WorldSpec.model_validate(blocks)) == keys
