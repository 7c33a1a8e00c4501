"""An independent bookkeeper: the joules, bits and seconds of every leg, computed again from the scenario's numbers alone.

Worlds with a constant SNR and Shannon's rate, so that every leg has a closed form: its power is that of its activity, its bits
are rate x time, and the legs of a participant fill the time from its order to the end of the phase without gap or overlap.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wflsim.errors import Exhausted
from wflsim.exchange import Order
from wflsim.world.world import World, WorldSpec

CLIENTS = 4
SNR_DB = [3.0, 10.0, 17.0]
STEPS = 5
"""Batches in which every order works."""

devices = st.fixed_dictionaries(
    {
        "frequency": st.sampled_from([2e8, 1e9]),
        "cycles_per_sample": st.sampled_from([1e5, 4e6]),
        "kappa": st.sampled_from([1e-28, 3e-27]),
        "compute_idle_power": st.sampled_from([0.0, 0.2]),
        "step_overhead": st.sampled_from([0.0, 0.003]),
        "call_overhead": st.sampled_from([0.0, 0.01]),
        "receive_power": st.sampled_from([0.1, 0.9]),
        "receive_energy_per_bit": st.sampled_from([0.0, 5e-8]),
        "listen_power": st.sampled_from([0.01, 0.3]),
        "sleep_power": st.sampled_from([0.0, 0.05]),
        "transmit_energy_per_bit": st.sampled_from([0.0, 4e-7]),
        "wake": st.sampled_from([0.0, 0.26]),
        "wake_power": st.just(1.2),
        "tail": st.sampled_from([0.0, 0.4]),
        "tail_power": st.just(0.7),
    },
    optional={
        "circuit_power": st.just(0.6),
        "amplifier_efficiency": st.just(0.25),
        "amplifier": st.sampled_from([(0.5, 0.2), (0.0, 0.2), (1.0, 0.3)]),
        "battery": st.sampled_from([0.4, 3.0]),
        "dropout": st.just(0.3),
    },
)
worlds = st.fixed_dictionaries(
    {
        "device": devices,
        "bandwidth": st.sampled_from([2e5, 2e6]),
        "power": st.sampled_from([0.05, 0.2]),
        "access": st.sampled_from(["dedicated", "tdma"]),
        "loss": st.sampled_from([None, {"probability": 0.4, "attempts": 3}, {"probability": 0.3, "attempts": 2, "block": 20e3}]),
        "deadline": st.sampled_from([None, 0.3, 1.5]),
        "payload": st.tuples(st.integers(0, 60_000), st.integers(0, 9_000), st.integers(1, 90_000), st.integers(0, 300)),
        "seed": st.integers(0, 5),
    }
)


def spec_of(blocks):
    device = dict(blocks["device"])
    if "amplifier" in device:
        device["amplifier_exponent"], device["max_power"] = device.pop("amplifier")
    radio = {"snr": [f"{snr} dB" for snr in SNR_DB], "bandwidth": blocks["bandwidth"], "power": blocks["power"]}
    if blocks["loss"]:
        radio["loss"] = blocks["loss"]
    server = {"deadline": blocks["deadline"]} if blocks["deadline"] else {}
    return WorldSpec.model_validate({"radio": radio, "cell": {"access": blocks["access"]}, "devices": device, "server": server})


def phases(spec, payload, seed):
    """Per phase: its orders, outcomes, legs, begin and end."""
    w = World(spec, CLIENTS, seed)
    shared, each, up, samples = payload
    found = []
    try:
        for s in range(5):
            orders = [Order(c, s, 0, 0, shared, each, up, samples, samples // 2, up, STEPS, STEPS // 2) for c in w.eligible()]
            begin_s = w.now_s
            outcomes = w.gather(orders, None)
            w.end_round()
            found.append((orders, outcomes, w.take_legs(), begin_s, w.now_s))
    except Exhausted:
        pass
    return found


def expected_power_w(leg, device, radiated_w):
    """Drawn by processor and modem during this leg, without what each bit costs and without the rest of a modem that idles."""
    idle_w = device.compute_idle_power
    if leg.activity in ("receive", "transmit") and leg.attempts == 0:
        return idle_w + device.wake_power
    if device.max_power is None:
        amplifier_w = radiated_w / device.amplifier_efficiency
    else:
        amplifier_w = device.max_power / device.amplifier_efficiency * (radiated_w / device.max_power) ** device.amplifier_exponent
    return {
        "receive": idle_w + device.receive_power, "compute": idle_w + device.kappa * device.frequency**3,
        "transmit": idle_w + device.circuit_power + amplifier_w, "idle": idle_w, "tail": device.tail_power,
    }[leg.activity]  # fmt: skip


def resting_j(leg, legs, device):
    """Joules of the modem beside a processor that computes or idles: asleep or listening, whenever no tail runs."""
    if leg.activity not in ("compute", "idle"):
        return 0.0
    tails = [other for other in legs if other.activity == "tail" and other.client == leg.client]
    beside_s = sum(max(0.0, min(leg.end_s, tail.end_s) - max(leg.start_s, tail.start_s)) for tail in tails)
    rest_w = device.sleep_power if leg.activity == "compute" else device.listen_power
    return rest_w * (leg.end_s - leg.start_s - beside_s)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(worlds)
def test_every_leg_costs_what_the_scenario_says(blocks):
    spec = spec_of(blocks)
    device, radiated_w = spec.devices[0], blocks["power"]
    for _, _, legs, _, _ in phases(spec, blocks["payload"], blocks["seed"]):
        for leg in legs:
            if leg.outcome == "dead":
                continue  # a battery gives no more than it has: below
            took_s = leg.end_s - leg.start_s
            rate_bps = blocks["bandwidth"] * math.log2(1 + 10 ** (SNR_DB[leg.client % 3] / 10))
            joules = expected_power_w(leg, device, radiated_w) * took_s + resting_j(leg, legs, device)
            if leg.activity == "transmit" and leg.attempts:
                joules += device.transmit_energy_per_bit * rate_bps * took_s  # every attempt's bits, heard or not
                assert leg.radiated_j == pytest.approx(radiated_w * took_s, rel=1e-9, abs=1e-15)
                assert leg.paper_j <= leg.radiated_j * (1 + 1e-9)
            elif leg.activity == "receive" and leg.attempts:
                joules += device.receive_energy_per_bit * leg.bits
            assert leg.energy_j == pytest.approx(joules, rel=1e-6, abs=1e-9), leg


@settings(max_examples=120, deadline=None, derandomize=True)
@given(worlds)
def test_transfers_and_computations_take_their_time(blocks):
    """Delivered without a loss law: bits over rate, cycles over frequency."""
    spec = spec_of({**blocks, "loss": None})
    shared, each, up, samples = blocks["payload"]
    work = (samples + 2 * (samples // 2)) / 3
    for orders, outcomes, legs, _, _ in phases(spec, blocks["payload"], blocks["seed"]):
        delivered = {o.client for o in outcomes if o.fate == "delivered"}
        worst_bps = min(blocks["bandwidth"] * math.log2(1 + 10 ** (SNR_DB[order.client % 3] / 10)) for order in orders)
        for leg in legs:
            if leg.client not in delivered or (leg.activity in ("receive", "transmit") and not leg.attempts):
                continue
            own_bps = blocks["bandwidth"] * math.log2(1 + 10 ** (SNR_DB[leg.client % 3] / 10))
            took_s = leg.end_s - leg.start_s
            if leg.activity == "compute":
                device = spec.devices[0]
                overhead_s = device.call_overhead + STEPS * device.step_overhead
                assert took_s == pytest.approx(overhead_s + work * device.cycles_per_sample / device.frequency, rel=1e-9)
            elif leg.activity == "transmit":
                assert took_s == pytest.approx(up / own_bps, rel=1e-9)
                assert leg.bits == up
            elif leg.activity == "receive" and leg.bits == shared != each:
                assert took_s <= shared / worst_bps * (1 + 1e-9), "a broadcast goes at the pace of the worst, whoever wakes late"
            elif leg.activity == "receive" and leg.bits == each != shared:
                assert took_s == pytest.approx(each / own_bps, rel=1e-9)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(worlds)
def test_the_legs_of_a_participant_fill_the_phase(blocks):
    """Receiving, computing, sending and waiting follow each other without gap; a tail runs beside them.

    Of a processor that draws power while it waits: waiting that costs nothing beside the tail leaves no row.
    """
    device = blocks["device"]
    spec = spec_of({**blocks, "device": {**device, "compute_idle_power": device["compute_idle_power"] or 0.01}})
    for orders, _, legs, begin_s, end_s in phases(spec, blocks["payload"], blocks["seed"]):
        for client in {order.client for order in orders}:
            own = sorted((leg for leg in legs if leg.client == client and leg.activity != "tail"), key=lambda leg: (leg.start_s, leg.end_s))
            if not own or any(leg.outcome == "dead" for leg in legs if leg.client == client):
                continue
            assert own[0].start_s == pytest.approx(begin_s, abs=1e-9)
            assert own[-1].end_s == pytest.approx(end_s, abs=1e-9)
            for one, later in pairwise(own):
                assert later.start_s == pytest.approx(one.end_s, abs=1e-9)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(worlds)
def test_a_dead_device_has_spent_its_battery_to_the_last_joule(blocks):
    battery_j = blocks["device"].get("battery", 0.4)
    spec = spec_of({**blocks, "device": {**blocks["device"], "battery": battery_j}})
    spent_j, died = defaultdict(float), {}
    for orders, _, legs, begin_s, _ in phases(spec, blocks["payload"], blocks["seed"]):
        assert not {order.client for order in orders if died.get(order.client, math.inf) < begin_s}, "the dead are asked to work"
        for leg in legs:
            assert leg.client not in died, "a dead device does nothing any more"
            spent_j[leg.client] += leg.energy_j
            if leg.outcome == "dead":
                died[leg.client] = leg.end_s
    for client, joules in spent_j.items():
        if client in died:
            assert joules == pytest.approx(battery_j, rel=1e-9)
        else:
            assert joules <= battery_j * (1 + 1e-9)
