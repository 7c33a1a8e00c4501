"""Every malformed scenario ends in one sentence per finding: file, line, key path, value, what is allowed."""

from __future__ import annotations

import contextlib
import copy
import random
import re
from pathlib import Path

import pytest
import yaml

from wflsim.errors import ScenarioError, WflsimError
from wflsim.scenario import build, dump, load
from wflsim.scenario.source import parse, read
from wflsim.units import UNITS, parse_quantity

ROOT = Path(__file__).resolve().parents[2]
GOOD = (ROOT / "scenarios/quickstart.yaml").read_text()
SHIPPED = sorted((ROOT / "scenarios").rglob("*.yaml"))


def test_the_good_one_is_good():
    build(parse(GOOD, "good.yaml"))


EDITS = [
    # (text in the good scenario, replacement, message)
    ("bandwidth:", "bandwith:", r"bad.yaml:20: radio.bandwith: unknown key, did you mean 'bandwidth'\? Allowed: bandwidth"),
    ("radio:", "radios:", r"bad.yaml:18: radios: unknown key, did you mean 'radio'\? Allowed: accept, cell, clients, d2d, data"),
    ("name: drdm,", "name: drdn,", r"bad.yaml:16: policies.1.name: got 'drdn', did you mean 'drdm'\? Allowed: fedavg,"),
    ("name: drdm,", "", r"bad.yaml:16: policies.1: needs the key 'name' to say which kind it is"),
    ("name: mlp", "name: mpl", r"bad.yaml:11: model.name: got 'mpl', did you mean 'mlp'\? Allowed: linear, mlp"),
    ("name: digits", "name: digit", r"bad.yaml:7: data(.name)?: got 'digit', did you mean 'digits'\?"),
    ("mu: 0.5", "mue: 0.5", r"bad.yaml:16: policies.1.mue: unknown key, did you mean 'mu'\? Allowed: dual_loss"),
    ("mu: 0.5", "mu: 0", r"bad.yaml:16: policies.1: mu: 0 would divide c by zero; set freeze_c: true"),
    ("mu: 0.5", "mu: -1", r"bad.yaml:16: policies.1.mu: got -1; must be a number, at least 0 and at most 1e\+06"),
    ("mu: 0.5", "mu: .nan", r"bad.yaml:16: policies.1.mu: got nan; must be a number, at least 0"),
    ("mu: 0.5", "mu: .inf", r"bad.yaml:16: policies.1.mu: got inf; must be "),
    ("mu: 0.5", "mu: lots", r"bad.yaml:16: policies.1.mu: got 'lots'; must be a number, at least 0 and"),
    ("snr: 10 dB", "snr: 10", r"bad.yaml:19: radio.snr: got 10; a bare number is ambiguous here: write '10 dB' or"),
    ("snr: 10 dB", "snr: 10 db", r"bad.yaml:19: radio.snr: got '10 db'; unknown unit 'db'; did you mean 'dB'\?"),
    ("snr: 10 dB", "snr: 1e9 dB", r"bad.yaml:19: radio.snr: got '1e9 dB'; must be a finite quantity, less than 1e\+30"),
    ("180 kHz", "180 Khz", r"bad.yaml:20: radio.bandwidth: got '180 Khz'; unknown unit 'Khz'; did you mean 'kHz'\?"),
    ("180 kHz", "180 mW", r"radio.bandwidth: got '180 mW'; unknown unit 'mW'; use Hz, kHz, MHz, GHz"),
    ("180 kHz", "-180 kHz", r"radio.bandwidth: got '-180 kHz'; must be a quantity in one of Hz, kHz, MHz, GHz, at least 0.001 Hz"),
    ("180 kHz", "0", r"radio.bandwidth: got 0; must be a quantity in one of Hz, kHz, MHz, GHz, at least 0.001 Hz"),
    ("180 kHz", ".nan", r"radio.bandwidth: got nan; must be a finite quantity, less than 1e\+30 Hz"),
    ("180 kHz", "1e300", r"radio.bandwidth: got 1e\+300; must be a finite quantity, less than 1e\+30 Hz"),
    ("180 kHz", "wide", r"radio.bandwidth: got 'wide'; cannot read 'wide' as a quantity; write a number and a unit"),
    ("180 kHz", "[1, 2]", r"radio.bandwidth: got \[1, 2\]; must be a number or a quantity in one of Hz"),
    ("180 kHz", "true", r"radio.bandwidth: got true; cannot read 'true' as a quantity; write a number and a unit out of Hz, kHz"),
    ("power: 100 mW", "power: 100 m W", r"radio.power.*unknown unit 'm W'; use W, mW"),
    ("clients: 10", "clients: 0", r"bad.yaml:4: clients: got 0; must be a whole number, at least 1 and at most 1000000"),
    ("clients: 10", "clients: ten", r"bad.yaml:4: clients: got 'ten'; must be a whole number"),
    ("clients: 10", "clients: 1.5", r"bad.yaml:4: clients: got 1.5; must be a whole number"),
    ("clients: 10", "clients: 99999999", r"bad.yaml:4: clients: got 99999999; must be a whole number, at least 1 and at most 1000000"),
    ("clients: 10\n", "", r"bad.yaml:3: clients: this key is required and missing; it must be a whole number, at least 1"),
    ("clients: 10", "clients: 5", r"bad.yaml:15: policies.0.m: draws 6 of only 5 clients"),
    ("seeds: 5", "seeds: 0", r"bad.yaml:5: seeds: got 0; must be a number of seeds from 1 to 10000, or a list"),
    ("seeds: 5", "seeds: [1, 1]", r"bad.yaml:5: seeds: the same seed is given twice"),
    ("seeds: 5", "seeds: []", r"bad.yaml:5: seeds: got \[\]; must be a number of seeds from 1 to 10000, or a list"),
    ("seeds: 5", "seeds: [-1]", r"bad.yaml:5: seeds.0: got -1; must be a whole number, at least 0"),
    ("rounds: 150", "rounds: 0", r"bad.yaml:27: stop.rounds: got 0; must be a whole number, at least 1"),
    ("accuracy: 0.8", "accuracy: 80", r"bad.yaml:28: stop.target.accuracy: got 80; must be a share, .* greater than 0 and at most 1; if percent are meant, write '80 %'"),
    ("metric: worst", "metric: wurst", r"stop.target.metric: got 'wurst', did you mean 'worst'\? Allowed: worst, average"),
    ("alpha: 0.1", "alpha: -1", r"bad.yaml:9: partition.alpha: got -1"),
    ("name: fedavg,", "name: drdm,", r"bad.yaml:16: policies.1: two policies are called 'drdm'; give each a label of its own"),
    ("name: quickstart", 'name: "a\\u0007b"', r"bad.yaml:3: name: got 'a\\x07b'; control characters are not allowed"),
    ("name: quickstart", "name: ''", r"bad.yaml:3: name: got ''; must be text of 1 to 80 characters"),
    ("name: quickstart", "name: " + "x" * 100, r"bad.yaml:3: name: got 'xxx.*; must be text of 1 to 80 characters"),
    ("name: quickstart", "name: q\nname: r", r"bad.yaml:4: key 'name' is given twice \(first on line 3\); keep one"),
    ("name: quickstart", "1: x", r"bad.yaml:3: keys are words, got '1'"),
    ("name: quickstart", "name: !!python/object:os.system x", r"bad.yaml:3: name: tags such as 'tag:yaml.org,2002:python/object:os.system' are not allowed"),
    ("name: quickstart", "name: *nobody", r"bad.yaml:3: not valid YAML: found undefined alias"),
    ("name: quickstart", "name: [a", r"bad.yaml:\d+: not valid YAML"),
    ("name: quickstart", "\tname: x", r"bad.yaml:3: not valid YAML: found character '\\t' that cannot start any token"),
    ("name: quickstart", "name: x\nevaluate_every: 200", r"bad.yaml:4: evaluate_every: 200 exceeds stop.rounds=150"),
    ("policies:", "policies: []\nx:", r"policies: got \[\]; must be a list of 1 to 100 items, each a block with the key name, one of fedavg"),
    ("batch: 32", "batch: 0", r"train.batch: got 0; must be a whole number, greater than 0"),
    ("frequency: 1 GHz", "frequency: 1 GHzz", r"devices.*frequency: got '1 GHzz'; unknown unit 'GHzz'; use Hz"),
]


