"""Clients with models or other things of their own: evaluated each with its own, kept on the device, counted, resumed.

The policies are those of the registry that keep something on the devices or evaluate clients with different models; they
are found by what they do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from alone import environment, run_alone
from hard_policies import ModelPerClient, Personal
from quadratics import Rough, problem, run
from rigs import CLIENTS, learner, live, rehearse
from test_policies_contract import CASES
from test_unequal_steps import KINDS
from test_unequal_steps import learner as unequal_learner

import wflsim
from wflsim.cli.preview import Stage
from wflsim.errors import ScenarioError
from wflsim.exchange import Ask
from wflsim.learning import learner as learning
from wflsim.learning import machine
from wflsim.policies.registry import POLICIES
from wflsim.scenario import build
from wflsim.scenario.source import parse


def keeps_its_own(kind):
    """Whether clients keep something that is never sent, or are evaluated with different models."""
    if kind.asynchronous:
        return False
    training, _ = run(kind(**CASES[kind.model_fields["name"].default]), problem(6).learner(), 1)
    rows = []
    training.learner.evaluate(lambda me: rows.append(training.policy.model(training.state, me)) or rows[0])
    return bool(training.learner.snapshot()["personal"]) or rows[0].ndim == 2


OWN = [kind.model_fields["name"].default for kind in POLICIES if keeps_its_own(kind)]
STEPS = {kind.model_fields["name"].default: min(2, kind.model_fields["tau"].default) for kind in POLICIES}
"""Local steps of each: two, or one where its equations have only one."""
SCENARIO = f"""
name: own
clients: 6
seeds: [0]
data: {{name: digits}}
partition: {{alpha: 0.3, sigma: 0.5}}
model: {{name: linear}}
train: {{batch: 16}}
policies: {json.dumps([{"name": name, **CASES[name], "tau": STEPS[name]} for name in OWN])}
radio: {{snr: 10 dB, bandwidth: 180 kHz, power: 100 mW, loss: {{probability: 0.2}}}}
stop: {{rounds: 30}}
"""
every = pytest.mark.parametrize("number", range(len(OWN)), ids=OWN)
SERVERLESS = {kind.model_fields["name"].default for kind in POLICIES if kind.decentralised}
WITH_SERVER = [number for number, name in enumerate(OWN) if name not in SERVERLESS]
"""Policies that upload to a server; peers that lose a link are tested in test_policies_peers.py."""


def scenario(*overrides):
    return build(parse(SCENARIO, "own.yaml"), overrides)


def rows_of(folder):
    """The bytes of every table below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.suffix in (".csv", ".jsonl")}


def test_there_are_such_policies():
    assert {"ditto", "clustered"} <= set(OWN)
    assert "fedavg" not in OWN


@pytest.mark.parametrize("policy", [Personal(), ModelPerClient()], ids=lambda policy: policy.name)
@pytest.mark.parametrize("clients", [1, 4, CLIENTS])
def test_models_are_evaluated_a_few_clients_at_a_time_and_that_changes_nothing(policy, clients, monkeypatch):
    whole, _ = rehearse(policy)
    asked = []
    plain = type(policy).model
    monkeypatch.setattr(type(policy), "model", lambda self, x, me: asked.append(len(me.clients)) or plain(self, x, me))
    monkeypatch.setattr(learning, "EVALUATED_BYTES", clients * 650 * 4 + 3)
    parts, _ = rehearse(policy)
    assert parts.trace == whole.trace
    assert max(asked) == clients
    assert sum(asked) == 4 * CLIENTS


def test_a_policy_that_gives_the_wrong_number_of_models_is_told_so():
    class Short(ModelPerClient):
        def model(self, x, me):
            return super().model(x, me)[1:]

    with pytest.raises(ValueError, match=r"the policy's model\(\) gave 5 models for 6 clients"):
        rehearse(Short(), count=1)


@pytest.mark.parametrize("kind", KINDS)
def test_two_models_may_step_on_one_minibatch(kind):
    """`descend` on a batch is y - eta g(y) + pull (anchor - y) on it, is paid for, and leaves the next batches as they are."""
    seen = {}

    def work(me, w):
        first, (u, v) = me.batch(), (me.copies_of(w), me.copies_of(w) + 0.01)
        expected = u - 0.1 * me.g(u, on=first), v - 0.1 * me.g(v, on=first) + 0.05 * (w - v)
        me.descend(u, 0.1, on=first)
        me.descend(v, 0.1, w, pull=0.05, on=first)
        seen.setdefault("steps", []).extend(zip((u, v), expected, strict=True))
        return {"next": me.f(w)}

    def plain(me, w):
        me.batch()
        return {"next": me.f(w)}

    ours = unequal_learner(kind)
    cohort, shared = [7, 2, 9], {"w": ours.initial()}
    done, other = (ours.run(Ask(cohort, half, shared=shared), [(0, 0)] * 3).results for half in (work, plain))
    for got, expected in seen["steps"]:
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    for mine, its in zip(done, other, strict=True):
        assert torch.equal(mine.items["next"], its.items["next"])
        assert mine.backward_samples == 4 * its.forward_samples
        assert mine.forward_samples == 5 * its.forward_samples


