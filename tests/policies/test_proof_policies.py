"""Every option of a policy does what its sentence says: exact statements on least squares, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratics import Rough, problem, run, snapshot_step
from reference_runs import simplex

from wflsim.exchange import Draw
from wflsim.policies.afl import AFL
from wflsim.policies.clustered import ClusteredFL
from wflsim.policies.ditto import Ditto
from wflsim.policies.drdm import DRDM
from wflsim.policies.drfa import DRFA
from wflsim.policies.fedasync import FedAsync
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.fedavgm import FedAvgM
from wflsim.policies.fedbuff import FedBuff
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.fednova import FedNova
from wflsim.policies.fedopt import FedAdagrad, FedAdam, FedYogi
from wflsim.policies.fedprox import FedProx
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.qffl import QFedAvg
from wflsim.policies.registry import POLICIES
from wflsim.policies.sampling import pick
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scaffpd import SCAFFPD
from wflsim.policies.steps import Decay, step_at

N = 5
D = [3, 5, 7, 9, 11]
"""Samples of the clients of `problem()`."""


def close(left, right):
    np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=0, atol=1e-12)


# --- on which samples the dual loss is taken

@pytest.mark.parametrize("kind", [DRDM, DRFA, LambdaDRDM])
@pytest.mark.parametrize("loss", ["full", "minibatch"])
def test_the_dual_loss_is_of_all_samples_or_of_a_minibatch(kind, loss):
    """With tau = 1 the snapshot is the new model, so lambda moves by gamma f_i(w) of all of i's rows, or of two of them."""
    p = problem(N)
    policy = kind(m=N, tau=1, gamma=0.02, floor=0.1, dual_loss=loss)
    training, kept = run(policy, p.learner(batch=2), 1)
    losses = np.array([p.f(i, training.state.w.numpy()) for i in range(N)])
    expected = simplex(np.full(N, 1 / N) + 0.02 * losses, 0.1 / N)
    worked = [order.forward_samples for order in kept.trace[0].steps[1].orders]
    if loss == "full":
        close(training.state.lam, expected)
        assert worked == D
    else:
        assert np.abs(training.state.lam - expected).max() > 1e-4
        assert worked == [2] * N


@pytest.mark.parametrize("loss", ["full", "minibatch"])
def test_scaffpd_takes_its_losses_from_all_samples_or_from_the_minibatch(loss):
    p = problem(N)
    training, kept = run(SCAFFPD(tau=1, sigma=0.01, theta=0.0, loss=loss), p.learner(batch=2), 1)
    full = np.array([p.f(i, p.start) for i in range(N)])
    if loss == "full":
        close(training.state.L, full)
    else:
        assert np.abs(training.state.L - full).max() > 1e-4
    extra = D if loss == "full" else [0] * N
    assert [order.forward_samples for order in kept.trace[0].steps[0].orders] == [2 + more for more in extra]
    assert [order.backward_samples for order in kept.trace[0].steps[0].orders] == [2] * N


# --- where lambda starts, and who is drawn by it

def draws(policy):
    """What a policy starts with, and the Draw that its first round begins with."""
    state = policy.start(torch.zeros(3, dtype=torch.float64), D)
    return state, next(policy.round(state, 0, lambda name: np.random.default_rng(0)))


def test_drfa_starts_lambda_alike_or_by_sample_counts():
    for start, expected in (("uniform", [0.2] * 5), ("data", [3 / 35, 5 / 35, 7 / 35, 9 / 35, 11 / 35])):
        state, draw = draws(DRFA(m=2, start_lambda=start, scheme="systematic"))
        close(state.lam, expected)
        assert isinstance(draw, Draw)
        close(draw.by, expected)
        assert (draw.m, draw.scheme) == (2, "systematic")


def test_fedprox_draws_alike_or_by_sample_counts():
    for sampling, by in (("uniform", None), ("data", tuple(D))):
        _, draw = draws(FedProx(m=2, sampling=sampling))
        assert (draw.by, draw.m, draw.scheme) == (by, 2, "sequential")


def test_fedprox_by_sample_counts_visits_the_large_more_often():
    """P(client 4 is drawn, m = 1) = 11/35, and 3/35 for client 0: 300 rounds, four standard deviations."""
    _, kept = run(FedProx(m=1, tau=1, eta=1e-6, sampling="data"), problem(N).learner(batch=1), 300)
    visits = np.bincount([kept.cohorts(s)[0][0] for s in range(300)], minlength=N)
    share = np.array(D) / 35
    assert (np.abs(visits - 300 * share) < 4 * np.sqrt(300 * share * (1 - share))).all()
    assert (np.abs(visits - 60) > 4 * np.sqrt(300 * 0.16)).any()  # and it is not the uniform draw


