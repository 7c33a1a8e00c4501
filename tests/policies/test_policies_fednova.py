"""FedNova against plain numpy, its identities, and what it is for: the right optimum although clients do unequal work."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from quadratics import Problem, Rough, problem, run
from reference_runs import ETA, LOSSES, Trip, descent, drawn, path, same

from wflsim.policies.fedavg import FedAvg
from wflsim.policies.fednova import FedNova
from wflsim.policies.fedprox import FedProx

SOLVERS = [{}, {"rho": 0.9}, {"mu": 0.7}]
solvers = pytest.mark.parametrize("solver", SOLVERS, ids=["plain", "momentum", "proximal"])


def solve(grad, w, steps, eta, rho=0.0, mu=0.0):
    """y after the local solver's steps, and |a|_1 by running the solver on unit vectors in place of gradients."""
    y, v = w, 0.0
    a, held = np.zeros(steps), np.zeros(steps)
    for k in range(steps):
        v = rho * v + grad(y)
        y = y - eta * (v + mu * (y - w))
        held = rho * held + np.eye(steps)[k]
        a = a + held - eta * mu * a
    return y, np.abs(a).sum()


@LOSSES
@solvers
@pytest.mark.parametrize("weights", ["data", "uniform"])
@pytest.mark.parametrize("m", [3, None])
def test_fednova(loss, rounds, solver, weights, m):
    policy = FedNova(m=m, tau=7, tau_min=2, eta=ETA, weights=weights, **solver)
    trip = Trip(policy, loss, rounds)
    p, w = trip.p, trip.p.start
    for s in range(rounds):
        _, R = trip.phase()
        if not R:
            continue
        tau = drawn(s, 2, 7, p.N)
        share = np.array([p.d[i] if weights == "data" else 1 for i in R], float)
        share /= share.sum()
        d, norms = [], []
        for i in R:
            y, norm = solve(lambda y, i=i: p.grad(i, y), w, tau[i], ETA, **solver)
            d.append((w - y) / norm)
            norms.append(tau[i] if "mu" in solver else norm)
        w = w - (share @ np.array(norms)) * (share @ np.stack(d))
    trip.check(w=w)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_the_weight_of_the_gradients_has_its_closed_forms(steps):
    """tau; (tau - rho (1 - rho^tau)/(1 - rho))/(1 - rho); (1 - (1 - eta mu)^tau)/(eta mu)."""
    rho, shrink = 0.9, 0.05 * 0.7
    assert FedNova().a_norm(steps) == steps
    momentum = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    assert FedNova(rho=rho).a_norm(steps) == pytest.approx(momentum, rel=1e-12)
    assert FedNova(mu=0.7).a_norm(steps) == pytest.approx((1 - (1 - shrink) ** steps) / shrink, rel=1e-12)


# I15, I23


