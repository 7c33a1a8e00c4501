"""The channel: path loss, shadowing, fading, traces, rates. The standard's formulas are written a second time here."""

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.integrate import quad
from scipy.special import exp1, j0

from wflsim.world.channel.fading import Fading, Rayleigh, Rician, averaged
from wflsim.world.channel.link import Link
from wflsim.world.channel.path_loss import GaussianField, Inh, LogDistance, Uma, Umi
from wflsim.world.channel.placement import Placement, PlacementSpec
from wflsim.world.channel.radio import Radio, RadioSpec
from wflsim.world.channel.rates import Cqi, Fixed, Gap, Shannon
from wflsim.world.channel.traces import TraceChannel, TraceSpec

C = 299_792_458.0


def uma_db(d, los, f, h_ut=1.5, h_bs=25.0):
    d3, bp = math.sqrt(d * d + (h_bs - h_ut) ** 2), 4 * (h_bs - 1) * (h_ut - 1) * f * 1e9 / C
    sight = 28 + 22 * math.log10(d3) + 20 * math.log10(f)
    if d > bp:
        sight = 28 + 40 * math.log10(d3) + 20 * math.log10(f) - 9 * math.log10(bp**2 + (h_bs - h_ut) ** 2)
    return sight if los else max(sight, 13.54 + 39.08 * math.log10(d3) + 20 * math.log10(f) - 0.6 * (h_ut - 1.5))


def umi_db(d, los, f, h_ut=1.5, h_bs=10.0):
    d3, bp = math.sqrt(d * d + (h_bs - h_ut) ** 2), 4 * (h_bs - 1) * (h_ut - 1) * f * 1e9 / C
    sight = 32.4 + 21 * math.log10(d3) + 20 * math.log10(f)
    if d > bp:
        sight = 32.4 + 40 * math.log10(d3) + 20 * math.log10(f) - 9.5 * math.log10(bp**2 + (h_bs - h_ut) ** 2)
    return sight if los else max(sight, 22.4 + 35.3 * math.log10(d3) + 21.3 * math.log10(f) - 0.3 * (h_ut - 1.5))


def inh_db(d, los, f):
    d3 = math.sqrt(d * d + 4)
    sight = 32.4 + 17.3 * math.log10(d3) + 20 * math.log10(f)
    return sight if los else max(sight, 17.3 + 38.3 * math.log10(d3) + 24.9 * math.log10(f))


@pytest.mark.parametrize("los", [True, False])
@pytest.mark.parametrize(
    ("model", "table"), [(Uma(name="uma"), uma_db), (Umi(name="umi"), umi_db), (Inh(name="inh"), inh_db)]
)
def test_path_loss_of_tr_38901(model, table, los):
    ground_m = np.array([10.0, 35.0, 100.0, 149.0, 319.0, 321.0, 1000.0])  # UMa's breakpoint at 2 GHz is 320 m
    for f in (0.9, 2.0, 3.5):
        got = model.loss_db(ground_m, np.full(7, los), f * 1e9)
        assert got == pytest.approx([table(d, los, f) for d in ground_m], rel=1e-12)


def test_path_loss_by_hand():
    """UMa at 100 m, 2 GHz: d3 = 102.724 m; 28 + 44.2568 + 6.0206 = 78.277 dB with sight, 98.178 dB without."""
    assert Uma(name="uma").loss_db(np.array([100.0, 100.0]), np.array([True, False]), 2e9) == pytest.approx(
        [78.2774, 98.1768], abs=1e-3
    )
    assert LogDistance(name="log_distance").loss_db(np.array([200.0]), np.array([True]), 2e9) == pytest.approx(
        [128.1 + 37.6 * math.log10(0.2)]
    )


def test_line_of_sight_probability():
    d = np.array([10.0, 18.0, 50.0, 200.0])
    expected = [1, 1, 18 / 50 + math.exp(-50 / 63) * (1 - 18 / 50), 18 / 200 + math.exp(-200 / 63) * (1 - 18 / 200)]
    assert Uma(name="uma").sight_probability(d) == pytest.approx(expected, rel=1e-12)
    inh = [1.0, math.exp(-15 / 70.8), 0.54 * math.exp(-51 / 211.7)]
    assert Inh(name="inh").sight_probability(np.array([3.0, 20.0, 100.0])) == pytest.approx(inh, rel=1e-12)


