"""Device to device: the graph, bits, joules and seconds by hand, turns, losses, and what fails when a device does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.world.access.graph import colours, neighbours_of, reached, ring, torus
from wflsim.world.channel.channel import Terrain
from wflsim.world.channel.placement import Placement
from wflsim.world.spec import graph_of, remarks
from wflsim.world.world import World, WorldSpec

BITS, SAMPLES = 10_000, 30
RADIO = {"snr": "10 dB", "bandwidth": "100 kHz", "power": "200 mW"}
DEVICE = {"cycles_per_sample": 1e6, "frequency": "1 GHz", "receive_power": "300 mW", "listen_power": "50 mW", "amplifier_efficiency": 0.5, "circuit_power": "100 mW"}
RATE_BPS = 100e3 * math.log2(11)


def held(clients, d2d=None, rounds=1, **blocks):
    """(world, outcomes of the last gossip, legs of all)"""
    spec = WorldSpec.model_validate({"radio": RADIO, "devices": DEVICE, "d2d": d2d or {}, **blocks})
    world = World(spec, clients, 0)
    edges = world.neighbours()
    for s in range(rounds):
        outcomes = world.gossip([Order(i, s, 0, 0, 0, 0, BITS, SAMPLES, SAMPLES, BITS) for i in range(clients)], edges)
    return world, outcomes, world.take_legs()


def total(legs, activity, what="energy_j"):
    return sum(getattr(leg, what) for leg in legs if leg.activity == activity)


@pytest.mark.parametrize(
    ("topology", "clients", "degree", "turns"),
    [("ring", 6, 2, 2), ("ring", 5, 2, 3), ("torus", 9, 4, 4), ("torus", 16, 4, 2), ("complete", 5, 4, 5), ("torus", 4, 2, 2)],
)
@pytest.mark.parametrize("sending", ["broadcast", "unicast"])
@pytest.mark.parametrize("duplex", ["half", "full"])
def test_bits_joules_and_seconds_equal_a_hand_count(topology, clients, degree, turns, sending, duplex):
    world, outcomes, legs = held(clients, {"topology": topology, "sending": sending, "duplex": duplex})
    copies = 1 if sending == "broadcast" else degree
    turns = turns if duplex == "half" else 1
    once_s, compute_s = BITS / RATE_BPS, SAMPLES * 1e-3
    assert len(outcomes) == clients * degree
    assert all(outcome.fate == "delivered" and outcome.computed for outcome in outcomes)
    assert total(legs, "transmit", "bits") == clients * copies * BITS
    assert total(legs, "receive", "bits") == clients * degree * BITS
    assert world.now_s == pytest.approx(compute_s + turns * copies * once_s, rel=1e-12)
    assert total(legs, "transmit") == pytest.approx(clients * copies * once_s * (0.2 / 0.5 + 0.1), rel=1e-12)
    assert total(legs, "transmit", "radiated_j") == pytest.approx(clients * copies * once_s * 0.2, rel=1e-12)
    assert total(legs, "compute") == pytest.approx(clients * SAMPLES * 1e-28 * 1e6 * 1e18, rel=1e-12)


@pytest.mark.parametrize(("clients", "listening"), [(6, 6), (5, 8)])
def test_a_radio_that_hears_two_neighbours_at_once_is_paid_for_once(clients, listening):
    """A ring of six has two turns: in each, three nodes hear both neighbours at once. Of five (colours 0 1 0 1 2), nodes
    1 and 2 hear both at once; 0, 3 and 4 hear them one after the other."""
    _, _, legs = held(clients)
    assert total(legs, "receive") == pytest.approx(listening * BITS / RATE_BPS * 0.3, rel=1e-12)


def test_nobody_is_paid_twice_and_nobody_waits_for_free_in_half_duplex():
    world, _, legs = held(5, {"sending": "unicast"}, radio={**RADIO, "snr": ["10 dB", "0 dB", "5 dB", "20 dB", "3 dB"]})
    for client in range(5):
        own = [leg for leg in legs if leg.client == client]
        watts = {"compute": 1e-28 * 1e6 * 1e18 / 1e-3, "transmit": 0.5, "receive": 0.3, "idle": 0.05}
        seconds = sum(leg.energy_j / watts[leg.activity] for leg in own)
        assert seconds == pytest.approx(world.now_s, rel=1e-9)


def test_neighbours_take_turns_and_a_round_lasts_the_sum_over_turns_of_the_slowest():
    snr_db = [0, 3, 6, 9, 12, 15, 18]
    world, _, legs = held(7, {"snr": [f"{level} dB" for level in snr_db]})
    assert colours(ring(7)) == [[0, 2, 4], [1, 3, 5], [6]]
    links = [(i, j) for i, j in ring(7) if i < j]  # 01 06 12 23 34 45 56
    at = {pair: BITS / (100e3 * math.log2(1 + 10 ** (level / 10))) for pair, level in zip(links, snr_db, strict=True)}
    slowest = [max(at[min(i, j), max(i, j)] for j in neighbours_of(ring(7))[i]) for i in range(7)]
    expected = SAMPLES * 1e-3 + sum(max(slowest[i] for i in turn) for turn in colours(ring(7)))
    assert world.now_s == pytest.approx(expected, rel=1e-12)
    sent = {leg.client: leg for leg in legs if leg.activity == "transmit"}
    for i, j in ring(7):
        assert sent[i].end_s <= sent[j].start_s or sent[j].end_s <= sent[i].start_s


def test_greedy_colouring_by_hand():
    assert colours(ring(6)) == [[0, 2, 4], [1, 3, 5]]
    assert colours(ring(5)) == [[0, 2], [1, 3], [4]]
    assert colours(torus(9)) == [[0, 4, 8], [1, 3], [2, 6], [5, 7]]
    for edges in (ring(9), torus(12), torus(15)):
        groups = colours(edges)
        assert sorted(node for group in groups for node in group) == sorted({i for i, _ in edges})
        assert all((i, j) not in edges for group in groups for i in group for j in group)


@pytest.mark.parametrize(
    ("topology", "clients", "words"),
    [
        ("ring", 2, "a ring needs at least three nodes, got clients: 2; use complete for two"),
        ("torus", 7, "7 is a prime number of clients; use a ring"),
        ({"name": "erdos_renyi", "probability": 0.01}, 10, "erdos_renyi graph of seed 0 is not connected: 8 of 10 nodes"),
        ({"name": "distance", "within": "1 m"}, 5, "distance graph of seed 0 is not connected: .*raise d2d.topology.within"),
        ("complete", 1, "a graph of peers has 2 to 2000 nodes, got 1"),
    ],
)
def test_graphs_that_cannot_work_are_refused_by_name(topology, clients, words):
    with pytest.raises(ScenarioError, match=words):
        graph_of(WorldSpec.model_validate({"d2d": {"topology": topology}}), clients, 0)


def test_graphs_are_connected_symmetric_and_the_seeds_own():
    spec = WorldSpec.model_validate({"d2d": {"topology": {"name": "erdos_renyi", "probability": 0.4}}})
    graphs = [graph_of(spec, 20, seed) for seed in (0, 0, 1)]
    assert graphs[0] == graphs[1] != graphs[2]
    for edges in (*graphs, torus(12), ring(3)):
        assert all((j, i) in edges and i != j for i, j in edges)
        assert reached(edges) == {i for i, _ in edges}
    assert {len(own) for own in neighbours_of(torus(12)).values()} == {4}


@pytest.mark.parametrize(("edge_loss", "odd"), [("both", 0), ("one_way", 1)])
def test_a_lost_direction_takes_the_other_with_it_unless_one_way(edge_loss, odd):
    _, outcomes, legs = held(12, {"edge_loss": edge_loss}, rounds=3, radio={**RADIO, "loss": {"probability": 0.3}})
    through = {(o.client, o.peer) for o in outcomes if o.fate == "delivered"}
    assert bool([pair for pair in through if pair[::-1] not in through]) == bool(odd)
    assert 0 < len(through) < 24
    arrived = {(leg.peer, leg.client) for leg in legs if leg.round == 2 and leg.activity == "receive" and leg.outcome == "ok"}
    assert through == (arrived if odd else {(i, j) for i, j in arrived if (j, i) in arrived})
    spec = WorldSpec.model_validate({"radio": {"loss": {"probability": 0.3}}, "d2d": {"edge_loss": edge_loss}})
    assert any("not doubly stochastic" in remark for remark in remarks(spec)) == bool(odd)


def test_a_broadcast_repeats_a_block_until_the_neediest_neighbour_has_it():
    radio = {**RADIO, "loss": {"probability": 0.4, "attempts": 8, "block": "1 kbit"}}
    _, outcomes, legs = held(6, radio=radio)
    sent = [leg for leg in legs if leg.activity == "transmit"]
    assert all(outcome.fate == "delivered" for outcome in outcomes)
    for leg in sent:
        assert leg.attempts > BITS / 1000
        assert leg.end_s - leg.start_s == pytest.approx(leg.attempts * 1000 / RATE_BPS, rel=1e-12)
        assert leg.bits == BITS


def test_a_link_in_outage_is_lost_and_does_not_slow_the_others():
    radio = {**RADIO, "rate": {"name": "fixed", "efficiency_bps_per_hz": 1.0}}
    world, outcomes, _ = held(4, {"snr": ["10 dB", "-10 dB", "10 dB", "10 dB"]}, radio=radio)  # 01 03 12 23
    assert {(o.client, o.peer) for o in outcomes if o.fate != "delivered"} == {(0, 3), (3, 0)}
    assert world.now_s == pytest.approx(SAMPLES * 1e-3 + 2 * BITS / 100e3)


def test_who_dies_or_drops_out_is_missed_by_its_neighbours_only():
    kinds = [DEVICE, DEVICE, {**DEVICE, "battery": 4e-3}]
    _, outcomes, legs = held(6, devices=kinds)
    assert {o.client for o in outcomes if not o.computed} == set()
    assert {(o.client, o.peer, o.fate) for o in outcomes if o.fate != "delivered"} == {
        (1, 2, "lost"), (2, 1, "dead"), (2, 3, "dead"), (3, 2, "lost"), (4, 5, "lost"), (5, 4, "dead"), (5, 0, "dead"), (0, 5, "lost"),
    }  # fmt: skip
    assert sum(leg.energy_j for leg in legs if leg.client == 2) == pytest.approx(4e-3)
    _, outcomes, _ = held(6, devices={**DEVICE, "dropout": 0.5})
    idle = {o.client for o in outcomes if not o.computed}
    assert 0 < len(idle) < 6
    for outcome in outcomes:
        assert (outcome.fate == "delivered") == (outcome.client not in idle and outcome.peer not in idle)


def test_radios_wake_before_they_send_or_listen():
    world, outcomes, legs = held(6, devices={**DEVICE, "wake": "100 ms", "wake_power": "1 W", "tail": "10 s"})
    assert all(outcome.fate == "delivered" for outcome in outcomes)
    assert world.now_s == pytest.approx(SAMPLES * 1e-3 + 0.1 + 2 * BITS / RATE_BPS)
    assert sum(leg.energy_j for leg in legs if leg.bits == 0 and leg.activity in ("receive", "transmit")) == pytest.approx(6 * 0.1)


def test_link_snr_follows_distance_power_and_noise_and_fades_alike_both_ways():
    radio = {"path_loss": {"name": "log_distance", "sigma_db": 0}, "power": ["100 mW", "10 mW"], "bandwidth": "1 MHz", "downlink": {"noise_figure": "7 dB"}}
    spec = WorldSpec.model_validate({"radio": radio})
    _, _, legs = held(4, {"sending": "unicast"}, radio=radio)
    place = Placement(spec.cell, 0)
    for leg in legs:
        if leg.activity == "receive":
            (x, y), (u, v) = (place.position(client, np.zeros(1)) for client in (leg.client, leg.peer))
            loss_db = 128.1 + 37.6 * math.log10(max(float(np.hypot(x - u, y - v)[0]), 10) / 1e3)
            power_dbm = 20 if leg.peer % 2 == 0 else 10
            assert leg.snr_db == pytest.approx(power_dbm - loss_db + 174 - 60 - 7, abs=1e-9)
    _, _, legs = held(4, {"sending": "unicast", "duplex": "full"}, radio={**RADIO, "fading": {"name": "rayleigh", "speed": 0}})
    seen = {(leg.peer, leg.client): leg.snr_db for leg in legs if leg.activity == "receive"}
    assert len(set(seen.values())) == 4
    assert all(seen[i, j] == seen[j, i] for i, j in seen)


def test_shadows_between_clients_are_symmetric_with_the_models_spread():
    spec = WorldSpec.model_validate({"radio": {"path_loss": {"name": "log_distance", "sigma_db": 8}}})
    pairs = [(i, j) for i in range(30) for j in range(i)]
    found = []
    for seed in range(8):
        terrain, place = Terrain(spec.radio.path_loss, Placement(spec.cell, seed), 2e9, seed), Placement(spec.cell, seed)
        for i, j in pairs:
            gain = terrain.gain_between(i, j, np.zeros(1))
            assert gain == terrain.gain_between(j, i, np.zeros(1))
            (x, y), (u, v) = (place.position(client, np.zeros(1)) for client in (i, j))
            found.append(-10 * math.log10(gain[0]) - 128.1 - 37.6 * math.log10(max(float(np.hypot(x - u, y - v)[0]), 10) / 1e3))
    assert np.std(found) == pytest.approx(8, rel=0.15)
    assert np.mean(found) == pytest.approx(0, abs=1.5)
