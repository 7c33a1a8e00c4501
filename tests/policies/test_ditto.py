"""Ditto against plain numpy, its identities, and what personal models are good for."""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import Rough, models, problem, run
from references import Journey, same, slope

from wflsim.learning.build import build
from wflsim.learning.data.sets import DigitsSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.specs import LinearSpec, TrainSpec
from wflsim.policies.ditto import Ditto
from wflsim.policies.fedavg import FedAvg

TAU, ETA, LAM = 3, 0.05, 0.8
LOSSES = pytest.mark.parametrize(("loss", "rounds"), [(0.0, 2), (0.3, 8)])


def ditto(**options):
    return Ditto(**{"m": 3, "tau": TAU, "eta": ETA, "lam": LAM, **options})


@LOSSES
@pytest.mark.parametrize("batch", [10_000, 3])
@pytest.mark.parametrize("coded", [False, True])
def test_against_numpy(loss, rounds, batch, coded):
    trip = Journey(ditto(), loss, rounds, batch, coded=coded)
    p, w, Q = trip.p, trip.p.start, trip.Q
    v = np.tile(w, (p.N, 1))
    in_vain = 0
    for s, computed, heard in trip.rounds():
        u = {}
        for i in computed:
            u[i] = Q(w)
            for _, (A, b) in zip(range(TAU), trip.samples(i, s), strict=False):
                v[i], u[i] = v[i] - ETA * (slope(v[i], A, b) + LAM * (v[i] - Q(w))), u[i] - ETA * slope(u[i], A, b)
        in_vain += len(set(computed) - set(heard))
        if heard:
            w = w + np.mean([Q(u[i] - Q(w)) for i in heard], axis=0)
    assert (in_vain > 0) == (loss > 0), "a personal model moves although the upload is lost"
    trip.check(w=w)
    trip.check_models(v)
    same(trip.personal("v", p.start), v)


@pytest.mark.parametrize("lam", [0.0, 0.3, 5.0])
def test_the_global_path_is_fedavg_whatever_lambda(lam):
    p = problem(6)
    ours, _ = run(ditto(lam=lam, sampling="uniform"), p.learner(3), 6, Rough(6, 0.3))
    fedavg, _ = run(FedAvg(m=3, tau=TAU, eta=ETA), p.learner(3), 6, Rough(6, 0.3))
    same(ours.state.w, fedavg.state.w)
    same(models(run(ditto(lam=lam, sampling="uniform", eval_model="server"), p.learner(3), 6, Rough(6, 0.3))[0])[4], fedavg.state.w)


def test_without_lambda_a_personal_model_is_local_training_alone_in_the_rounds_it_was_drawn():
    trip = Journey(ditto(lam=0.0), 0.0, 6, batch=3)
    v = np.tile(trip.p.start, (trip.p.N, 1))
    for s, computed, _ in trip.rounds():
        for i in computed:
            for _, (A, b) in zip(range(TAU), trip.samples(i, s), strict=False):
                v[i] = v[i] - ETA * slope(v[i], A, b)
    trip.check_models(v)


def test_with_eta_lambda_of_one_a_step_starts_from_the_global_model():
    """v+ = w - eta grad(v): the old v is forgotten but for its gradient."""
    trip = Journey(ditto(m=None, tau=1, lam=1 / ETA), 0.0, 3)
    p, w = trip.p, trip.p.start
    v = np.tile(w, (p.N, 1))
    for _ in range(3):
        v = np.stack([w - ETA * p.grad(i, v[i]) for i in range(p.N)])
        w = w - ETA * np.mean([p.grad(i, w) for i in range(p.N)], axis=0)
    trip.check(w=w)
    trip.check_models(v)


def test_in_the_first_round_without_lambda_both_models_are_one():
    """Only on the same minibatches: from v = u = w, v is what the client sends up."""
    p = problem(6)
    learner = p.learner(2)
    done = learner.run(_ask(ditto(lam=0.0), learner), [(0, 0)] * 6)
    for result in done.results:
        same(result.personal["v"], learner.initial() + result.items["du"])
    held = learner.run(_ask(ditto(lam=0.5), learner), [(0, 0)] * 6)
    assert not any(np.allclose(result.personal["v"], learner.initial() + result.items["du"]) for result in held.results)


def _ask(policy, learner):
    """The only Ask of the first round, of all clients."""
    everyone = policy.model_copy(update={"m": None})
    flow = everyone.round(everyone.start(learner.initial(), learner.samples), 0, None)
    next(flow)
    return flow.send((list(range(learner.clients)), dict.fromkeys(range(learner.clients), 1 / learner.clients))).asks[0]


def test_a_client_that_was_never_drawn_has_the_initial_model():
    training, kept = run(ditto(m=2), problem(6).learner(), 1)
    (drawn,) = kept.cohorts(0)
    for i, row in enumerate(models(training)):
        assert np.array_equal(row, training.learner.initial()) == (i not in drawn)


def test_both_models_are_paid_for():
    _, kept = run(ditto(), problem(6).learner(2), 1)
    assert {(o.forward_samples, o.backward_samples) for o in kept.trace[0].steps[0].orders} == {(2 * 2 * TAU, 2 * 2 * TAU)}


def gains(alpha, seeds):
    """(average, worst) accuracy of the personal models minus the global one's, a row for each seed: 60 rounds of ten
    clients with digits, five of whom are drawn."""
    found = []
    for seed in seeds:
        partition = ZipfDirichletSpec(alpha=alpha, sigma=0.5)
        learner = build(DigitsSpec(name="digits"), partition, LinearSpec(name="linear"), TrainSpec(batch=16), 10, seed)
        policy = Ditto(m=5, tau=5, eta=0.1, lam=1.0)
        training, _ = run(policy, learner, 60, seed=seed)
        personal = learner.evaluate(lambda me, x=training.state, policy=policy: policy.model(x, me))[0]
        server = learner.evaluate(lambda me, w=training.state.w: w)[0]
        found.append((np.mean(personal) - np.mean(server), min(personal) - min(server)))
    return np.array(found)


def test_personal_models_beat_the_global_one_where_clients_are_unlike_and_only_there():
    """Dirichlet 0.1 and 10, five seeds: 95 % intervals (t) of the gain in average and worst accuracy."""
    unlike, alike = gains(0.1, range(5)), gains(10.0, range(5))
    half = 2.776 * unlike.std(axis=0, ddof=1) / np.sqrt(5)
    assert (unlike.mean(axis=0) - half > (0.03, 0.05)).all(), unlike
    assert (np.abs(alike.mean(axis=0)) < 0.03).all(), alike
