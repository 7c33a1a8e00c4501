"""The world's published constants against their tables, and its limits from both sides, by closed form and hand count."""

import math

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from wflsim.analysis.legs import latency_s, world_facts
from wflsim.exchange import Order, Outcome
from wflsim.records import Leg, RoundRow
from wflsim.rng import stream
from wflsim.units import db_to_ratio
from wflsim.world.access.access import CellSpec
from wflsim.world.channel.fading import Fading, Rayleigh, Rician
from wflsim.world.channel.loss import LossSpec, send_attempts
from wflsim.world.channel.path_loss import Inh, LogDistance, Uma, Umi
from wflsim.world.channel.radio import RadioSpec
from wflsim.world.channel.rates import Cqi
from wflsim.world.world import World, WorldSpec

C = 299_792_458.0
BITS = 32_000


def order(client, round=0, phase=0, ask=0, shared=0, each=0, up=BITS, samples=0, paper=0):
    return Order(client, round, phase, ask, shared, each, up, samples, samples, paper)


def world(clients=2, seed=0, **blocks):
    return World(WorldSpec.model_validate(blocks), clients, seed)


# --- published tables

CQI = [  # 3GPP TS 36.213 Table 7.2.3-1: bit/s per Hz = bits per symbol x code rate / 1024; the SNR of docs/radio_and_energy.md
    (1, 2, 78, -6.7), (2, 2, 120, -4.7), (3, 2, 193, -2.3), (4, 2, 308, 0.2), (5, 2, 449, 2.4), (6, 2, 602, 4.3),
    (7, 4, 378, 5.9), (8, 4, 490, 8.1), (9, 4, 616, 10.3), (10, 6, 466, 11.7), (11, 6, 567, 14.1), (12, 6, 666, 16.3),
    (13, 6, 772, 18.7), (14, 6, 873, 21.0), (15, 6, 948, 22.7),
]  # fmt: skip


@pytest.mark.parametrize(("cqi", "bits", "code_rate", "threshold_db"), CQI)
def test_every_cqi_has_the_standards_efficiency_from_its_threshold_on(cqi, bits, code_rate, threshold_db):
    lower = CQI[cqi - 2][1] * CQI[cqi - 2][2] / 1024 if cqi > 1 else 0.0
    below, at, above = Cqi(name="cqi").efficiency(10 ** (np.array([threshold_db - 0.01, threshold_db, threshold_db + 0.01]) / 10))
    assert below == pytest.approx(lower, abs=6e-5)  # the standard prints four decimals
    assert at == above == pytest.approx(bits * code_rate / 1024, abs=6e-5)


def tr38901_db(kind, d, sight, f, h_bs, h_ut):
    """TR 38.901 Table 7.4.1-1, written from docs/radio_and_energy.md: f in GHz, d on the ground in m."""
    dh = h_bs - h_ut
    d3 = (d**2 + dh**2) ** 0.5
    bp = 4 * (h_bs - 1) * (h_ut - 1) * f * 1e9 / C
    lg = math.log10
    if kind == "uma":
        los = 28 + 22 * lg(d3) + 20 * lg(f) if d <= bp else 28 + 40 * lg(d3) + 20 * lg(f) - 9 * lg(bp**2 + dh**2)
        nlos = 13.54 + 39.08 * lg(d3) + 20 * lg(f) - 0.6 * (h_ut - 1.5)
    elif kind == "umi":
        los = 32.4 + 21 * lg(d3) + 20 * lg(f) if d <= bp else 32.4 + 40 * lg(d3) + 20 * lg(f) - 9.5 * lg(bp**2 + dh**2)
        nlos = 22.4 + 35.3 * lg(d3) + 21.3 * lg(f) - 0.3 * (h_ut - 1.5)
    else:
        los = 32.4 + 17.3 * lg(d3) + 20 * lg(f)
        nlos = 17.3 + 38.3 * lg(d3) + 24.9 * lg(f)
    return los if sight else max(los, nlos)


