"""Losses counted by hand: at which SNR an attempt fails, which bits were really sent, and what the paper's formula may charge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.records import Step
from wflsim.rng import stream
from wflsim.simulation.loop import drive
from wflsim.world.channel.loss import LossSpec, send_attempts
from wflsim.world.world import World, WorldSpec

NOISE_W_PER_HZ = 10 ** (-174 / 10) * 1e-3 * 10 ** (5 / 10)
BAND_HZ, POWER_W, METRES = 1e6, 0.1, 500.0
GAIN = 10 ** (-(128.1 + 37.6 * math.log10(METRES / 1e3)) / 10)
WHOLE_SNR = POWER_W * GAIN / (NOISE_W_PER_HZ * BAND_HZ)


def order(client, round=0, up=100_000, samples=0, paper=0):
    return Order(client, round, 0, 0, 0, 0, up, samples, samples, paper)


def cell(access, threshold, clients=10, **blocks):
    radio = {
        "path_loss": {"name": "log_distance", "sigma_db": 0}, "bandwidth": BAND_HZ, "power": POWER_W,
        "loss": {"outage_threshold": f"{threshold} linear"},
    }  # fmt: skip
    spec = {"radio": radio, "cell": {"access": access, "distances": [METRES]}, **blocks}
    return World(WorldSpec.model_validate(spec), clients, 0)


def lost(w, rounds, clients=10):
    """(client, round) of every lost upload."""
    found = set()
    for s in range(rounds):
        outcomes = w.gather([order(client, s) for client in range(clients)], None)
        found |= {(outcome.client, s) for outcome in outcomes if outcome.fate == "lost"}
    return found


@pytest.mark.parametrize(("access", "share"), [("dedicated", 1), ("tdma", 1), ("ofdma", 10), ("makespan", 10)])
def test_an_attempt_fails_by_the_snr_of_the_band_in_use(access, share):
    """On a tenth of the band there is a tenth of the noise: p = 1 - exp(-threshold/(10 SNR)), not 1 - exp(-threshold/SNR).

    Drawn with the order's own stream, an attempt fails if its number is below p: so every single loss can be foretold.
    """
    threshold = 0.8675 * WHOLE_SNR  # lost with probability 0.58 on the whole band, 0.083 on a tenth of it
    p = -math.expm1(-threshold / (share * WHOLE_SNR))
    assert p == pytest.approx(0.58 if share == 1 else 0.083, abs=1e-3)
    foretold = {(c, s) for c in range(10) for s in range(60) if stream(0, "loss", c, s, 0).random() < p}
    assert lost(cell(access, threshold), 60) == foretold


@pytest.mark.parametrize("fading", [None, {"name": "rayleigh", "speed": "30 m/s"}])
def test_the_waterfall_takes_the_snr_of_the_instant(fading):
    """Chen et al.'s q = 1 - exp(-1.08/SNR), with fading at the faded SNR: every single loss can be foretold from it."""
    radio = {"snr": ["0 dB", "6 dB", "-3 dB"], "loss": {"waterfall": "1.08 linear"}, "fading": fading}
    w = World(WorldSpec.model_validate({"radio": radio}), 9, 0)
    seen = set()
    for s in range(40):
        outcomes = w.gather([order(client, s) for client in range(9)], None)
        sent = {leg.client: leg for leg in w.take_legs() if leg.activity == "transmit"}
        for outcome in outcomes:
            q = 1 - math.exp(-1.08 / 10 ** (sent[outcome.client].snr_db / 10))
            assert (outcome.fate == "lost") == (stream(0, "loss", outcome.client, s, 0).random() < q)
            seen.add(round(q, 6))
    assert len(seen) == 3 if fading is None else len(seen) > 300


