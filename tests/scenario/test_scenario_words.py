"""What a user reads when a scenario is wrong: every key of every spec is given wrong values, and every message is read."""

from __future__ import annotations

import copy
import io
import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from jargon import JARGON
from rich.console import Console

import wflsim
from wflsim.cli.catalogue import groups, tables
from wflsim.errors import ScenarioError
from wflsim.scenario import build
from wflsim.scenario.allowed import alternatives, items, keys, names_of, of_field, places_at
from wflsim.scenario.schema import Scenario
from wflsim.scenario.source import Source, parse
from wflsim.spec import Choices, Spec
from wflsim.units import parse_quantity

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "scenarios/quickstart.yaml").read_text()
GOOD = yaml.safe_load(TEXT)
WRONG = [
    None, True, -1, 0, 1.5, 10**9, 10**40, 1e25, float("nan"), -float("inf"), "", "x", "5 parsecs", "1e400 m", "é" * 90, "3 dB", "-5",
    [], [None], [True], ["x"], [[[]]], [1, 2, 3], {}, {"x": 1}, {"name": "x"}, {"kind": [1]}, {"name": [1]}, [{}],
]  # fmt: skip
REQUIRED = {"name": "fedavg", "m": 3, "rounds": 3, "period": 9, "open": 3, "windows": [[1, 2]], "accuracy": 0.5, "target": "1 W",
            "module": "a:B", "grid": {"radio.snr": ["1 dB"]}, "start": 0.1, "stay": 9, "away": 9, "groups": 2, "every": 9, "length": 9, "share": 0.1,
            "file": str(Path(__file__).with_name("hours.csv"))}  # fmt: skip


def sound(spec):
    """A block of this kind with its required keys, and nothing else."""
    names = names_of(spec)
    block = {"name": names[0]} if names else {}
    for key, field in spec.model_fields.items():
        if field.is_required() and key not in block and key in REQUIRED:
            block[key] = REQUIRED[key]
    return block


def places(spec, path, block, seen=frozenset()):
    """(path to a key, sound values of its enclosing blocks) of every key of every spec that may stand in a scenario."""
    for key, field in spec.model_fields.items():
        yield (*path, key), block
        for place in alternatives(of_field(field)):
            inner = items(place) or place
            for member in alternatives(inner):
                if isinstance(member.annotation, type) and issubclass(member.annotation, Spec) and member.annotation not in seen:
                    below = sound(member.annotation)
                    many = items(place) is not None and keys(place) is None
                    step = (*path, key, 0) if many else (*path, key)
                    yield from places(member.annotation, step, (*block, (step, [below] if many else below)), seen | {member.annotation})


EVERY = list(places(Scenario, (), ()))


def document(path, blocks, value):
    data = copy.deepcopy(GOOD)
    for at, block in [*blocks, (path, value)]:
        at = at[:-1] if at[-1] == 0 else at
        node = data
        for part in at[:-1]:
            node = node[part]
        node[at[-1]] = copy.deepcopy(block)
    return data


def test_the_walk_reaches_every_spec():
    classes, new = set(), {Spec}
    while new := {sub for cls in new for sub in cls.__subclasses__()} - classes:
        classes |= new
    shipped = {cls for cls in classes if cls.__module__.startswith("wflsim.") and not cls.__name__.startswith("_")}
    names = {key for path, _ in EVERY for key in path if isinstance(key, str)}
    missing = {cls.__name__ for cls in shipped if not set(cls.model_fields) <= names}
    assert not missing
    assert len(EVERY) > 250


