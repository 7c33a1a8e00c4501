"""What cannot be learnt is refused in a sentence: impossible floors, modules that cannot be made, too little memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
import torch
from learning_modules import Small
from pydantic import TypeAdapter, ValidationError
from quadratics import problem, run
from rigs import learner

from wflsim.errors import DataError, Diverged, ScenarioError
from wflsim.exchange import Ask
from wflsim.learning import machine
from wflsim.learning.build import build
from wflsim.learning.data.partition import NaturalSpec
from wflsim.learning.data.sets import DigitsSpec, SyntheticSpec, load
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.specs import LinearSpec, MlpSpec, ModuleSpec, TrainSpec
from wflsim.policies.afl import AFL
from wflsim.policies.drdm import DRDM
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.registry import PolicySpec

DIGITS, EVEN = DigitsSpec(name="digits"), ZipfDirichletSpec()
POLICY = TypeAdapter(PolicySpec)


@pytest.mark.parametrize("name", ["drdm", "drfa", "lambda_drdm", "afl"])
def test_a_floor_that_leaves_no_lambda_is_refused_where_it_is_written(name):
    for floor, left in ((1, "only the uniform lambda"), (1.5, "no lambda at all"), (1e6, "no lambda at all")):
        with pytest.raises(ValidationError, match=rf"floor/N and they sum to 1, so .* leaves {left}; give less than 1"):
            POLICY.validate_python({"name": name, "m": 2, "floor": floor})
    with pytest.raises(ValidationError):
        POLICY.validate_python({"name": name, "m": 2, "floor": -0.1})
    policy = POLICY.validate_python({"name": name, "m": 2, "floor": float(np.nextafter(1, 0))})
    training, _ = run(policy, problem(5).learner(), 3)
    np.testing.assert_allclose(training.state.lam, 0.2, rtol=1e-12)


def test_a_lambda_that_is_no_number_is_a_divergence():
    class Overflowing(AFL):
        def gradient(self, me, w):
            g, loss = me.gf(me.copies_of(w))
            return {"g": g, "loss": torch.full_like(loss, 1e308)}

    with pytest.raises(Diverged, match=r"policy afl: lam is no longer finite in round 0; usual cure"):
        run(Overflowing(m=2, eta_lambda=1e5), problem(5).learner(), 2)


# Modules


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"widht": 3}, r"TypeError: .*widht"),
        ({"width": -1}, r"\w*Error: "),
        ({"width": "six"}, r"TypeError: "),
        ({"width": 10**15}, r"RuntimeError: .*allocate|RuntimeError: .*overflow"),
        ({"width": 10**30}, r"\w*Error: "),
    ],
)
def test_arguments_that_the_constructor_refuses_are_named_with_what_it_accepts(arguments, said):
    spec = ModuleSpec(name="module", module=f"{Small.__module__}:Small", arguments=arguments)
    with pytest.raises(DataError, match=rf"^model.arguments: learning_modules:Small .*{said}.*; it accepts Small\(width=6\)"):
        build(DIGITS, EVEN, spec, TrainSpec(), 10, 1)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class Net(:\n", "cannot import hostile:Net from .*hostile.py: SyntaxError"),
        ("1 / 0\n", "cannot import hostile:Net from .*hostile.py: ZeroDivisionError"),
        ("class Other: pass\n", "cannot import hostile:Net: .*hostile.py defines no 'Net'"),
        ("from torch import nn\nclass Net(nn.Module):\n  def forward(self, x): return x\n", "has no parameters"),
        ("from torch import nn\nclass Net(nn.Linear):\n  def __init__(self): super().__init__(64, 10)\n  def forward(self, x): return {}['x']\n", "cannot take samples of shape .*KeyError: 'x'"),
        ("from torch import nn\nclass Net(nn.Linear):\n  def __init__(self): super().__init__(64, 10)\n  def forward(self, x): return 'logits'\n", r"to str, not to \(2, 10\)"),
    ],
)  # fmt: skip
def test_a_strangers_file_never_ends_in_a_traceback(tmp_path, source, said):
    (tmp_path / "hostile.py").write_text(source)
    spec = ModuleSpec(name="module", module="hostile:Net", folder=str(tmp_path))
    with pytest.raises(DataError, match=f"^model.module: .*{said}"):
        build(DIGITS, EVEN, spec, TrainSpec(), 10, 1)


# Memory


def test_a_model_that_cannot_fit_is_refused_with_its_bytes_before_anything_is_allocated():
    spec = MlpSpec(name="mlp", hidden=(10**9, 10**9))
    with pytest.raises(ScenarioError, match=r"model.name: mlp of 1000000076000000010 parameters needs 32 EB of memory.*smaller model"):
        build(DIGITS, EVEN, spec, TrainSpec(), 10, 1)


def test_synthetic_data_of_too_many_clients_is_refused_before_it_is_drawn():
    if machine.free_bytes() > 348e9:
        pytest.skip("this machine has room for it")
    with pytest.raises(ScenarioError, match=r"synthetic data of 1000000 clients needs 348 GB .*; lower clients"):
        build(SyntheticSpec(name="synthetic"), NaturalSpec(name="natural"), LinearSpec(name="linear"), TrainSpec(), 10**6, 1)


def test_the_bytes_of_synthetic_data_are_about_those_it_takes():
    """The estimate is three times samples x (60 float32, a label, an owner), at the mean number of samples."""
    clients = 300
    data = load(SyntheticSpec(name="synthetic"), clients, 0)
    held = sum(half.x.nbytes + half.y.nbytes + half.owner.nbytes for half in (data.train, data.test))
    assert 0.4 < held / (clients * (50 + np.exp(6)) * 256) < 2


def small_machine(monkeypatch, size_bytes):
    monkeypatch.setattr(machine, "_machine_bytes", lambda: size_bytes)


def test_a_cohort_that_cannot_be_trained_at_once_is_refused(monkeypatch):
    ours = learner()  # 6 clients of 650 float32 parameters, in one chunk: y and the gradients are 31,200 bytes
    small_machine(monkeypatch, 31_000)
    ask = Ask(range(6), partial(FedAvg().local_steps, tau=dict.fromkeys(range(6), 10)), shared={"w": ours.initial()})
    with pytest.raises(ScenarioError, match=r"6 clients' models of 650 parameters, .* needs 31.2 kB .* use 31 kB; lower the policy's m"):
        ours.run(ask, [(0, 0)] * 6)


def test_what_a_cohort_sends_and_keeps_is_added_up_over_chunks(monkeypatch):
    ours = learner(model="cnn", dtype="float64")
    each = 2 * 8 * ours.parameters  # y up, g kept
    small_machine(monkeypatch, 6 * each - 1)
    ask = Ask(range(6), FedDyn().local_steps, shared={"w": ours.initial()})
    with pytest.raises(ScenarioError, match=r"what 6 clients of one phase send and keep needs .* MB"):
        ours.run(ask, [(0, 0)] * 6)
    small_machine(monkeypatch, 6 * each)
    assert ours.run(ask, [(0, 0)] * 6).results[0].nbytes == each


def test_client_memories_are_refused_before_they_fill_the_machine(monkeypatch):
    def work(me, w):
        me.memory["g"] = me.copies_of(w)
        return {"loss": me.f(w)}

    ours = learner()
    small_machine(monkeypatch, 2.5 * 4 * 650 / 0.8)
    for client in range(3):
        (result,) = ours.run(Ask([client], work, shared={"w": ours.initial()}), [(client, 0)]).results
        ours.commit(result)
        if client < 2:
            ours.end_round()
    with pytest.raises(ScenarioError, match=r"what 3 of 6 clients remember \(7.8 kB\) .*policy without client memory"):
        ours.end_round()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")])
def test_an_allocation_that_fails_in_a_round_is_said_with_policy_and_round(error):
    class Greedy(FedAvg):
        def local_steps(self, me, w, tau):
            raise error

    with pytest.raises(ScenarioError, match=r"not enough memory while training fedavg in round 0 \(.*\); lower the policy's m"):
        run(Greedy(m=2), problem(5).learner(), 1)


def test_other_runtime_errors_are_not_taken_for_memory():
    class Wrong(FedAvg):
        def local_steps(self, me, w, tau):
            return {"y": me.copies_of(w) @ me.copies_of(w)}

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        run(Wrong(m=2), problem(5).learner(), 1)


def under_a_limit(extra_mb, code):
    """Run code in a process that may take so many megabytes more than it has after its imports."""
    script = """
        import resource, sys
        import sklearn.datasets, torch
        from wflsim.errors import WflsimError
        from wflsim.learning.build import build
        from wflsim.learning.data.sets import DigitsSpec, load
        from wflsim.learning.specs import LinearSpec, MlpSpec, TrainSpec
        from wflsim.learning.data.zipf import ZipfDirichletSpec
        load(DigitsSpec(name="digits"), 10, 1)
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + int(EXTRA * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            CODE
        except WflsimError as error:
            print(error)
        """
    whole = textwrap.dedent(script).replace("EXTRA", str(extra_mb)).replace("CODE", code)
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("extra_mb", [pytest.param(45, marks=pytest.mark.slow), 65])
def test_vectorising_in_too_little_memory_is_refused_instead_of_crashing(extra_mb):
    """Importing torch's compiler ran out of memory half way: SystemError, or a segmentation fault at exit."""
    made = "build(DigitsSpec(name='digits'), ZipfDirichletSpec(), MlpSpec(name='mlp', hidden=()), TrainSpec(gradients='vmap', dtype='float64', compress={'up': {'name': 'quantise'}, 'down': {'name': 'quantise'}}), 10, 1)"
    work = "; me = __import__('wflsim.exchange').exchange; w = made.initial(); made.run(me.Ask(range(10), lambda me, w: {'y': me.g(me.copies_of(w))}, shared={'w': w}), [(0, 0)] * 10)"
    ended = under_a_limit(extra_mb, f"made = {made}{work}")
    assert ended.returncode == 0, ended.stderr
    assert "torch's compiler, which train.gradients: vmap loads, needs 150 MB of memory" in ended.stdout
    assert ended.stdout.endswith("choose auto or threads\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_model_larger_than_ulimit_allows_is_refused():
    made = "build(DigitsSpec(name='digits'), ZipfDirichletSpec(), MlpSpec(name='mlp', hidden=(200_000,)), TrainSpec(), 10, 1)"
    ended = under_a_limit(200, made)
    assert ended.returncode == 0, ended.stderr
    assert "mlp of 15000010 parameters needs 480 MB of memory" in ended.stdout


@pytest.mark.parametrize(
    "block",
    [{"hidden": [10**10]}, {"hidden": [10**400]}, {"hidden": [1] * 1001}, {"batch": 10**30}, {"batch": 10**400}],
)
def test_whole_numbers_beyond_all_reason_are_refused_where_they_are_written(block):
    with pytest.raises(ValidationError):
        MlpSpec(name="mlp", **block) if "hidden" in block else TrainSpec(**block)


def test_the_largest_numbers_that_are_allowed_run():
    ours = learner(batch=10**9)
    done = ours.run(Ask([0], lambda me, w: {"y": me.g(me.copies_of(w))}, shared={"w": ours.initial()}), [(2**31, 2**31)])
    assert done.results[0].backward_samples == ours.samples[0]
    assert DRDM(m=1_000_000, tau=1_000_000).tau == 1_000_000