def test_feddyn_draws_exactly_m_or_each_by_itself():
    for sampling, scheme in (("uniform", "sequential"), ("bernoulli", "bernoulli")):
        _, draw = draws(FedDyn(m=2, sampling=sampling))
        assert (draw.m, draw.by, draw.scheme) == (2, None, scheme)


@pytest.mark.parametrize("policy", [FedAvg(), FedProx(), FedDyn(), SCAFFOLD(), AFL(), SCAFFPD()], ids=lambda policy: policy.name)
def test_without_m_everybody_is_drawn(policy):
    _, draw = draws(policy)
    assert (draw.m, draw.by) == (N, None)


@pytest.mark.parametrize("kind", [DRDM, DRFA])
@pytest.mark.parametrize("scheme", ["sequential", "with_replacement", "uniform_weighted", "systematic", "bernoulli"])
def test_the_scheme_is_the_one_that_was_asked_for(kind, scheme):
    state, draw = draws(kind(m=2, scheme=scheme))
    assert draw.scheme == scheme
    assert draw.by is state.lam


@pytest.mark.parametrize("scheme", ["uniform_weighted", "systematic"])
def test_weights_are_shares_among_those_who_are_there(scheme):
    """Clients 0, 2 and 3 of lambda 0.1, 0.2, 0.3, 0.2, 0.2 are there: 1/6, 1/2 and 1/3 of what is left, n lambda_i/m each."""
    lam, there = np.array([0.1, 0.2, 0.3, 0.2, 0.2]), [0, 2, 3]
    share = dict(zip(there, (1 / 6, 1 / 2, 1 / 3), strict=True))
    D, a = pick(Draw(3, by=lam, scheme=scheme), lambda j: np.arange(1.0, 6.0), there)
    assert there == D
    assert a == pytest.approx(share)
    D, a = pick(Draw(2, by=lam, scheme="uniform_weighted"), lambda j: np.arange(1.0, 6.0), there)
    assert a == pytest.approx({i: 3 * share[i] / 2 for i in D})


# --- which model is evaluated

@pytest.mark.parametrize("policy", [
    AFL(m=3, eta_w=0.05), DRFA(m=3, tau=2, eval_model="average"), LambdaDRDM(m=3, tau=2, eval_model="average"),
    SCAFFPD(m=3, tau=2, eval_model="average"),
], ids=lambda policy: policy.name)  # fmt: skip
def test_the_average_of_all_server_models_is_evaluated(policy):
    p = problem(N)
    _, kept = run(policy, p.learner(), 4, evaluate_every=1)
    for s in range(4):
        mean = np.mean([state.w.numpy() for state in kept.states[: s + 1]], axis=0)
        close(kept.trace[s].evaluation.loss, [p.f(i, mean) for i in range(N)])


@pytest.mark.parametrize("policy", [
    AFL(m=3, eta_w=0.05, eval_model="server"), DRFA(m=3, tau=2), LambdaDRDM(m=3, tau=2), SCAFFPD(m=3, tau=2), FedDyn(m=3, tau=2),
    DRDM(m=3, tau=2), SCAFFOLD(m=3, tau=2), FedAvg(m=3, tau=2), FedProx(m=3, tau=2),
], ids=lambda policy: policy.name)  # fmt: skip
def test_the_last_server_model_is_evaluated(policy):
    p = problem(N)
    _, kept = run(policy, p.learner(), 3, evaluate_every=1)
    for s in range(3):
        close(kept.trace[s].evaluation.loss, [p.f(i, kept.states[s].w.numpy()) for i in range(N)])


def test_feddyn_evaluates_the_mean_of_the_received_models_before_the_correction():
    """w = mean - c/mu, so what is shown is w + c/mu."""
    p, mu = problem(N), 0.7
    _, kept = run(FedDyn(m=3, tau=2, mu=mu, eval_model="mean"), p.learner(), 3, evaluate_every=1)
    for s in range(3):
        state = kept.states[s]
        shown = (state.w + state.c / mu).numpy()
        close(kept.trace[s].evaluation.loss, [p.f(i, shown) for i in range(N)])
        assert np.abs(shown - state.w.numpy()).max() > 1e-3


# --- the snapshot, the steps, the mixing

@pytest.mark.parametrize("kind", [DRDM, DRFA])
@pytest.mark.parametrize("when", ["pre_step", "post_step"])
def test_the_snapshot_is_taken_before_or_after_step_t(kind, when):
    """gamma moves lambda by the losses at the mean snapshot: y_{t-1} or y_t of gradient descent, with frozen memories."""
    p, tau, eta = problem(N), 4, 0.05
    frozen = {"freeze_c": True, "freeze_g": True, "mu": 0.0} if kind is DRDM else {}
    policy = kind(m=N, tau=tau, eta=eta, gamma=0.01, floor=0.1, snapshot=when, **frozen)
    training, _ = run(policy, p.learner(), 1)
    t = snapshot_step(0, 0, tau)
    snapshots = []
    for i in range(N):
        y = p.start
        for _ in range(t - (when == "pre_step")):
            y = y - eta * p.grad(i, y)
        snapshots.append(y)
    w_t = np.mean(snapshots, axis=0)
    losses = np.array([p.f(i, w_t) for i in range(N)])
    close(training.state.lam, simplex(np.full(N, 1 / N) + tau * 0.01 * losses, 0.1 / N))