def test_who_joins_later_has_the_share_of_that_moment():
    """One starts alone and is drawn on the whole band; the second finds it sending and is drawn on a half."""
    threshold = 0.7 * WHOLE_SNR
    devices = [{"cycles_per_sample": 1e5, "frequency": 1e9}, {"cycles_per_sample": 1e6, "frequency": 1e9}]
    w = cell("ofdma", threshold, 2, devices=devices)
    alone, half = -math.expm1(-0.7), -math.expm1(-0.35)
    for s in range(100):
        outcomes = w.gather([order(c, s, up=2_000_000, samples=100) for c in range(2)], None)  # 10 and 100 ms of computing
        assert [o.fate == "lost" for o in outcomes] == [stream(0, "loss", c, s, 0).random() < p for c, p in enumerate((alone, half))]


def test_a_planned_band_has_its_own_snr():
    """Makespan with unequal uploads: the bands from an independent solver, the losses from the SNR on each."""
    bits, threshold = (50_000, 400_000), 0.7 * WHOLE_SNR
    density = POWER_W * GAIN / NOISE_W_PER_HZ

    def rate(b):
        return b * math.log2(1 + density / b)

    first_hz = brentq(lambda b: bits[0] / rate(b) - bits[1] / rate(BAND_HZ - b), 1.0, BAND_HZ - 1)
    bands_hz = first_hz, BAND_HZ - first_hz
    p = [-math.expm1(-threshold * hz / density) for hz in bands_hz]
    assert p[0] < 0.1 < 0.4 < p[1]
    w = cell("makespan", threshold, 2)
    for s in range(100):
        outcomes = w.gather([order(c, s, up=bits[c]) for c in range(2)], None)
        assert [o.fate == "lost" for o in outcomes] == [stream(0, "loss", c, s, 0).random() < p[c] for c in range(2)]


def test_a_turn_is_drawn_when_it_comes(tmp_path):
    """TDMA over a channel trace: 20 dB for a second, then -5 dB. Whose turn comes within the second is drawn at 20 dB."""
    (tmp_path / "step.csv").write_text("time_s,client_0\n0,20\n1,-5\n1000,-5\n")
    spec = {"radio": {"trace": {"file": str(tmp_path / "step.csv")}, "loss": {"outage_threshold": "0 dB"}}, "cell": {"access": "tdma"}}
    upload_s = 1e6 / (1e6 * math.log2(101))
    p = [-math.expm1(-1 / (100 if client * upload_s < 1 else 10**-0.5)) for client in range(10)]
    assert sum(one < 0.1 for one in p) == 7
    for seed in range(20):
        outcomes = World(WorldSpec.model_validate(spec), 10, seed).gather([order(c, 0, up=1_000_000) for c in range(10)], None)
        assert [o.fate == "lost" for o in outcomes] == [stream(seed, "loss", c, 0, 0).random() < p[c] for c in range(10)]


def story(draws, bits, block, attempts, p):
    """Blocks one after the other: (index of the block that failed or None, attempts of each block that was begun)."""
    tries = []
    for number in range(math.ceil(bits / block)):
        failures = 0
        while failures < attempts and draws[number] < p ** (failures + 1):
            failures += 1
        tries.append(min(failures + 1, attempts))
        if failures == attempts:
            return number, tries
    return None, tries


def test_a_lost_upload_counts_the_blocks_that_were_on_the_air():
    """Every leg against the story of its blocks: bits once, attempts all, joules of the air time, paper_j not above them."""
    bits, block, attempts, p = 95_000, 10_000, 2, 0.4
    spec = {"radio": {"snr": "0 dB", "bandwidth": 1e6, "power": 0.1, "loss": {"probability": p, "attempts": attempts, "block": block}}}
    w = World(WorldSpec.model_validate(spec), 40, 0)
    outcomes = w.gather([order(c, up=bits, paper=2 * bits) for c in range(40)], None)
    sent = {leg.client: leg for leg in w.take_legs() if leg.activity == "transmit"}
    for outcome in outcomes:
        leg = sent[outcome.client]
        draws = stream(0, "loss", outcome.client, 0, 0).random(10)
        failed, tries = story(draws, bits, block, attempts, p)
        sizes = [min(block, bits - n * block) for n in range(len(tries))]
        assert outcome.fate == ("delivered" if failed is None else "lost")
        assert leg.bits == sum(sizes)
        assert leg.attempts == sum(tries)
        air_s = sum(n * size for n, size in zip(tries, sizes, strict=True)) / 1e6  # 0 dB: 1 bit/s per Hz
        assert leg.end_s - leg.start_s == pytest.approx(air_s, rel=1e-9)
        assert leg.energy_j == pytest.approx(0.1 * air_s, rel=1e-9)
        if failed is None:
            assert leg.paper_j == pytest.approx(0.1 * 2 * bits / 1e6, rel=1e-9)
        else:
            assert leg.paper_j <= leg.energy_j
            assert leg.paper_j == pytest.approx(min(0.1 * 2 * sum(sizes) / 1e6, leg.energy_j), rel=1e-9)
    assert {outcome.fate for outcome in outcomes} == {"delivered", "lost"}


