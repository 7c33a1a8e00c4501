"""Implausible values are remarked upon with key and usual range, can be accepted by name, and are never refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

import wflsim
from wflsim.cli.main import app
from wflsim.world.fleet.compute import COMPUTE
from wflsim.world.fleet.modem import MODEMS
from wflsim.world.plausible import BANDS_HZ, implausible
from wflsim.world.spec import WorldSpec, remarks

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
CASES = [
    ({"radio": {"bandwidth": 20}}, "bandwidth", r"radio\.bandwidth is 2e-05 MHz, usual for a radio are 0\.00375 to 400 MHz"),
    ({"radio": {"bandwidth": "1 MHz"}, "cell": {"access": "ofdma"}, "devices": {"modem": "lte"}}, "bandwidth", "usual for lte are 1.4 to 20 MHz"),
    ({"radio": {"downlink": {"bandwidth": "1 GHz"}}}, "bandwidth", r"radio\.downlink\.bandwidth is 1000 MHz"),
    ({"radio": {"power": 23}}, "power", r"radio\.power is 23 W, usual is up to 0\.2 W"),
    ({"devices": {"radiated_power": 23}}, "power", r"devices\.radiated_power is 23 W"),
    ({"devices": {"frequency": 2.4, "kappa": 1e-2}}, "frequency", r"devices\.frequency is 2\.4 Hz, usual are 16 MHz to 6 GHz"),
    ({"devices": {"frequency": "5 GHz", "battery": "10 kJ", "kappa": 1e-27}}, "chip_power", "draws 125 W, usual on a battery are 0.001 to 15 W"),
    ({"devices": {"frequency": "5 GHz", "kappa": 1e-26}}, "chip_power", "usual on mains are 0.001 to 500 W"),
    ({"devices": {"speed": "1 TFLOP/s", "compute_active_power": "1 W"}}, "joules_per_gflop", "a training GFLOP takes 0.001 J"),
    ({"devices": {"amplifier_efficiency": 0.9}}, "amplifier_efficiency", "amplifier_efficiency is 0.9, usual are 0.02 to 0.6"),
    ({"devices": {"battery": "10 J"}}, "battery", "battery is 10 J, usual are 1 kJ"),
    ({"devices": {"battery": "2 kJ", "compute_idle_power": "30 W", "kappa": 0}}, "battery_life", "lasts 66.7 s of doing nothing"),
    ({"devices": {"cycles_per_sample": 0}}, "free_computing", "no time or no energy"),
    ({"devices": {"kappa": 0}}, "free_computing", "no time or no energy"),
    ({"devices": {"receive_power": 0}}, "free_radio", "takes no energy"),
]


@pytest.mark.parametrize(("blocks", "name", "words"), CASES)
def test_an_implausible_value_is_said_unless_it_is_accepted(blocks, name, words):
    spec = WorldSpec.model_validate(blocks)
    found = [remark for remark in implausible(spec) if f"accept: [{name}]" in remark]
    assert len(found) == 1
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(found[0])
    accepted = WorldSpec.model_validate({**blocks, "accept": [name]})
    assert implausible(accepted) == [remark for remark in implausible(spec) if remark not in found]


def test_named_parts_and_defaults_are_plausible():
    assert implausible(WorldSpec()) == []
    assert set(BANDS_HZ) == set(MODEMS)
    for modem, (_, low_hz, high_hz) in BANDS_HZ.items():
        for compute in COMPUTE:
            for band_hz in (low_hz, high_hz):
                spec = {"devices": {"compute": compute, "modem": modem, "radiated_power": "5 mW"}, "radio": {"bandwidth": band_hz}, "cell": {"access": "ofdma"}}
                assert implausible(WorldSpec.model_validate(spec)) == []


def test_what_is_accepted_in_vain_is_said_and_what_nobody_knows_refused():
    assert implausible(WorldSpec.model_validate({"accept": ["battery"]})) == ["accept: battery has no effect here: nothing calls for it"]
    with pytest.raises(ValidationError, match="accept"):
        WorldSpec.model_validate({"accept": ["anything"]})


def test_huangs_phone_says_that_its_watts_do_not_follow_the_power():
    spec = WorldSpec.model_validate({"devices": {"modem": "lte_2012"}, "radio": {"path_loss": "uma", "power": "0.1 W"}})
    assert any("radio.power decides its rate, not its watts" in remark for remark in remarks(spec))


@pytest.mark.parametrize("path", sorted(SCENARIOS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_are_plausible(path):
    assert implausible(wflsim.load(path).world) == []


def test_check_prints_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(
        "name: m\nclients: 3\ndata: {name: digits}\npartition: {alpha: 1, sigma: 0}\nmodel: {name: linear}\n"
        "policies: [{name: fedavg, m: 2}]\nstop: {rounds: 1}\nradio: {bandwidth: 20}\n"
    )
    shown = CliRunner().invoke(app, ["check", "s.yaml"])
    assert "radio.bandwidth is 2e-05 MHz" in " ".join(shown.stdout.split()), shown