@pytest.mark.parametrize(("distance_m", "snr_db"), [(200, 27.2), (500, 12.2), (1000, 0.9)])
def test_link_budget_of_the_usual_cell(distance_m, snr_db):
    """20 dBm, noise figure 5 dB, 128.1+37.6 lg d: the SNRs on 1 MHz that docs/radio_and_energy.md quotes."""
    spec = RadioSpec.model_validate({"power": "20 dBm", "path_loss": {"name": "log_distance", "sigma_db": 0}})
    radio = Radio(spec, Placement(PlacementSpec(radius=2000, distances=[distance_m]), 0), 0)
    assert radio.up.snr_db(0, 1e6, 0.0) == pytest.approx(snr_db, abs=0.06)
    assert radio.up.snr_db(0, 20e6, 0.0) == pytest.approx(snr_db - 13.01, abs=0.06)


def test_interference_margin_and_power_control():
    base = {"power": "20 dBm", "path_loss": {"name": "log_distance", "sigma_db": 0}}
    place = PlacementSpec(radius=2000, distances=[200, 1000])
    plain, margin, control = (
        Radio(RadioSpec.model_validate({**base, **extra}), Placement(place, 0), 0)
        for extra in ({}, {"interference_margin": "3 dB"}, {"power_control": {"target": "-95 dBm"}})
    )
    assert plain.up.snr_db(0, 1e6, 0) - margin.up.snr_db(0, 1e6, 0) == pytest.approx(3)
    loss_db = 128.1 + 37.6 * math.log10(0.2)
    assert 10 * math.log10(control.radiated_w(0, 1e6, 0) * 1e3) == pytest.approx(-95 + loss_db)
    assert control.radiated_w(1, 1e6, 0) == pytest.approx(0.1)  # 1 km would take 33 dBm: the radio has 20
    assert control.up.snr_db(0, 1e6, 0) == pytest.approx(-95 - (-174 + 60 + 5))


@pytest.mark.parametrize("band_hz", [1e6, 2.5e5])
def test_interference_is_added_to_the_noise_and_follows_the_band(band_hz):
    """P G / (N0 b F M + J b/B), J dealt out in turn; the margin raises the noise alone, and the downlink hears none of it."""
    base = {"power": "10 mW", "bandwidth": "4 MHz", "noise_figure": "3 dB", "path_loss": {"name": "log_distance", "sigma_db": 0, "at_1km_db": 60, "exponent": 2}}
    place = PlacementSpec(radius=2000, distances=[200, 1000])
    radio = Radio(RadioSpec.model_validate({**base, "interference_margin": "2 dB", "interference": ["0 W", "3e-14 W", "7e-13 W"]}), Placement(place, 0), 0)
    quiet = Radio(RadioSpec.model_validate({**base, "interference_margin": "2 dB"}), Placement(place, 0), 0)
    noise_w = 10 ** (-17.4 - 3 + 0.3 + 0.2) * band_hz
    for client, (metres, others_w) in enumerate([(200, 0), (1000, 3e-14), (200, 7e-13), (1000, 0)]):
        assert radio.up.snr(client, band_hz, 0) == pytest.approx(0.01 * metres**-2 / (noise_w + others_w * band_hz / 4e6), rel=1e-12)
        assert radio.down.snr(client, band_hz, 0) == quiet.down.snr(client, band_hz, 0)
        assert radio.mean_up.highest_snr(client) > radio.up.snr(client, 1e6, 0)


def test_clients_spread_evenly_and_walk_inside_the_cell_at_their_speed():
    still = Placement(PlacementSpec(radius=300), seed=1)
    far = np.array([still.ground_m(*still.position(c, np.zeros(1)))[0] for c in range(2000)])
    share_inside = np.mean(far < 150)  # area law: (150^2 - 10^2)/(300^2 - 10^2)
    assert share_inside == pytest.approx(22400 / 89900, abs=2.6 * math.sqrt(0.19 / 2000))
    walk = Placement(PlacementSpec(radius=300, speed=2.0), seed=1)
    t = np.arange(0, 3000, 0.5)
    x, y = walk.position(4, t)
    steps = np.hypot(np.diff(x), np.diff(y))
    assert np.hypot(x, y).max() <= 300 + 1e-6
    assert np.quantile(steps, 0.05) == pytest.approx(1.0, rel=1e-9)  # but for the few steps with a bounce in them
    assert steps.max() <= 1 + 1e-9
    x0, y0 = still.position(4, np.zeros(1))
    assert (x[0], y[0]) == (pytest.approx(x0[0]), pytest.approx(y0[0]))


