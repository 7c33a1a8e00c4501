"""Who owns what: conservation, limits, determinism."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from wflsim.errors import DataError, ScenarioError
from wflsim.learning.data.arrays import DataSet, Samples
from wflsim.learning.data.partition import FileSpec, IidSpec, NaturalSpec, ShardsSpec, class_counts, divide
from wflsim.learning.data.sets import DigitsSpec, SyntheticSpec, load
from wflsim.learning.data.zipf import ZipfDirichletSpec, fit_to_sums, zipf_sizes

quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def a_set(per_class, test_per_class):
    def half(name, sizes):
        labels = np.repeat(np.arange(len(sizes)), sizes)
        return Samples(name, np.zeros((len(labels), 1), dtype=np.float32), labels)

    return DataSet(half("train", per_class), half("test", test_per_class), classes=len(per_class))


@quick
@given(
    per_class=st.lists(st.integers(5, 60), min_size=2, max_size=6),
    clients=st.integers(1, 10),
    alpha=st.sampled_from([1e-6, 0.01, 0.1, 1.0, 100.0, "inf"]),
    sigma=st.floats(0, 3),
    seed=st.integers(0, 3),
)
def test_every_sample_once_and_nobody_empty(per_class, clients, alpha, sigma, seed):
    data = a_set(per_class, per_class)
    owned = divide(ZipfDirichletSpec(alpha=alpha, sigma=sigma), data, clients, seed)
    for own, half in ((owned.train, data.train), (owned.test, data.test)):
        assert np.array_equal(np.sort(np.concatenate(own)), np.arange(len(half.y)))
        assert [len(samples) for samples in own] == zipf_sizes(len(half.y), clients, sigma).tolist()
        assert min(len(samples) for samples in own) >= 1


@quick
@given(
    per_class=st.lists(st.integers(20, 60), min_size=2, max_size=6),
    clients=st.integers(1, 10),
    sigma=st.floats(0, 1.5),
    seed=st.integers(0, 3),
)
def test_alpha_zero_gives_one_class_each_and_no_sample_twice(per_class, clients, sigma, seed):
    data = a_set(per_class, per_class)
    owned = divide(ZipfDirichletSpec(alpha=0, sigma=sigma), data, clients, seed)
    table = class_counts(owned.train, data.train.y, data.classes)
    assert ((table > 0).sum(axis=1) == 1).all()
    assert np.array_equal(table > 0, class_counts(owned.test, data.test.y, data.classes) > 0)
    everything = np.concatenate(owned.train)
    assert len(np.unique(everything)) == len(everything)


def test_alpha_infinity_gives_everybody_the_mix_of_the_whole():
    data = load(DigitsSpec(name="digits"), 10, 0)
    for alpha in ("inf", float("inf")):
        owned = divide(ZipfDirichletSpec(alpha=alpha, sigma=0.5), data, 10, seed=0)
        table = class_counts(owned.train, data.train.y, 10)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        assert np.abs(table - expected).max() < 2


def test_train_and_test_have_the_same_mix():
    data = a_set([600] * 10, [300] * 10)
    owned = divide(ZipfDirichletSpec(alpha=0.1), data, 12, seed=3)
    train, test = (class_counts(own, half.y, 10) for own, half in ((owned.train, data.train), (owned.test, data.test)))
    assert np.abs(train / train.sum(1, keepdims=True) - test / test.sum(1, keepdims=True)).max() < 0.02


def test_sizes_follow_the_papers_formula():
    total, sigma = 60_000, 0.7
    i = np.arange(1, 31)
    paper = total / (i**sigma * (i**-sigma).sum())
    assert np.abs(zipf_sizes(total, 30, sigma) - paper).max() < 1
    assert zipf_sizes(10, 10, 5.0).tolist() == [1] * 10


def test_fit_moves_a_table_the_least():
    # By hand: the biproportional fit of the uniform table to sums (3, 1) and (2, 2) is the product of the margins.
    assert fit_to_sums(np.full((2, 2), 0.5), np.array([300, 100]), np.array([200, 200])).tolist() == [[150, 150], [50, 50]]


def test_the_same_seed_deals_the_same_samples_and_another_seed_does_not():
    data = load(DigitsSpec(name="digits"), 10, 0)
    first, again, other = (divide(ZipfDirichletSpec(), data, 10, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first.train, again.train, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first.train, other.train, strict=True))


def test_more_clients_than_samples_is_refused():
    with pytest.raises(DataError, match="3 train samples cannot be shared as 4 parts among 4 clients"):
        divide(ZipfDirichletSpec(), a_set([2, 1], [9, 9]), 4, seed=0)


@quick
@given(
    per_class=st.lists(st.integers(5, 40), min_size=2, max_size=6),
    clients=st.integers(1, 5),
    spec=st.sampled_from([IidSpec(name="iid"), ShardsSpec(name="shards"), ShardsSpec(name="shards", shards=1)]),
    seed=st.integers(0, 3),
)
def test_iid_and_shards_give_every_sample_once_in_parts_of_one_size(per_class, clients, spec, seed):
    data = a_set(per_class, per_class)
    owned = divide(spec, data, clients, seed)
    for own, half in ((owned.train, data.train), (owned.test, data.test)):
        assert np.array_equal(np.sort(np.concatenate(own)), np.arange(len(half.y)))
        assert max(map(len, own)) - min(map(len, own)) <= getattr(spec, "shards", 1)


def test_a_shard_is_of_one_label_or_two_and_tests_follow_training():
    data = a_set([60] * 10, [30] * 10)
    owned = divide(ShardsSpec(name="shards"), data, 10, seed=0)
    train, test = (class_counts(own, half.y, 10) for own, half in ((owned.train, data.train), (owned.test, data.test)))
    assert ((train > 0).sum(axis=1) <= 2).all()
    assert np.array_equal(train, 2 * test)


def test_a_file_of_sample_numbers(tmp_path):
    data, file = a_set([4, 4], [2, 2]), tmp_path / "own.json"
    file.touch()
    spec = FileSpec(name="file", path=str(file))

    def given(train, test):
        file.write_text(json.dumps({"train": train, "test": test}))
        return divide(spec, data, 2, seed=0)

    owned = given([[0, 7], [3]], [[1], []])
    assert [own.tolist() for own in owned.train] == [[0, 7], [3]]
    assert [len(own) for own in owned.test] == [1, 0]
    for train, message in (
        ([[0]], "1 lists for 2 clients"),
        ([[0, 1], [1]], "more than one place"),
        ([[0], [8]], r"outside 0\.\.7"),
        ([[0], []], "client 1 has no training samples"),
        ([[0], ["a"]], "cannot read"),
    ):
        with pytest.raises(DataError, match=message):
            given(train, [[], []])
    with pytest.raises(ValidationError, match="no such file"):
        FileSpec(name="file", path=str(tmp_path / "absent"))


def test_data_with_owners_is_divided_as_it_comes_and_no_other_data_can_be():
    spec = SyntheticSpec(name="synthetic")
    data = load(spec, 5, seed=1)
    owned = divide(NaturalSpec(name="natural"), data, 5, seed=1)
    assert sum(map(len, owned.train)) == len(data.train.y)
    assert all((data.train.owner[own] == client).all() for client, own in enumerate(owned.train))
    with pytest.raises(ScenarioError, match="iid does not fit, the data says who owns what"):
        divide(IidSpec(name="iid"), data, 5, seed=1)
    with pytest.raises(ScenarioError, match="natural does not fit, the data names no owners"):
        divide(NaturalSpec(name="natural"), a_set([9], [9]), 2, seed=1)
    with pytest.raises(DataError, match=r"owned by clients 0\.\.4 \(5\), not 0\.\.5"):
        divide(NaturalSpec(name="natural"), data, 6, seed=1)


@quick
@given(owners=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=40))
def test_the_table_of_counts_counts_every_sample_once_at_its_owner(owners):
    """Also classes that nobody has, the last one among them, and clients that have nothing."""
    labels = np.array([label for _, label in owners], dtype=np.int64)
    owned = [np.array([n for n, (owner, _) in enumerate(owners) if owner == i], dtype=np.int64) for i in range(4)]
    counts = class_counts(owned, labels, classes=6)
    assert counts.tolist() == [[owners.count((i, c)) for c in range(6)] for i in range(4)]
