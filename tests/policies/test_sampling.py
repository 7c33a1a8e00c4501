"""Drawing by lambda: the schemes' inclusion probabilities and unbiasedness, and the exact floored projection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from wflsim.exchange import Draw
from wflsim.policies.dual import project
from wflsim.policies.sampling import inclusion, pick
from wflsim.rng import stream

vectors = st.lists(st.floats(-50, 50), min_size=1, max_size=40).map(np.array)
floors = st.floats(0, 0.9)


def race(seed, N=10):
    return lambda j: stream(seed, "select", 0, 0, j).exponential(size=N)


def draws(draw, count, N=10, eligible=None):
    return [pick(draw, race(seed, N), eligible if eligible is not None else range(N)) for seed in range(count)]


@given(vectors, floors)
@settings(deadline=None, derandomize=True)
def test_projection_satisfies_the_optimality_conditions(v, share):
    floor = share / len(v)
    lam = project(v, floor)
    assert lam.sum() == pytest.approx(1, abs=1e-9)
    assert lam.min() >= floor
    free = lam > floor + 1e-9
    gap = v - lam
    # one multiplier for all free entries, and nothing at the floor wants to rise above it
    if free.any():
        assert np.ptp(gap[free]) < 1e-8
        assert gap[~free].max(initial=-np.inf) <= gap[free].max() + 1e-8


@given(vectors, floors, st.floats(-20, 20))
@settings(deadline=None, derandomize=True)
def test_projection_is_idempotent_and_blind_to_constants_and_names(v, share, constant):
    floor = share / len(v)
    lam = project(v, floor)
    np.testing.assert_allclose(project(lam, floor), lam, atol=1e-9)
    np.testing.assert_allclose(project(v + constant, floor), lam, atol=1e-9)
    order = np.argsort(v[::-1])
    np.testing.assert_allclose(project(v[order], floor), lam[order], atol=1e-9)


def test_projection_agrees_with_a_general_solver():
    v = stream(0, "test").normal(size=6)
    solved = minimize(
        lambda x: ((x - v) ** 2).sum(),
        np.full(6, 1 / 6),
        bounds=[(0.02, 1)] * 6,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        tol=1e-14,
    )
    np.testing.assert_allclose(project(v, 0.02), solved.x, atol=1e-6)


def test_a_floor_without_room_is_refused():
    with pytest.raises(ValueError, match=r"floor=0\.5 leaves no simplex for N=3"):
        project(np.zeros(3), 0.5)


def test_uniform_lambda_draws_exactly_the_uniform_cohort():
    for seed in range(50):
        assert pick(Draw(4), race(seed), range(10)) == pick(Draw(4, by=np.full(10, 0.1)), race(seed), range(10))


def test_sequential_draws_like_successive_draws_without_replacement():
    """Against the exact probability that i is among the first two: p_i + sum_j p_j p_i/(1 - p_j)."""
    p = np.array([0.5, 0.2, 0.2, 0.1])
    exact = [p[i] + sum(p[j] * p[i] / (1 - p[j]) for j in range(4) if j != i) for i in range(4)]
    found = draws(Draw(2, by=p), 4000, N=4)
    shares = np.mean([np.isin(range(4), D) for D, _ in found], axis=0)
    np.testing.assert_allclose(shares, exact, atol=0.025)
    assert all(a == dict.fromkeys(D, 0.5) for D, a in found)


@pytest.mark.parametrize("scheme", ["with_replacement", "uniform_weighted", "systematic"])
def test_unbiased_schemes_have_expected_weight_lambda(scheme):
    lam = stream(1, "test").dirichlet(np.ones(10))
    found = draws(Draw(4, by=lam, scheme=scheme), 4000)
    weights = np.mean([[a.get(i, 0.0) for i in range(10)] for _, a in found], axis=0)
    np.testing.assert_allclose(weights, lam, atol=0.02)


def test_systematic_includes_by_pi_and_takes_the_sure_ones_always():
    lam = np.array([0.7, 0.1, 0.05, 0.05, 0.05, 0.05])
    pi = inclusion(lam, 3)
    assert pi.sum() == pytest.approx(3)
    assert pi[0] == 1
    found = draws(Draw(3, by=lam, scheme="systematic"), 3000, N=6)
    assert all(len(D) == 3 and 0 in D for D, _ in found)
    np.testing.assert_allclose(np.mean([np.isin(range(6), D) for D, _ in found], axis=0), pi, atol=0.03)


def test_capping_is_repeated_until_nobody_exceeds_one():
    lam = np.array([0.6, 0.3, 0.04, 0.03, 0.03])
    pi = inclusion(lam, 4)
    assert pi.max() <= 1
    assert pi.sum() == pytest.approx(4)
    assert list(pi[:2]) == [1, 1]


def test_systematic_weights_are_one_over_m_when_no_lambda_exceeds_it():
    for D, a in draws(Draw(4, by=np.full(10, 0.1), scheme="systematic"), 20):
        assert len(D) == 4
        assert list(a.values()) == pytest.approx([0.25] * 4)


def test_renaming_clients_renames_the_draw():
    lam = stream(2, "test").dirichlet(np.ones(8))
    names = stream(3, "test").permutation(8)
    E = stream(4, "test").exponential(size=(5, 8))
    for scheme in ("sequential", "with_replacement", "uniform_weighted", "systematic"):
        D, a = pick(Draw(4, by=lam, scheme=scheme), lambda j: E[j], range(8))
        renamed = np.argsort(names)
        D2, a2 = pick(Draw(4, by=lam[names], scheme=scheme), lambda j: E[j][names], range(8))
        assert sorted(int(renamed[i]) for i in D) == D2
        assert {int(renamed[i]): weight for i, weight in a.items()} == pytest.approx(a2)


def test_zeros_and_absent_clients_are_never_drawn_and_never_crash():
    lam = np.array([0.5, 0.5, 0, 0, 0])
    for scheme in ("sequential", "with_replacement", "uniform_weighted", "systematic"):
        for D, a in draws(Draw(4, by=lam, scheme=scheme), 20, N=5):
            assert set(D) <= {0, 1}
            assert set(a) == set(D)
        for D, _ in draws(Draw(4, scheme=scheme), 20, N=5, eligible=[2, 4]):
            assert set(D) <= {2, 4}


def test_streams_are_keyed_by_what_they_are_for():
    assert stream(0, "a", 1).random() == stream(0, "a", 1).random()
    keys = [(0, "a"), (0, "b"), (1, "a"), (0, "a", 0), (0, "a", "0"), (0, "a", 0, 0)]
    assert len({stream(*key).random() for key in keys}) == 6