def test_what_clients_keep_for_themselves_is_refused_before_it_fills_the_machine(monkeypatch):
    def work(me, w):
        me.personal["map"] = me.personal.get("map", torch.zeros(len(me.clients), 100, 100))
        return {"loss": me.f(w)}

    ours = learner()
    monkeypatch.setattr(machine, "_machine_bytes", lambda: 3 * 6 * 40_000 - 1)
    with pytest.raises(ScenarioError, match=r"'map', which 6 clients keep for themselves, needs 720 kB of memory, .*; lower the policy's m"):
        ours.run(Ask(range(6), work, shared={"w": ours.initial()}), [(0, 0)] * 6)


def test_check_counts_the_bytes_that_clients_keep_whatever_their_shape():
    """float32: a model of 650 values; control variates of as many; nothing."""
    given = scenario("policies=[{name: ditto, m: 4}, {name: scaffold, m: 4}, {name: fedavg, m: 4}]")
    assert [Stage().rehearse(given, number).client_bytes for number in range(3)] == [2600, 2600, 0]


@pytest.mark.parametrize("number", WITH_SERVER, ids=[OWN[number] for number in WITH_SERVER])
def test_a_personal_thing_stays_although_the_upload_is_lost(number):
    """Nothing arrives: the server stands still, and who finished computing has what is its own."""
    policy = scenario().policies[number]
    carrier = Rough(6, loss=1.0)
    training, _ = run(policy, problem(6).learner(), 3, carrier)
    held, otherwise = training.learner.snapshot(), run(policy, problem(6).learner(), 1)[0].learner.snapshot()
    computed = {client for gather in carrier.computed for client in gather}
    assert computed
    assert not held["memory"]
    assert set(held["personal"]) == set(otherwise["personal"])
    for rows in held["personal"].values():
        assert set(rows) == computed
    start = policy.start(training.learner.initial(), training.learner.samples)
    assert torch.equal(training.state.w, start.w)


KILLED = """
import os, signal, sys, time
from pathlib import Path
import torch, wflsim
from alone import run_alone
scenario, folder = wflsim.load(sys.argv[1]), Path(sys.argv[2])
for number, label in enumerate(scenario.labels):
    child = os.fork()
    if not child:
        run_alone(scenario, number, 0, folder / label, checkpoint_every_s=0.0)
        os._exit(0)
    rounds = folder / label / "rounds.csv"
    while not (rounds.exists() and rounds.read_text().count(chr(10)) > 6):
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_killed_and_resumed_the_same_bytes(tmp_path):
    """Each killed from outside, a few rounds after its checkpoints began, in a world that loses uploads."""
    (tmp_path / "own.yaml").write_text(SCENARIO)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "own.yaml"), str(tmp_path / "cut")], check=True, timeout=120, env=environment())
    for number, label in enumerate(OWN):
        assert (tmp_path / "cut" / label / "checkpoint.pt").exists(), "it was over before it could be killed"
        for name in ("cut", "whole"):
            run_alone(scenario(), number, 0, tmp_path / name / label)
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole") != {}


def test_worker_processes_and_threads_change_nothing(tmp_path, monkeypatch):
    """Trained live in the process, by two others, and replayed from what they left in the store."""
    calm = scenario("radio.loss.probability=0", "stop.rounds=4")
    wflsim.run(calm, tmp_path / "two", workers=2)
    wflsim.run(calm, tmp_path / "replayed", workers=1)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "another"))
    wflsim.run(calm, tmp_path / "one", workers=1)
    two, replayed, one = (rows_of(tmp_path / name) for name in ("two", "replayed", "one"))
    modes = [yaml.safe_load(path.read_text())["mode"] for path in (tmp_path / "replayed").rglob("status.json")]
    assert all(mode.startswith("replay: all 4 rounds") for mode in modes)
    assert len(modes) == len(OWN)
    assert two == one
    assert replayed == one


@every
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_one_and_two_threads_give_the_same_bits(number, model):
    policy = scenario().policies[number]
    one, two = (live(policy, count=2, model=model, threads=threads)[0] for threads in (1, 2))
    assert one.trace == two.trace
    assert one.clients == two.clients