@pytest.mark.parametrize("weights", ["data", "uniform"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_equal_steps_are_fedavg(weights, loss):
    options = {"m": 3, "tau": 5, "weights": weights}
    same(
        path(FedNova(**options), batch=2, carrier=Rough(5, loss)),
        path(FedAvg(**options), batch=2, carrier=Rough(5, loss)),
    )


def test_equal_steps_with_momentum_are_the_mean_of_models_with_momentum():
    p, w, ws = problem(), problem().start, []
    for _ in range(6):
        w = np.mean([solve(lambda y, i=i: p.grad(i, y), w, 5, 0.05, rho=0.9)[0] for i in range(p.N)], axis=0)
        ws.append(w)
    same(path(FedNova(tau=5, rho=0.9, weights="uniform")), np.stack(ws))


@pytest.mark.parametrize("tau", [5, 20])
def test_equal_proximal_steps_go_further_than_fedprox(tau):
    """By tau/|a|_1: the released code's tau_eff."""
    start, mu, eta = problem().start, 0.7, 0.05
    ours = path(FedNova(tau=tau, mu=mu, weights="uniform"), rounds=1)[0]
    prox = path(FedProx(tau=tau, mu=mu, weights="uniform"), rounds=1)[0]
    longer = tau * eta * mu / (1 - (1 - eta * mu) ** tau)
    assert longer > 1.05
    same(ours - start, longer * (prox - start))


@pytest.mark.parametrize("tau_min", [None, 1])
def test_one_client_is_plain_sgd(tau_min):
    p = problem(N=1)
    steps = descent(lambda w: p.grad(0, w), 0.05, 18, p.start)
    taken = np.cumsum([3 if tau_min is None else drawn(s, tau_min, 3, 1)[0] for s in range(6)])
    same(path(FedNova(tau=3, tau_min=tau_min), given=p), steps[taken - 1])


def test_momentum_with_a_proximal_term_is_refused():
    with pytest.raises(ValidationError, match=r"momentum and a proximal term together .* set one of them to 0"):
        FedNova(rho=0.9, mu=0.1)
    with pytest.raises(ValidationError, match=r"eta\*mu = 1.5: .* keep eta\*mu <= 1"):
        FedNova(eta=0.5, mu=3)
    with pytest.raises(ValidationError, match="rho"):
        FedNova(rho=1)


# What it is for

STEPS = (5, 20)


def two_clients():
    """Of one sample each: f_i = h_i (w - b_i)^2 / 2, so that every round is affine in w."""
    h, b = np.array([1.0, 0.5]), np.array([2.0, -1.0])
    return Problem([np.sqrt(h[i]).reshape(1, 1) for i in (0, 1)], [np.sqrt(h[i]) * b[i : i + 1] for i in (0, 1)], np.zeros(1)), h, b


def fixed(kind, **options):
    """Client i takes STEPS[i] steps in every round."""

    class Fixed(kind):
        def allotted(self, D, N, rng):
            return {i: STEPS[i] for i in D}

    return Fixed(weights="uniform", tau=20, **options)


@pytest.mark.parametrize("eta", [0.05, 0.1])
def test_five_and_twenty_steps_follow_the_closed_form(eta):
    """w+ = w - tau_eff sum p_i (1 - (1 - eta h_i)^tau_i)/tau_i (w - b_i) with p = 1/2, 1/2 and tau_eff = 12.5."""
    p, h, b = two_clients()
    w, ws = p.start, []
    for _ in range(6):
        d = [(1 - (1 - eta * h[i]) ** STEPS[i]) / STEPS[i] * (w - b[i]) for i in (0, 1)]
        w = w - 12.5 * (d[0] + d[1]) / 2
        ws.append(w)
    same(path(fixed(FedNova, eta=eta), given=p), np.stack(ws))


def resting_point(policy, p):
    """A round is w -> c w + e with one number w, so two of them say where all further ones lead."""
    w0, (w1, w2) = p.start[0], path(policy, rounds=2, given=p)[:, 0]
    return w1 + (w2 - w1) / (1 - (w2 - w1) / (w1 - w0))


@pytest.mark.parametrize("kind", [FedNova, FedAvg])
def test_the_resting_point_of_two_rounds_is_that_of_many(kind):
    p, _, _ = two_clients()
    policy = fixed(kind, eta=0.1)
    training, _ = run(policy, p.learner(), 60)
    np.testing.assert_allclose(training.state.w[0], resting_point(policy, p), rtol=0, atol=1e-12)


def test_with_unequal_steps_fednovas_distance_from_the_optimum_halves_with_eta_and_fedavgs_does_not_vanish():
    """Four eta. FedAvg tends to the optimum of sum tau_i f_i, which is another one."""
    p, h, b = two_clients()
    optimum, elsewhere = h @ b / h.sum(), (STEPS * h) @ b / (STEPS * h).sum()
    etas = [0.02, 0.01, 0.005, 0.0025]
    nova = [abs(resting_point(fixed(FedNova, eta=eta), p) - optimum) for eta in etas]
    fedavg = [abs(resting_point(fixed(FedAvg, eta=eta), p) - optimum) for eta in etas]
    halved = np.array(nova[:-1]) / np.array(nova[1:])
    assert np.all(np.abs(halved - 2) < 0.15), nova
    assert np.all(np.diff(np.abs(halved - 2)) < 0), "and ever more exactly"
    limit = abs(elsewhere - optimum)
    assert limit > 0.9
    gaps = limit - np.array(fedavg)
    assert np.all(np.abs(gaps) < 0.15 * limit), (fedavg, limit)
    assert np.all(np.abs(gaps[1:] / gaps[:-1] - 0.5) < 0.05), "its distance tends to a constant above zero"
    assert nova[-1] < 0.05 * fedavg[-1]
