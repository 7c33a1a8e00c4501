"""The vectorised replay equals SimPy's, leg by leg, over random worlds and traces; and it refuses what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest

from wflsim.errors import ReplayRefused, ScenarioError
from wflsim.exchange import Order, Until
from wflsim.records import Step, TraceRound
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.world.trace_arrays import TraceArrays
from wflsim.world.vectorised import forbidding_keys, timed_legs, vectorised
from wflsim.world.world import World, WorldSpec

CLIENTS = 7
TOLERANCE = 1e-12


def random_trace(rng, rounds):
    """Rounds of one to three phases, of one or two asks; some orders compute nothing, or send nothing, or neither."""
    trace = []
    for s in range(rounds):
        steps = []
        for phase in range(rng.integers(1, 4)):
            cohort = rng.permutation(CLIENTS)[: rng.integers(1, CLIENTS + 1)].tolist()
            cut = int(rng.integers(0, len(cohort) + 1)) if rng.random() < 0.4 else len(cohort)
            orders = []
            for ask, members in enumerate((cohort[:cut], cohort[cut:])):
                shared = int(rng.choice([0, 32, 320_000]))
                each, up = (int(rng.choice([0, 0, 32, 40_000])) for _ in range(2))
                up = up or int(rng.choice([0, 640_000]))
                steps_done = int(rng.integers(0, 4))
                for client in members:
                    samples = int(steps_done * rng.integers(1, 33))
                    orders.append(
                        Order(client, s, phase, ask, shared, each, up, samples, samples * int(rng.integers(0, 2)), up and 640_000, steps_done)
                    )
            steps.append(Step("gather", orders, None if rng.random() < 0.5 else Until()))
        trace.append(TraceRound(s, steps, None))
    return trace


def random_world(rng):
    """A world in which nobody waits for anybody and nothing fails."""

    def pick(*options):
        return options[rng.integers(0, len(options))]

    radio = {"bandwidth": float(rng.uniform(1e5, 5e6))}
    cell = {}
    if rng.random() < 0.3:
        radio |= {"path_loss": pick("uma", "umi", {"name": "log_distance"}), "power": float(rng.uniform(0.01, 0.1))}
        cell = {"radius": "150 m"}
        if rng.random() < 0.5:
            radio["power_control"] = {"target": float(10 ** rng.uniform(-12, -9)), "share": float(rng.uniform(0.5, 1))}
    else:
        radio |= {"snr": [f"{snr} dB" for snr in rng.uniform(-5, 30, rng.integers(1, 4)).tolist()]}
        radio["reading"] = pick("power_fixed", "snr_at_1mhz", "power_for_snr")
        radio["power"] = [float(p) for p in rng.uniform(1e-6, 1e-5 if radio["reading"] == "power_for_snr" else 0.1, 2)]
        if rng.random() < 0.3:
            radio["downlink"] = {"snr": "3 dB", "bandwidth": "700 kHz"}
        elif radio["reading"] != "power_for_snr" and rng.random() < 0.4:
            radio["fading"] = pick({"name": "rician", "time": "ergodic"}, {"name": "rayleigh", "time": "ergodic"}, {"name": "rayleigh", "speed": 0})
    if rng.random() < 0.3:
        radio["rate"] = {"name": "gap"}
    kinds = []
    for _ in range(rng.integers(1, 4)):
        kind = {"compute": pick("generic", "raspberry_pi_4", "jetson_nano", "phone_flagship"), "modem": pick("ideal", "lte", "wifi_phone", "nb_iot", "nr_low", "lte_2012", "ideal")}
        if rng.random() < 0.3:
            kind |= {"tail": float(rng.uniform(0, 1)), "tail_power": 0.3, "sleep_power": 0.01}
        if rng.random() < 0.3:
            kind |= {"wake": float(rng.uniform(0, 0.5)), "wake_power": 0.7}
        if rng.random() < 0.3:
            kind |= {"spread": 0.5, "call_overhead": 0.02, "receive_energy_per_bit": 1e-9}
        kinds.append(kind)
    server = {"aggregation": float(pick(0.0, 0.4, 12.0)), "idle": pick("participants", "all")}
    return WorldSpec.model_validate({"radio": radio, "cell": cell, "devices": kinds, "server": server})


def by_events(trace, spec, seed, clients=CLIENTS):
    """Rows and legs of a replay by SimPy."""
    rounds = []
    drive(Replay(trace), World(spec, clients, seed), rounds.append, lambda row: "end" if row.round + 1 == len(trace) else None, clients, seed)
    return [one.row for one in rounds], [leg for one in rounds for leg in one.legs]


def sorted_legs(legs):
    return sorted(legs, key=lambda leg: (*leg[:4], *np.round(leg[4:6], 9)))


def by_arrays(trace, spec, seed):
    """The same from arrays: (round, phase, client, activity, start, end, bits, joules, radiated, paper) of each leg."""
    _, arrays = timed_legs(TraceArrays.of(trace), spec, CLIENTS, seed)
    legs = []
    for kind in arrays:
        size = len(kind.row)
        columns = [np.broadcast_to(part, size)[kind.exists].tolist() for part in (kind.row, kind.phase, kind.client)]
        columns.append([kind.activity] * int(kind.exists.sum()))
        columns += [np.broadcast_to(part, size)[kind.exists].tolist() for part in (kind.start_s, kind.end_s, kind.bits, kind.energy_j, kind.radiated_j, kind.paper_j)]
        legs += zip(*columns, strict=True)
        assert not np.broadcast_to(kind.energy_j, size)[~kind.exists].any()
    return legs


def compare(number):
    """One random world: every leg and every round, by events and by arrays."""
    rng = np.random.default_rng([22, number])
    trace, spec, seed = random_trace(rng, int(rng.integers(1, 7))), random_world(rng), int(rng.integers(0, 100))
    assert not forbidding_keys(spec)
    rows, events = by_events(trace, spec, seed)
    told = sorted_legs([(*leg[:6], leg.bits, leg.energy_j, leg.radiated_j, leg.paper_j) for leg in events])
    found = sorted_legs(by_arrays(trace, spec, seed))
    assert [leg[:4] for leg in told] == [leg[:4] for leg in found]
    for one, other in zip(told, found, strict=True):
        assert one[4:] == pytest.approx(other[4:], rel=TOLERANCE, abs=1e-15), (number, one, other)
    costs = vectorised(TraceArrays.of(trace), spec, CLIENTS, seed)
    for column, values in (("end_s", costs.end_s), ("energy_j", costs.energy_j), ("paper_energy_j", costs.paper_j), ("radiated_j", costs.radiated_j)):
        assert values == pytest.approx([getattr(row, column) for row in rows], rel=TOLERANCE)
    return spec, len(found)


def test_forty_random_worlds_equal_simpy_leg_by_leg():
    seen = [compare(number) for number in range(40)]
    assert sum(legs for _, legs in seen) > 4000
    assert {spec.server.idle for spec, _ in seen} == {"participants", "all"}
    assert any(kind.wake for spec, _ in seen for kind in spec.devices)


@pytest.mark.slow
def test_three_hundred_random_worlds_equal_simpy_leg_by_leg():
    for number in range(300):
        compare(number)


@pytest.mark.parametrize(
    ("key", "world"),
    [
        ("cell.access", {"cell": {"access": "tdma"}}),
        ("radio.fading", {"radio": {"fading": {"name": "rayleigh", "speed": 1.0}}}),
        ("cell.speed", {"radio": {"path_loss": "uma"}, "cell": {"speed": 1.0}}),
        ("radio.loss.probability", {"radio": {"loss": {"probability": 0.1}}}),
        ("server.deadline", {"server": {"deadline": 1.0}}),
        ("devices.battery", {"devices": {"battery": 10.0}}),
        ("devices.availability", {"devices": {"availability": {"name": "churn", "stay": "1 h", "away": "1 h"}}}),
        ("devices.dropout", {"devices": {"dropout": 0.1}}),
        ("server.selector", {"server": {"selector": "best_channel"}}),
    ],
)
def test_it_names_the_key_that_forbids_it(key, world):
    spec = WorldSpec.model_validate(world)
    assert forbidding_keys(spec) == [key]
    trace = TraceArrays.of(random_trace(np.random.default_rng(0), 1))
    with pytest.raises(ReplayRefused, match=key):
        vectorised(trace, spec, CLIENTS, 0)


def test_other_phases_than_a_gather_that_waits_for_all_are_refused():
    order = Order(0, 0, 0, 0, 32, 0, 32, 0, 0, 0)
    for step in (Step("send", [order], None), Step("gather", [order], Until(deadline_s=1.0)), Step("gossip", [order], None)):
        with pytest.raises(ReplayRefused, match="policies"):
            TraceArrays.of([TraceRound(0, [step], None)])


def test_a_client_without_any_rate_and_a_wait_of_centuries_are_refused():
    trace = TraceArrays.of([TraceRound(0, [Step("gather", [Order(0, 0, 0, 0, 32, 0, 10**9, 0, 0, 0)], None)], None)])
    silent = {"path_loss": {"name": "log_distance", "at_1km_db": 300, "exponent": 10, "sigma_db": 0}, "power": "1e-300 W"}
    with pytest.raises(ReplayRefused, match="cannot send"):
        vectorised(trace, WorldSpec.model_validate({"radio": silent, "cell": {"radius": "1e9 m", "distances": ["1e9 m"]}}), 1, 0)
    with pytest.raises(ScenarioError, match="300 years"):
        vectorised(trace, WorldSpec.model_validate({"radio": {"bandwidth": 1e-3}}), 1, 0)


def test_one_order_by_hand():
    """One client, 1 Mbit down and 2 Mbit up at 1 bit/s/Hz on 1 MHz, 3 steps of 10 samples of 1e6 cycles at 1 GHz."""
    order = Order(0, 0, 0, 0, 10**6, 0, 2 * 10**6, 30, 30, 10**6, 3, 3)
    trace = TraceArrays.of([TraceRound(0, [Step("gather", [order], None)], None)])
    devices = {"cycles_per_sample": 1e6, "frequency": 1e9, "kappa": 1e-27, "circuit_power": 0.5, "receive_power": 0.2}
    spec = WorldSpec.model_validate({"radio": {"snr": "1 linear", "power": 0.3}, "devices": devices, "server": {"aggregation": 1.0}})
    costs = vectorised(trace, spec, 1, 0)
    assert costs.end_s == pytest.approx([1 + 0.03 + 2 + 1])
    assert costs.energy_j == pytest.approx([0.2 * 1 + 1.0 * 0.03 + 0.8 * 2])
    assert costs.paper_j == pytest.approx([1.0 * 0.03 + 0.3 * 1])
    assert costs.radiated_j == pytest.approx([0.6])