@pytest.mark.parametrize(("old", "new", "message"), EDITS, ids=[f"{new[:30]!r}" for _, new, _ in EDITS])
def test_malformed(old, new, message):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(ScenarioError) as caught:
        build(parse(text, "bad.yaml"))
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n    " not in str(caught.value), "a traceback or pydantic's own layout leaked"


WHOLE = [
    ("", r"the file is empty"),
    ("- a\n- b\n", r":1: a scenario is a mapping of keys such as `clients: 10`, got a list"),
    ("just words", r":1: a scenario is a mapping of keys such as `clients: 10`, got a single value"),
    ("[" * 2000, r"nested too deeply|not valid YAML"),
    ("a: " + "[" * 40 + "]" * 40, r"too large after expanding aliases \(at most 30 levels\)"),
    ("a: &a [1,2,3,4,5,6,7,8,9]\n" + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdef", "bcdefg", strict=True)),
     r"too large after expanding aliases \(at most 50000 values\)"),
    ("a: &a {b: *a}", r"not valid YAML|too large|nested"),
    ("a: \x07", r"not valid YAML"),
    ("name: " + "9" * 5000, r"cannot read"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WHOLE, ids=[text[:20] for text, _ in WHOLE])
def test_malformed_as_a_whole(text, message):
    with pytest.raises(ScenarioError, match=message):
        build(parse(text, "bad.yaml"))


def test_files_that_cannot_be_read(tmp_path):
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("name: Zürich".encode("latin-1"))
    with pytest.raises(ScenarioError, match="not UTF-8 text"):
        read(latin)
    with pytest.raises(ScenarioError, match="no such file; `wflsim new"):
        read(tmp_path / "missing.yaml")
    with pytest.raises(ScenarioError, match="is a directory"):
        read(tmp_path)
    (tmp_path / "huge.yaml").write_text("#" * 2_000_000)
    with pytest.raises(ScenarioError, match="larger than 1000000 bytes"):
        read(tmp_path / "huge.yaml")


def test_pixels_are_scaled_once():
    text = GOOD.replace("data: {name: digits}", "data: {name: mnist, standardise: true}")
    build(parse(text, "good.yaml"))
    with pytest.raises(ScenarioError, match=r"data.standardise: resnet18_last scales its pixels itself"):
        build(parse(text, "bad.yaml"), ["model={name: resnet18_last}"])


def test_several_findings_at_once_in_one_message():
    text = GOOD.replace("bandwidth:", "bandwith:").replace("mu: 0.5", "mu: x").replace("rounds: 150", "rounds: -3")
    with pytest.raises(ScenarioError) as caught:
        build(parse(text, "bad.yaml"))
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("radio.bandwidth", "write it as key.path=value"),
        ("=3", "write it as key.path=value"),
        ("policies.drmd.mu=3", r"no item 'drmd', did you mean 'drdm'\?"),
        ("policies.7.mu=3", "no item '7'. Allowed: fedavg, drdm, 0..1"),
        ("name.x=3", "name is a single value and has no key 'x'"),
        ("radio.bandwidth=5 Mhz", "^--set: radio.bandwidth: got '5 Mhz'"),
        ("radio.nonsense=1", "^--set: radio.nonsense: unknown key"),
        ("radio.snr=[", "--set radio.snr:1: not valid YAML"),
    ],
)
def test_overrides_that_cannot_be(override, message):
    with pytest.raises(ScenarioError, match=message):
        build(parse(GOOD, "good.yaml"), [override])


