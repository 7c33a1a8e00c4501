"""q-FedAvg and q-FedSGD against plain numpy, their identities, and what they are for: a lower worst loss."""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import Problem, Rough, problem, run
from reference_runs import ETA, LOSSES, TAU, Trip, descent, local, path, same

from wflsim.policies.fedavg import FedAvg
from wflsim.policies.qffl import QFedAvg, QFedSGD


def step(p, w, R, q, G):
    """w - sum Delta / sum h, by the printed formulas."""
    F = {i: p.f(i, w) + 1e-10 for i in R}
    delta = sum(F[i] ** q * G[i] for i in R)
    h = sum(q * F[i] ** (q - 1) * np.sum(G[i] ** 2) + F[i] ** q / ETA for i in R)
    return w - delta / h


@LOSSES
@pytest.mark.parametrize("sgd", [False, True])
@pytest.mark.parametrize("q", [0, 0.5, 2, 5])
@pytest.mark.parametrize("m", [3, None])
def test_q_fedavg_and_q_fedsgd(loss, rounds, sgd, q, m):
    trip = Trip(QFedSGD(m=m, eta=ETA, q=q) if sgd else QFedAvg(m=m, tau=TAU, eta=ETA, q=q), loss, rounds)
    p, w = trip.p, trip.p.start
    for _ in range(rounds):
        _, R = trip.phase()
        if R:
            ys = {i: local(w, lambda y, i=i: p.grad(i, y))[-1] for i in R}
            w = step(p, w, R, q, {i: p.grad(i, w) if sgd else (w - ys[i]) / ETA for i in R})
    trip.check(w=w)


# I11


@pytest.mark.parametrize("eta", [0.02, 0.1])
def test_without_fairness_they_are_fedavg_and_fedsgd(eta):
    same(
        path(QFedAvg(m=3, q=0, eta=eta, sampling="uniform"), batch=2, carrier=Rough(5, 0.3)),
        path(FedAvg(m=3, eta=eta), batch=2, carrier=Rough(5, 0.3)),
    )
    p = problem()
    mean = descent(lambda w: np.mean([p.grad(i, w) for i in range(p.N)], axis=0), eta, 6, p.start)
    same(path(QFedSGD(q=0, eta=eta), batch=2), mean)  # all local samples, whatever the batch


@pytest.mark.parametrize("q", [0.5, 5])
def test_one_client_takes_a_shorter_step(q):
    """w+ = w - (w - y)/(1 + q |w - y|^2/(eta F))."""
    p = problem(N=1)
    w, ws = p.start, []
    for _ in range(6):
        y = local(w, lambda y: p.grad(0, y), steps=4)[-1]
        w = w - (w - y) / (1 + q * np.sum((w - y) ** 2) / (ETA * (p.f(0, w) + 1e-10)))
        ws.append(w)
    same(path(QFedAvg(tau=4, q=q), given=p), np.stack(ws))


@pytest.mark.parametrize("policy", [QFedAvg(tau=4, q=3), QFedSGD(q=3)], ids=["q_fedavg", "q_fedsgd"])
def test_how_many_identical_clients_there_are_makes_no_difference(policy):
    p = problem(alike=True)
    same(path(policy, given=p), path(policy, given=Problem(p.A[:1], p.b[:1], p.start)))


def test_one_local_step_on_all_samples_is_q_fedsgd():
    same(path(QFedAvg(tau=1, q=2)), path(QFedSGD(q=2)))


def test_a_huge_q_looks_at_the_worst_client_alone_and_does_not_overflow():
    """w+ = w - G/(q |G|^2/F + 1/eta) of the client with the largest loss; F^q itself is no number any more."""
    p, q = problem(), 1e5
    losses = [p.f(i, p.start) for i in range(p.N)]
    worst = int(np.argmax(losses))
    with pytest.raises(OverflowError):
        float(losses[worst]) ** q
    G, F = p.grad(worst, p.start), losses[worst] + 1e-10
    same(path(QFedSGD(q=q), rounds=1)[0], p.start - G / (q * np.sum(G**2) / F + 1 / ETA))


def test_clients_that_fit_perfectly_are_no_division_by_zero():
    """F = 0 and G = 0: 1e-10 is added to F, and the model stays."""
    p = problem()
    fitted = Problem(p.A, [A @ p.start for A in p.A], p.start)
    for policy in (QFedSGD(q=3), QFedAvg(q=0.5)):
        same(path(policy, given=fitted)[-1], p.start)


# What they are for


def rest(policy, p):
    training, kept = run(policy, p.learner(), 300)
    assert (kept.states[-1].w - kept.states[-2].w).abs().max() < 1e-3
    return training.state.w.numpy()


@pytest.mark.parametrize("kind", [QFedSGD, QFedAvg])
def test_growing_q_lowers_the_worst_loss_and_raises_the_mean(kind):
    """q-FedSGD rests where sum F_k^(q+1) is least; q-FedAvg nearby, drifting as FedAvg does."""
    p, mean, worst = problem(P=2), [], []
    for q in (0, 1, 3, 10):
        w = rest(kind(q=q, eta=0.1, tau=1 if kind is QFedSGD else 3), p)
        losses = np.array([p.f(i, w) for i in range(p.N)])
        mean.append(losses.mean())
        worst.append(losses.max())
        if kind is QFedSGD:
            pulls = np.array([loss**q * p.grad(i, w) for i, loss in enumerate(losses)])
            assert np.abs(pulls.sum(axis=0)).max() < 1e-3 * np.abs(pulls).max()
    assert np.all(np.diff(worst) < -0.1), worst
    assert np.all(np.diff(mean) > 0.1), mean
