"""What must hold in every world, over random ones."""

from collections import defaultdict
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from wflsim.errors import Exhausted
from wflsim.exchange import Order
from wflsim.records import Leg
from wflsim.world.world import World, WorldSpec

RADIO_ACTIVITIES = ("receive", "transmit", "tail")

radios = st.fixed_dictionaries(
    {"bandwidth": st.sampled_from(["200 kHz", "2 MHz"]), "rate": st.sampled_from(["shannon", "cqi", "gap"])},
    optional={
        "fading": st.sampled_from(
            [
                {"name": "rayleigh", "block": "100 ms"},
                {"name": "rician", "block": "1 s"},
                {"name": "rayleigh", "time": "ergodic"},
            ]
        ),
        "path_loss": st.sampled_from(["uma", "umi", "log_distance"]),
        "loss": st.fixed_dictionaries(
            {"probability": st.floats(0, 0.6), "attempts": st.integers(1, 3)}, optional={"block": st.just("20 kbit")}
        ),
        "patience": st.just("2 s"),
    },
)
cells = st.fixed_dictionaries(
    {"access": st.sampled_from(["dedicated", "tdma", "ofdma"])}, optional={"speed": st.just("50 km/h")}
)
devices = st.lists(
    st.fixed_dictionaries(
        {"cycles_per_sample": st.sampled_from([1e5, 3e6])},
        optional={
            "compute": st.sampled_from(["raspberry_pi_4", "jetson_nano"]),
            "modem": st.sampled_from(["lte", "wifi_nic", "nb_iot", "lte_2012"]),
            "battery": st.floats(0.05, 20.0),
            "dropout": st.floats(0, 0.5),
            "availability": st.just({"name": "periodic", "period": "20 s", "open": "9 s"}),
            "spread": st.just(0.6),
        },
    ),
    min_size=1,
    max_size=3,
)
servers = st.fixed_dictionaries(
    {},
    optional={
        "deadline": st.floats(0.05, 8.0),
        "first": st.integers(1, 4),
        "quorum": st.integers(1, 4),
        "aggregation": st.floats(0, 1),
        "idle": st.sampled_from(["participants", "all"]),
    },
)
worlds = st.fixed_dictionaries({"radio": radios, "cell": cells, "devices": devices, "server": servers})
payloads = st.tuples(st.integers(0, 50_000), st.integers(0, 5_000), st.integers(0, 100_000), st.integers(0, 500))


def story(spec, payload, seed, asynchronous):
    """Six rounds of whoever is there; every order with its outcome, and all legs."""
    w = World(spec, 5, seed)
    shared, each, up, samples = payload
    given, outcomes, ends = [], [], []
    try:
        for s in range(6):
            cohort = w.eligible()
            orders = [Order(c, s, 0, c % 2, shared, each, up, samples, samples, 0) for c in cohort]
            given += orders
            if asynchronous:
                w.send(orders)
                outcomes += [w.receive() for _ in orders]
            else:
                outcomes += w.gather(orders, None)
            w.end_round()
            ends.append(w.now_s)
    except Exhausted:
        pass
    return given, outcomes, ends, w.take_legs()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(worlds, payloads, st.integers(0, 3), st.booleans())
def test_nothing_appears_or_disappears(blocks, payload, seed, asynchronous):
    spec = WorldSpec.model_validate(blocks)
    orders, outcomes, ends, legs = story(spec, payload, seed, asynchronous)

    # Every order ends exactly once, with a reason.
    assert sorted(o.client for o in outcomes) == sorted(order.client for order in orders)
    assert {o.fate for o in outcomes} <= {"delivered", "lost", "late", "dead", "dropped", "gone"}
    assert all(o.computed for o in outcomes if o.fate == "delivered")

    # Time never runs backwards.
    assert ends == sorted(ends)
    assert all(leg.end_s >= leg.start_s >= 0 for leg in legs)

    # Energy is never negative, and never more than the battery holds. What each leg costs: test_world_books.py.
    spent_j = defaultdict(float)
    for leg in legs:
        assert leg.energy_j >= 0
        spent_j[leg.client] += leg.energy_j
    for client in range(5):
        battery_j = spec.devices[client % len(spec.devices)].battery
        if battery_j is not None:
            assert spent_j[client] <= battery_j * (1 + 1e-9)

    # Bits: what was sent arrived, or the leg says why not; a delivered order sent exactly its upload.
    fate = {(order.client, order.round): o.fate for order, o in zip_by_client(orders, outcomes)}
    for leg in legs:
        if leg.activity == "transmit" and leg.attempts:
            assert leg.bits <= payload[2]
            assert (leg.outcome == "ok") == (
                leg.bits == payload[2] and fate[leg.client, leg.round] in ("delivered", "dropped")
            )

    # One radio does one thing at a time, and so does one processor.
    for client in range(5):
        for names in (RADIO_ACTIVITIES, ("compute", "idle")):
            busy = sorted((leg.start_s, leg.end_s) for leg in legs if leg.client == client and leg.activity in names)
            assert all(later[0] >= earlier[1] - 1e-9 for earlier, later in pairwise(busy))


def zip_by_client(orders, outcomes):
    """A client serves its orders one after the other, so its outcomes come in the order of its orders."""
    queues = defaultdict(list)
    for outcome in outcomes:
        queues[outcome.client].append(outcome)
    return [(order, queues[order.client].pop(0)) for order in orders]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(worlds, payloads, st.booleans())
def test_the_same_calls_give_the_same_legs(blocks, payload, asynchronous):
    spec = WorldSpec.model_validate(blocks)
    one, other = (story(spec, payload, 1, asynchronous) for _ in range(2))
    assert one == other
    assert all(isinstance(leg, Leg) for leg in one[3])
