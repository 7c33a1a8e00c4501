"""The simplest world: constant SNR, a band for each client, the cycles model. Everything has a closed form."""

import math

import pytest
from pydantic import ValidationError

from wflsim.errors import Exhausted
from wflsim.exchange import Order, Outcome, Until
from wflsim.world.world import World, WorldSpec, influences

MODEL_BITS = 32_000
SPEC = {
    "radio": {
        "snr": "10 dB",
        "bandwidth": "1 MHz",
        "power": "100 mW",
        "downlink": {"snr": "20 dB", "bandwidth": "2 MHz"},
    },
    "devices": {
        "cycles_per_sample": 1e6,
        "frequency": "1 GHz",
        "kappa": 1e-28,
        "receive_power": "200 mW",
        "listen_power": "50 mW",
        "amplifier_efficiency": 0.5,
        "circuit_power": "10 mW",
    },
}
DOWN_S = MODEL_BITS / (2e6 * math.log2(101))
COMPUTE_S = 320 * 1e6 / 1e9
UP_S = 2 * MODEL_BITS / (1e6 * math.log2(11))


def order(client, round=0, phase=0, ask=0, shared=MODEL_BITS, each=0, up=2 * MODEL_BITS, samples=320, paper=0):
    return Order(client, round, phase, ask, shared, each, up, samples, samples, paper)


def world(clients=3, seed=0, **changes):
    spec = {**SPEC, **changes}
    return World(WorldSpec.model_validate(spec), clients, seed)


def log(legs):
    return [(leg.client, leg.activity, leg.outcome, round(leg.start_s, 9), round(leg.end_s, 9)) for leg in legs]


def test_one_order_in_closed_form():
    w = world()
    (outcome,) = w.gather([order(1, paper=10 * MODEL_BITS)], None)
    assert outcome == Outcome(1, "delivered", computed=True)
    receive, compute, transmit = w.take_legs()
    assert w.now_s == pytest.approx(DOWN_S + COMPUTE_S + UP_S, rel=1e-12)
    assert (receive.energy_j, receive.bits) == (pytest.approx(0.2 * DOWN_S, rel=1e-9), MODEL_BITS)
    assert receive.rate_bps == pytest.approx(2e6 * math.log2(101), rel=1e-9)
    assert compute.energy_j == pytest.approx(1e-28 * 320 * 1e6 * 1e18, rel=1e-9)
    assert compute.paper_j == compute.energy_j
    assert transmit.snr_db == pytest.approx(10)
    assert transmit.radiated_j == pytest.approx(0.1 * UP_S, rel=1e-9)
    assert transmit.energy_j == pytest.approx((0.1 / 0.5 + 0.01) * UP_S, rel=1e-9)
    assert transmit.paper_j == pytest.approx(0.1 * 10 * MODEL_BITS / (1e6 * math.log2(11)), rel=1e-9)
    assert (transmit.attempts, transmit.outcome) == (1, "ok")
    assert w.take_legs() == []


def test_a_phase_the_paper_ignores_costs_nothing_in_its_accounting():
    w = world()
    w.gather([order(0, paper=0)], None)
    assert all(leg.paper_j == 0 for leg in w.take_legs())


def test_a_loss_costs_a_third_of_a_training_sample():
    w = world()
    w.gather([Order(0, 0, 0, 0, 0, 0, 32, 300, 0, 0)], None)
    assert w.take_legs()[0].end_s == pytest.approx(100 * 1e-3, rel=1e-12)


def test_broadcast_goes_at_the_rate_of_the_worst_receiver_and_unicast_follows():
    w = world(radio={"snr": "10 dB", "downlink": {"snr": ["20 dB", "0 dB", "10 dB"]}})
    w.gather([order(0, each=1000), order(2, each=1000)], None)
    received = [leg for leg in w.take_legs() if leg.activity == "receive"]
    worst_s = MODEL_BITS / (1e6 * math.log2(11))
    assert [leg.end_s for leg in received if leg.bits == MODEL_BITS] == [pytest.approx(worst_s, rel=1e-12)] * 2
    for client, snr in ((0, 100), (2, 10)):
        last_s = max(leg.end_s for leg in received if leg.client == client)
        assert last_s == pytest.approx(worst_s + 1000 / (1e6 * math.log2(1 + snr)), rel=1e-12)


