"""A key that has no effect in its scenario is said, or refused where it contradicts another; nothing else is."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

import wflsim
from wflsim.cli.main import app
from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.scenario import build, dump
from wflsim.scenario.allowed import specs_in
from wflsim.scenario.source import parse
from wflsim.world.fleet.spec import DeviceSpec
from wflsim.world.idle_keys import RULES
from wflsim.world.spec import WorldSpec, remarks
from wflsim.world.world import World

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
MINIMAL = """
name: m
clients: 3
data: {name: digits}
partition: {alpha: 1, sigma: 0}
model: {name: linear}
policies: [{name: drdm, m: 2, scheme: systematic}]
stop: {rounds: 1}
"""

IDLE = [
    ({"devices": {"compute": "raspberry_pi_4", "frequency": "1 GHz"}}, []),
    ({"devices": {"compute": "raspberry_pi_4", "memory_share": 0.3, "clock_exponent": 1}}, ["devices.memory_share", "devices.clock_exponent"]),
    ({"devices": {"compute": "raspberry_pi_4", "memory_share": 0.3, "clock_exponent": 1, "frequency": "1 GHz"}}, []),
    ({"devices": {"clock_exponent": 2}}, ["devices.clock_exponent"]),
    ({"devices": {"modem": "lte_2012"}, "radio": {"power": "0.1 W"}}, ["radio.power"]),
    ({"devices": [{"modem": "lte_2012"}, {}], "radio": {"power": "0.1 W"}}, []),
    ({"devices": {"modem": "lte_2012"}, "radio": {"power": "0.1 W", "path_loss": "uma"}}, []),
    ({"devices": {"modem": "lte"}, "radio": {"power": "0.1 W"}}, []),
    ({"devices": {"radiated_power": "0.1 W"}, "radio": {"power": "1 W", "path_loss": "uma"}}, ["radio.power"]),
    ({"devices": {"share": 2}}, ["devices.share"]),
    ({"devices": [{"share": 2}, {"wake_power": 1}]}, ["devices.1.wake_power"]),
    ({"devices": {"tail_power": 1}}, ["devices.tail_power"]),
    ({"devices": {"tail": 1}}, []),
    ({"devices": {"tail": 1, "listen_power": 0}}, ["devices.tail"]),
    ({"devices": {"tail": 1, "wake": 1, "listen_power": 0}}, []),
    ({"devices": {"tail": 1, "tail_power": 1, "wake": 1, "wake_power": 1}}, []),
    ({"radio": {"noise_figure": "3 dB", "interference_margin": "1 dB"}}, ["radio.noise_figure", "radio.interference_margin"]),
    ({"radio": {"interference": "1e-9 W"}}, ["radio.interference"]),
    ({"radio": {"noise_figure": "3 dB", "interference_margin": "1 dB", "path_loss": "uma"}}, []),
    ({"radio": {"downlink": {"power": "1 W", "noise_figure": "3 dB"}}}, ["radio.downlink.power", "radio.downlink.noise_figure"]),
    ({"radio": {"downlink": {"bandwidth": "1 MHz", "snr": "3 dB"}}}, []),
    ({"radio": {"carrier": "1 GHz"}}, ["radio.carrier"]),
    ({"radio": {"carrier": "1 GHz", "path_loss": "log_distance"}}, ["radio.carrier"]),
    ({"radio": {"carrier": "1 GHz", "path_loss": "umi"}}, []),
    ({"radio": {"carrier": "1 GHz", "fading": "rayleigh"}}, []),
    ({"radio": {"carrier": "1 GHz", "fading": {"name": "rayleigh", "time": "ergodic"}}}, ["radio.carrier"]),
    ({"radio": {"fading": {"name": "rayleigh", "time": "ergodic", "speed": 1, "block": 1}}}, ["radio.fading.speed", "radio.fading.block"]),
    ({"radio": {"fading": {"name": "rayleigh", "speed": 0, "block": 1}}}, ["radio.fading.block"]),
    ({"radio": {"reading": "snr_at_1mhz", "path_loss": "uma"}}, ["radio.reading"]),
    ({"radio": {"reading": "snr_at_1mhz"}}, []),
    ({"radio": {"loss": {"attempts": 3, "block": "1 kbit"}}}, ["radio.loss.attempts", "radio.loss.block"]),
    ({"radio": {"loss": {"attempts": 3, "block": "1 kbit", "probability": 0.1}}}, []),
    ({"radio": {"loss": {"attempts": 3, "outage_threshold": "0 dB"}}}, []),
    ({"radio": {"patience": "1 s"}}, ["radio.patience"]),
    ({"radio": {"patience": "1 s", "rate": "cqi", "path_loss": "uma"}}, []),
    ({"radio": {"path_loss": {"name": "log_distance", "sigma_db": 0, "correlation": 5}}}, ["radio.path_loss.correlation"]),
    ({"cell": {"radius": "1 km", "min_distance": 1, "distances": [5], "speed": 1}}, ["cell.radius", "cell.min_distance", "cell.distances", "cell.speed"]),
    ({"cell": {"radius": "1 km"}, "radio": {"path_loss": "uma"}}, []),
    ({"server": {"quorum": 2}}, ["server.quorum"]),
    ({"server": {"quorum": 2, "deadline": 1}}, []),
    ({"server": {"deadline": 1, "loss_detection": "deadline"}}, ["server.loss_detection"]),
    ({"server": {"deadline": 1, "loss_detection": "deadline"}, "radio": {"loss": {"probability": 0.1}}}, []),
    ({"server": {"selector": "availability"}}, ["server.selector"]),
    ({"server": {"selector": "availability"}, "devices": {"availability": {"name": "periodic", "period": 9, "open": 3}}}, []),
    ({"server": {"selector": "best_channel"}}, []),
    ({"server": {"idle": "all"}}, ["server.idle"]),
    ({"server": {"idle": "all"}, "devices": [{}, {"sleep_power": 1}]}, []),
]  # fmt: skip


def said(spec):
    return [remark.split(" has no effect here: ")[0] for remark in remarks(spec) if "has no effect here" in remark]


@pytest.mark.parametrize(("blocks", "keys"), IDLE)
def test_idle_keys_are_said_and_no_others(blocks, keys):
    assert said(WorldSpec.model_validate(blocks)) == keys


def world_story(blocks):
    """All that a world does in two rounds: legs, outcomes, time."""
    w = World(WorldSpec.model_validate(blocks), 4, 0, flops_per_sample=1e6)
    found = []
    for s in range(2):
        found.append(w.gather([Order(c, s, 0, 0, 9_000, 100, 50_000, 64, 64, 50_000) for c in w.eligible()], None))
        w.end_round()
    return found, w.take_legs(), w.now_s


def without(blocks, path):
    """The same blocks, one key less."""
    changed = node = deepcopy(blocks)
    *parts, key = path.split(".")
    for part in parts:
        node = node[int(part)] if isinstance(node, list) else node[part]
    del node[key]
    return changed


@pytest.mark.parametrize(("blocks", "keys"), [case for case in IDLE if case[1] not in ([], ["radio.power"], ["server.selector"])])
def test_what_is_said_is_true(blocks, keys):
    """The world does the same without the key: every outcome, every leg that costs anything, every instant."""
    outcomes, legs, end_s = world_story(blocks)
    for key in keys:
        again, same_legs, same_end_s = world_story(without(blocks, key))
        assert (again, same_end_s) == (outcomes, pytest.approx(end_s, rel=1e-12)), key
        for one, two in zip(paid(legs), paid(same_legs), strict=True):
            assert one == tuple(pytest.approx(value, rel=1e-12) if isinstance(value, float) else value for value in two), key


def paid(legs):
    return [tuple(leg) for leg in legs if leg.activity != "tail" or leg.energy_j]


def test_power_beside_huangs_phone_changes_radiated_and_paper_joules_only():
    def legs(power):
        return world_story({"devices": {"modem": "lte_2012"}, "radio": {"power": power}})[1]

    for one, two in zip(legs("100 mW"), legs("200 mW"), strict=True):
        assert one._replace(radiated_j=0, paper_j=0) == two._replace(radiated_j=0, paper_j=0)


def keys_of(spec: type[BaseModel], path: str = ""):
    for name, field in spec.model_fields.items():
        annotation = field.annotation
        inner = list(specs_in(annotation))
        if get_origin(annotation) is Annotated:
            inner = list(specs_in(get_args(annotation)[0]))
        yield f"{path}{name}"
        for deeper in inner:
            yield from keys_of(deeper, f"{path}{name}.")


ALWAYS = {
    "devices.dvfs",
    # blocks, and what chooses a variant
    "radio", "cell", "devices", "server", "accept", "radio.path_loss", "radio.path_loss.name", "radio.trace", "radio.fading", "radio.fading.name",
    "radio.rate", "radio.rate.name", "radio.loss", "radio.downlink", "radio.power_control", "devices.availability", "devices.availability.name",
    "devices.compute", "devices.modem", "radio.fading.time", "cell.access",
    # always matter where they may stand at all, or are refused where they may not
    "radio.snr", "radio.bandwidth", "radio.trace.file", "radio.rate.gap", "radio.rate.efficiency_bps_per_hz", "radio.fading.k",
    "radio.loss.probability", "radio.loss.outage_threshold", "radio.loss.waterfall", "radio.downlink.snr", "radio.downlink.bandwidth",
    "radio.power_control.target", "radio.power_control.share", "radio.path_loss.at_1km_db", "radio.path_loss.exponent",
    "radio.path_loss.sigma_db", "radio.path_loss.base_height", "radio.path_loss.client_height",
    "devices.speed", "devices.cycles_per_sample", "devices.frequency", "devices.max_frequency", "devices.kappa", "devices.step_overhead",
    "devices.call_overhead", "devices.compute_idle_power", "devices.compute_active_power", "devices.spread", "devices.receive_power",
    "devices.receive_energy_per_bit", "devices.listen_power", "devices.sleep_power", "devices.radiated_power", "devices.max_power",
    "devices.amplifier_efficiency", "devices.amplifier_exponent", "devices.circuit_power", "devices.transmit_energy_per_bit", "devices.wake",
    "devices.battery", "devices.dropout", "fleet", "fleet.correlation",
    "devices.harvest", *(f"devices.harvest.{key}" for key in ("name", "power", "peak", "sunrise", "sunset", "file", "column", "time", "start", "scale")),
    "carbon", "carbon.intensity", "carbon.file", "carbon.column", "carbon.time", "carbon.start",
    "devices.availability.start", "devices.availability.length", "devices.availability.spread", "devices.availability.join", "devices.availability.stay",
    "devices.availability.away", "devices.availability.leave", "devices.availability.file", "devices.availability.layout", "devices.availability.loop",
    "devices.availability.draw", "outages", "outages.groups", "outages.every", "outages.length", "devices.availability.period", "devices.availability.open", "devices.availability.windows",
    "server.deadline", "server.first", "server.compute_budget", "server.aggregation", "server.over_selection",
    "d2d", "d2d.topology", "d2d.topology.name", "d2d.topology.probability", "d2d.topology.within", "d2d.snr", "server.fedcs", "server.oort", "d2d.bandwidth", "d2d.sending", "d2d.duplex",
}  # fmt: skip


def test_every_key_of_a_world_was_thought_about():
    """A new key either always matters (then it joins the list above) or has a rule that says when it does not."""
    ruled = {f"{rule.block}.{key}" for rule in RULES for key in rule.keys}
    assert ruled | ALWAYS == set(keys_of(WorldSpec))
    assert not ruled & ALWAYS


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ({"speed": "1 GFLOP/s", "cycles_per_sample": 1e6}, "speed and cycles_per_sample contradict each other"),
        ({"compute_active_power": "1 W", "kappa": 1e-28}, "compute_active_power and kappa contradict each other"),
        ({"compute": "raspberry_pi_4", "frequency": "1.6 GHz"}, r"frequency is 1\.6 GHz, but .* is 1\.5 GHz"),
        ({"max_frequency": "0.9 GHz"}, r"frequency is 1 GHz, but .* is 0\.9 GHz"),
        ({"compute_idle_power": "3 W", "compute_active_power": "2 W"}, "computing must not draw less than idling"),
        ({"amplifier_exponent": 0.5}, "amplifier_exponent needs max_power"),
    ],
)
def test_contradictions_in_one_block_are_refused(device, words):
    with pytest.raises(ValidationError, match=words):
        WorldSpec.model_validate({"devices": device})


def test_named_parts_are_not_what_the_user_said():
    device = DeviceSpec.model_validate({"compute": "raspberry_pi_4", "share": 1.0})
    assert device.model_fields_set == {"compute", "share"}
    assert device.speed == 15e9


@pytest.mark.parametrize("path", sorted(SCENARIOS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_have_no_idle_key_and_read_back_without_new_remarks(path):
    scenario = wflsim.load(path)
    assert said(scenario.world) == []
    again = build(parse(dump(scenario), str(path)))
    assert again == scenario
    assert remarks(again.world) == remarks(scenario.world)


def test_a_resolved_scenario_with_an_idle_key_reads_back_and_says_it_again(tmp_path):
    scenario = wflsim.load(SCENARIOS / "mixed_fleet.yaml", ["devices.1.clock_exponent=3", "server.over_selection=1"])
    again = build(parse(dump(scenario), "again"))
    assert again == scenario
    assert said(scenario.world) == said(again.world) == ["devices.1.clock_exponent"]


def test_a_quorum_that_first_makes_impossible_is_said():
    spec = WorldSpec.model_validate({"server": {"first": 2, "quorum": 3}})
    assert remarks(spec) == ["server.first=2 ends every phase before server.quorum=3 is met: no reply will ever count"]


@pytest.mark.parametrize(
    ("policy", "server", "words"),
    [
        ("{name: drdm, m: 2, scheme: systematic}", "{over_selection: 1.5}", r"policies\.0\.scheme: has no effect: server\.over_selection"),
        ("{name: drfa, m: 2, scheme: with_replacement}", "{selector: best_channel}", r"policies\.0\.scheme: has no effect: server\.selector"),
        ("{name: feddyn, m: 2, sampling: bernoulli}", "{selector: least_energy}", r"policies\.0\.sampling: has no effect"),
    ],
)
def test_a_scheme_beside_a_selector_is_refused(policy, server, words):
    text = MINIMAL.replace("{name: drdm, m: 2, scheme: systematic}", policy)
    build(parse(text, "m.yaml"))
    with pytest.raises(ScenarioError, match=words):
        build(parse(text + f"server: {server}\n", "m.yaml"))
    build(parse(MINIMAL.replace(", scheme: systematic", "") + f"server: {server}\n", "m.yaml"))


@pytest.mark.parametrize("command", ["check", "run"])
def test_check_and_run_print_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(MINIMAL + "radio: {noise_figure: 3 dB}\n")
    shown = CliRunner().invoke(app, [command, "s.yaml"])
    assert "radio.noise_figure has no effect here" in " ".join(shown.stdout.split()), shown