def test_every_wrong_value_of_every_key_ends_in_a_sentence_that_names_the_key():
    """Eleven thousand documents: whatever is refused is said with the key, what was given and what may stand there."""
    refused = 0
    for path, blocks in EVERY:
        for value in WRONG:
            try:
                build(Source("s.yaml", document(path, blocks, value)))
            except ScenarioError as error:
                refused += 1
                message = str(error)
                assert not JARGON.search(message), (path, value, message)
                assert "s.yaml: " in message, (path, value, message)
                wanted = ".".join(str(part) for part in path if part != 0)
                for line in message.splitlines():
                    key, _, words = line.removeprefix("s.yaml: ").partition(": ")
                    key = ".".join(part for part in key.split(".") if part != "0")
                    within = key == wanted or key.startswith(wanted + ".")
                    # about a block as a whole only where keys do not fit together
                    assert within or (wanted.startswith(key) and "got " not in words) or key == "(top level)", (path, value, message)
                    assert re.search(r"must be \w|Allowed: \w|write|remove|need|use |set |change |no such file|give|required|twice|rename|or ", words), (path, value, line)
                    assert not re.search(r"must be *$|one of *$|; *$|, *$", line), (path, value, line)
    assert refused > 5000


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.compress.up={name: quantise, bits: 7}", "train.compress.up.bits: got 7; must be one of 4, 8, 16"),
        ("train.compress.up={name: quantise, bits: eight}", "train.compress.up.bits: got 'eight'. Allowed: 4, 8, 16"),
        ("train.compress.up.name=topk", "train.compress.up.name: got 'topk', did you mean 'top_k'. Allowed: identity, quantise, dithering, rand_k, top_k"),
        ("train.compress.up.name=top_k", "train.compress.up.share: this key is required and missing; it must be a share"),
        ("train.compress.up={name: top_k, share: 0}", "train.compress.up.share: got 0; must be more than 0"),
        ("train.compress.down={name: top_k, share: 1 %}", "train.compress.down: top_k would set most values of the model to zero"),
        ("train.compress.down.name=rand_k", "use quantise, dithering or identity"),
        ("train.quantise=8", "train.quantise: it is called train.compress now; rename it and write {up: {name: quantise, bits: 8}, down:"),
        ("policies=[{name: scallion, compress: {name: top_k, share: 0.1}}]", "policies.0.compress: top_k is biased, .* use rand_k, dithering, quantise or identity, or the policy scafcom"),
        ("clients=true", "clients: got true; must be a whole number, at least 1"),
        ("radio.snr=[true]", "got true; cannot read 'true' as a quantity"),
        ("partition=3", "partition: got 3; must be a block with the key name, one of zipf_dirichlet, iid"),
        ("partition={name: null}", "partition.name: got null; must be one of zipf_dirichlet, iid, shards"),
        ("partition={kind: shards, shards: 3}", "partition.kind: it is called partition.name now; rename it"),
        ("radio.fading={kind: rician, k: 3 dB}", "radio.fading.kind: it is called radio.fading.name now; rename it"),
        ("radio.rate={kind: gap, gap: 3}", "radio.rate.kind: it is called radio.rate.name now; rename it"),
        ("radio={path_loss: {kind: uma}}", "radio.path_loss.kind: it is called radio.path_loss.name now; rename it"),
        ("devices.availability.kind=windows", "devices.availability.kind: it is called devices.availability.name now; rename it"),
        ("train.engine=vmap", "train.engine: it is called train.gradients now; rename it"),
        ("train.engin=vmap", "train.engin: unknown key. Allowed: batch, compress, device, dtype, gradients"),
        ("policies.1={name: 5}", "policies.1.name: got 5; must be one of fedavg, local_sgd"),
        ("partition={name: idd}", "partition.name: got 'idd', did you mean 'iid'"),
        ("model={name: module, module: net.py}", "model.module: got 'net.py'; must be package.file:Class, such as my_models:Net"),
        ("model={name: module, module: 'a:B', folder: true}", "model.folder: got true; must be text, or null"),
        (f"model={{name: module, module: {'m' * 3000}}}", "model.module: got 'mmm.*; must be package.file:Class"),
        ("name=2024", "name: got 2024; must be text of 1 to 80 characters; put it in quotes to make it text: '2024'"),
        ("policies.1={name: drfa, m: 3, eta: {start: -1}}", "policies.1.eta.start: got -1; must be a number, greater than 0"),
        ("policies.1={name: drfa, m: 3, eta: fast}", "policies.1.eta: got 'fast'; must be a block with keys out of start, power, after, or a number"),
        ("policies.1={name: local_sgd, m: 3}", "policies.1.m: got 3; must be null"),
        ("tune={rounds_to_target: {few: 3}}", "tune.rounds_to_target.few: got the key 'few'; it must be a whole number"),
        ("devices.availability={name: windows, windows: [[1, 2, 3]]}", r"windows.0: got \[1, 2, 3\]; must be a list of 2 items, each a quantity in one of s"),
        ("devices.battery=4410 mAh", "a charge becomes an energy with the battery's voltage: write '4410 mAh at 3.7 V'"),
    ],
)
def test_sentences(override, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        build(parse(TEXT, "s.yaml"), [override])
    assert len(str(caught.value).splitlines()) == 1


def test_a_compressor_that_no_policy_uses_is_refused():
    compress = "train.compress.up={name: top_k, share: 1 %}"
    with pytest.raises(ScenarioError, match=r"train\.compress\.up: has no effect: every policy here compresses .* remove it"):
        build(parse(TEXT, "s.yaml"), ["policies=[{name: scafcom}, {name: scallion}]", compress])
    build(parse(TEXT, "s.yaml"), ["policies=[{name: scafcom}, {name: fedavg}]", compress])
    with pytest.raises(ScenarioError, match=r"train\.compress\.up: would set most values to zero: peers send models whole"):
        build(parse(TEXT, "s.yaml"), ["policies=[{name: dsgd}, {name: fedavg}]", compress])


@pytest.mark.parametrize(("given", "joules"), [("4410 mAh at 3.85 V", 4.41 * 3600 * 3.85), ("2 Ah at 3 V", 21600.0), ("1 Wh", 3600.0)])
def test_a_charge_is_an_energy_at_its_voltage(given, joules):
    assert parse_quantity(given, "J") == pytest.approx(joules, rel=1e-12)
    scenario = build(parse(TEXT, "s.yaml"), [f"devices.battery={given}"])
    assert scenario.devices[0].battery == pytest.approx(joules, rel=1e-12)


def test_shares_in_percent_everywhere():
    overrides = ["stop.target.accuracy=75 %", "devices.dropout=2.5%", "devices.memory_share=50 %", "radio.loss.probability=10 %",
                 "devices.amplifier_efficiency=35 %"]  # fmt: skip
    scenario = build(parse(TEXT, "s.yaml"), overrides)
    device = scenario.devices[0]
    assert (scenario.stop.target.accuracy, device.dropout, device.memory_share) == (0.75, 0.025, 0.5)
    assert (scenario.radio.loss.probability, device.amplifier_efficiency) == (0.1, 0.35)
    for wrong in ("0 %", "101 %", "-3 %", "% 5"):
        with pytest.raises(ScenarioError, match=r"accuracy: got .*; must be a share"):
            build(parse(TEXT, "s.yaml"), [f"stop.target.accuracy='{wrong}'"])


def test_load_takes_a_file_a_mapping_or_a_scenario():
    file = ROOT / "scenarios/quickstart.yaml"
    scenario = wflsim.load(str(file))
    assert wflsim.load(file) == wflsim.load(GOOD) == wflsim.load(scenario) == scenario
    assert wflsim.load(scenario, ["clients=12"]).clients == wflsim.load({**GOOD, "clients": 12}).clients == 12
    blocks = {**GOOD, "radio": scenario.radio, "seeds": (0, 1, 2, 3, 4)}
    assert wflsim.load(blocks) == scenario


def test_a_mapping_is_not_changed_and_its_files_are_found_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "walk.csv").write_text((ROOT / "scenarios/walk.csv").read_text())
    monkeypatch.chdir(tmp_path)
    given = {**GOOD, "radio": {"trace": {"file": Path("walk.csv")}}}
    before = copy.deepcopy(given)
    assert wflsim.load(given, ["clients=12"]).radio.trace.file == str(tmp_path / "walk.csv")
    assert given == before


