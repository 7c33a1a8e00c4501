"""The store: replay is live bit for bit, traces grow, and nothing corrupt or foreign is believed."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from alone import environment, run_alone
from pydantic import TypeAdapter
from small_scenarios import SMALL, small

import wflsim
from wflsim.analysis.legs import latency_s
from wflsim.analysis.tables import run_facts
from wflsim.errors import Diverged, ReplayRefused, StoreError
from wflsim.exchange import Ask, Draw, Gather, Until
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.keepers import costs_of
from wflsim.experiments.plan import Run, why_live
from wflsim.files import Busy
from wflsim.policies.base import average_models
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.registry import POLICIES, PolicySpec
from wflsim.records import read_trace
from wflsim.results.digest import CARRYING, PACKAGE, learning_digest, run_digest
from wflsim.results.folders import status
from wflsim.results.store import Store
from wflsim.simulation.loop import drive
from wflsim.simulation.stop import Stop
from wflsim.target import reached_in
from wflsim.world.world import World

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "scenarios").glob("*.yaml"))
def files(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.suffix in (".csv", ".jsonl")}


def one_run(scenario, folder, policy=0, seed=0):
    run_alone(scenario, policy, seed, folder)
    return files(folder), status(Path(folder))["mode"]


SYNCHRONOUS = [policy for policy in POLICIES if not policy.asynchronous]


@pytest.mark.parametrize("kind", SYNCHRONOUS, ids=lambda kind: kind.model_fields["name"].default)
def test_replay_is_live_bit_for_bit_for_every_synchronous_policy(kind, tmp_path, monkeypatch):
    """Trained in one world, replayed in another: the same bytes as training there."""
    m = {"m": 4} if kind.model_fields["m"].annotation is not type(None) else {}
    policy = TypeAdapter(PolicySpec).validate_python({"name": kind.model_fields["name"].default, **m})
    here = small().model_copy(update={"policies": (policy,)})
    there = small("radio.snr=0 dB", "radio.bandwidth=50 kHz", "cell.access=ofdma").model_copy(update={"policies": (policy,)})
    _, mode = one_run(here, tmp_path / "here")
    assert mode.startswith("live")
    replayed, mode = one_run(there, tmp_path / "replayed")
    assert mode.startswith("replay: all 4 rounds"), mode
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "another"))
    lived, mode = one_run(there, tmp_path / "lived")
    assert mode.startswith("live")
    assert replayed == lived


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_replay_bit_for_bit_or_say_which_key_forbids_it(path, tmp_path, monkeypatch):
    # on digits whatever they ask for: the others would have to be downloaded
    scenario = wflsim.load(path, ["stop.rounds=3", "seeds=1", "evaluate_every=1", "data={name: digits}"])
    scenario = scenario.model_copy(update={"sweep": None, "tune": None})
    for number, policy in enumerate(scenario.policies):
        because = why_live(scenario.world, policy)
        first, _ = one_run(scenario, tmp_path / f"{number}/first", number)
        again, mode = one_run(scenario, tmp_path / f"{number}/again", number)
        assert first == again
        assert mode.startswith("live" if because else "replay"), (policy.name, mode)
        assert policy.asynchronous == ("asynchronous" in (because or ""))


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("radio.loss={probability: 0.2}", "radio.loss.probability"),
        ("radio.loss={outage_threshold: 1 dB}", "radio.loss.outage_threshold"),
        ("server.deadline=1 s", "server.deadline"),
        ("server.first=2", "server.first"),
        ("server.quorum=2", "server.quorum"),
        ("server.selector=best_channel", "server.selector"),
        ("server.over_selection=1.5", "server.over_selection"),
        ("devices={battery: 100 J}", "devices.battery"),
        ("devices={dropout: 0.1}", "devices.dropout"),
    ],
)
def test_a_world_that_can_change_the_learning_is_never_replayed_and_the_key_is_named(override, key, tmp_path):
    one_run(small(), tmp_path / "exact")
    _, mode = one_run(small(override), tmp_path / "lossy")
    assert mode.startswith(f"live: trained in its own world, because {key} can change what is learnt")
    before = {entry.name for entry in Store().entries()}
    assert len(before) == 1, "the live run has left a trace, which would be wrong elsewhere"


@pytest.mark.parametrize("policy", [0, 1])
def test_a_trace_is_a_prefix_that_grows(policy, tmp_path, monkeypatch):
    """4 rounds, then 7 (with the checkpoint, and without), then 2: always the bytes of training from the beginning."""
    whole, _ = one_run(small("stop.rounds=7"), tmp_path / "whole", policy)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "growing"))
    one_run(small(), tmp_path / "short", policy)
    (entry,) = (tmp_path / "growing/traces").iterdir()
    kept = {path.name: path.read_bytes() for path in entry.iterdir()}
    grown, mode = one_run(small("stop.rounds=7"), tmp_path / "grown", policy)
    assert mode.startswith("replay of 4 rounds from the store, then trained on to 7")
    assert grown == whole
    for name, content in kept.items():
        (entry / name).write_bytes(content)
    (entry / "checkpoint.pt").unlink()
    retrained, _ = one_run(small("stop.rounds=7"), tmp_path / "retrained", policy)
    assert retrained == whole
    _, mode = one_run(small("stop.rounds=2"), tmp_path / "two", policy)
    assert mode.startswith("replay: all 2 rounds")


def test_a_diverging_training_diverges_in_replay_too(tmp_path):
    scenario = small("policies.drdm.eta=900", "stop.rounds=60")
    first, _ = one_run(scenario, tmp_path / "first", 1)
    again, mode = one_run(scenario, tmp_path / "again", 1)
    assert status(tmp_path / "first")["status"] == status(tmp_path / "again")["status"] == "diverged"
    assert status(tmp_path / "first")["reason"] == status(tmp_path / "again")["reason"]
    assert first == again
    assert mode.startswith("replay")
    training = CachedTraining(Run(scenario, 1, 0), Store())
    with pytest.raises(Diverged):
        next(training.round(len(training.trace)))


def test_the_digest_covers_what_can_change_learning_and_nothing_else(tmp_path):
    base = learning_digest(small(), 0, 0)
    for same in ("radio.snr=0 dB", "stop.rounds=9", "server.aggregation=1 s", "name=other", "policies.fedavg.label=plain"):
        assert learning_digest(small(same), 0, 0) == base, same
    others = ["policies.fedavg.tau=4", "train.batch=8", "clients=7", "partition.alpha=1", "evaluate_every=2", "train.dtype=float64"]
    digests = {learning_digest(small(other), 0, 0) for other in others} | {learning_digest(small(), 1, 0), learning_digest(small(), 0, 1)}
    assert len(digests | {base}) == len(others) + 3
    assert run_digest(base, small()) != run_digest(base, small("radio.snr=0 dB"))
    assert run_digest(base, small()) != run_digest(base, small("stop.rounds=9"))


def test_the_digest_of_a_run_covers_the_code_that_computes_its_record():
    """Moved to another file, it must not silently leave the digest."""
    covered = [PACKAGE / part for part in CARRYING]
    for function in (costs_of, run_facts, latency_s, drive, CachedTraining, World, Stop, reached_in):
        file = Path(inspect.getfile(function))
        assert any(file == part or part in file.parents for part in covered), function


def test_the_digest_covers_the_content_of_input_files(tmp_path):
    import numpy as np

    def write(value):
        x, y = np.full((12, 3), value, dtype=np.float32), np.arange(12) % 3
        np.savez(tmp_path / "d.npz", x_train=x, y_train=y, x_test=x, y_test=y)
        os.utime(tmp_path / "d.npz", ns=(value, value))
        return learning_digest(small(f"data={{name: npz, path: {tmp_path / 'd.npz'}}}"), 0, 0)

    assert write(1) != write(2)
    assert write(1) == write(1)


class Impatient(FedAvg):
    """Takes the first two replies, whatever the scenario says."""

    def round(self, x, s, rng):
        D, a = yield Draw(self.m)
        work = partial(self.local_steps, tau=dict.fromkeys(D, self.tau))
        got = yield Gather([Ask(D, work, shared={"w": x.w}, models_up=1)], Until(first=2))
        return replace(x, w=average_models(x.w, got, "y", a))


def test_a_policy_with_a_limit_of_its_own_leaves_no_trace(tmp_path):
    scenario = small("radio.snr=[0 dB, 3 dB, 6 dB, 9 dB, 12 dB, 15 dB]").model_copy(update={"policies": (Impatient(m=4, tau=3),)})
    first, _ = one_run(scenario, tmp_path / "first")
    again, mode = one_run(scenario, tmp_path / "again")
    assert first == again
    assert mode.endswith("because policies: fedavg sets a limit of its own on a phase")
    assert Store().entries() == []
    with pytest.raises(ReplayRefused, match="sets a limit of its own on a phase"):
        CachedTraining(Run(scenario, 0, 0), Store()).extend(2)


DAMAGES = [
    ("trace.jsonl", lambda text: text.replace(b"gather", b"rather"), "is corrupt"),
    ("trace.jsonl", lambda text: text[:-20], "is corrupt"),
    ("seal.json", lambda text: b"{}", "not a file of wflsim's store"),
    ("seal.json", lambda text: b"\xff\xfe", "cannot read"),
    ("seal.json", lambda text: text.replace(b'"rounds": 4', b'"rounds": 4, "x'), "not a file"),
]


@pytest.mark.parametrize(("name", "damage", "words"), DAMAGES)
def test_corrupt_traces_are_refused_with_file_and_cure(tmp_path, name, damage, words):
    one_run(small(), tmp_path / "first")
    (entry,) = (Store().root / "traces").iterdir()
    (entry / name).write_bytes(damage((entry / name).read_bytes()))
    with pytest.raises(StoreError, match=words) as caught:
        one_run(small(), tmp_path / "again")
    assert str(entry) in str(caught.value)
    assert "remove" in str(caught.value)


def test_a_foreign_trace_and_a_foreign_record_are_refused(tmp_path):
    store = Store()
    one_run(small(), tmp_path / "first")
    (entry,) = (store.root / "traces").iterdir()
    entry.rename(entry.with_name("0" * 32))
    with pytest.raises(StoreError, match="belongs to another trace"):
        store.trace("0" * 32).read()
    store.keep_record("ab" * 16, {"facts": {"energy_j": 0.1, "final_worst": float("nan")}})
    assert store.record("ab" * 16)["facts"]["energy_j"] == 0.1
    (store.root / "runs/ac").mkdir()
    (store.root / f"runs/ab/{'ab' * 16}.json").rename(store.root / f"runs/ac/{'ac' * 16}.json")
    with pytest.raises(StoreError, match=r"belongs elsewhere; remove .*acac"):
        store.record("ac" * 16)


def test_a_checkpoint_that_is_corrupt_is_refused(tmp_path):
    one_run(small(), tmp_path / "first")
    (entry,) = (Store().root / "traces").iterdir()
    (entry / "checkpoint.pt").write_bytes(b"x" * 100)
    with pytest.raises(StoreError, match=r"checkpoint.pt is corrupt or foreign; remove"):
        one_run(small("stop.rounds=6"), tmp_path / "again")


def test_a_store_that_cannot_be_written_is_said_and_costs_no_result(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "file/inside"))
    _, mode = one_run(small(), tmp_path / "first")
    assert "the trace could not be kept: cannot write in" in mode
    assert "WFLSIM_STORE" in mode


def test_list_store_and_prune(tmp_path):
    one_run(small(), tmp_path / "first")
    store = Store()
    store.keep_record("ab" * 16, {})
    text = subprocess.run([sys.executable, "-m", "wflsim", "list", "store"], capture_output=True, text=True).stdout
    assert "fedavg tau=3 seed 0 on digits" in text
    assert "1 finished runs" in text
    (entry,) = (store.root / "traces").iterdir()
    with store.computing(entry.name, wait=False), pytest.raises(Busy), Store().computing(entry.name, wait=False):
        pass
    assert store.prune(3600) == []
    for path in entry.iterdir():
        os.utime(path, (time.time() - 7200,) * 2)
    with store.computing(entry.name, wait=False):
        assert store.prune(3600) == [], "somebody is working on it"
    assert [gone.name for gone in store.prune(3600)] == [entry.name]
    assert len(store.prune(0)) == 1
    assert store.entries() == []


RACE = """
import sys, wflsim
from alone import run_alone
from pathlib import Path
scenario = wflsim.load(sys.argv[1])
for n in range(3):
    longer = scenario.model_copy(update={"stop": scenario.stop.model_copy(update={"rounds": 2 + 2 * n})})
    run_alone(longer, 0, 0, Path(sys.argv[2]) / str(n))
