"""As many local steps as fit into a time budget on each device: who takes how many, what is learnt, what is paid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from quadratics import Kept, problem, run
from rigs import live

from wflsim.errors import ScenarioError
from wflsim.experiments.plan import plan, regimes
from wflsim.experiments.run import run as run_scenario
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.fednova import FedNova
from wflsim.policies.fedprox import FedProx
from wflsim.policies.registry import POLICIES
from wflsim.scenario import load
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training
from wflsim.world.spec import WorldSpec
from wflsim.world.world import NO_STEP, World

N, P, TAU = 6, 4, 7
UNEQUAL = [kind for kind in POLICIES if kind.unequal_steps]
RADIO = {"snr": "10 dB", "bandwidth": "2 kHz", "power": "100 mW"}
SPEEDS = ["8 kHz", "6 kHz", "4 kHz", "3 kHz", "1 kHz", "0.5 kHz"]
"""Client i takes a sample per 1 / 8, 1 / 6, ... seconds."""
DEVICES = [{"frequency": speed, "cycles_per_sample": 1000} for speed in SPEEDS]
BUDGET_S = 2.5
STEPS = [6, 5, 3, 2, 0, 0]
"""Steps on 3 samples each that fit into 2.5 s: floor(2.5 f / 3000), at most TAU."""
every = pytest.mark.parametrize("kind", UNEQUAL, ids=lambda kind: kind.__name__)


def world(budget_s=BUDGET_S, **server):
    budget = {} if budget_s is None else {"compute_budget": f"{budget_s} s"}
    return World(WorldSpec.model_validate({"radio": RADIO, "devices": DEVICES, "server": {**budget, **server}}), N, 0)


def test_the_steps_that_fit_are_counted_by_hand():
    assert [math.floor(BUDGET_S * hz / 3000) for hz in (8000, 6000, 4000, 3000, 1000, 500)] == STEPS


@every
def test_each_takes_as_many_steps_as_fit_and_who_cannot_take_one_takes_no_part_and_is_listed(kind):
    _, kept = run(kind(tau=TAU), problem(N, P).learner(batch=3), 3, world())
    for s, entry in enumerate(kept.trace):
        (step,) = entry.steps
        assert {order.client: order.backward_samples for order in step.orders} == {i: 3 * STEPS[i] for i in range(4)}
        assert kept.rows[s].asked == kept.rows[s].delivered == 4
    listed = [leg for leg in kept.legs if leg.outcome == NO_STEP]
    assert [(leg.round, leg.client) for leg in listed] == [(s, i) for s in range(3) for i in (4, 5)]
    assert {(leg.activity, leg.energy_j, leg.bits, leg.end_s - leg.start_s) for leg in listed} == {("compute", 0.0, 0, 0.0)}
    assert {leg.client for leg in kept.legs if leg.outcome == "ok"} == {0, 1, 2, 3}
    computing = [leg for leg in kept.legs if leg.activity == "compute" and leg.outcome == "ok"]
    assert all(0 < leg.end_s - leg.start_s <= BUDGET_S + 1e-9 for leg in computing)


@every
def test_steps_without_a_budget_or_with_an_ample_one_are_those_of_a_rehearsal(kind):
    rehearsed, _ = run(kind(tau=TAU), problem(N, P).learner(batch=3), 3)
    for budget_s in (None, 1000.0):
        lived, kept = run(kind(tau=TAU), problem(N, P).learner(batch=3), 3, world(budget_s))
        np.testing.assert_array_equal(rehearsed.state.w, lived.state.w)
        assert not any(leg.outcome == NO_STEP for leg in kept.legs)


def test_a_budget_caps_the_steps_that_are_drawn_from_a_range():
    policy = FedAvg(tau=TAU, tau_min=2)
    _, free = run(policy, problem(N, P).learner(batch=3), 8, world(None))
    _, kept = run(policy, problem(N, P).learner(batch=3), 8, world())
    for before, after in zip(free.trace, kept.trace, strict=True):
        drawn = {order.client: order.backward_samples // 3 for order in before.steps[0].orders}
        taken = {order.client: order.backward_samples // 3 for order in after.steps[0].orders}
        assert taken == {i: min(drawn[i], STEPS[i]) for i in range(4)}


def test_what_is_learnt_is_what_the_equations_say_of_these_steps():
    """Full batches, so that a reference in numpy follows. Weights of those without a step go to the others."""
    p, eta, w0 = problem(N, P), 0.05, problem(N, P).start
    fits = {i: min(TAU, math.floor(9.0 * hz / (1000 * p.d[i]) + 1e-9)) for i, hz in enumerate((8000, 6000, 4000, 3000, 1000, 500))}
    part = [i for i, steps in fits.items() if steps]
    assert 2 <= len(part) < N
    assert len({fits[i] for i in part}) > 1
    ends = {}
    for mu in (0.0, 0.3):
        for i in part:
            y = w0.copy()
            for _ in range(fits[i]):
                y = y - eta * (p.grad(i, y) + mu * (y - w0))
            ends[mu, i] = y
    share = np.array([p.d[i] for i in part]) / sum(p.d[i] for i in part)
    moved = np.stack([(w0 - ends[0.0, i]) / fits[i] for i in part])
    expected = {
        FedAvg(tau=TAU, eta=eta): np.mean([ends[0.0, i] for i in part], axis=0),
        FedProx(tau=TAU, eta=eta, mu=0.3): share @ np.stack([ends[0.3, i] for i in part]),
        FedNova(tau=TAU, eta=eta): w0 - (share @ [fits[i] for i in part]) * (share @ moved),
    }  # fmt: skip
    for policy, w in expected.items():
        training, _ = run(policy, p.learner(), 1, world(9.0))
        np.testing.assert_allclose(training.state.w, w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", ["linear", "mlp", "cnn", "cnn by vmap"])
@pytest.mark.parametrize("kind", [FedAvg, FedProx, FedNova], ids=lambda kind: kind.__name__)
def test_the_samples_metered_are_a_hand_count_with_every_model(kind, model):
    devices = [{"frequency": f"{hz} kHz", "cycles_per_sample": 1000} for hz in (8, 6, 4, 3, 1, 0.5)]
    spec = {"radio": {"snr": "10 dB", "bandwidth": "1 MHz", "power": "100 mW"}, "devices": devices, "server": {"compute_budget": "9 s"}}
    name, _, vmap = model.partition(" by ")
    rows, training = live(kind(tau=3), spec, 2, model=name, **({"gradients": "vmap"} if vmap else {}))
    seen = set()
    for entry in rows.trace:
        taken = {order.client: order.backward_samples for order in entry.steps[0].orders}
        for i, hz in enumerate((8000, 6000, 4000, 3000, 1000, 500)):
            batch = min(16, training.learner.samples[i])
            steps = min(3, math.floor(9.0 * hz / (1000 * batch) + 1e-9))
            assert taken.get(i, 0) == steps * batch
            seen.add(steps)
    assert {0, 3} < seen


@every
def test_nobody_fits_and_the_model_stays(kind):
    training, kept = run(kind(tau=TAU), problem(N, P).learner(batch=3), 2, world(0.01))
    np.testing.assert_array_equal(training.state.w, training.learner.initial())
    assert [(row.asked, row.energy_j, row.up_bits) for row in kept.rows] == [(0, 0.0, 0)] * 2
    assert sum(leg.outcome == NO_STEP for leg in kept.legs) == 2 * N


@every
def test_resumed_it_comes_to_the_same_bytes(kind):
    server = {"deadline": "4 s"}
    whole, kept = run(kind(tau=TAU), problem(N, P).learner(batch=3), 6, world(**server))
    first, half = run(kind(tau=TAU), problem(N, P).learner(batch=3), 3, world(**server))
    second, rest = Training(kind(tau=TAU), problem(N, P).learner(batch=3), 0, 1_000_000), Kept()
    second.restore(first.snapshot())
    drive(Replay(half.trace, then=second), world(**server), rest, Stop(StopSpec(rounds=6)), N, 0)
    np.testing.assert_array_equal(whole.state.w, second.state.w)
    assert rest.trace == kept.trace
    assert [leg for leg in rest.legs if leg.round >= 3] == [leg for leg in kept.legs if leg.round >= 3]


SCENARIO = {
    "name": "budget", "clients": 4, "seeds": 1, "data": {"name": "digits"}, "partition": {"name": "iid"},
    "model": {"name": "linear"}, "train": {"batch": 16}, "policies": [{"name": "fednova", "tau": 5}],
    "radio": {"snr": "10 dB", "bandwidth": "1 MHz", "power": "100 mW"}, "stop": {"rounds": 4},
    "devices": [{"frequency": speed, "cycles_per_sample": 1e6} for speed in ("1 GHz", "0.5 GHz", "0.3 GHz", "0.1 GHz")],
    "server": {"compute_budget": "100 ms"},
}  # fmt: skip


class Killed(BaseException):
    pass


def test_a_killed_run_is_resumed_to_the_same_bytes_and_its_notes_list_who_took_no_part(tmp_path, monkeypatch):
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "store"))
    scenario = load(SCENARIO)
    whole = run_scenario(scenario, tmp_path / "whole", workers=1)
    assert dict(whole.world.iloc[0])["failures"] == "no_step:4"
    round_of = Training.round

    def dies(self, s):
        if s == 2:
            raise Killed
        return round_of(self, s)

    monkeypatch.setattr("wflsim.simulation.checkpoint.INTERVAL_S", 0.0)
    monkeypatch.setattr(Training, "round", dies)
    with pytest.raises(Killed):
        run_scenario(scenario, tmp_path / "out", workers=1)
    assert (tmp_path / "out" / "fednova" / "seed-0" / "checkpoint.pt").exists()
    monkeypatch.setattr(Training, "round", round_of)
    run_scenario(scenario, tmp_path / "out", workers=1)
    for name in ("rounds.csv", "clients.csv", "legs.csv"):
        assert (tmp_path / "out/fednova/seed-0" / name).read_bytes() == (tmp_path / "whole/fednova/seed-0" / name).read_bytes()


def test_it_is_trained_in_its_own_world_and_other_policies_refuse_it():
    (one,) = plan(regimes(load(SCENARIO)))
    assert one.why_live.startswith("server.compute_budget can change what is learnt")
    for kind in POLICIES:
        name = kind.model_fields["name"].default
        document = {**SCENARIO, "policies": [{"name": name, **({"m": 2} if kind.model_fields["m"].is_required() else {})}]}
        if kind.unequal_steps:
            load(document)
        else:
            with pytest.raises(ScenarioError, match=f"server.compute_budget: gives clients different numbers of local steps, but the equations of {name} have one"):
                load(document)