def test_an_interrupted_upload_counts_the_bits_that_were_through():
    """The deadline cuts uploads in the middle of a block, in the middle of a second attempt: bits sent again count once."""
    bits, block, p = 100_000, 10_000, 0.5
    radio = {"snr": "0 dB", "bandwidth": 1e6, "power": 0.1, "loss": {"probability": p, "attempts": 20, "block": block}}
    w = World(WorldSpec.model_validate({"radio": radio, "server": {"deadline": 0.123}}), 30, 0)
    outcomes = w.gather([order(c, up=bits, paper=bits) for c in range(30)], None)
    sent = {leg.client: leg for leg in w.take_legs() if leg.activity == "transmit"}
    late = [outcome.client for outcome in outcomes if outcome.fate == "late"]
    assert len(late) > 15
    for client in late:
        _, tries = story(stream(0, "loss", client, 0, 0).random(10), bits, block, 20, p)
        air_bits = 123_000
        once, attempts = 0, 0
        for count in tries:
            for attempt in range(count):
                now = min(block, air_bits)
                air_bits -= now
                attempts += now > 0
                once += now if attempt == 0 else 0
        assert (sent[client].bits, sent[client].attempts) == (once, attempts)
        assert sent[client].paper_j <= sent[client].energy_j


def test_a_broadcast_given_up_counts_what_was_heard(tmp_path):
    """Half a second of 0 dB, then no coverage: half of a megabit is through when the patience ends."""
    (tmp_path / "dip.csv").write_text("time_s,client_0\n0,0\n0.5,-200\n1000,-200\n")
    spec = {"radio": {"trace": {"file": str(tmp_path / "dip.csv")}, "bandwidth": 1e6, "patience": 2.0}, "devices": {"receive_energy_per_bit": 1e-6, "receive_power": 0}}
    w = World(WorldSpec.model_validate(spec), 1, 0)
    outcomes = w.gather([Order(0, 0, 0, 0, 1_000_000, 0, 1, 0, 0, 0)], None)
    (leg,) = [leg for leg in w.take_legs() if leg.activity == "receive"]
    assert outcomes[0].fate == "lost"
    assert (leg.outcome, leg.bits, leg.end_s) == ("outage", pytest.approx(500_000, abs=1), pytest.approx(2.5))
    assert leg.energy_j == pytest.approx(0.5)


def test_a_round_in_which_nobody_could_serve_moved_no_bits():
    """No leg was written, and none of the payload was sent: it must not be counted as if there were no world at all."""
    w = World(WorldSpec.model_validate({"devices": {"availability": {"name": "windows", "windows": [[0, 1]]}}, "server": {"aggregation": 5}}), 2, 0)
    w.end_round()

    class Two:
        def round(self, s):
            yield Step("gather", [order(0), order(1)], None)

    rows = []
    drive(Two(), w, lambda finished: rows.append(finished.row), lambda row: "one", 2, 0)
    assert (rows[0].asked, rows[0].delivered, rows[0].up_bits, rows[0].down_bits) == (2, 0, 0, 0)


def test_too_many_blocks_in_an_upload_are_refused_with_their_number():
    with pytest.raises(ScenarioError, match=r"radio\.loss\.block of 1 bits cuts an upload of 25417920 bits into 25417920 blocks \(at most 1000000\)"):
        send_attempts(LossSpec(block=1, probability=0.1), 25_417_920, 0.1, np.random.default_rng(0))