def test_a_decaying_step_follows_its_formula():
    """start / (1 + s/after)^power: half of it after three times `after` with power 1/2."""
    step = Decay(start=0.8, power=0.5, after=10)
    assert [step_at(step, s) for s in (0, 30, 80)] == pytest.approx([0.8, 0.4, 0.8 / 3])
    assert step_at(Decay(start=0.8, power=1.0, after=10), 30) == pytest.approx(0.2)
    assert step_at(Decay(start=0.8, power=0.0, after=10), 30) == 0.8
    assert step_at(0.3, 500) == 0.3
    assert (Decay(start=1.0).power, Decay(start=1.0).after) == (0.5, 200)


@pytest.mark.parametrize("policy", [
    DRFA(m=N, tau=1, eta=Decay(start=0.1, power=1.0, after=1), gamma=0.0), AFL(eta_w=Decay(start=0.1, power=1.0, after=1), eta_lambda=0.0),
    SCAFFPD(tau=1, eta_l=Decay(start=0.1, power=1.0, after=1), sigma=0.0),
    LambdaDRDM(m=N, tau=1, eta=Decay(start=0.1, power=1.0, after=1), gamma=0.0, mu=1e-9),
], ids=lambda policy: policy.name)  # fmt: skip
def test_steps_decay_with_the_rounds(policy):
    """Steps of 0.1 and 0.05 along the mean gradient; lambda stays uniform."""
    p = problem(N)
    _, kept = run(policy, p.learner(), 2)
    before = p.start
    for s, eta in enumerate((0.1, 0.05)):
        moved = before - kept.states[s].w.numpy()
        direction = np.mean([p.grad(i, before) for i in range(N)], axis=0)
        if policy.name != "lambda_drdm":  # whose memories make the second step longer (FedDyn's F.1)
            np.testing.assert_allclose(moved, eta * direction, atol=1e-9)
        elif s == 0:
            np.testing.assert_allclose(moved, 2 * eta * direction, atol=1e-6)
        before = kept.states[s].w.numpy()


@pytest.mark.parametrize("policy", [
    DRFA(m=N, tau=1, gamma=Decay(start=0.02, power=1.0, after=1), floor=0.1), AFL(eta_lambda=Decay(start=0.02, power=1.0, after=1)),
    LambdaDRDM(m=N, tau=1, gamma=Decay(start=0.02, power=1.0, after=1)),
], ids=lambda policy: policy.name)  # fmt: skip
def test_dual_steps_decay_with_the_rounds(policy):
    """The second round moves lambda with 0.01, not with 0.02; AFL takes its losses at the old model."""
    p = problem(N)
    _, kept = run(policy, p.learner(), 2)
    one, two = kept.states
    where = one.w if policy.name == "afl" else two.w
    losses = np.array([p.f(i, where.numpy()) for i in range(N)])
    floor = policy.floor / N
    close(two.lam, simplex(one.lam + 0.01 * losses, floor))


def test_fedasync_weights_a_stale_model_less():
    k = range(7)
    constant, polynomial = FedAsync(m=1, staleness="constant"), FedAsync(m=1, staleness="polynomial", a=2.0)
    hinge = FedAsync(m=1, staleness="hinge", a=10.0, b=4.0)
    assert [constant.s(i) for i in k] == [1.0] * 7
    assert [polynomial.s(i) for i in k] == pytest.approx([1, 1 / 4, 1 / 9, 1 / 16, 1 / 25, 1 / 36, 1 / 49])
    assert [hinge.s(i) for i in k] == pytest.approx([1, 1, 1, 1, 1, 1 / 11, 1 / 21])


@pytest.mark.parametrize("eta_g", [1.0, 0.5])
def test_fedbuff_divides_by_k_and_steps_by_eta_g(eta_g):
    """m = K = 2 and equal durations: nothing is stale in the first version, w - eta_g/2 eta (grad_i + grad_j)."""
    p, carrier = problem(N), Rough(N, durations=[1.0] * N)
    training, _ = run(FedBuff(m=2, K=2, tau=1, eta=0.05, eta_g=eta_g), p.learner(), 1, carrier)
    heard = [outcome.client for outcome in carrier.received]
    assert (training.state.t, len(heard)) == (1, 2)
    close(training.state.w, p.start - eta_g / 2 * 0.05 * sum(p.grad(i, p.start) for i in heard))