def loop():
    given = dict(GOOD)
    given["radio"] = given
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "a scenario is the name of a file, a mapping of its keys, or what wflsim.load returns; got int"),
        (None, "got NoneType"),
        (TEXT, "text of several lines; for YAML text write"),
        ({**GOOD, 2.5: 1}, "keys are words, got '2.5'"),
        ({**GOOD, "clients": object()}, "clients: a Python object of type object cannot stand in a scenario"),
        ({**GOOD, "clients": {1: 2, "1": 3}}, "clients: a key is given twice"),
        (loop(), "nested too deeply"),
        ({}, "name: this key is required and missing"),
    ],
    ids=["int", "none", "text", "key", "object", "twice", "loop", "empty"],
)
def test_what_cannot_be_a_scenario(given, message, tmp_path):
    for function in (wflsim.load, wflsim.run, wflsim.run_sweep):
        with pytest.raises(ScenarioError, match=message):
            function(given)


def test_run_takes_a_file_or_a_mapping(tmp_path):
    small = {**GOOD, "seeds": 1, "model": {"name": "linear"}, "stop": {"rounds": 1}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(small))
    by_mapping, by_name = wflsim.run(small, tmp_path / "a", workers=1), wflsim.run(str(tmp_path / "s.yaml"), tmp_path / "b", workers=1)
    assert by_mapping.rounds.equals(by_name.rounds)
    swept = wflsim.run_sweep({**small, "sweep": {"grid": {"radio.snr": ["0 dB", "10 dB"]}}}, tmp_path / "c", workers=1)
    assert len(swept.runs) == 4


