"""FedAvgM, FedAdagrad, FedAdam and FedYogi against plain numpy, and their limiting cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratics import Problem, Rough, both_ways, problem, run
from reference_runs import LOSSES, TAU, Trip, drawn, local, path, same

from wflsim.policies.base import received, weighted
from wflsim.policies.fedavg import FedAvg
from wflsim.policies.fedavgm import FedAvgM
from wflsim.policies.fedopt import FedAdagrad, FedAdam, FedYogi

ADAPTIVE = {FedAdagrad: {"b1": 0.3}, FedAdam: {"b1": 0.8, "b2": 0.7}, FedYogi: {"b1": 0.8, "b2": 0.7}}
adaptive = pytest.mark.parametrize("kind", ADAPTIVE, ids=lambda kind: kind.__name__)
SERVERS = [FedAvgM(eta_g=0.3), FedAdagrad(), FedAdam(), FedYogi()]
servers = pytest.mark.parametrize("policy", SERVERS, ids=lambda policy: policy.name)


def mean_update(p, w, R, weights, tau):
    a = np.array([p.d[i] if weights == "data" else 1 for i in R], float)
    ys = [local(w, lambda y, i=i: p.grad(i, y), steps=tau[i])[-1] for i in R]
    return (a / a.sum()) @ np.stack([y - w for y in ys])


@LOSSES
@pytest.mark.parametrize("weights", ["uniform", "data"])
@pytest.mark.parametrize("tau_min", [None, 1])
def test_fedavgm(loss, rounds, weights, tau_min):
    policy = FedAvgM(m=3, tau=TAU, tau_min=tau_min, eta=0.05, eta_g=0.7, beta=0.8, weights=weights)
    trip = Trip(policy, loss, rounds)
    p, w, v = trip.p, trip.p.start, 0.0
    for s in range(rounds):
        _, R = trip.phase()
        if R:
            v = 0.8 * v + mean_update(p, w, R, weights, drawn(s, tau_min or TAU, TAU, p.N))
            w = w + 0.7 * v
    trip.check(w=w, v=v)


@LOSSES
@adaptive
@pytest.mark.parametrize("weights", ["uniform", "data"])
def test_adaptive_servers(loss, rounds, kind, weights):
    """With a v_0 among the squares of the updates, so that Yogi's sign takes both values."""
    rounds, v_0, eps, options = 2 * rounds, 0.005, 0.02, ADAPTIVE[kind]
    trip = Trip(kind(m=3, tau=TAU, eta=0.05, eta_g=0.2, eps=eps, v_0=v_0, weights=weights, **options), loss, rounds)
    p, w, m, v, b1 = trip.p, trip.p.start, 0.0, np.full(trip.p.P, v_0), options["b1"]
    signs = set()
    for _ in range(rounds):
        _, R = trip.phase()
        if not R:
            continue
        delta = mean_update(p, w, R, weights, [TAU] * p.N)
        m = b1 * m + (1 - b1) * delta
        if kind is FedAdagrad:
            v = v + delta**2
        elif kind is FedAdam:
            v = 0.7 * v + 0.3 * delta**2
        else:
            signs |= set(np.sign(v - delta**2))
            v = np.where(v > delta**2, v - 0.3 * delta**2, v + 0.3 * delta**2)
        w = w + 0.2 * m / (np.sqrt(v) + eps)
    assert signs == ({-1.0, 1.0} if kind is FedYogi else set())
    trip.check(w=w, m=m, v=v)


@pytest.mark.parametrize(
    "policy",
    [
        FedAvgM(m=3, beta=0, weights="data"),
        FedAdam(m=3, b1=0, b2=1, eps=0.01, v_0=0.99**2, eta_g=1, weights="data"),
        FedYogi(m=3, b1=0, b2=1, eps=0.01, v_0=0.99**2, eta_g=1, weights="data"),
    ],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_without_memory_they_are_fedavg(policy, loss):
    fedavg = path(FedAvg(m=3, weights="data"), batch=2, carrier=Rough(5, loss))
    same(path(policy, batch=2, carrier=Rough(5, loss)), fedavg)


def test_momentum_alone_is_fedavgm_with_a_shorter_step():
    """FedAdam with v fixed where sqrt(v) + eps = 1: m is (1 - b1) times FedAvgM's v."""
    adam = FedAdam(b1=0.8, b2=1, eps=0.01, v_0=0.99**2, eta_g=0.5)
    same(path(adam, batch=2), path(FedAvgM(beta=0.8, eta_g=0.5 * (1 - 0.8)), batch=2))


def steady():
    """One client whose gradient is 1 everywhere as far as rounding can see: every round's update is -eta tau."""
    far = 1e9
    return Problem([np.ones((1, 1)) / np.sqrt(far)], [np.array([-np.sqrt(far)])], np.zeros(1))


@pytest.mark.parametrize(
    ("policy", "moment"),
    [
        (FedAdagrad(v_0=0.2), lambda s, u: 0.2 + s * u),
        (FedAdam(v_0=0.2), lambda s, u: 0.99**s * 0.2 + (1 - 0.99**s) * u),
        (FedYogi(v_0=0.2), lambda s, u: max(0.2 - 0.01 * s * u, 0.0) if u < 0.2 else 0.2 + 0.01 * s * u),
    ],
    ids=["fedadagrad", "fedadam", "fedyogi"],
)
@pytest.mark.parametrize("tau", [2, 40])
def test_the_second_moment_of_a_steady_update(policy, moment, tau):
    """Squares of u: Adagrad adds s of them, Adam forgets, Yogi moves by a hundredth of one towards them."""
    u = (0.05 * tau) ** 2
    vs = path(policy.model_copy(update={"tau": tau}), rounds=5, given=steady(), field="v")[:, 0]
    np.testing.assert_allclose(vs, [moment(s, u) for s in range(1, 6)], rtol=1e-6)


@servers
def test_the_server_subtracts_the_model_that_clients_received(policy):
    """Quantised to four bits, both ways: what moves the optimiser is y as seen minus w as received, not w as it is."""

    class Seen(type(policy)):
        def updates(self, x, rng):
            got, a = yield from super().updates(x, rng)
            w = received(got, "w")
            deltas.append(weighted(w, got, "y", a) - w)
            assert not torch.equal(w, x.w)
            return got, a

    deltas = []
    training, kept = run(Seen(**policy.model_dump()), problem(5, 8).learner(**both_ways(4)), 6)
    x = policy.start(training.learner.initial(), training.learner.samples)
    for delta, state in zip(deltas, kept.states, strict=True):
        if isinstance(policy, FedAvgM):
            v = 0.9 * x.v + delta
            step = 0.3 * v
        else:
            m, v = policy.b1 * x.m + (1 - policy.b1) * delta, policy.second_moment(x.v, delta**2)
            step = 0.1 * m / (v.sqrt() + 1e-3)
        torch.testing.assert_close(state.w, x.w + step, rtol=0, atol=1e-12)
        x = state
    assert len(deltas) == 6