def test_orders_of_two_asks_get_two_broadcasts():
    w = world(radio={"snr": "10 dB", "downlink": {"snr": ["20 dB", "0 dB"]}})
    w.gather([order(0, ask=0), order(1, ask=1)], None)
    ends = {leg.client: leg.end_s for leg in w.take_legs() if leg.activity == "receive"}
    assert ends[0] == pytest.approx(MODEL_BITS / (1e6 * math.log2(101)))
    assert ends[1] == pytest.approx(MODEL_BITS / 1e6)


def test_the_deadline_interrupts_whoever_is_not_done():
    slow = {**SPEC["devices"], "frequency": "100 MHz"}
    w = world(devices=[SPEC["devices"], slow], server={"deadline": "1 s"}, clients=2)
    outcomes = w.gather([order(0), order(1)], None)
    assert [o.fate for o in outcomes] == ["delivered", "late"]
    assert [o.computed for o in outcomes] == [True, False]
    assert w.now_s == 1.0
    fast_end = DOWN_S + COMPUTE_S + UP_S
    assert log(w.take_legs()) == [
        (0, "receive", "ok", 0, round(DOWN_S, 9)),
        (1, "receive", "ok", 0, round(DOWN_S, 9)),
        (0, "compute", "ok", round(DOWN_S, 9), round(DOWN_S + COMPUTE_S, 9)),
        (0, "transmit", "ok", round(DOWN_S + COMPUTE_S, 9), round(fast_end, 9)),
        (1, "compute", "late", round(DOWN_S, 9), 1.0),
        (0, "idle", "ok", round(fast_end, 9), 1.0),
    ]


def test_energy_of_an_interrupted_leg_is_what_was_spent_by_then():
    w = world(server={"deadline": DOWN_S + COMPUTE_S + UP_S / 4})
    (outcome,) = w.gather([order(0)], None)
    assert (outcome.fate, outcome.computed) == ("late", True)
    transmit = w.take_legs()[-1]
    assert transmit.radiated_j == pytest.approx(0.1 * UP_S / 4, rel=1e-9)
    assert transmit.bits == pytest.approx(MODEL_BITS / 2, abs=1)


def test_a_reply_at_the_very_instant_of_the_deadline_is_in_time():
    w = world(devices={"cycles_per_sample": 1e6}, server={"deadline": "2 s"})
    (outcome,) = w.gather([Order(0, 0, 0, 0, 0, 0, 0, 2000, 2000, 0)], None)
    assert (outcome.fate, w.now_s) == ("delivered", 2.0)


def test_first_goes_on_with_the_fastest_and_frees_the_others():
    kinds = [{**SPEC["devices"], "frequency": f} for f in ("1 GHz", "3 GHz", "2 GHz")]
    w = world(devices=kinds, server={"first": 2})
    assert [o.fate for o in w.gather([order(c) for c in range(3)], None)] == ["late", "delivered", "delivered"]
    assert w.eligible() == [0, 1, 2]


def test_without_a_quorum_nothing_counts():
    w = world(clients=2)
    fates = [o.fate for o in w.gather([order(0), order(1)], Until(quorum=3))]
    assert fates == ["dropped", "dropped"]


def test_losses_are_seen_at_once_or_at_the_deadline():
    lossy = {"loss": {"probability": 0.999999}}
    for detection, end_s in (("at_once", None), ("deadline", 60.0)):
        w = world(radio=lossy, server={"deadline": "60 s", "loss_detection": detection})
        (outcome,) = w.gather([order(0)], None)
        assert (outcome.fate, outcome.computed) == ("lost", True)
        assert w.now_s < 60 if end_s is None else w.now_s == end_s
        assert [leg.outcome for leg in w.take_legs() if leg.activity == "transmit"] == ["lost"]