@pytest.mark.parametrize("sight", [True, False])
@pytest.mark.parametrize("client_height", [1.5, 8.0])
@pytest.mark.parametrize(("model", "h_bs", "distances"), [
    (Uma, 25.0, (40.0, 300.0, 2500.0)), (Umi, 10.0, (30.0, 119.0, 1800.0)), (Inh, 3.0, (6.0, 30.0, 120.0)),
])  # fmt: skip
def test_path_loss_at_two_client_heights_and_three_distances(model, h_bs, distances, client_height, sight):
    """At 1.5 m the height term is 0, and at 2500 m UMa is beyond its breakpoint for either height."""
    kind = model.__name__.lower()
    for f in (0.7, 3.5):
        got = model(name=kind, client_height=client_height).loss_db(np.array(distances), np.full(3, sight), f * 1e9)
        assert got == pytest.approx([tr38901_db(kind, d, sight, f, h_bs, client_height) for d in distances], rel=1e-12)


def test_a_base_station_may_stand_at_another_height():
    for model, kind, height in ((Uma, "uma", 30.0), (Umi, "umi", 12.0), (Inh, "inh", 4.0)):
        got = model(name=kind, base_height=height, client_height=2.0).loss_db(np.array([90.0]), np.array([False]), 2e9)
        assert got == pytest.approx([tr38901_db(kind, 90.0, False, 2.0, height, 2.0)], rel=1e-12)


def test_log_distance_at_three_distances_with_its_own_constants():
    """128.1 + 37.6 lg d_km: 128.1 dB at 1 km, 37.6 less at 100 m; with 120 and an exponent of 2, 20 dB per decade."""
    usual = LogDistance(name="log_distance")
    own = LogDistance(name="log_distance", at_1km_db=120.0, exponent=2.0, sigma_db=3.0, correlation=20.0)
    d, sight = np.array([100.0, 500.0, 1000.0]), np.ones(3, bool)
    assert usual.loss_db(d, sight, 2e9) == pytest.approx([90.5, 128.1 + 37.6 * math.log10(0.5), 128.1])
    assert own.loss_db(d, sight, 2e9) == pytest.approx([100.0, 120 + 20 * math.log10(0.5), 120.0])
    assert (usual.shadow(True), usual.shadow(False)) == ((8.0, 50.0), (8.0, 50.0))
    assert own.shadow(True) == (3.0, 20.0)
    assert usual.sight_probability(d).tolist() == [1.0, 1.0, 1.0]


def test_shadowing_has_the_tables_sigma_and_correlation():
    found = {model.__name__: (model(name=model.__name__.lower()).shadow(True), model(name=model.__name__.lower()).shadow(False))
             for model in (Uma, Umi, Inh)}  # fmt: skip
    assert found == {"Uma": ((4, 37), (6, 50)), "Umi": ((4, 10), (7.82, 13)), "Inh": ((3, 10), (8.03, 6))}


def test_line_of_sight_is_certain_near_by_and_follows_the_table_farther_out():
    for model, kind, decay in ((Uma, "uma", 63), (Umi, "umi", 36)):
        expected = [1.0, 1.0, *(18 / d + math.exp(-d / decay) * (1 - 18 / d) for d in (30.0, 100.0, 400.0))]
        assert model(name=kind).sight_probability(np.array([3.0, 18.0, 30.0, 100.0, 400.0])) == pytest.approx(expected)
    expected = [1.0, 1.0, math.exp(-15 / 70.8), math.exp(-44 / 70.8), 0.54 * math.exp(-1 / 211.7), 0.54 * math.exp(-51 / 211.7)]
    assert Inh(name="inh").sight_probability(np.array([2.0, 5.0, 20.0, 49.0, 50.0, 100.0])) == pytest.approx(expected)


def test_defaults_of_the_radio_are_those_of_the_reference():
    """docs/radio_and_energy.md: noise figures of 5 and 9 dB, 30 dBm down, 20 dBm up, 2 GHz, 1 MHz; a gap of 3 dB."""
    radio = RadioSpec()
    assert radio.noise_figure == pytest.approx(10**0.5)
    assert radio.downlink.noise_figure == pytest.approx(10**0.9)
    assert (radio.downlink.power, radio.power, radio.carrier, radio.bandwidth) == (1.0, [0.1], 2e9, 1e6)
    assert (radio.interference_margin, radio.patience, radio.reading, radio.snr) == (1.0, 10.0, "power_fixed", None)
    (leg,) = [leg for leg in legs_of(world(1), [order(0)]) if leg.activity == "transmit"]
    assert leg.snr_db == pytest.approx(10.0)
    gap = world(1, radio={"rate": "gap"})
    (leg,) = [leg for leg in legs_of(gap, [order(0)]) if leg.activity == "transmit"]
    assert leg.rate_bps == pytest.approx(1e6 * math.log2(1 + 10 / 10**0.3))


