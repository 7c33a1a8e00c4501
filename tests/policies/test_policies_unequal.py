"""Unequal work: who takes how many local steps, what is learnt from them, and that only those are paid for."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from quadratics import Kept, Rough, problem, run
from reference_runs import LOSSES, Trip, drawn, local
from rigs import live, rehearse

from wflsim.policies.fedavg import FedAvg, LocalSGD
from wflsim.policies.fednova import FedNova
from wflsim.policies.fedprox import FedProx
from wflsim.policies.registry import POLICIES, PolicySpec
from wflsim.policies.steps import UnequalWork
from wflsim.simulation.loop import drive
from wflsim.simulation.stop import Stop, StopSpec
from wflsim.simulation.training import Training

SPEC = TypeAdapter(PolicySpec)
UNEQUAL = [kind for kind in POLICIES if issubclass(kind, UnequalWork)]
every = pytest.mark.parametrize("kind", UNEQUAL, ids=lambda kind: kind.__name__)


@LOSSES
@pytest.mark.parametrize("weights", ["uniform", "data"])
@pytest.mark.parametrize("mu", [None, 0.4])
def test_fedavg_and_fedprox_with_unequal_steps(loss, rounds, weights, mu):
    options = {"m": 3, "tau": 6, "tau_min": 2, "eta": 0.05, "weights": weights}
    trip = Trip(FedAvg(**options) if mu is None else FedProx(mu=mu, **options), loss, rounds)
    p, w = trip.p, trip.p.start
    for s in range(rounds):
        _, R = trip.phase()
        tau = drawn(s, 2, 6, p.N)
        if R:
            ys = [local(w, lambda y, i=i, w=w: p.grad(i, y) + (mu or 0) * (y - w), steps=tau[i])[-1] for i in R]
            a = np.array([p.d[i] if weights == "data" else 1 for i in R], float)
            w = (a / a.sum()) @ np.stack(ys)
    trip.check(w=w)


@every
def test_a_range_of_one_number_is_that_number(kind):
    one, _ = run(kind(tau=4), problem().learner(batch=2), 5, Rough(5, 0.3))
    two, _ = run(kind(tau=4, tau_min=4), problem().learner(batch=2), 5, Rough(5, 0.3))
    np.testing.assert_array_equal(one.state.w, two.state.w)


@every
def test_every_number_of_the_range_is_taken_by_everybody_and_only_those_are_paid_for(kind):
    """Batch of 3, so the samples say the steps; they are the stream's whoever else is drawn."""
    m = {} if kind is LocalSGD else {"m": 3}
    _, kept = run(kind(tau=5, tau_min=2, **m), problem().learner(batch=3), 60)
    seen = {i: set() for i in range(5)}
    for s, entry in enumerate(kept.trace):
        expected = drawn(s, 2, 5, 5)
        for order in entry.steps[0].orders:
            assert order.forward_samples == order.backward_samples == 3 * expected[order.client]
            seen[order.client].add(int(expected[order.client]))
    assert all(steps == {2, 3, 4, 5} for steps in seen.values())


@pytest.mark.parametrize("model", ["linear", "mlp", "cnn"])
@every
def test_the_samples_of_unequal_steps_are_a_hand_count_with_every_model(kind, model):
    """Batch of 16, also where a cohort is computed one by one or together; live as rehearsed."""
    m = {} if kind is LocalSGD else {"m": 4}
    policy = kind(tau=3, tau_min=1, **m)
    for rows, training in (rehearse(policy, 2, model=model), live(policy, None, 2, model=model)):
        orders = [order for entry in rows.trace for order in entry.steps[0].orders]
        for order in orders:
            steps = drawn(order.round, 1, 3, 6)[order.client]
            work = steps * min(16, training.learner.samples[order.client])
            assert (order.forward_samples, order.backward_samples) == (work, work)
        assert len({order.backward_samples for order in orders}) > 2


@every
def test_renaming_clients_renames_the_result_if_their_steps_are_renamed_too(kind):
    class Renamed(kind):
        def allotted(self, D, N, rng):
            steps = drawn(rng("round").integers(1000), 2, 9, N)
            return {i: int(steps[order[i]]) for i in D}

    identity, renamed = list(range(6)), [3, 0, 5, 1, 4, 2]
    m = {} if kind is LocalSGD else {"m": 3}
    models = []
    for order in (identity, renamed):
        training, _ = run(Renamed(**m), problem(6).renamed(order).learner(), 6, Rough(6, race_order=order))
        models.append(training.state.w)
    np.testing.assert_allclose(*models, rtol=0, atol=1e-12)


@every
def test_a_run_with_unequal_steps_resumes_and_repeats(kind):
    policy = kind(tau=6, tau_min=1)
    whole, _ = run(policy, problem().learner(batch=2), 6, Rough(5, 0.3))
    first, _ = run(policy, problem().learner(batch=2), 3, Rough(5, 0.3))
    second = Training(policy, problem().learner(batch=2), 0)
    second.restore(first.snapshot())
    drive(second, Rough(5, 0.3), Kept(), Stop(StopSpec(rounds=6)), 5, 0, start=3)
    np.testing.assert_array_equal(whole.state.w, second.state.w)
    other, _ = run(policy, problem().learner(batch=2), 6, Rough(5, 0.3), seed=1)
    assert not np.array_equal(whole.state.w, other.state.w)


def test_a_range_upside_down_is_refused():
    for kind in UNEQUAL:
        with pytest.raises(ValidationError, match="tau_min: 4 exceeds tau: 3; a client takes tau_min to tau steps"):
            kind(tau=3, tau_min=4)
    for wrong in (0, -1, 1.5, "few"):
        with pytest.raises(ValidationError, match="tau_min"):
            FedAvg(tau_min=wrong)


def test_policies_without_equations_for_unequal_steps_refuse_them():
    assert {FedAvg, FedProx, FedNova} <= set(UNEQUAL)
    for kind in set(POLICIES) - set(UNEQUAL):
        with pytest.raises(ValidationError, match="tau_min"):
            SPEC.validate_python({"name": kind.model_fields["name"].default, "m": 3, "tau_min": 1})