def test_overrides_reach_keys_items_and_policies_by_name():
    scenario = build(parse(GOOD, "g"), ["radio.bandwidth=5 MHz", "policies.drdm.mu=1e-1", "policies.0.tau=3", "seeds=2"])
    assert scenario.radio.bandwidth == 5e6
    assert [policy.tau for policy in scenario.policies] == [3, 10]
    assert scenario.policies[1].mu == 0.1
    assert scenario.seeds == (0, 1)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_what_is_dumped_loads_to_the_same_scenario(path, tmp_path):
    scenario = load(path)
    copy_ = tmp_path / "copy.yaml"
    copy_.write_text(dump(scenario))
    assert load(copy_) == scenario


@pytest.mark.parametrize(
    ("given", "unit", "value"),
    [
        ("10 MHz", "Hz", 1e7),
        ("20 dBm", "W", 0.1),
        ("-5 dB", "dB", 10**-0.5),
        ("1 GHz", "Hz", 1e9),
        ("100 mW", "W", 0.1),
        ("2 kJ", "J", 2e3),
        ("30 min", "s", 1800.0),
        ("1e6", "Hz", 1e6),
        (1e6, "Hz", 1e6),
        (".5s", "s", 0.5),
        ("3 linear", "dB", 3.0),
        ("36 km/h", "m/s", 10.0),
    ],
)
def test_quantities(given, unit, value):
    assert parse_quantity(given, unit) == pytest.approx(value, rel=1e-12)


