"""Data sets: what they hold, and what a user hears when one cannot be had. Real sets are in test_learning_real.py."""

import numpy as np
import pytest
from pydantic import ValidationError

from wflsim.errors import DataError
from wflsim.learning.build import build
from wflsim.learning.data import vision
from wflsim.learning.data.partition import IidSpec, NaturalSpec
from wflsim.learning.data.sets import DigitsSpec, MnistSpec, NpzSpec, SyntheticSpec, load
from wflsim.learning.specs import CnnSpec, LinearSpec, TrainSpec
from wflsim.rng import stream


def test_digits_have_one_split_for_all():
    one, other = load(DigitsSpec(name="digits"), 10, 1), load(DigitsSpec(name="digits"), 20, 2)
    assert one.shape == (1, 8, 8)
    assert (len(one.train.y), len(one.test.y)) == (1198, 599)
    assert (one.train.x.min(), one.train.x.max()) == (0, 1)
    assert np.array_equal(one.test.x, other.test.x)
    assert set(one.test.y) == set(range(10))


@pytest.mark.parametrize("u", [-3.0, 0.0, 1.5])
def test_synthetic_labels_are_fedproxs_for_every_alpha(u):
    """FedProx draws W_k and b_k around one number u_k ~ N(0, alpha); whatever it is, the labels are ours."""
    data = load(SyntheticSpec(name="synthetic", beta=2.0), 3, 5)
    for client in range(3):
        rng = stream(5, "synthetic", client)
        rng.normal(0, 2.0)
        w, b = u + rng.normal(size=(60, 10)), u + rng.normal(size=10)
        for half in (data.train, data.test):
            x, y = half.x[half.owner == client].astype(np.float64), half.y[half.owner == client]
            logits = x @ w + b
            # x was rounded to float32 after its label was taken: only a tie within that rounding may fall otherwise.
            assert len(y)
            assert np.all(logits.max(axis=1) - logits[np.arange(len(y)), y] < 1e-4)


def test_synthetic_clients_differ_more_with_beta():
    def spread(beta):
        data = load(SyntheticSpec(name="synthetic", beta=beta), 12, 1)
        means = [data.train.x[data.train.owner == client].mean() for client in range(12)]
        return np.std(means)

    assert spread(3.0) > 5 * spread(0.0)
    data = load(SyntheticSpec(name="synthetic"), 12, 1)
    assert data.shape == (60,)
    # The covariance is diag(j^-1.2): the last feature varies by a factor 60^-0.6 less than the first.
    own = data.train.x[data.train.owner == np.bincount(data.train.owner).argmax()]
    assert own[:, 59].std() / own[:, 0].std() == pytest.approx(60**-0.6, rel=0.2)
    assert not np.array_equal(data.train.x[:9], load(SyntheticSpec(name="synthetic"), 12, 2).train.x[:9])


def test_a_users_npz(tmp_path):
    file = tmp_path / "own.npz"
    arrays = {
        "x_train": np.full((6, 4, 4), 255, dtype=np.uint8),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.zeros((3, 4, 4), dtype=np.uint8),
        "y_test": np.array([0, 1, 2], dtype=np.uint8),
    }
    np.savez(file, **arrays)
    spec = NpzSpec(name="npz", path=str(file))
    data = load(spec, 2, 1)
    assert (data.shape, data.classes, data.train.x.max()) == ((1, 4, 4), 3, 1.0)
    assert build(spec, IidSpec(name="iid"), CnnSpec(name="cnn"), TrainSpec(), 3, 1).samples == [2, 2, 2]
    np.savez(file, **arrays, owner_train=np.array([0, 0, 0, 0, 0, 1]), owner_test=np.array([0, 0, 0]))
    ours = build(spec, NaturalSpec(name="natural"), LinearSpec(name="linear"), TrainSpec(), 2, 1)
    assert (ours.samples, ours.test_samples) == ([5, 1], [3, 0])
    accuracy, loss = ours.evaluate(lambda me: ours.initial())
    assert accuracy[1] is None
    assert loss[1] is None
    for change, message in (
        ({"y_train": np.zeros(6)}, "vector of integers"),
        ({"y_train": np.zeros(5, dtype=int)}, "differ in number"),
        ({"x_test": np.zeros((3, 5, 5))}, "differ in shape"),
        ({"y_test": np.array([-1, 0, 1])}, "count from 0"),
        ({"x_train": np.array([{}])}, "not an npz"),
    ):
        np.savez(file, **{**arrays, **change})
        with pytest.raises(DataError, match=message):
            load(spec, 2, 1)
    with pytest.raises(ValidationError, match="no such file"):
        NpzSpec(name="npz", path=str(tmp_path / "absent.npz"))


def test_offline_without_a_copy_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("WFLSIM_DATA", str(tmp_path))

    def no_network(*args, **kwargs):
        raise OSError("Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", no_network)
    with pytest.raises(DataError) as refusal:
        load(MnistSpec(name="kmnist"), 10, 1)
    for part in ("KMNIST is not in", str(tmp_path), "WFLSIM_DATA", "KMNIST/raw", "digits"):
        assert part in str(refusal.value)


def test_the_data_directory_is_the_users_or_a_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("WFLSIM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert vision.data_dir() == tmp_path / "wflsim" / "data"
    monkeypatch.setenv("WFLSIM_DATA", "/elsewhere")
    assert str(vision.data_dir()) == "/elsewhere"
