"""Drawing by lambda, and the floored simplex."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wflsim.exchange import Draw
from wflsim.policies.dual import project
from wflsim.policies.sampling import NOTHING, inclusion, pick
from wflsim.rng import stream

SCHEMES = ["sequential", "with_replacement", "uniform_weighted", "systematic", "bernoulli"]
quick = settings(derandomize=True, deadline=None, max_examples=100, database=None)
entries = st.lists(st.floats(-5, 5), min_size=1, max_size=12)
lambdas = st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda lam: sum(lam) > 1e-3)


def race_of(key, N):
    return lambda j: stream(0, "race", key, j).exponential(size=N)


def picks(draw, N, times=4000):
    return [pick(draw, race_of(key, N), range(N)) for key in range(times)]


# Drawing


@quick
@given(lam=lambdas, m=st.integers(1, 12), scheme=st.sampled_from(SCHEMES), key=st.integers(0, 99))
def test_a_draw_is_a_sorted_set_of_clients_that_may_be_drawn(lam, m, scheme, key):
    D, a = pick(Draw(m, by=np.array(lam), scheme=scheme), race_of(key, len(lam)), range(len(lam)))
    positive = [i for i, share in enumerate(lam) if share / sum(lam) > NOTHING]
    assert sorted(set(D)) == D == list(a)
    assert set(D) <= set(positive)
    assert D
    assert all(weight > 0 for weight in a.values())
    if scheme in ("sequential", "uniform_weighted", "systematic"):
        assert len(D) == min(m, len(positive))
    if scheme in ("sequential", "with_replacement", "bernoulli"):
        assert sum(a.values()) == pytest.approx(1)


@quick
@given(lam=lambdas, m=st.integers(1, 12), scheme=st.sampled_from(SCHEMES), key=st.integers(0, 99), data=st.data())
def test_renaming_clients_renames_the_draw(lam, m, scheme, key, data):
    order = np.array(data.draw(st.permutations(range(len(lam)))))
    lam, race = np.array(lam), race_of(key, len(lam))
    D, a = pick(Draw(m, by=lam, scheme=scheme), race, range(len(lam)))
    E, b = pick(Draw(m, by=lam[order], scheme=scheme), lambda j: race(j)[order], range(len(lam)))
    assert sorted(order[E]) == D
    assert {int(order[i]): weight for i, weight in b.items()} == pytest.approx(a)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_only_the_eligible_are_drawn_and_nobody_if_there_is_nobody(scheme):
    lam = np.array([0.1, 0.4, 0.2, 0.3])
    for key in range(50):
        D, _ = pick(Draw(3, by=lam, scheme=scheme), race_of(key, 4), [1, 3])
        assert set(D) <= {1, 3}
        assert pick(Draw(3, scheme=scheme), race_of(key, 4), []) == ([], {})


@pytest.mark.parametrize("scheme", ["with_replacement", "uniform_weighted", "systematic"])
def test_unbiased_schemes_weight_everybody_by_lambda_on_average(scheme):
    lam = np.array([0.5, 0.05, 0.2, 0.1, 0.15])
    total = np.zeros(5)
    for _, a in picks(Draw(3, by=lam, scheme=scheme), 5):
        for i, weight in a.items():
            total[i] += weight / 4000
    np.testing.assert_allclose(total, lam, atol=0.02)


def test_sequential_draws_first_by_lambda_and_barely_steer_when_m_is_large():
    lam = np.array([0.5, 0.05, 0.2, 0.1, 0.15])
    first = np.bincount([D[0] for D, _ in picks(Draw(1, by=lam), 5)], minlength=5) / 4000
    np.testing.assert_allclose(first, lam, atol=0.02)
    # docs/policies.md, drawing clients: N=30, m=20, lambda_1 = 0.5: the others are included with 0.655 although m lambda_i = 0.345
    lam = np.full(30, 0.5 / 29)
    lam[0] = 0.5
    rest = np.mean([len(set(D) - {0}) for D, _ in picks(Draw(20, by=lam), 30, 1000)]) / 29
    assert rest == pytest.approx(0.655, abs=0.003)


def test_systematic_includes_by_pi_and_weights_alike_below_the_cap():
    lam = np.array([0.28, 0.22, 0.2, 0.16, 0.14])
    times = np.zeros(5)
    for D, a in picks(Draw(3, by=lam, scheme="systematic"), 5):
        times[D] += 1 / 4000
        assert all(weight == pytest.approx(1 / 3) for weight in a.values())
    np.testing.assert_allclose(times, 3 * lam, atol=0.03)


@quick
@given(lam=lambdas, m=st.integers(1, 12))
def test_inclusion_probabilities_sum_to_m_and_keep_the_order_of_lambda(lam, m):
    lam = np.array(lam) / np.sum(lam)
    lam[lam <= NOTHING] = 0.0
    pi = inclusion(lam, m)
    assert pi.sum() == pytest.approx(min(m, (lam > 0).sum()))
    assert pi.min() >= 0
    assert pi.max() <= 1
    assert (np.diff(pi[np.argsort(lam)]) >= -1e-9).all()


def test_bernoulli_includes_each_by_itself():
    lam = np.array([0.4, 0.3, 0.2, 0.1])
    drawn = np.zeros((4000, 4))
    for row, (D, _) in zip(drawn, picks(Draw(2, by=lam, scheme="bernoulli"), 4), strict=True):
        row[D] = 1
    empty = np.prod(1 - 2 * lam)  # then the fastest alone is taken
    np.testing.assert_allclose(drawn.mean(axis=0), 2 * lam, atol=0.02 + empty)
    assert (drawn.sum(axis=1) == 4).mean() == pytest.approx(np.prod(2 * lam), abs=0.02)


# The simplex


@quick
@given(v=entries, floor=st.sampled_from([0.0, 0.01, 0.03]))
def test_projection_is_the_nearest_point(v, floor):
    v = np.array(v)
    lam = project(v, floor)
    assert lam.sum() == pytest.approx(1)
    assert lam.min() >= floor
    above = lam > floor + 1e-12
    gap = v - lam  # KKT: the same on the support, no larger elsewhere
    np.testing.assert_allclose(gap[above], gap[above].mean() if above.any() else 0, atol=1e-9)
    assert (gap[~above] <= gap[above].min() + 1e-9).all() if above.any() else True
    np.testing.assert_allclose(project(v + 3.7, floor), lam, atol=1e-9)
    np.testing.assert_allclose(project(lam, floor), lam, atol=1e-12)
    np.testing.assert_allclose(project(v[::-1], floor), lam[::-1], atol=1e-12)


def test_a_floor_that_leaves_no_simplex_is_refused():
    with pytest.raises(ValueError, match="must be below 1/N"):
        project(np.zeros(4), 0.2500001)
    np.testing.assert_array_equal(project(np.arange(4.0), 0.25), np.full(4, 0.25))
    np.testing.assert_allclose(project(np.arange(3.0), np.nextafter(1, 0) / 3), np.full(3, 1 / 3), rtol=1e-12)


def test_without_a_floor_one_round_makes_zeros():
    """docs/policies.md, why lambda keeps a floor: N=30, tau=10, losses of 2.3: exact zeros after one round for gamma > 1.4e-3, none below."""
    for gamma, zeros in ((1.3e-3, 0), (1.5e-3, 10)):
        v = np.where(np.arange(30) < 20, 30 / 20 * 2.3, 0.0)
        assert (project(np.full(30, 1 / 30) + 10 * gamma * v) == 0).sum() == zeros
        assert project(np.full(30, 1 / 30) + 10 * gamma * v, 0.001).min() >= 0.001
