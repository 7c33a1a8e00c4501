"""Every policy against plain numpy written from its equations: two rounds without losses, four with 30 % of them.

The references share nothing with the policies but who was asked and heard, which is read off the run, and t'.
"""

from __future__ import annotations

import numpy as np
import pytest
from quadratics import snapshot_step
from reference_runs import ETA, LOSSES, TAU, Trip, ascend, local, simplex

from wflsim.policies.afl import AFL
from wflsim.policies.drdm import DRDM
from wflsim.policies.drfa import DRFA
from wflsim.policies.fedasync import FedAsync
from wflsim.policies.fedavg import FedAvg, LocalSGD
from wflsim.policies.fedbuff import FedBuff
from wflsim.policies.feddyn import FedDyn
from wflsim.policies.fedprox import FedProx
from wflsim.policies.lambda_drdm import LambdaDRDM
from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scaffpd import SCAFFPD
from wflsim.policies.steps import Decay

MU, GAMMA = 0.7, 0.02


@LOSSES
@pytest.mark.parametrize("weights", ["uniform", "data"])
@pytest.mark.parametrize("mu", [None, 0.4])
def test_fedavg_and_fedprox(loss, rounds, weights, mu):
    options = {"m": 3, "tau": TAU, "eta": ETA, "weights": weights}
    trip = Trip(FedAvg(**options) if mu is None else FedProx(mu=mu, **options), loss, rounds)
    p, w = trip.p, trip.p.start
    for _ in range(rounds):
        _, R = trip.phase()
        if R:
            ys = [local(w, lambda y, i=i, w=w: p.grad(i, y) + (mu or 0) * (y - w))[-1] for i in R]
            a = np.array([p.d[i] if weights == "data" else 1 for i in R], float)
            w = (a / a.sum()) @ np.stack(ys)
    trip.check(w=w)


def test_local_sgd():
    trip = Trip(LocalSGD(tau=TAU, eta=ETA), 0.0, 2)
    p, w = trip.p, trip.p.start
    for _ in range(2):
        D, _ = trip.phase()
        assert len(D) == p.N
        w = np.mean([local(w, lambda y, i=i: p.grad(i, y))[-1] for i in D], axis=0)
    trip.check(w=w)


@LOSSES
def test_feddyn(loss, rounds):
    trip = Trip(FedDyn(m=3, tau=TAU, eta=ETA, mu=MU), loss, rounds)
    p, w, c, g = trip.p, trip.p.start, np.zeros(trip.p.P), np.zeros((trip.p.N, trip.p.P))
    for _ in range(rounds):
        _, R = trip.phase()
        if not R:
            continue
        ys = {i: local(w, lambda y, i=i, w=w: p.grad(i, y) - g[i] + MU * (y - w))[-1] for i in R}
        for i in R:
            g[i] -= MU * (ys[i] - w)
        c = c - MU / p.N * sum(ys[i] - w for i in R)
        w = sum(ys.values()) / len(R) - c / MU
    trip.check(w=w, c=c)
    trip.check_memory("g", g)


@LOSSES
@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold(loss, rounds, option):
    trip = Trip(SCAFFOLD(m=3, tau=TAU, eta_l=ETA, eta_g=0.8, option=option), loss, rounds)
    p, x, c, ci = trip.p, trip.p.start, np.zeros(trip.p.P), np.zeros((trip.p.N, trip.p.P))
    for _ in range(rounds):
        _, R = trip.phase()
        if not R:
            continue
        dy, dc = [], []
        for i in R:
            y = local(x, lambda y, i=i, c=c: p.grad(i, y) - ci[i] + c)[-1]
            new = p.grad(i, x) if option == "I" else ci[i] - c + (x - y) / (TAU * ETA)
            dy.append(y - x)
            dc.append(new - ci[i])
            ci[i] = new
        x, c = x + 0.8 * np.mean(dy, axis=0), c + len(R) / p.N * np.mean(dc, axis=0)
    trip.check(w=x, c=c)
    trip.check_memory("c", ci)