"""


def test_two_processes_that_grow_one_trace_corrupt_nothing(tmp_path):
    (tmp_path / "s.yaml").write_text(SMALL)
    both = [
        subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path / "s.yaml"), str(tmp_path / name)], env=environment()) for name in ("a", "b")
    ]
    assert [process.wait() for process in both] == [0, 0]
    for n in range(3):
        assert files(tmp_path / f"a/{n}") == files(tmp_path / f"b/{n}")
    (entry,) = (Store().root / "traces").iterdir()
    assert json.loads((entry / "seal.json").read_text())["rounds"] == 6
    assert len(Store().trace(entry.name).read().trace) == 6


def test_a_trace_without_local_steps_is_answered_with_a_sentence(tmp_path):
    """Before steps were recorded an order had ten fields: time and energy of computing cannot be told from those."""
    path = tmp_path / "trace.jsonl"
    path.write_text('[0,[["gather",[[3,0,0,0,64,0,64,16,16,64]],null]],null]\n')
    with pytest.raises(StoreError, match=r"earlier version of wflsim, which did not record local steps.*--fresh"):
        read_trace(path)
    path.write_text('[0,[["gather",[[3,0,0,0,64,0,64,16,16,64,1,1]],null]],null]\n')
    assert read_trace(path)[0].steps[0].orders[0].backward_steps == 1