def test_the_papers_formula_charges_the_vectors_that_scaffold_sends():
    """Two of P values, or one where the server computes the other: 32 bits each."""
    for compact, vectors in ((False, 2), (True, 1)):
        _, kept = run(SCAFFOLD(m=3, tau=2, compact_uplink=compact), problem(N, P=4).learner(), 1)
        assert {(order.paper_bits, order.up_bits) for order in kept.trace[0].steps[0].orders} == {(vectors * 4 * 32, vectors * 4 * 32)}


@pytest.mark.parametrize("kind", POLICIES, ids=lambda kind: kind.__name__)
def test_the_phases_that_are_declared_are_those_of_a_round(kind):
    """Shown by `wflsim list`: as many Gathers (or Gossips) as `down` and `up` name; an asynchronous policy knows one kind of task."""
    m = {} if kind.__name__ == "LocalSGD" or kind.decentralised else {"m": 3}
    gentle = {"eta_delta": 0.005, "eta_lambda": 0.001} if "eta_delta" in kind.model_fields else {}
    _, kept = run(kind(**m, **gentle), problem(N).learner(), 1, Rough(N))
    gathers = sum(step.kind in ("gather", "gossip") for step in kept.trace[0].steps)
    assert kind.about.phases == (gathers or 1) == kind.about.up.count("/") + 1


@pytest.mark.parametrize(("policy", "expected"), [
    (DRDM(m=1), {"tau": 10, "eta": 0.05, "mu": 0.5, "gamma": 5e-4, "floor": 0.03, "scheme": "sequential"}),
    (DRFA(m=1), {"tau": 10, "eta": 0.05, "gamma": 5e-4, "floor": 0.03, "scheme": "sequential", "start_lambda": "uniform"}),
    (FedAvg(), {"tau": 10, "eta": 0.05, "weights": "uniform", "m": None}),
    (FedProx(), {"tau": 10, "eta": 0.05, "mu": 0.1, "weights": "data", "sampling": "uniform"}),
    (FedDyn(), {"tau": 10, "eta": 0.05, "mu": 0.5, "sampling": "uniform", "eval_model": "server"}),
    (SCAFFOLD(), {"tau": 10, "eta_l": 0.05, "eta_g": 1.0, "option": "II", "compact_uplink": False}),
    (AFL(), {"tau": 1, "eta_w": 0.1, "eta_lambda": 5e-3, "floor": 0.0, "eval_model": "average"}),
    (SCAFFPD(), {"tau": 10, "eta_l": 0.05, "eta_g": 1.0, "sigma": 5e-3, "theta": 1.0, "psi": "none", "rho": 0.1, "loss": "full", "absent": "stale"}),
    (LambdaDRDM(m=1), {"tau": 10, "eta": 0.05, "kappa": 2.0, "mu": 0.5, "gamma": Decay(start=5e-4), "floor": 0.0}),
    (FedAsync(m=1), {"tau": 10, "eta": 0.05, "rho": 0.005, "alpha": 0.6, "staleness": "polynomial", "a": 0.5, "b": 4.0}),
    (FedNova(), {"tau": 10, "tau_min": None, "eta": 0.05, "rho": 0.0, "mu": 0.0, "weights": "data"}),
    (QFedAvg(), {"tau": 10, "eta": 0.05, "q": 1.0, "sampling": "data"}),
    (FedAvgM(), {"tau": 10, "eta": 0.05, "eta_g": 1.0, "beta": 0.9, "weights": "uniform"}),
    (FedAdam(), {"eta_g": 0.1, "b1": 0.9, "b2": 0.99, "eps": 1e-3, "v_0": 1e-6}),
    (FedYogi(), {"eta_g": 0.1, "b1": 0.9, "b2": 0.99, "eps": 1e-3, "v_0": 1e-6}),
    (FedAdagrad(), {"eta_g": 0.1, "b1": 0.0, "eps": 1e-3, "v_0": 1e-6}),
    (FedBuff(m=1), {"tau": 10, "K": 5, "eta": 0.05, "eta_g": 1.0, "a": 0.5, "dispatch": "immediate"}),
    (Ditto(), {"tau": 10, "eta": 0.05, "lam": 1.0, "sampling": "data", "eval_model": "personal", "m": None}),
    (ClusteredFL(), {"tau": 10, "eta": 0.05, "eps1": 0.4, "eps2": 1.6, "warmup": 20, "linkage": "single", "gamma_max": 0.0, "weights": "uniform"}),
], ids=lambda given: getattr(given, "name", ""))  # fmt: skip
def test_defaults_are_the_published_ones(policy, expected):
    """The defaults of docs/policies.md: what a user gets who names only the policy."""
    assert {name: getattr(policy, name) for name in expected} == expected
