"""SCALLION and SCAFCOM against plain numpy and SCAFFOLD, and what their compressors must be."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from quadratics import Rough, memories, problem, run
from references import Journey, same, slope

from wflsim.policies.scaffold import SCAFFOLD
from wflsim.policies.scallion import SCAFCOM, SCALLION
from wflsim.rng import stream

TAU, ETA, ETA_G = 3, 0.05, 0.8
OPTIONS = {"m": 4, "tau": TAU, "eta_l": ETA, "eta_g": ETA_G}


def unchanged(v, rng):
    return v


def largest(v, rng):
    """2 of 4 values."""
    kept = np.argsort(-np.abs(v))[:2]
    return np.where(np.isin(np.arange(len(v)), kept), v, 0.0)


def drawn(v, rng):
    """2 of 4 values at random, doubled."""
    kept = rng.permutation(len(v))[:2]
    return np.where(np.isin(np.arange(len(v)), kept), 2 * v, 0.0)


IDENTITY, TOP, RAND = {"name": "identity"}, {"name": "top_k", "share": 0.5}, {"name": "rand_k", "share": 0.5}


@pytest.mark.parametrize(("loss", "rounds"), [(0.0, 5), (0.3, 12)])
@pytest.mark.parametrize("batch", [10_000, 3])
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize(
    ("policy", "C", "damping"),
    [
        (SCALLION(alpha=0.3, compress=IDENTITY, **OPTIONS), unchanged, 1),
        (SCALLION(alpha=0.3, compress=RAND, **OPTIONS), drawn, 1),
        (SCAFCOM(beta=0.4, compress=TOP, **OPTIONS), largest, 1),
        (SCAFCOM(beta=0.4, compress=RAND, **OPTIONS), drawn, 2),
    ],
    ids=["scallion", "scallion rand_k", "scafcom top_k", "scafcom rand_k"],
)
def test_against_numpy(loss, rounds, batch, coded, policy, C, damping):
    """omega of rand_k is n/k - 1 = 1 here, so SCAFCOM divides by 2. The server's rounding does not touch delta."""
    trip = Journey(policy, loss, rounds, batch, coded=coded)
    p, Q = trip.p, trip.Q
    w, c, own, v = p.start, np.zeros(p.P), np.zeros((p.N, p.P)), np.zeros((p.N, p.P))
    for s, _, heard in trip.rounds():
        x, c_x, deltas = Q(w), Q(c), []
        for i in heard:
            y = x
            for _, (A, b) in zip(range(TAU), trip.samples(i, s), strict=False):
                y = y - ETA * (slope(y, A, b) - own[i] + c_x)
            q = (x - y) / (ETA * TAU) - c_x
            rng = stream(0, "quantise", "up", i, s, 0)
            if isinstance(policy, SCALLION):
                delta = C(0.3 * q, rng)
            else:
                v[i] = 0.6 * v[i] + 0.4 * (q + own[i])
                delta = C(v[i] - own[i], rng) / damping
            own[i] = own[i] + delta
            deltas.append(delta)
        if heard:
            w = w - ETA_G * ETA * TAU * (np.mean(deltas, axis=0) + c_x)
            c = c + np.sum(deltas, axis=0) / p.N
    trip.check(w=w, c=c)
    same(memories(trip.training, "c", p.N, p.P), own)
    if isinstance(policy, SCAFCOM):
        same(memories(trip.training, "v", p.N, p.P), v)


# I14


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize(("m", "tau", "eta_g"), [(None, 1, 1.0), (3, 5, 1.0), (4, 20, 0.5)])
@pytest.mark.parametrize(
    "ours",
    [lambda **o: SCALLION(alpha=1, **o), lambda **o: SCAFCOM(beta=1, **o)],
    ids=["scallion", "scafcom"],
)
def test_without_compression_they_are_scaffold(loss, m, tau, eta_g, ours):
    options = {"m": m, "tau": tau, "eta_l": 0.02, "eta_g": eta_g}
    first, _ = run(ours(compress=IDENTITY, **options), problem().learner(3), 8, Rough(5, loss))
    second, _ = run(SCAFFOLD(**options), problem().learner(3), 8, Rough(5, loss))
    same(first.state.w, second.state.w)
    same(first.state.c, second.state.c)
    same(memories(first, "c", 5, 4), memories(second, "c", 5, 4))


@pytest.mark.parametrize("alpha", [1e-9, 0])
def test_what_sends_no_change_does_not_move(alpha):
    """alpha = 0 would never move from c = 0, and is refused."""
    if not alpha:
        with pytest.raises(ValidationError, match="alpha"):
            SCALLION(alpha=alpha)
        return
    training, _ = run(SCALLION(alpha=alpha, compress=IDENTITY), problem().learner(), 5)
    assert np.abs(training.state.w.numpy() - problem().start).max() < 1e-6


def test_scallion_refuses_a_biased_compressor_and_says_why():
    with pytest.raises(ValidationError, match=r"top_k is biased, .* or the policy scafcom, which is made for top_k"):
        SCALLION(compress=TOP)
    assert SCAFCOM(compress=TOP).compress.share == 0.5


def test_both_end_at_the_optimum_of_the_mean_although_most_is_left_out():
    """Two of six values each time, and the control variates catch up with all of them."""
    p, share = problem(3, 6), {"share": 1 / 3}
    H = sum(A.T @ A / len(b) for A, b in zip(p.A, p.b, strict=True))
    best = np.linalg.solve(H, sum(A.T @ b / len(b) for A, b in zip(p.A, p.b, strict=True)))
    options = {"tau": 2, "eta_l": 0.1}
    for policy in (
        SCALLION(alpha=0.3, compress={"name": "rand_k", **share}, **options),
        SCAFCOM(beta=0.5, compress={"name": "top_k", **share}, **options),
        SCAFCOM(beta=0.5, compress={"name": "rand_k", **share}, **options),
    ):
        _, kept = run(policy, p.learner(), 200)
        distance = [np.abs(kept.states[s].w.numpy() - best).max() for s in (0, 100, 199)]
        assert distance[0] > 20 * distance[1] > 100 * distance[2], policy