def test_plain_numbers_in_yaml_are_numbers():
    data = parse("a: 1e6\nb: 1.5e-3\nc: 7\nd: 'x'\ne: on\nf: 2020-01-01\ng: null\nh: true", "n").data
    assert data == {"a": 1e6, "b": 1.5e-3, "c": 7, "d": "x", "e": "on", "f": "2020-01-01", "g": None, "h": True}


JUNK = [None, True, -1, 0, 1, 3.7, 1e300, -1e300, float("nan"), float("inf"), "", "x", "10 dB", "1 MHz", "../../etc", "\x00",
        "é" * 200, [], [[]], {}, {"a": {"b": 1}}, ["x", 1], 10**30, "<script>", "-0", "1e999", list(UNITS)]  # fmt: skip


def mutate(data, rng):
    """One random change somewhere in the tree: a value replaced, a key renamed, dropped, or added."""
    data = copy.deepcopy(data)
    for _ in range(rng.randint(1, 3)):
        node = data
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(node[key], dict | list) and rng.random() < 0.7:
                node = node[key]
                continue
            action = rng.random()
            if action < 0.6:
                node[key] = copy.deepcopy(rng.choice(JUNK))
            elif isinstance(node, dict) and action < 0.8:
                node[rng.choice(["x", "name", "kind", str(key) + "s", str(key)[:-1]])] = node.pop(key)
            elif isinstance(node, dict):
                del node[key]
            else:
                node.append(copy.deepcopy(rng.choice(JUNK)))
            break
    return data


def test_five_thousand_mutations_load_or_raise_our_error():
    rng = random.Random(20261116)
    documents = [yaml.safe_load(path.read_text()) for path in SHIPPED]
    loaded = refused = 0
    for i in range(5000):
        source = parse(GOOD, "m.yaml")
        source.data = mutate(documents[i % len(documents)], rng)
        try:
            build(source)
            loaded += 1
        except WflsimError:
            refused += 1
    assert loaded > 100
    assert refused > 2000


def test_two_thousand_mangled_texts_parse_or_raise_our_error():
    rng = random.Random(7)
    for _ in range(2000):
        text = list(GOOD)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 3)] = rng.choice(["", ":", "\n", "  ", "- ", "{", "}", "&a ", "*a", "\t", "!!x ", "\x00", "'", "\u2028"])
        with contextlib.suppress(WflsimError):
            build(parse("".join(text), "m.yaml"))