def legs_of(place, orders, until=None):
    place.gather(orders, until)
    return place.take_legs()


# --- retransmissions

@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("bits", "block", "attempts"), [(1000, 300, 2), (1000, 250, 3), (700, None, 4), (900, 5000, 2)])
def test_sending_ends_with_the_first_block_that_is_given_up(bits, block, attempts, seed):
    """A walk over the blocks: each is sent until one attempt works, at most `attempts` times; then nothing more is sent."""
    p = 0.6
    sizes = [bits] if block is None or block >= bits else [block] * (bits // block) + ([bits % block] if bits % block else [])
    sent_bits, tries, delivered = 0, 0, True
    for size, u in zip(sizes, stream(seed, "harq").random(len(sizes)), strict=True):
        failed = next(k for k in range(1000) if u >= p ** (k + 1))  # k failures in a row have probability p^k
        tries += min(failed + 1, attempts)
        sent_bits += min(failed + 1, attempts) * size
        if failed >= attempts:
            delivered = False
            break
    trial = send_attempts(LossSpec(probability=p, attempts=attempts, block=block), bits, p, stream(seed, "harq"))
    assert (trial.attempts, trial.air_bits, trial.delivered) == (tries, pytest.approx(sent_bits), delivered)


def test_the_walk_above_meets_lost_blocks_in_the_middle():
    losses = [send_attempts(LossSpec(probability=0.6, attempts=2, block=300), 1000, 0.6, stream(seed, "harq")) for seed in range(12)]
    assert any(not trial.delivered and trial.air_bits < 1000 for trial in losses)


@pytest.mark.parametrize("seed", range(4))
def test_retransmitted_bits_cost_time_power_and_joules_per_bit(seed):
    """Every attempt carries all bits at R = 1 MHz log2(11): n attempts take n L/R seconds and n L bits worth of J/bit."""
    place = world(1, seed, radio={"loss": {"probability": 0.7, "attempts": 8}},
                  devices={"circuit_power": "1.9 W", "transmit_energy_per_bit": 3e-6})  # fmt: skip
    (leg,) = [leg for leg in legs_of(place, [order(0)]) if leg.activity == "transmit"]
    rate_bps = 1e6 * math.log2(11)
    assert leg.attempts >= 1
    assert leg.end_s - leg.start_s == pytest.approx(leg.attempts * BITS / rate_bps)
    assert leg.energy_j == pytest.approx(2 * leg.attempts * BITS / rate_bps + 3e-6 * leg.attempts * BITS)
    assert leg.radiated_j == pytest.approx(0.1 * leg.attempts * BITS / rate_bps)
    assert leg.bits == BITS  # what the order wanted to send, however often it was sent


def test_the_four_seeds_above_retransmit():
    found = [legs_of(world(1, seed, radio={"loss": {"probability": 0.7, "attempts": 8}}), [order(0)])[-1].attempts for seed in range(4)]
    assert max(found) > 1


# --- broadcasts

def test_a_broadcast_under_fading_goes_at_the_rate_of_the_worst_client():
    """30 and -10 dB: under Rayleigh fading of 5 ms blocks the weak client's rate is (nearly) always the smaller one, and
    in each block the smaller of the two counts, so the broadcast takes as long as the sum over blocks says."""
    radio = {"snr": ["30 dB", "-10 dB"], "fading": {"name": "rayleigh", "speed": "3 m/s", "block": "5 ms"}}
    both = [leg for leg in legs_of(world(2, radio=radio), [order(0, shared=BITS), order(1, shared=BITS)]) if leg.activity == "receive"]
    link = World(WorldSpec.model_validate({"radio": radio}), 2, 0)._cell.down.link
    left, k = float(BITS), 0
    while True:
        snr = min(float(link.channel.snr(client, np.array([k * 0.005]))[0]) for client in (0, 1))
        moved = 1e6 * math.log2(1 + snr) * 0.005
        if moved >= left:
            expected_s = k * 0.005 + 0.005 * left / moved
            break
        left, k = left - moved, k + 1
    assert k > 10
    assert [leg.end_s - leg.start_s for leg in both] == pytest.approx([expected_s, expected_s], rel=1e-9)


# --- where clients are, and how fast the channel changes

def test_nobody_may_stand_outside_the_cell():
    assert CellSpec(radius=500.0, distances=[20.0, 500.0]).distances == [20.0, 500.0]
    with pytest.raises(ValidationError, match=r"500\.1 m lies outside the radius of 500 m"):
        CellSpec(radius=500.0, distances=[20.0, 500.1])
    with pytest.raises(ValidationError, match="leaves no room"):
        CellSpec(radius=500.0, min_distance=500.0)
    assert CellSpec(radius=500.0, min_distance=499.0).min_distance == 499.0


def test_the_channel_is_held_for_the_coherence_time():
    """0.423/f_D with f_D = v f_c/c: 3 m/s at 2 GHz are 20.01 Hz, so 21.14 ms; who stands still has one state for ever."""
    assert Fading(Rayleigh(name="rayleigh", speed=3.0), 2e9, 0, "up").block_s == pytest.approx(0.423 * C / (3 * 2e9), rel=1e-12)
    assert Fading(Rayleigh(name="rayleigh", speed=0.0), 2e9, 0, "up").block_s == math.inf
    assert Fading(Rician(name="rician", speed=3.0, block=0.5), 2e9, 0, "up").block_s == 0.5
    assert Rayleigh(name="rayleigh").speed == pytest.approx(3 / 3.6)
    assert Rician(name="rician").k == pytest.approx(10**0.9)


# --- sharing

def test_two_in_a_band_have_half_of_it_each_and_half_of_its_noise():
    """snr_at_1mhz, 10 dB, 2 MHz: both send on 1 MHz at SNR 10 while both are there, then the longer one on 2 MHz at SNR 5."""
    place = world(2, radio={"snr": "10 dB", "reading": "snr_at_1mhz", "bandwidth": "2 MHz"}, cell={"access": "ofdma"})
    short, long = sorted((leg for leg in legs_of(place, [order(0), order(1, up=3 * BITS)]) if leg.activity == "transmit"), key=lambda leg: leg.end_s)
    half_bps, whole_bps = 1e6 * math.log2(1 + 10), 2e6 * math.log2(1 + 5)
    assert short.end_s == pytest.approx(BITS / half_bps)
    assert long.end_s == pytest.approx(BITS / half_bps + 2 * BITS / whole_bps)


# --- batteries

def battery(joules, **server):
    return world(2, devices=[{"battery": joules, "compute_idle_power": "1 W", "cycles_per_sample": 0}, {"compute_idle_power": "1 W", "cycles_per_sample": 0}],
                 server={"idle": "all", **server})  # fmt: skip


def test_a_device_that_idled_to_death_is_not_asked_again():
    """Its 5 J last 5 s of waiting at 1 W: at 4.9 s it may be asked, at 5.1 s it is dead and stays so."""
    for aggregation_s, alive in ((4.9, True), (5.1, False)):
        place = battery(5.0, aggregation=aggregation_s)
        place.end_round()
        assert place.now_s == pytest.approx(aggregation_s)
        assert place.eligible() == ([0, 1] if alive else [1])
        (first, second) = place.gather([order(0, up=1), order(1, up=1)], None)
        assert (first.fate, second.fate) == ("delivered" if alive else "dead", "delivered")
        idle = [leg for leg in place.take_legs() if leg.client == 0 and leg.activity == "idle"]
        assert idle[0].energy_j == pytest.approx(min(aggregation_s, 5.0))
        assert idle[0].end_s == pytest.approx(min(aggregation_s, 5.0))
        assert idle[0].outcome == ("ok" if alive else "dead")


def test_waiting_drains_no_battery_where_only_participants_are_charged():
    place = world(2, devices={"battery": 5.0, "compute_idle_power": "1 W"}, server={"aggregation": "60 s"})
    place.end_round()
    assert place.eligible() == [0, 1]


def test_a_battery_dies_exactly_when_its_joules_are_spent():
    """Sending draws 2 W and takes 32 000 bit / (1 MHz log2 11) = 9.25 ms, 18.5 mJ: 18.6 mJ last, 18.4 mJ do not."""
    seconds = BITS / (1e6 * math.log2(11))
    for joules, fate in ((2 * seconds * 1.001, "delivered"), (2 * seconds * 0.999, "dead")):
        place = world(1, devices={"battery": joules, "circuit_power": "1.9 W"})
        (outcome,) = place.gather([order(0)], None)
        (leg,) = [leg for leg in place.take_legs() if leg.activity == "transmit"]
        assert outcome.fate == fate
        assert leg.energy_j == pytest.approx(min(joules, 2 * seconds))
        assert leg.end_s - leg.start_s == pytest.approx(min(joules / 2, seconds))


def test_a_battery_pays_for_bits_while_they_are_sent():
    """2 W and 3 uJ/bit at R = 3.46 Mbit/s are 12.4 W: 50 mJ last 4.04 ms of an upload of 9.25 ms."""
    rate_bps = 1e6 * math.log2(11)
    place = world(1, devices={"battery": 0.05, "circuit_power": "1.9 W", "transmit_energy_per_bit": 3e-6})
    (outcome,) = place.gather([order(0)], None)
    (leg,) = place.take_legs()
    assert (outcome.fate, leg.outcome, leg.energy_j) == ("dead", "dead", pytest.approx(0.05))
    assert leg.end_s == pytest.approx(0.05 / (2 + 3e-6 * rate_bps))
    assert leg.bits == pytest.approx(rate_bps * leg.end_s, abs=1)


def test_work_that_takes_no_time_costs_nothing():
    place = world(1, devices={"cycles_per_sample": 0})
    (outcome,) = place.gather([order(0, samples=5, paper=1)], None)
    compute = next(leg for leg in place.take_legs() if leg.activity == "compute")
    assert outcome.fate == "delivered"
    assert (compute.end_s, compute.energy_j, compute.paper_j) == (0.0, 0.0, 0.0)


# --- limits of the server, from both sides

def slow_and_fast(**server):
    """Client 0 sends 32 kbit at 10 dB, client 1 at 0 dB: 9.25 ms and 32 ms."""
    return world(2, radio={"snr": ["10 dB", "0 dB"]}, server=server)


@pytest.mark.parametrize(("deadline_s", "fates", "now_s"), [
    (0.0319, ["delivered", "late"], 0.0319), (0.0321, ["delivered", "delivered"], 0.032), (0.009, ["late", "late"], 0.009),
])  # fmt: skip
def test_a_deadline_from_both_sides(deadline_s, fates, now_s):
    place = slow_and_fast(deadline=deadline_s)
    assert [outcome.fate for outcome in place.gather([order(0), order(1)], None)] == fates
    assert place.now_s == pytest.approx(now_s)


@pytest.mark.parametrize(("deadline_s", "fates"), [(0.0319, ["delivered", "late"]), (0.0321, ["delivered", "delivered"])])
def test_every_order_of_an_asynchronous_policy_has_the_deadline_to_itself(deadline_s, fates):
    """Sent at 0 and, again to client 0, when its first reply is in: the second order has as long as the first had."""
    place = slow_and_fast(deadline=deadline_s)
    place.send([order(0), order(1)])
    assert place.receive() == Outcome(0, "delivered", True)
    first_s = place.now_s
    place.send([order(0, round=1, up=4 * BITS)])  # takes 37 ms
    outcomes = [place.receive(), place.receive()]
    assert [outcome.fate for outcome in outcomes] == [fates[1], "late"]
    assert place.now_s == pytest.approx(first_s + deadline_s)


@pytest.mark.parametrize(("quorum", "fates"), [(1, ["delivered", "late"]), (2, ["dropped", "late"])])
def test_a_quorum_from_both_sides(quorum, fates):
    place = slow_and_fast(deadline=0.02, quorum=quorum)
    assert [outcome.fate for outcome in place.gather([order(0), order(1)], None)] == fates


@pytest.mark.parametrize(("first", "fates", "now_s"), [
    (1, ["delivered", "late"], BITS / (1e6 * math.log2(11))), (2, ["delivered", "delivered"], 0.032), (3, ["delivered", "delivered"], 0.032),
])  # fmt: skip
def test_first_from_both_sides(first, fates, now_s):
    place = slow_and_fast(first=first)
    assert [outcome.fate for outcome in place.gather([order(0), order(1)], None)] == fates
    assert place.now_s == pytest.approx(now_s)


def test_a_window_from_both_sides():
    """Open from 1 s to 2 s; the upload takes 9.25 ms, so it is dropped if it begins after 1.99075 s."""
    up_s = BITS / (1e6 * math.log2(11))
    for start_s, fate in ((2 - 1.01 * up_s, "delivered"), (2 - 0.99 * up_s, "gone")):
        place = world(2, devices=[{"availability": {"name": "windows", "windows": [[1.0, 2.0], [7.0, 9.0]]}}, {}],
                      server={"aggregation": start_s})  # fmt: skip
        assert place.eligible() == [1]  # the other's window has not opened
        place.end_round()
        assert place.eligible() == [0, 1]
        outcomes = place.gather([order(0), order(1)], None)
        assert [outcome.fate for outcome in outcomes] == [fate, "delivered"]


def test_waiting_for_others_is_written_in_the_phase_in_which_one_waits():
    """The fast client waits 22.75 ms for the slow one, in round 3, phase 1; the server's pause belongs to the round, phase 0."""
    place = world(2, radio={"snr": ["10 dB", "0 dB"]}, devices={"sleep_power": "1 mW"}, server={"idle": "all", "aggregation": "1 s"})
    place.gather([order(0, round=3, phase=1), order(1, round=3, phase=1)], None)
    (idle,) = [leg for leg in place.take_legs() if leg.activity == "idle"]
    assert (idle.client, idle.round, idle.phase) == (0, 3, 1)
    assert idle.end_s - idle.start_s == pytest.approx(0.032 - BITS / (1e6 * math.log2(11)))
    place.end_round()
    assert [(leg.client, leg.round, leg.phase) for leg in place.take_legs()] == [(0, 3, 0), (1, 3, 0)]


# --- facts about rows

def row(round, length_s):
    start_s = float(round * 1000)
    return RoundRow(round=round, start_s=start_s, end_s=start_s + length_s, asked=1, delivered=1, energy_j=0.0, radiated_j=0.0,
                    paper_energy_j=0.0, up_bits=0, down_bits=0, loss=None, average=None, worst=None, std=None, worst10=None, jain=None)  # fmt: skip


def test_median_and_95th_percentile_of_a_hundred_and_one_lengths():
    """Lengths 0 to 100 s: the k-th percentile is k seconds."""
    lengths_s = np.random.default_rng(0).permutation(101)
    rows = [row(i, float(length)) for i, length in enumerate(lengths_s)]
    assert latency_s(pd.DataFrame(rows)) == (50.0, 95.0)


def test_lifetime_counts_rounds_up_to_the_first_death():
    def leg(round, client, activity, outcome, energy_j):
        return Leg(round, 0, client, activity, 0.0, 1.0, 0, None, None, 0, energy_j, 0.0, 0.0, outcome)

    legs = [leg(0, 0, "compute", "ok", 1.0), leg(3, 1, "transmit", "dead", 2.0), leg(5, 0, "transmit", "dead", 4.0),
            leg(6, 2, "transmit", "lost", 8.0), leg(6, 2, "idle", "ok", 16.0)]  # fmt: skip
    facts = world_facts(pd.DataFrame(legs))
    assert (facts.lifetime_rounds, facts.dead) == (4, 2)
    assert facts.failures == {"dead": 2, "lost": 1}
    assert facts.energy_j == {"compute": 1.0, "transmit": 14.0, "idle": 16.0}


def test_decibels_are_tenths_of_a_power_of_ten():
    assert [db_to_ratio(x) for x in (-10.0, 0.0, 3.0, 20.0)] == pytest.approx([0.1, 1.0, 10**0.3, 100.0])

