"""Named processors and modems: their check values from one table, and the relations that must hold between them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy.optimize import minimize_scalar

from studies import measured_devices
from studies.measured_devices import modem, processor, step
from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.scenario.explain import FORMER_DEVICE_KEYS, FORMER_PROFILES
from wflsim.units import parse_quantity
from wflsim.world.fleet.compute import COMPUTE
from wflsim.world.fleet.modem import MODEMS
from wflsim.world.world import World, WorldSpec

ROWS = [row for row in measured_devices.rows() if row["check"] != "measured"]
MEASURED = [row for row in measured_devices.rows() if row["check"] == "measured"]
ROOT = Path(__file__).resolve().parents[2]
NAMED = [name for name in COMPUTE if name != "generic"]
TRUE_MODEMS = [name for name in MODEMS if name not in ("ideal", "lte_2012")]


def best_clock(name):
    """Share of the full clock at which a long step takes the least energy, found numerically."""
    full_hz = COMPUTE[name]["max_frequency"]

    def joules(share):
        made = processor(name, 1e3, frequency=share * full_hz, step_overhead=0)
        return made.active_w * made.step_s(1)

    return minimize_scalar(joules, bounds=(0.05, 1), method="bounded", options={"xatol": 1e-6}).x


def upload(name):
    """Joules of an upload in a world: its transmit legs, what was radiated, the waking before and the tail after."""
    spec = {"radio": {"snr": "0 dB", "bandwidth": "5 MHz", "power": "0.2 W"}, "devices": {"modem": name, "compute_idle_power": 0},
            "server": {"aggregation": "60 s", "idle": "all"}}  # fmt: skip
    w = World(WorldSpec.model_validate(spec), 1, 0)
    w.gather([Order(0, 0, 0, 0, 0, 0, 25_417_920, 0, 0, 0)], None)
    w.end_round()
    legs = w.take_legs()
    return {
        "wake_j": sum(leg.energy_j for leg in legs if leg.activity == "transmit" and not leg.attempts),
        "upload_j": sum(leg.energy_j for leg in legs if leg.activity == "transmit" and leg.attempts),
        "radiated_j": sum(leg.radiated_j for leg in legs), "tail_j": sum(leg.energy_j for leg in legs if leg.activity == "tail"),
    }  # fmt: skip


def best_mw(name, gain_per_w):
    """Radiated power at which a bit takes the least energy, if the SNR is gain x power."""

    def joules_per_bit(lg_w):
        return modem(name).sending_w(10**lg_w) / math.log2(1 + gain_per_w * 10**lg_w)

    return 1e3 * 10 ** minimize_scalar(joules_per_bit, bounds=(-6, -1), method="bounded", options={"xatol": 1e-9}).x


def found(row):
    name, quantity, setting = row["part"], row["quantity"], row["setting"]
    if quantity.startswith("step_"):
        return step(name, setting, quantity)
    if quantity == "best_clock":
        return best_clock(name)
    if quantity == "sending_w":
        return modem(name).sending_w(parse_quantity(setting, "W"))
    return best_mw(name, float(setting.split()[0])) if quantity == "best_mw" else upload(name)[quantity]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join((row["check"], row["part"], row["quantity"], row["setting"])))
def test_check_values_to_the_printed_digits(row):
    digits = len(row["printed"].partition(".")[2])
    assert found(row) == pytest.approx(float(row["printed"]), abs=0.51 * 10**-digits)


@pytest.mark.parametrize("row", MEASURED[:3], ids=lambda row: row["part"])
def test_three_measured_workloads_come_out_within_six_percent(row):
    """A step of ResNet-18 on a Pi 4, a Pi 5 and a Jetson Nano against what others measured."""
    assert row["workload"].startswith("ResNet-18")
    assert measured_devices.modelled(row) == pytest.approx(float(row["printed"]), rel=0.06)


def test_every_measured_row_stands_beside_the_model_in_the_docs():
    """The page follows from the table, and so do the lines of docs/radio_and_energy.md; nobody is left out."""
    page = measured_devices.page()
    assert (ROOT / "reports/world/measured.md").read_text() == page
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(lines) == len(MEASURED) == 26
    docs = (ROOT / "docs/radio_and_energy.md").read_text()
    assert [line for line in lines if line not in docs] == []


def test_ratios_by_hand():
    """ResNet-50 on a Pi 4: 15/12.1; the radio of a Pi: (0.82 + 0.1/0.1) W over 2.1 and over 1.2 W."""
    by_workload = {(row["workload"], row["part"]): measured_devices.ratios(row) for row in MEASURED if row["part"]}
    assert by_workload["ResNet-50", "raspberry_pi_4"] == pytest.approx([15 / 12.1], rel=1e-6)
    assert by_workload["radio of a Pi 4 that sends in FL", "wifi_nic"] == pytest.approx([1.82 / 2.1, 1.82 / 1.2])
    assert by_workload["ResNet-18 224 px batch 128", "desktop_gpu"] == pytest.approx([177.8 / 128 / 1.34, 177.8 / 128 / 1.09])


def test_the_optimum_of_a_linear_amplifier_solves_its_equation():
    """(1+s) ln(1+s) - s = P_c eta g, s = g p; without circuit power it lies at p -> 0."""
    s = best_mw("wifi_nic", 1000)
    assert (1 + s) * math.log1p(s) - s == pytest.approx(0.82 * 0.10 * 1000, rel=1e-4)
    assert best_mw("ideal", 1000) < 0.01


def ratio(one, other, gflop):
    return processor(one, gflop).step_s(1) / processor(other, gflop).step_s(1)


def test_large_models_take_their_time_on_each_processor():
    assert 5 < ratio("raspberry_pi_4", "jetson_nano", 1000) < 10
    assert 1.7 < ratio("raspberry_pi_4", "raspberry_pi_5", 1000) < 2.3
    assert 0.7 < ratio("raspberry_pi_4", "phone_flagship", 1000) < 3
    assert 40 < ratio("jetson_nano", "desktop_gpu", 1000) < 120


@pytest.mark.parametrize("gflop", [1e-6, 1e-4, 0.0099])
def test_tiny_models_take_about_the_same_everywhere(gflop):
    steps = [processor(name, gflop).step_s(1) for name in ("raspberry_pi_4", "phone_flagship", "jetson_nano")]
    assert max(steps) < 3 * min(steps)
    assert all(processor(name, gflop).step_s(1) > 1e-3 for name in NAMED if not name.startswith("mcu"))


def test_joules_per_gflop_are_in_order():
    names = {"desktop_gpu": 0.041, "jetson_nano": 0.091, "phone_flagship": 0.185, "raspberry_pi_5": 0.30, "raspberry_pi_4": 0.43, "mcu_m4": 1.7}
    found = {name: processor(name, 1e4) for name in names}
    joules = [made.active_w * made.s_per_sample / 1e4 for made in found.values()]
    assert joules == pytest.approx(list(names.values()), rel=0.025)
    assert joules == sorted(joules)


@pytest.mark.parametrize("name", MODEMS)
def test_twice_the_radiated_power_costs_more_and_less_than_twice(name):
    most_w = MODEMS[name].get("max_power", 1.0)
    for radiated_w in (most_w / 2, most_w / 20, most_w / 2000):
        factor = modem(name).sending_w(2 * radiated_w) / modem(name).sending_w(radiated_w)
        if name in ("ideal", "lte_2012"):
            assert factor == pytest.approx({"ideal": 2.0, "lte_2012": 1.0}[name])
        else:
            assert 1 < factor < 2


def test_modems_are_in_order_at_full_power():
    order = ("ble", "lora", "nb_iot", "lte", "nr_low", "nr_mmwave")
    powers_w = [modem(name).sending_w(MODEMS[name]["max_power"]) for name in order]
    assert powers_w == sorted(powers_w)


@pytest.mark.parametrize("compute", COMPUTE)
@pytest.mark.parametrize("name", MODEMS)
def test_whoever_works_draws_more_than_whoever_sleeps(compute, name):
    made, radio = processor(compute, 1), modem(name)
    asleep_w = made.idle_w + radio.sleep_w
    assert made.active_w + radio.sleep_w > asleep_w
    assert made.idle_w + radio.receive_w > asleep_w
    assert made.idle_w + radio.sending_w(1e-3) > asleep_w
    assert radio.sending_w(1e-3) > 1e-3 - 1e-15, "the radiated watt is always paid"


@pytest.mark.parametrize("name", NAMED)
def test_half_the_clock(name):
    """Time rises by at most 2, dynamic energy falls by 2^(n-1) to 2^n."""
    full, half = (processor(name, 1, frequency=share * COMPUTE[name]["max_frequency"]) for share in (1, 0.5))
    n = COMPUTE[name]["clock_exponent"]
    assert 1 < half.step_s(1) / full.step_s(1) <= 2
    dynamic = [(made.active_w - made.idle_w) * made.s_per_sample for made in (full, half)]
    assert 2 ** (n - 1) - 1e-9 <= dynamic[0] / dynamic[1] <= 2**n


def test_a_step_costs_its_overhead_however_small_its_batch():
    w = World(WorldSpec.model_validate({"devices": {"compute": "raspberry_pi_4", "call_overhead": "1 s"}}), 1, 0, 1e9 / 3)
    w.gather([Order(0, 0, 0, 0, 0, 0, 0, 40, 30, 0, 4, 3)], None)
    (leg,) = w.take_legs()
    assert leg.end_s == pytest.approx(1 + 4 * 0.01 + (40 + 60) / 3 / 15)
    assert leg.energy_j == pytest.approx(6.4 * leg.end_s)


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ({"radio": {"power": "23 W"}, "devices": {"modem": "lte"}}, r"radio\.power asks for 43\.62 dBm"),
        ({"radio": {"power": "21 dBm"}, "devices": [{"modem": "lte"}, {"modem": "wifi_nic"}]}, r"wifi_nic\) radiates at most 20 dBm \(devices\.1"),
        ({"devices": {"modem": "ble", "radiated_power": "10 dBm"}}, r"devices\.radiated_power asks for 10 dBm"),
        ({"radio": {"path_loss": "uma", "power": "30 dBm", "power_control": {"target": 1e-12}}, "devices": {"modem": "nr_low"}}, "radiates at most"),
    ],
)  # fmt: skip
def test_more_than_a_modem_can_radiate_is_refused(blocks, words):
    with pytest.raises(ValueError, match=words):
        WorldSpec.model_validate(blocks)


def test_the_modem_of_every_client_is_asked():
    powers = {"radio": {"power": ["8 dBm", "23 dBm"]}, "devices": [{"modem": "ble"}, {"modem": "lte"}]}
    World(WorldSpec.model_validate(powers), 4, 0)
    powers["radio"]["power"].reverse()
    with pytest.raises(ScenarioError, match=r"23 dBm.*of client 0 \(ble\)"):
        World(WorldSpec.model_validate(powers), 4, 0)
    strong = {"radio": {"reading": "power_for_snr", "snr": "30 dB", "power": "1 mW"}, "devices": {"modem": "lte"}}
    with pytest.raises(ScenarioError, match="reading power_for_snr"):
        World(WorldSpec.model_validate(strong), 1, 0)


def test_five_hundredths_of_a_decibel_are_forgiven():
    for name in TRUE_MODEMS:
        most_w = MODEMS[name]["max_power"]
        assert modem(name).can_radiate(most_w * 10**0.00499)
        assert not modem(name).can_radiate(most_w * 10**0.00501)
        assert modem(name).sending_w(most_w * 10**0.004) == modem(name).sending_w(most_w)


@pytest.mark.parametrize("name", TRUE_MODEMS)
def test_power_control_saves_energy_with_every_modem(name):
    """With path loss, a near client under power control radiates less and draws less, by the modem's law."""
    radio = {"path_loss": {"name": "log_distance", "sigma_db": 0}, "power": MODEMS[name]["max_power"], "power_control": {"target": "-95 dBm"}}
    spec = WorldSpec.model_validate({"radio": radio, "cell": {"distances": [50]}, "devices": {"modem": name}})
    w = World(spec, 1, 0)
    w.gather([Order(0, 0, 0, 0, 0, 0, 1_000_000, 0, 0, 0)], None)
    (leg,) = [leg for leg in w.take_legs() if leg.activity == "transmit" and leg.attempts]
    took_s, device = leg.end_s - leg.start_s, modem(name)
    radiated_w = leg.radiated_j / took_s
    assert radiated_w == pytest.approx(10 ** ((-95 + 128.1 + 37.6 * math.log10(0.05) - 30) / 10), rel=1e-6)
    assert leg.energy_j == pytest.approx(device.sending_w(radiated_w) * took_s + device.transmit_j_per_bit * 1e6)
    assert device.sending_w(radiated_w) < device.sending_w(MODEMS[name]["max_power"])


def test_former_keys_are_answered_with_the_new_ones(tmp_path):
    import wflsim

    text = "name: m\nclients: 2\ndata: {name: digits}\npartition: {alpha: 1, sigma: 0}\nmodel: {name: linear}\npolicies: [{name: fedavg}]\nstop: {rounds: 1}\n"
    for profile, cure in FORMER_PROFILES.items():
        (tmp_path / "s.yaml").write_text(f"{text}devices: {{profile: {profile}}}\n")
        with pytest.raises(ScenarioError, match=r"s\.yaml:8: devices\.profile: a device is now a processor") as caught:
            wflsim.load(tmp_path / "s.yaml")
        assert cure in str(caught.value)
    for key in FORMER_DEVICE_KEYS:
        (tmp_path / "s.yaml").write_text(f"{text}devices: {{{key}: 1}}\n")
        with pytest.raises(ScenarioError) as caught:
            wflsim.load(tmp_path / "s.yaml")
        assert FORMER_DEVICE_KEYS[key] in str(caught.value)