def test_losses_do_not_depend_on_company_or_on_history():
    def fates(w, clients, round):
        return {o.client: o.fate for o in w.gather([order(c, round=round) for c in clients], None)}

    lossy = {"loss": {"probability": 0.5}}
    alone, together = world(clients=20, radio=lossy), world(clients=20, radio=lossy)
    together.gather([order(c) for c in range(20)], None)
    expected = fates(together, range(20), 7)
    assert {c: fates(alone, [c], 7)[c] for c in range(20)} == expected
    assert len(set(expected.values())) == 2


def test_asynchronous_orders_end_in_order_of_time():
    kinds = [{**SPEC["devices"], "frequency": f} for f in ("1 GHz", "3 GHz", "2 GHz")]
    w = world(devices=kinds)
    w.send([order(0), order(1)])
    w.send([order(2, phase=1)])
    assert w.receive().client == 1
    assert w.eligible() == [1]
    w.send([order(1, phase=2)])
    assert [w.receive().client for _ in range(3)] == [2, 1, 0]
    with pytest.raises(Exhausted):
        w.receive()


def test_nobody_is_asked_twice_at_the_same_time():
    w = world(clients=1)
    w.send([order(0)])
    w.send([order(0, phase=1)])  # waits until the client is free
    assert [w.receive().fate, w.receive().fate] == ["delivered", "delivered"]
    compute = [leg for leg in w.take_legs() if leg.activity == "compute"]
    assert compute[1].start_s >= compute[0].end_s


def test_idle_of_all_covers_every_second_of_every_client():
    """Asleep too, a modem draws power: every second is in a leg (one that draws nothing leaves no row)."""
    w = world(server={"idle": "all", "aggregation": "3 s"}, devices={**SPEC["devices"], "sleep_power": "1 mW"})
    for round in range(3):
        w.gather([order(round, round=round)], None)
        w.end_round()
    covered = [0.0] * 3
    for leg in w.take_legs():
        covered[leg.client] += leg.end_s - leg.start_s
    assert covered == [pytest.approx(w.now_s, rel=1e-12)] * 3


@pytest.mark.parametrize(
    ("reading", "power_w", "rate_bps"),
    [
        ("power_fixed", 0.1, 4e6 * math.log2(11)),
        ("power_for_snr", 0.1 * 10 * 4, 4e6 * math.log2(11)),
        ("snr_at_1mhz", 0.1, 4e6 * math.log2(1 + 10 / 4)),
    ],
)
def test_three_readings_of_snr_and_bandwidth(reading, power_w, rate_bps):
    w = world(radio={"snr": "10 dB", "bandwidth": "4 MHz", "power": "100 mW", "reading": reading})
    w.gather([order(0)], None)
    transmit = w.take_legs()[-1]
    assert transmit.rate_bps == pytest.approx(rate_bps, rel=1e-9)
    assert transmit.radiated_j == pytest.approx(power_w * 2 * MODEL_BITS / rate_bps, rel=1e-9)


def test_what_can_change_the_learning_is_named():
    assert influences(WorldSpec.model_validate(SPEC)) == []
    spec = WorldSpec.model_validate({"server": {"deadline": "1 s"}, "radio": {"loss": {"probability": 0.1}}})
    assert influences(spec) == ["server.deadline", "radio.loss.probability"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"radio": {"snr": 10}},
        {"radio": {"loss": {"probability": 0.1, "outage_threshold": "0 dB"}}},
        {"radio": {"loss": {"waterfall": "0 dB", "outage_threshold": "0 dB"}}},
        {"server": {"loss_detection": "deadline"}},
        {"server": {"deadline": 0}},
        {"devices": []},
    ],
)
def test_contradictions_are_refused(wrong):
    with pytest.raises(ValidationError):
        WorldSpec.model_validate(wrong)


def test_same_seed_same_calls_same_legs():
    def legs():
        w = world(clients=10, radio={"loss": {"probability": 0.3, "attempts": 2}}, server={"deadline": "0.4 s"})
        for s in range(5):
            w.gather([order(c, round=s) for c in w.eligible()], None)
            w.end_round()
        return w.take_legs()

    assert legs() == legs()