@LOSSES
@pytest.mark.parametrize("m", [3, None])
def test_afl(loss, rounds, m):
    policy = AFL(m=m, eta_w=0.1, eta_lambda=Decay(start=0.3, power=1, after=2), floor=0.01)
    trip = Trip(policy, loss, rounds)
    p, w, lam, shown = trip.p, trip.p.start, np.full(trip.p.N, 1 / trip.p.N), trip.p.start
    for s in range(rounds):
        D, R = trip.phase()
        if not R:
            continue
        v, push = np.zeros(p.N), sum(lam[i] * p.grad(i, w) for i in R)
        push *= p.N / len(D) * sum(lam[i] for i in D) / sum(lam[i] for i in R)
        for i in R:
            v[i] = p.N / len(R) * p.f(i, w)
        w, lam = w - 0.1 * push, simplex(lam + 0.3 / (1 + s / 2) * v, 0.01 / p.N)
        shown = shown + (w - shown) / (s + 1)
    trip.check(w=w, lam=lam, shown=shown)


@LOSSES
@pytest.mark.parametrize("scheme", ["sequential", "uniform_weighted"])
def test_drfa(loss, rounds, scheme):
    trip = Trip(DRFA(m=3, tau=TAU, eta=ETA, gamma=GAMMA, scheme=scheme), loss, rounds)
    p, w, lam = trip.p, trip.p.start, np.full(trip.p.N, 1 / trip.p.N)
    for s in range(rounds):
        D, R = trip.phase()
        if not R:
            continue
        paths = [local(w, lambda y, i=i: p.grad(i, y)) for i in R]
        a = np.array([1 / len(D) if scheme == "sequential" else p.N / len(D) * lam[i] for i in R])
        a *= (1 if scheme == "sequential" else p.N / len(D) * lam[D].sum()) / a.sum()
        z = w + a @ np.stack([ys[snapshot_step(0, s, TAU)] - w for ys in paths])
        w = w + a @ np.stack([ys[-1] - w for ys in paths])
        _, heard = trip.phase()
        if heard:
            lam = ascend(p, lam, z, heard, TAU * GAMMA, 0.03 / p.N)
    trip.check(w=w, lam=lam)


@LOSSES
@pytest.mark.parametrize("ours", [False, True])
def test_drdm_and_its_lambda_consistent_variant(loss, rounds, ours):
    options = {"m": 3, "tau": TAU, "eta": ETA, "mu": MU, "gamma": GAMMA, "floor": 0.03}
    trip = Trip(LambdaDRDM(kappa=0.9, **options) if ours else DRDM(**options), loss, rounds)
    p, w, c, g = trip.p, trip.p.start, np.zeros(trip.p.P), np.zeros((trip.p.N, trip.p.P))
    lam = np.full(p.N, 1 / p.N)
    for s in range(rounds):
        _, R = trip.phase()
        if not R:
            continue
        weight = p.N * lam if ours else np.ones(p.N)
        eta = ETA * np.minimum(1, 0.9 / weight) if ours else np.full(p.N, ETA)
        paths = {
            i: local(w, lambda y, i=i, w=w, q=weight: q[i] * p.grad(i, y) - g[i] - MU * (w - y), eta=eta[i]) for i in R
        }
        for i in R:
            g[i] -= MU * (paths[i][-1] - w)
        t = snapshot_step(0, s, TAU)
        c_t = c - MU / p.N * sum(paths[i][t] - w for i in R)
        c = c - MU / p.N * sum(paths[i][-1] - w for i in R)
        z = sum(paths[i][t] for i in R) / len(R) - c_t / MU
        w = sum(paths[i][-1] for i in R) / len(R) - c / MU
        _, heard = trip.phase()
        if heard:
            lam = ascend(p, lam, z, heard, TAU * GAMMA, 0.03 / p.N)
    trip.check(w=w, c=c, lam=lam)
    trip.check_memory("g", g)


