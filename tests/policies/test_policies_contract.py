"""One contract for all policies of the registry. A new policy is one more line in CASES.

The rules that hold for everybody's policies are in `wflsim.testing`, which users have too; here they are applied to
ours, and stand the rules that need to know which policy it is.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from quadratics import Kept, Rough, memories, models, problem, run, snapshot_step

import wflsim.policies
from wflsim.policies.registry import POLICIES, PolicySpec
from wflsim.simulation.loop import drive
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training
from wflsim.testing.contract import CHECKS, ROUGH, N, P, learner, world

BOUNDED = {"eta_delta": 0.005, "eta_lambda": 0.001, "lambda_0": 50, "lambda_1": 200}
"""Penalties of FedRobust that hold least-squares clients, whose losses grow with the square of a shift."""
CASES = {
    "fedavg": {"m": 3, "weights": "data"},
    "local_sgd": {},
    "fedprox": {"m": 3, "sampling": "data"},
    "feddyn": {"m": 3},
    "scaffold": {"m": 3},
    "afl": {"m": 4, "eta_lambda": 0.01},
    "drfa": {"m": 3, "gamma": 0.005},
    "drdm": {"m": 3, "gamma": 0.005},
    "lambda_drdm": {"m": 3},
    "scaffpd": {"m": 4, "sigma": 0.01},
    "fedasync": {"m": 3},
    "fedbuff": {"m": 4, "K": 3},
    "ditto": {"m": 3, "tau": 5},
    "clustered": {"eps1": 100, "eps2": 0, "warmup": 1},
    "fednova": {"m": 3},
    "q_fedavg": {"m": 3},
    "q_fedsgd": {"m": 3, "eta": 0.1},
    "fedavgm": {"m": 3},
    "fedadagrad": {"m": 3},
    "fedadam": {"m": 3},
    "fedyogi": {"m": 3},
    "dsgd": {},
    "drdsgd": {"mu": 50, "eta": 1.0},
    "scallion": {"m": 3},
    "scafcom": {"m": 3, "compress": {"name": "top_k", "share": 0.3}},
    "ifca": {"m": 3, "k": 2},
    "ifca_sgd": {"m": 3, "eta": 0.1},
    "fedrobust": {"m": 3, **BOUNDED},
}
SPEC = TypeAdapter(PolicySpec)
ALL = [SPEC.validate_python({"name": name, **options}) for name, options in CASES.items()]
MORE = [
    SPEC.validate_python(options)
    for options in (
        {"name": "feddyn", "m": 3, "sampling": "bernoulli"},
        {"name": "scaffold", "m": 3, "option": "I"},
        {"name": "scaffold", "m": 3, "compact_uplink": True},
        {"name": "drfa", "m": 3, "scheme": "uniform_weighted", "eval_model": "average", "eta": {"start": 0.05}},
        {"name": "drdm", "m": 3, "scheme": "with_replacement"},
        {"name": "drdm", "m": 3, "scheme": "systematic", "dual_loss": "full"},
        {"name": "scaffpd", "loss": "minibatch", "psi": "chi2"},
        {"name": "fedbuff", "m": 3, "K": 3, "dispatch": "after_flush"},
        {"name": "fedasync", "m": 2, "staleness": "hinge"},
        {"name": "clustered", "m": 3},
        {"name": "fedavg", "m": 3, "tau_min": 2},
        {"name": "fednova", "m": 3, "tau_min": 2},
        {"name": "fednova", "tau_min": 3, "rho": 0.9},
        {"name": "dsgd", "tau": 3},
        {"name": "drdsgd", "tau": 3, "mu": 30},
        {"name": "scallion", "m": 3, "compress": {"name": "rand_k", "share": 0.5}},
        {"name": "scafcom", "m": 3, "compress": {"name": "quantise", "bits": 4}},
        {"name": "ifca", "apart": 0.3},
        {"name": "fedrobust", "m": 3, "affine": "diag", **BOUNDED},
        {"name": "fedrobust", "affine": "shift", **BOUNDED},
    )
]


def title(policy):
    extra = {key: value for key, value in policy.model_dump(exclude_defaults=True).items() if key not in ("m", "K")}
    return "-".join([policy.name, *(f"{key}={value}" for key, value in extra.items())])


every = pytest.mark.parametrize("policy", [*ALL, *MORE], ids=title)


def test_the_registry_is_the_union_and_all_of_it_is_tested():
    assert set(CASES) == {policy.model_fields["name"].default for policy in POLICIES}
    assert {type(policy) for policy in ALL} == set(POLICIES)


@every
@pytest.mark.parametrize("rule", CHECKS.values(), ids=CHECKS)
def test_it_keeps_the_contract_that_is_shipped_for_everybodys_policies(policy, rule):
    rule(policy)


@every
def test_a_policy_is_a_spec_of_the_union(policy):
    assert SPEC.validate_json(SPEC.dump_json(policy)) == policy
    with pytest.raises(ValidationError):
        SPEC.validate_python({**policy.model_dump(), "etaa": 1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "drdm"}, {"name": "drdm", "m": 0}, {"name": "drdm", "m": 3, "mu": 0}, {"name": "feddyn", "mu": 0},
        {"name": "fedasync", "m": 2, "alpha": 1.5}, {"name": "afl", "tau": 2}, {"name": "local_sgd", "m": 3},
        {"name": "scaffold", "option": "I", "compact_uplink": True}, {"name": "drfa", "m": 3, "eta": -1},
        {"name": "lambda_drdm", "m": 3, "gamma": {"start": 1, "power": 2}}, {"name": "fedavg", "m": 3, "eta": "nan"},
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        SPEC.validate_python(wrong)


def test_reading_policies_does_not_import_torch():
    code = "import sys, wflsim.policies.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def _without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))] or [ast.Pass()]
    return tree


def test_every_policy_is_one_short_file():
    folder = Path(wflsim.policies.__file__).parent
    lines = {path.name: len(path.read_text().splitlines()) for path in folder.glob("*.py")}
    code = "".join(ast.unparse(_without_docstrings(ast.parse((folder / "drdm.py").read_text()))))
    assert len(code.splitlines()) < 80, "the source paper's own policy stays comparable with its pseudocode at a glance"
    policies = {Path(sys.modules[policy.__module__].__file__).name for policy in POLICIES}
    assert all(count <= (120 if name in policies else 160) for name, count in lines.items()), lines


@pytest.mark.parametrize("policy", [policy for policy in ALL if policy.about.phases == 2], ids=title)
def test_a_second_phase_that_brings_nothing_undoes_nothing(policy):
    """DRDM and relatives: the model has moved, lambda stays. SCAFF-PD: losses and lambda have moved, the model stays."""

    class Deaf(Rough):
        def outcome(self, order):
            return super().outcome(order)._replace(fate="lost" if order.phase else "delivered")

    start = policy.start(learner().initial(), learner().samples)
    training, _ = run(policy, learner(), 3, Deaf(N))
    moved, kept = ("lam", "w") if policy.name == "scaffpd" else ("w", "lam")
    np.testing.assert_array_equal(getattr(training.state, kept), getattr(start, kept))
    assert np.abs(np.asarray(getattr(training.state, moved)) - np.asarray(getattr(start, moved))).max() > 1e-3


@pytest.mark.parametrize("policy", [policy for policy in [*ALL, *MORE] if policy.asynchronous], ids=title)
def test_an_asynchronous_server_moves_with_what_arrives_and_only_then(policy):
    """What a round learns is decided by the replies it received: lost ones change nothing but who is busy."""
    carrier, ends = Rough(N, loss=0.5), []

    class Counting(Kept):
        def __call__(self, finished):
            super().__call__(finished)
            ends.append(len(carrier.received))

    training, kept = Training(policy, learner(), 0), Counting()
    kept.training = training
    drive(training, carrier, kept, Stop(StopSpec(rounds=40)), N, 0)
    before, first, quiet = policy.start(learner().initial(), learner().samples), 0, 0
    for state, end in zip(kept.states, ends, strict=True):
        heard = sum(outcome.fate == "delivered" for outcome in carrier.received[first:end])
        learnt = [f.name for f in fields(state) if f.name != "busy" and not np.array_equal(getattr(before, f.name), getattr(state, f.name))]
        assert bool(learnt) == (heard > 0), (learnt, heard)
        assert state.t - before.t == (state.t > before.t) <= heard
        assert torch.equal(state.w, before.w) == (state.t == before.t), "a new version is a new model, and the other way round"
        before, first, quiet = state, end, quiet + (heard == 0)
    delivered = sum(outcome.fate == "delivered" for outcome in carrier.received)
    assert kept.states[-1].t == delivered // getattr(policy, "K", 1) > 5
    assert sum(row.delivered for row in kept.rows) == delivered
    assert quiet or policy.name == "fedbuff"


@pytest.mark.parametrize("policy", [policy for policy in [*ALL, *MORE] if policy.asynchronous], ids=title)
@pytest.mark.parametrize("loss", [0.0, 0.3, 1.0])
def test_asynchronous_policies_keep_m_tasks_under_way(policy, loss):
    carrier = Rough(N, loss)
    training, _ = run(policy, learner(), 30, carrier)
    assert carrier.most == policy.m
    assert training.state.busy == len(carrier._under_way) <= policy.m


def declared(policy, payload):
    """[(vectors, scalars, bits of vectors that the policy's own compressor made) of each phase] of a declaration such as
    `1v+1s / kv`, where k is an option of the policy, or `1c`."""
    phases = []
    for phase in payload.split(" / "):
        parts = {part[-1]: int(part[:-1] if part[:-1].isdigit() else getattr(policy, part[:-1])) for part in phase.split("+")}
        coded = parts.get("c", 0) and parts["c"] * policy.compress(torch.ones(1, P), [np.random.default_rng(0)])[1]
        phases.append((parts.get("v", 0), parts.get("s", 0), coded))
    return phases


@pytest.mark.parametrize("policy", ALL, ids=title)
def test_bits_counted_are_bits_declared(policy):
    rounds = 12
    _, kept = run(policy, learner(), rounds, Rough(N))
    down, up = declared(policy, policy.about.down), declared(policy, policy.about.up)
    shorter = 0
    for s, entry in enumerate(kept.trace):
        steps = [step for step in entry.steps if step.orders]
        assert len(steps) == len(down) or policy.asynchronous
        for number, step in enumerate(steps):
            phase = 0 if policy.asynchronous else number
            vectors, scalars, coded = up[phase]
            if vectors == 2 and policy.name != "scaffold" and snapshot_step(0, s, policy.tau) == policy.tau:
                vectors, shorter = 1, shorter + 1  # the snapshot is the final model: sent once
            for order in step.orders:
                assert order.shared_bits + order.each_bits == 32 * (down[phase][0] * P + down[phase][1])
                assert order.up_bits == 32 * (vectors * P + scalars) + coded
    assert (shorter > 0) == (policy.name in ("drfa", "drdm", "lambda_drdm"))


@pytest.mark.parametrize("policy", ALL, ids=title)
def test_the_papers_formula_charges_one_phase(policy):
    _, kept = run(policy, learner(), 2, Rough(N))
    charged = [[order.paper_bits // (32 * P) for order in step.orders] for step in kept.trace[0].steps if step.orders]
    main = [set(models) for models in charged if any(models)]
    expected = {"scaffold": 2, "drfa": 2, "drdm": 2, "lambda_drdm": 2}.get(policy.name, 1)
    assert set().union(*main) == {expected}
    assert len(main) == 1 or policy.asynchronous


def counted(samples, d):
    """30, or `30+d`, `30+2d`: and all the client's samples once or twice more."""
    if isinstance(samples, int):
        return samples
    batches, passes = samples.removesuffix("d").split("+")
    return int(batches) + int(passes or 1) * d


def test_work_is_metered_as_it_is_done():
    """Samples pushed forward and backward by one client in each phase, batch of 3."""
    d = problem(N, P).d
    expected = {
        "fedavg": [(30, 30)], "local_sgd": [(30, 30)], "fedprox": [(30, 30)], "feddyn": [(30, 30)],
        "scaffold": [(30, 30)], "afl": [(3, 3)], "drfa": [(30, 30), (3, 0)], "drdm": [(30, 30), (3, 0)],
        "lambda_drdm": [(30, 30), (3, 0)], "scaffpd": [("3+d", 3), (30, 30)], "fedasync": [(30, 30)],
        "fedbuff": [(30, 30)],
        "ditto": [(30, 30)],
        "clustered": [(30, 30)],
        "fednova": [(30, 30)],
        "q_fedavg": [("30+d", 30)],
        "q_fedsgd": [("0+d", "0+d")],
        "fedavgm": [(30, 30)],
        "fedadagrad": [(30, 30)],
        "fedadam": [(30, 30)],
        "fedyogi": [(30, 30)],
        "dsgd": [(3, 3)],
        "drdsgd": [(3, 3)],
        "scallion": [(30, 30)],
        "scafcom": [(30, 30)],
        "ifca": [("30+2d", 30)],
        "ifca_sgd": [("3+2d", 3)],
        "fedrobust": [(30, 30)],
    }  # fmt: skip
    for policy in ALL:
        _, kept = run(policy, learner(), 1, Rough(N))
        for number, step in enumerate(step for step in kept.trace[0].steps if step.orders):
            forward, backward = expected[policy.name][0 if policy.asynchronous else number]
            for order in step.orders:
                assert order.forward_samples == counted(forward, d[order.client]), policy.name
                assert order.backward_samples == counted(backward, d[order.client]), policy.name


@pytest.mark.parametrize("policy", [policy for policy in [*ALL, *MORE] if policy.about.needs.startswith("memory")], ids=title)
def test_memories_add_up_in_a_world_with_losses_and_a_deadline(policy):
    training, kept = run(policy, learner(), 40, world({**ROUGH, "server": {"deadline": "0.45 s"}}))
    assert {"lost", "late"} <= {leg.outcome for leg in kept.legs}
    assert not torch.equal(training.state.w, training.learner.initial())
    held = memories(training, "c" if training.learner.rows("memory", "c") else "g", N, P)
    np.testing.assert_allclose(held.mean(axis=0), training.state.c, rtol=0, atol=1e-12)


# A carrier's select is given one heat of the race; what needs more is renamed in test_policies_sampling.py.
# Steps are drawn by client, like batches (the batch is full here): with tau_min, renamed in test_policies_unequal.py.
# So are the random numbers of unbiased compressors.
ONE_HEAT = [
    policy
    for policy in [*ALL, *MORE]
    if getattr(policy, "scheme", "") not in ("with_replacement", "systematic")
    and not getattr(policy, "tau_min", None)
    and not (hasattr(policy, "compress") and policy.compress.unbiased)
]


@pytest.mark.parametrize("policy", ONE_HEAT, ids=title)
def test_renaming_clients_renames_the_result(policy):
    """Client j of the second run is client order[j] of the first: same data, same luck in the race, same duration."""
    order = [3, 0, 5, 1, 4, 2]
    names = [name for name in ("g", "c") if policy.about.needs.startswith("memory")]
    first, _ = run(policy, problem(N, P).learner(), 6, Rough(N))
    second, _ = run(policy, problem(N, P).renamed(order).learner(), 6, Rough(N, race_order=order))
    np.testing.assert_allclose(models(first)[order], models(second), rtol=0, atol=1e-12)
    for name in names:
        np.testing.assert_allclose(
            memories(first, name, N, P)[order], memories(second, name, N, P), rtol=0, atol=1e-12
        )
    if hasattr(first.state, "lam"):
        assert np.ptp(first.state.lam) > 1e-4
        np.testing.assert_allclose(first.state.lam[order], second.state.lam, rtol=0, atol=1e-12)
