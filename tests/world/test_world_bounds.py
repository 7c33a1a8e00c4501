"""Numbers at the edge: tiny SNRs, huge Rice factors, hostile values. A finite row or a sentence, never NaN, inf or a hang."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import integrate, special

from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.units import db_to_ratio
from wflsim.world.access.makespan import Upload, split_band
from wflsim.world.bounds import Clock
from wflsim.world.channel.fading import averaged
from wflsim.world.channel.rates import Cqi, Fixed, Gap, Shannon
from wflsim.world.spec import influences
from wflsim.world.world import World, WorldSpec


def order(client=0, up=100_000, samples=0):
    return Order(client, 0, 0, 0, 0, 0, up, samples, samples, 0)


@pytest.mark.parametrize("snr_db", [-160, -200, -250, -300])
def test_tiny_snrs_have_their_rate(snr_db):
    """log2(1 + x) = x/ln 2 for tiny x; computed as log2(1 + x) it is 0 below -157 dB."""
    snr = db_to_ratio(snr_db)
    assert Shannon().efficiency(np.array([snr]))[0] == pytest.approx(snr / math.log(2), rel=1e-12, abs=0)
    assert Gap(name="gap", gap="3 dB").efficiency(np.array([snr]))[0] == pytest.approx(snr / db_to_ratio(3) / math.log(2), rel=1e-12, abs=0)
    assert averaged(Shannon(), 8.0).efficiency(np.array([snr]))[0] == pytest.approx(snr / math.log(2), rel=1e-6, abs=0), "|h|^2 has mean 1"


def test_thresholds_are_where_they_were():
    assert Fixed(name="fixed", efficiency_bps_per_hz=2.0).efficiency(np.array([2.999, 3.0])).tolist() == [0.0, 2.0]
    assert Cqi(name="cqi").efficiency(np.array([db_to_ratio(-6.71), db_to_ratio(-6.69)])).tolist() == [0.0, 0.1523]


@pytest.mark.parametrize("k_db", [-30, 0, 9, 19.9, 20.1, 30, 40, 60, 80, 100, 200, 300])
@pytest.mark.parametrize("snr_db", [-20, 10, 30])
def test_ergodic_rate_over_rician_fading_against_numerical_integration(k_db, snr_db):
    """E log2(1 + g |h|^2) by adaptive quadrature over |h| around the direct wave; for large K also by its expansion."""
    k, snr = db_to_ratio(k_db), db_to_ratio(snr_db)
    got = float(averaged(Shannon(), k).efficiency(np.array([snr]))[0])
    direct, sigma = math.sqrt(k / (1 + k)), math.sqrt(0.5 / (1 + k))

    def integrand(t):
        r = direct + sigma * t
        density = r / sigma * math.exp(-t * t / 2) * special.i0e(r * direct / sigma**2)
        return math.log1p(snr * r * r) / math.log(2) * density

    expected, _ = integrate.quad(integrand, max(-direct / sigma, -12), 12, epsabs=0, epsrel=1e-11, limit=400)
    assert got == pytest.approx(expected, rel=1e-7)
    if k_db >= 60:  # log2(1 + g x) around its mean 1 with variance (1 + 2K)/(1 + K)^2
        variance = (1 + 2 * k) / (1 + k) ** 2
        assert got == pytest.approx(math.log2(1 + snr) - variance / 2 * (snr / (1 + snr)) ** 2 / math.log(2), rel=1e-8)


@pytest.mark.parametrize(
    ("blocks", "keys"),
    [
        ({"radio": {"snr": ["10 dB", "0 linear"]}}, ["radio.snr"]),
        ({"radio": {"downlink": {"snr": "0 linear"}}}, ["radio.downlink.snr"]),
        ({"radio": {"power": "0 W"}}, []),  # the SNR is given: a radio that radiates nothing and is heard all the same
        ({"radio": {"power": ["1 W", "0 W"], "path_loss": "uma"}}, ["radio.power"]),
        ({"radio": {"downlink": {"power": "0 W"}, "path_loss": "uma"}}, ["radio.downlink.power"]),
        ({"radio": {"power_control": {"target": "0 W"}, "path_loss": "uma"}}, ["radio.power_control.target"]),
        ({"radio": {"fading": {"name": "rician", "k": "80 dB", "time": "ergodic"}}}, []),
        ({"radio": {"rate": "cqi", "snr": "-8 dB", "fading": {"name": "rayleigh", "time": "ergodic"}}}, []),
    ],
)
def test_silence_is_an_influence(blocks, keys):
    spec = WorldSpec.model_validate(blocks)
    assert influences(spec) == keys
    fates = {outcome.fate for outcome in World(spec, 4, 0).gather([order(c) for c in range(4)], None)}
    assert ("lost" in fates) == (keys not in ([], ["radio.downlink.snr"], ["radio.downlink.power"]))


def test_no_signal_has_no_decibels():
    w = World(WorldSpec.model_validate({"radio": {"snr": "0 linear"}}), 1, 0)
    w.gather([order()], None)
    (leg,) = w.take_legs()
    assert (leg.outcome, leg.bits, leg.snr_db, leg.rate_bps) == ("outage", 0, None, 0.0)


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ({"devices": {"battery": "0 J"}}, "greater than 0"),
        ({"radio": {"rate": {"name": "gap", "gap": "0 linear"}}}, "0 linear"),
        ({"radio": {"noise_figure": "0 linear"}}, "0 linear"),
        ({"radio": {"downlink": {"noise_figure": "0 linear"}}}, "0 linear"),
        ({"radio": {"interference_margin": "0 linear"}}, "0 linear"),
        ({"radio": {"noise_figure": "1e-300 linear"}}, "-3000 dB is outside what is allowed: -60 dB to 100 dB"),
        ({"radio": {"fading": {"name": "rayleigh", "block": "1e-9 s"}}}, "greater than or equal to"),
        ({"radio": {"fading": {"name": "rayleigh", "speed": 1e29}}}, "30000"),
        ({"cell": {"speed": 1e29}}, "30000"),
        ({"radio": {"path_loss": {"name": "log_distance", "correlation": 1e-300}}}, "0.1"),
        ({"radio": {"path_loss": {"name": "log_distance", "at_1km_db": -5000}}}, "greater than or equal to 0"),
        ({"radio": {"bandwidth": 1e-300}}, "0.001"),
        ({"devices": {"frequency": 1e-300}}, "0.001"),
        ({"devices": {"speed": 1e-300}}, "greater than or equal to 1"),
        ({"devices": {"amplifier_efficiency": 1e-300}}, "greater than or equal to"),
        ({"radio": {"loss": {"block": 1e-29}}}, "greater than or equal to 1"),
        ({"radio": {"carrier": 1e30}}, "less than or equal to"),
    ],
)
def test_hostile_numbers_are_refused(blocks, words):
    with pytest.raises(ValidationError, match=words):
        WorldSpec.model_validate(blocks)


ENDLESS = [
    {"radio": {"fading": {"name": "rayleigh", "block": "1 us"}, "snr": "0 dB", "bandwidth": "100 kHz"}},
    {"radio": {"fading": {"name": "rayleigh", "speed": 3e4}, "snr": "0 dB", "bandwidth": "100 kHz"}},
    {"radio": {"fading": {"name": "rayleigh", "block": "1 us"}, "snr": "0 linear"}},
    {"radio": {"path_loss": "log_distance", "bandwidth": "1 Hz"}, "cell": {"speed": 3e4}},
]


@pytest.mark.parametrize("access", ["dedicated", "tdma", "ofdma"])
@pytest.mark.parametrize("blocks", ENDLESS)
def test_endless_transfers_are_refused_with_the_number_of_blocks(blocks, access):
    """At 0 dB and 100 kHz a megabit takes more than 10 s: ten million blocks of a microsecond."""
    spec = WorldSpec.model_validate({**blocks, "cell": {**blocks.get("cell", {}), "access": access}})
    began_s = time.process_time()
    with pytest.raises(ScenarioError, match=r"would last at least .* blocks of .* s, .*\(at most 100000 blocks") as caught:
        World(spec, 2, 0).gather([order(c, up=1_000_000) for c in range(2)], None)
    assert time.process_time() - began_s < 2, "counted before it begins, not while it runs"
    number = float(str(caught.value).split("at least ")[1].split()[0])
    if blocks is ENDLESS[0]:
        assert number == pytest.approx(1e6 / (1e5 * math.log2(11)) / 1e-6, rel=0.01), "no channel stays 10 dB above its mean"


@pytest.mark.parametrize("access", ["dedicated", "ofdma"])
def test_what_could_not_be_foreseen_is_counted_while_it_runs(access, monkeypatch):
    for module in ("channel.link", "access.ofdma"):
        monkeypatch.setattr(f"wflsim.world.{module}.BLOCKS_AT_MOST", 2000)
    radio = {"fading": {"name": "rayleigh", "block": "1 ms"}, "snr": "0 dB", "bandwidth": "100 kHz"}
    w = World(WorldSpec.model_validate({"radio": radio, "cell": {"access": access}}), 1, 0)
    assert w.gather([order(up=150_000)], None)[0].fate == "delivered"  # about 1,750 blocks
    with pytest.raises(ScenarioError, match=r"would last about \S+ blocks of 0\.001 s"):
        w.gather([order(up=400_000)], None)  # fewer than 2,000 at ten times its SNR


def test_tiny_steps_of_a_channel_trace_are_counted_too(tmp_path):
    (tmp_path / "fine.csv").write_text("time_s,client_0\n0,0\n1e-7,1\n2e-7,0\n")
    spec = WorldSpec.model_validate({"radio": {"trace": {"file": str(tmp_path / "fine.csv")}}})
    with pytest.raises(ScenarioError, match=r"blocks of 1e-07 s"):
        World(spec, 1, 0).gather([order(up=1_000_000)], None)


@pytest.mark.parametrize(
    "blocks",
    [
        {"radio": {"snr": "1e-30 linear", "bandwidth": 0.001}},
        {"radio": {"path_loss": "log_distance", "power": "1e-300 W"}},
        {"devices": {"frequency": 0.001, "cycles_per_sample": 1e15}},
        {"radio": {"snr": "0 linear", "patience": 1e29}},
        {"server": {"aggregation": 1e29}},
    ],
)
@pytest.mark.parametrize("access", ["dedicated", "tdma", "ofdma", "makespan"])
def test_centuries_are_refused(blocks, access):
    w = World(WorldSpec.model_validate({**blocks, "cell": {"access": access}}), 2, 0)

    def one_round():
        w.gather([order(c, samples=100) for c in range(2)], None)
        w.end_round()

    with pytest.raises(ScenarioError, match=r"simulated seconds|cannot send at all"):
        one_round()


def test_the_clock_takes_no_nan():
    with pytest.raises(ScenarioError, match="nan simulated seconds"):
        Clock().timeout(math.nan)
    clock = Clock()
    clock.run(clock.timeout(5.0))
    assert clock.now == 5.0


def concave(gain_hz):
    return lambda hz: hz * math.log1p(gain_hz / hz) / math.log(2)


def test_a_split_for_uploads_of_very_unequal_size():
    """One bit beside ten gigabits, one nearly ready when the other is long done: all arrive together, nothing is left over."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        uploads = [
            Upload(10 ** rng.uniform(0, 10), float(rng.choice([0.0, 10 ** rng.uniform(-6, 6)])), concave(10 ** rng.uniform(3, 12)))
            for _ in range(rng.integers(2, 6))
        ]
        band_hz = 10 ** rng.uniform(1, 8)
        bands_hz = split_band(uploads, band_hz)
        ends_s = [u.ready_s + u.bits / u.rate_bps(hz) for u, hz in zip(uploads, bands_hz, strict=True)]
        assert math.fsum(bands_hz) == pytest.approx(band_hz, rel=1e-12)
        assert max(ends_s) == pytest.approx(min(ends_s), rel=1e-5)