@LOSSES
@pytest.mark.parametrize("m", [3, None])
@pytest.mark.parametrize("absent", ["stale", "ipw"])
@pytest.mark.parametrize("psi", ["none", "chi2"])
def test_scaffpd(loss, rounds, m, absent, psi):
    sigma, theta, rho, eta_g = 0.03, 0.8, 0.3, 0.9
    policy = SCAFFPD(
        m=m, tau=TAU, eta_l=ETA, eta_g=eta_g, sigma=sigma, theta=theta, psi=psi, rho=rho, absent=absent
    )
    trip = Trip(policy, loss, rounds)
    p, x, lam, before = trip.p, trip.p.start, np.full(trip.p.N, 1 / trip.p.N), None
    for _ in range(rounds):
        _, R = trip.phase()
        if not R:
            continue
        heard = {i: p.f(i, x) for i in R}
        if absent == "ipw":
            L = np.array([p.N / len(R) * heard.get(i, 0) for i in range(p.N)])
        else:
            known = np.full(p.N, np.mean(list(heard.values()))) if before is None else before
            L = np.array([heard.get(i, known[i]) for i in range(p.N)])
        s = (1 + theta) * L - theta * (L if before is None else before)
        before = L
        lam = simplex(lam + sigma * s if psi == "none" else (lam + sigma * s + sigma * rho) / (1 + sigma * rho * p.N))
        slopes = {i: p.grad(i, x) for i in R}
        c = sum(lam[i] * slopes[i] for i in R) / sum(lam[i] for i in R)
        _, B = trip.phase()
        if not B:
            continue
        us = {i: local(x, lambda u, i=i, c=c, ci=slopes[i]: p.grad(i, u) - ci + c)[-1] for i in B}
        du = sum(lam[i] * (x - us[i]) / (ETA * TAU) for i in B) / sum(lam[i] for i in B)
        x = x - TAU * ETA * eta_g * du
    trip.check(w=x, lam=lam, L=before)


def tasks(trip):
    """Replays who got which server version: yields (client, version sent, arrived?) in order of arrival."""
    versions = {}
    outcomes = iter(trip.carrier.received)
    for s, entry in enumerate(trip.kept.trace):
        for step in entry.steps:
            if step.kind == "send":
                versions.update((order.client, (s, order.phase)) for order in step.orders)
            else:
                outcome = next(outcomes)
                yield s, outcome.client, versions[outcome.client], outcome.fate == "delivered"


@LOSSES
def test_fedasync(loss, rounds):
    policy = FedAsync(m=3, tau=TAU, eta=ETA, rho=0.3, alpha=0.6, a=0.5)
    trip = Trip(policy, loss, 4 * rounds)
    p, w, t = trip.p, trip.p.start, 0
    sent = {0: (w, 0)}  # what a task sent in round s was given
    stale = []
    for s, client, (sent_in, _), arrived in tasks(trip):
        if arrived:
            start, version = sent[sent_in]
            y = local(start, lambda y, i=client, w=start: p.grad(i, y) + 0.3 * (y - w))[-1]
            alpha = 0.6 * (t - version + 1) ** -0.5
            stale.append(t - version)
            w, t = (1 - alpha) * w + alpha * y, t + 1
        sent[s + 1] = (w, t)
    assert max(stale) >= 2
    trip.check(w=w, t=t)


@LOSSES
@pytest.mark.parametrize("dispatch", ["immediate", "after_flush"])
def test_fedbuff(loss, rounds, dispatch):
    policy = FedBuff(m=4, K=2, tau=TAU, eta=ETA, eta_g=0.7, a=0.5, dispatch=dispatch)
    trip = Trip(policy, loss, 3 * rounds)
    p, w, t, buffer, n = trip.p, trip.p.start, 0, 0.0, 0
    sent = {0: (w, 0)}
    stale = []
    for s, client, (sent_in, _), arrived in tasks(trip):
        if arrived:
            start, version = sent[sent_in]
            y = local(start, lambda y, i=client: p.grad(i, y))[-1]
            stale.append(t - version)
            buffer, n = buffer + (1 + t - version) ** -0.5 * (start - y), n + 1
            if n == 2:
                w, t, buffer, n = w - 0.7 * buffer / 2, t + 1, 0.0, 0
        sent[s + 1] = (w, t)
    assert max(stale) >= 1
    trip.check(w=w, t=t, n=n, buffer=buffer)