def test_shadowing_has_its_variance_and_its_correlation():
    rng = np.random.Generator(np.random.Philox(7))
    products = {0.0: [], 10.0: [], 50.0: [], 100.0: []}
    for seed in range(60):
        land = GaussianField(seed, "shadow", 50.0)
        x, y = rng.uniform(-2000, 2000, (2, 50))
        angle = rng.uniform(0, 2 * math.pi, 50)
        here = land.value_at(x, y)
        for apart_m, found in products.items():
            found.extend(here * land.value_at(x + apart_m * np.cos(angle), y + apart_m * np.sin(angle)))
    for apart_m, found in products.items():
        half_width = 2.576 * np.std(found) / math.sqrt(len(found))
        assert np.mean(found) == pytest.approx(math.exp(-apart_m / 50), abs=half_width), apart_m


def test_rayleigh_power_and_clarke_autocorrelation():
    spec = Rayleigh(name="rayleigh", speed=10 / 3)
    lags_s = np.linspace(0, 0.1, 11)
    sums, power = np.zeros(11), []
    clients = 400
    for client in range(clients):
        fading = Fading(spec, 2e9, 0, "up")
        re, im = fading.amplitude(client, lags_s)
        sums += re * re[0] + im * im[0]
        power.extend(fading.gain(client, np.array([0.0, 50.0, 100.0])))
    expected = j0(2 * math.pi * fading.doppler_hz * lags_s)
    assert np.abs(sums / clients - expected).max() < 2.576 * math.sqrt(1 / clients) + 0.01
    power = np.array(power)
    for threshold in (0.1, 0.5, 1.0):
        p = 1 - math.exp(-threshold)
        assert np.mean(power < threshold) == pytest.approx(p, abs=2.576 * math.sqrt(p * (1 - p) / len(power)))


def test_rician_factor_from_the_moments_of_its_power():
    """E|h|^2 = 1 and var|h|^2 = (2K+1)/(K+1)^2."""
    k = 4.0
    fading = Fading(Rician(name="rician", k="4 linear", speed=30.0), 2e9, 3, "up")
    power = np.concatenate([fading.gain(c, np.linspace(0, 20, 400)) for c in range(50)])
    assert power.mean() == pytest.approx(1, abs=0.01)
    assert power.var() == pytest.approx((2 * k + 1) / (k + 1) ** 2, rel=0.04)


def test_every_look_at_the_sky_shows_the_same():
    spec = RadioSpec.model_validate({"path_loss": "umi", "fading": "rayleigh"})
    place = PlacementSpec(speed=1.5)
    one, other = Radio(spec, Placement(place, 5), 5), Radio(spec, Placement(place, 5), 5)
    late = one.up.snr(3, 1e6, 1234.5)
    for at_s in (0.0, 77.0, 4000.0):
        other.up.snr(3, 1e6, at_s)
    assert other.up.snr(3, 1e6, 1234.5) == late
    assert one.down.snr(3, 1e6, 0.0) != one.up.snr(3, 1e6, 0.0)


def test_ergodic_shannon_rate_in_closed_form():
    """Rayleigh: E log2(1+g h) = exp(1/g) E1(1/g) / ln 2. Rician: by adaptive quadrature."""
    for snr in (0.1, 1.0, 10.0, 1000.0):
        got = float(averaged(Shannon(), 0.0).efficiency(np.array([snr]))[0])
        assert got == pytest.approx(math.exp(1 / snr) * exp1(1 / snr) / math.log(2), rel=1e-9)
    k = 3.0

    def integrand(x):
        return (1 + k) * math.exp(-k - (1 + k) * x) * np.i0(2 * math.sqrt(k * (1 + k) * x)) * math.log2(1 + 10 * x)

    got = float(averaged(Shannon(), k).efficiency(np.array([10.0]))[0])
    assert got == pytest.approx(quad(integrand, 0, 40, epsabs=1e-12)[0], rel=1e-8)


def test_rate_rules():
    snr = np.array([10 ** (db / 10) for db in (-10, -6.7, 0.0, 10.3, 40)])
    assert list(Cqi(name="cqi").efficiency(snr)) == [0, 0.1523, 0.3770, 2.4063, 5.5547]
    assert Gap(name="gap", gap="3 dB").efficiency(snr) == pytest.approx(np.log2(1 + snr / 10**0.3))
    assert list(Fixed(name="fixed", efficiency_bps_per_hz=1).efficiency(snr)) == [0, 0, 1, 1, 1]


def integrated_s(link, client, bits, band_hz, start_s, step_s):
    """Direct integration, block by block, in plain Python."""
    t, left = start_s, bits
    while True:
        block = math.floor(t / step_s + 1e-9)
        end = (block + 1) * step_s
        rate = band_hz * math.log2(1 + float(link.channel.snr(client, np.array([t]))[0]))
        if rate * (end - t) >= left:
            return t + left / rate - start_s
        left -= rate * (end - t)
        t = end