def test_dir_and_version_name_what_is_public():
    from importlib.metadata import version

    assert {"load", "run", "run_sweep", "Results", "Scenario", "__version__"} <= set(dir(wflsim))
    assert all(hasattr(wflsim, name) for name in dir(wflsim))
    assert wflsim.__version__ == version("wflsim")



CHOICES = {
    "path_loss": "log_distance uma umi inh", "fading": "rayleigh rician", "rate": "shannon gap cqi fixed",
    "access": "dedicated tdma ofdma makespan", "modem": "ideal wifi_nic wifi_phone lte lte_2012 nr_low nr_mmwave nb_iot lora ble",
    "selector": "by_lambda best_channel least_energy availability", "availability": "periodic windows",
    "partition": "zipf_dirichlet iid shards file natural", "model": "linear mlp cnn resnet18_last module",
    "data": "digits mnist fashion_mnist kmnist synthetic npz", "reading": "power_fixed power_for_snr snr_at_1mhz",
    "scheme": "sequential with_replacement uniform_weighted systematic bernoulli",
    "policies": "fedavg local_sgd fedprox feddyn scaffold afl drfa drdm lambda_drdm scaffpd fedasync fedbuff ditto clustered "
    "fednova q_fedavg q_fedsgd fedavgm fedadagrad fedadam fedyogi",
}  # fmt: skip


def listed(what):
    out = io.StringIO()
    for table in tables(what):
        Console(file=out, width=400).print(table)
    return out.getvalue()


@pytest.mark.parametrize("what", CHOICES)
def test_list_names_every_choice_with_a_line_about_it_and_where_it_goes(what):
    text, everything = listed(what), listed("all")
    for name in CHOICES[what].split():
        (line,) = [line for line in text.splitlines() if re.match(rf"│ (\w+, )*{name}(, \w+)* +│", line)]
        assert re.search(r"│ +[A-Za-z0-9][^│]{10,}", line[3:]), line
        assert line.split("│")[2].strip() in everything
    assert re.search(rf"{what}, written \w+: .*{what}|{what}, written {what}: ", text), text


def test_what_is_written_in_the_list_is_accepted():
    """The title of every table is YAML that can be pasted, where it leaves nothing to fill in."""
    tried = 0
    for group in groups():
        if "..." in group.example or group.key == "policies":
            continue
        block = yaml.safe_load(group.example)
        (key,) = block
        data = {**GOOD, key: {**block[key]} if key in ("model", "data", "partition") else {**GOOD.get(key, {}), **block[key]}}
        if "path_loss" in block[key]:
            del data["radio"]["snr"]
        build(Source("s.yaml", data))
        tried += 1
    assert tried >= 8


def test_every_choice_that_is_described_exists_and_the_other_way_round():
    seen = 0
    for path, _ in EVERY:
        for place in places_at(Scenario, path):
            described = [item for item in place.metadata if isinstance(item, Choices)]
            if described:
                assert tuple(name for name, _ in described[0].lines) == get_args(place.annotation)
                seen += 1
    assert seen >= 5


def test_an_unknown_word_for_list_is_answered_with_the_nearest():
    with pytest.raises(ScenarioError, match=r"list: got 'fadings', did you mean 'fading'\? Allowed: access,"):
        tables("fadings")