@pytest.mark.parametrize("start_s", [0.0, 0.013, 5.0])
def test_block_fading_transfer_against_direct_integration(start_s):
    spec = RadioSpec.model_validate({"snr": "3 dB", "fading": {"name": "rayleigh", "block": "10 ms"}})
    link = Radio(spec, Placement(PlacementSpec(), 1), 1).up
    for bits in (100.0, 2e4, 7e6):
        got_s, arrives = link.transfer_s((2,), bits, 1e6, start_s)
        assert arrives
        assert got_s == pytest.approx(integrated_s(link, 2, bits, 1e6, start_s, 0.01), rel=1e-9)
        assert link.moved_bits((2,), 1e6, start_s, start_s + got_s) == pytest.approx(bits, rel=1e-9)


def test_an_outage_is_given_up_after_the_patience(tmp_path):
    spec = RadioSpec.model_validate({"snr": "-20 dB", "rate": "cqi", "patience": "4 s"})
    assert Radio(spec, Placement(PlacementSpec(), 0), 0).up.transfer_s((0,), 1e6, 1e6, 0.0) == (4.0, False)
    file = tmp_path / "dips.csv"  # silent for 1 s, then for 10 s
    file.write_text("time_s,client_0\n0,0\n2,-100\n3,0\n5,-100\n12,-100\n")
    link = Link(TraceChannel(TraceSpec(file=str(file))), Shannon(), False, patience_s=4.0)
    assert link.transfer_s((0,), 3.5e6, 1e6, 0.0) == (pytest.approx(4.5), True)
    assert link.transfer_s((0,), 5e6, 1e6, 0.0) == (pytest.approx(5 + 4), False)


def test_traces_from_csv_and_npz(tmp_path):
    csv, npz = tmp_path / "a.csv", tmp_path / "a.npz"
    csv.write_text("time_s,client_0,client_1\n0,0,10\n1,3,10\n4,-3,10\n")
    np.savez(npz, time_s=[0.0, 1.0, 4.0], snr_db=[[0, 10], [3, 10], [-3, 10]])
    for path in (csv, npz):
        channel = TraceChannel(TraceSpec(file=str(path)))  # period 4 + 2 (the mean spacing)
        got_db = 10 * np.log10(channel.snr(2, np.array([0.0, 0.99, 1.0, 3.9, 5.9, 6.0, 7.5])))
        assert got_db == pytest.approx([0, 0, 3, 3, -3, 0, 3], abs=1e-9)
        assert 10 * np.log10(channel.snr(1, np.zeros(1))[0]) == pytest.approx(10)
        assert channel.changes_s(1.5, 4) == pytest.approx([1.5, 4, 6, 7, 10])
        assert channel.changes_s(6.0, 2) == pytest.approx([6, 7, 10])


@pytest.mark.parametrize("text", ["time_s,a\n", "time_s,a\n1,2\n0,3\n", "time_s,a\n0,x\n1,2\n", "time_s\n0\n1\n"])
def test_bad_traces_are_explained(tmp_path, text):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ValidationError, match=r"bad\.csv"):
        TraceSpec(file=str(tmp_path / "bad.csv"))


def test_a_missing_trace_is_named():
    with pytest.raises(ValidationError, match=r"no such file: nowhere\.csv; names are relative to the scenario file"):
        TraceSpec(file="nowhere.csv")


@pytest.mark.parametrize(
    "wrong",
    [
        {"snr": "1 dB", "path_loss": "uma"},
        {"power_control": {"target": "-90 dBm"}},
        {"path_loss": "uma", "downlink": {"snr": "3 dB"}},
        {"fading": "rayleigh", "loss": {"outage_threshold": "0 dB"}},
        {"rate": "turbo"},
        {"reading": "power_for_snr", "fading": "rayleigh"},
    ],
)
def test_contradictions_are_refused(wrong):
    with pytest.raises(ValidationError):
        RadioSpec.model_validate(wrong)


def test_a_radio_written_out_reads_back():
    spec = RadioSpec.model_validate(
        {"path_loss": "uma", "fading": {"name": "rician", "k": "7 dB"}, "rate": {"name": "gap", "gap": "2 dB"}}
    )
    assert RadioSpec.model_validate(spec.model_dump(mode="json")) == spec
    listed = RadioSpec.model_validate({"snr": ["1 dB", "2 dB"], "power": ["10 mW", "20 dBm"]})
    assert RadioSpec.model_validate(listed.model_dump(mode="json")) == listed
