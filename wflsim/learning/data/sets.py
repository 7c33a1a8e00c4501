"""Data sets by name, as arrays: images [n, channels, height, width] in [0, 1], or features [n, features].

A data set is a spec with a method `load`. To add one: such a spec, and its name in `DataSpec` below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from wflsim.errors import DataError
from wflsim.learning.data.arrays import DataSet, Floats, Labels, Samples, as_inputs
from wflsim.learning.machine import memory_errors_in_words, refuse_unless_it_fits
from wflsim.rng import stream
from wflsim.spec import InputFile, Spec


class Known(NamedTuple):
    """What can be said of a data set without loading it, for `tune.rounds_to_target`."""

    shape: tuple[int, ...]
    """Shape of one sample."""
    samples: int
    """Number of training samples."""
    classes: int = 10


class DataSetSpec(Spec):
    """Base of the specs of all data sets; each has a `name` that chooses it, and a method `load`."""

    known: ClassVar[Known | None] = None
    """What is known without loading; None: nothing is."""

    def load(self, clients: int, seed: int) -> DataSet:
        """The data set as arrays. Clients and seed matter only to sets that are made for them."""
        raise NotImplementedError


class DigitsSpec(DataSetSpec):
    """scikit-learn's 8x8 handwritten digits: 1,797 images, bundled, nothing to download."""

    name: Literal["digits"]
    """Chooses scikit-learn's 8x8 digits."""

    known = Known((1, 8, 8), 1198)

    def load(self, clients: int, seed: int) -> DataSet:
        from sklearn.datasets import load_digits

        bunch: Any = load_digits()
        x = (bunch.images[:, None] / 16.0).astype(np.float32)
        y = bunch.target.astype(np.int64)
        # scikit-learn ships one set. Everybody shares this split: two seeds must differ in training, not in the exam.
        order = stream(0, "digits split").permutation(len(y))
        test, train = order[:599], order[599:]
        return DataSet(Samples("train", x[train], y[train]), Samples("test", x[test], y[test]), classes=10)


class MnistSpec(DataSetSpec):
    """One of torchvision's 28x28 sets, 60,000 + 10,000 images; downloaded on first use, or found in WFLSIM_DATA."""

    name: Literal["mnist", "fashion_mnist", "kmnist"]
    """Chooses MNIST, Fashion-MNIST or Kuzushiji-MNIST."""
    standardise: bool = False
    """Whether pixels are scaled to mean 0 and deviation 1 over the training images; false: they are 0 to 1."""

    known = Known((1, 28, 28), 60_000)

    def load(self, clients: int, seed: int) -> DataSet:
        from wflsim.learning.data.vision import images

        kind = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "kmnist": "KMNIST"}[self.name]
        (bytes_train, y), (bytes_test, y_test) = images(kind, train=True), images(kind, train=False)
        x, x_test = as_inputs(bytes_train), as_inputs(bytes_test)
        if self.standardise:
            mean, deviation = (np.float32(value) for value in (x.mean(dtype=np.float64), x.std(dtype=np.float64)))
            x, x_test = (x - mean) / deviation, (x_test - mean) / deviation
        return DataSet(Samples("train", x, y), Samples("test", x_test, y_test), classes=10)


class SyntheticSpec(DataSetSpec):
    """FedProx's synthetic(alpha, beta), arXiv:1812.06127: 60 features, 10 classes, drawn anew for every seed.

    It has no alpha, because the labels do not depend on it: W_k and b_k of client k are drawn around one number
    u_k ~ N(0, alpha), which adds u_k (sum(x) + 1) to all ten logits alike and leaves the greatest of them where it was.
    """

    name: Literal["synthetic"]
    """Chooses FedProx's synthetic data."""
    beta: Annotated[float, Field(ge=0)] = 0.5
    """How much the inputs of clients differ: standard deviation of their centres, as in the authors' code."""

    known = Known((60,), 10_000)

    @model_validator(mode="before")
    @classmethod
    def _refuse_alpha(cls, given: Any) -> Any:
        """Refuse the authors' alpha with the reason why it changes nothing."""
        if isinstance(given, dict) and "alpha" in given:
            raise ValueError(
                f"alpha: {given['alpha']} has no effect: in FedProx's synthetic(alpha, beta) it shifts all ten logits "
                f"of a client alike, and no label changes; remove it, the data are FedProx's for every alpha"
            )
        return given

    def load(self, clients: int, seed: int) -> DataSet:
        # On average 50 + exp(6) samples of 60 features, a label and an owner; drawn, then joined, then dealt out.
        needed_bytes = 3 * clients * (50 + np.exp(6)) * (60 * 4 + 8 + 8)
        refuse_unless_it_fits(needed_bytes, f"data.name: synthetic data of {clients} clients", "lower clients")
        halves: list[list[tuple[Floats, Labels, Labels]]] = [[], []]
        scale = np.arange(1, 61) ** -0.6  # covariance diag(j^-1.2)
        for client in range(clients):
            rng = stream(seed, "synthetic", client)
            centre = rng.normal(0, self.beta)
            w, b, v = rng.normal(size=(60, 10)), rng.normal(size=10), rng.normal(centre, 1, 60)
            count = int(rng.lognormal(4, 2)) + 50
            x = v + scale * rng.normal(size=(count, 60))
            y = (x @ w + b).argmax(axis=1)
            tests = count // 10
            for half, part in zip(halves, (slice(tests, None), slice(tests)), strict=True):
                half.append((x[part].astype(np.float32), y[part], np.full(len(y[part]), client)))
        train, test = ([np.concatenate(column) for column in zip(*half, strict=True)] for half in halves)
        return DataSet(Samples("train", *train), Samples("test", *test), classes=10)


class NpzSpec(DataSetSpec):
    """A file with x_train, y_train, x_test, y_test, and owner_train, owner_test if it says who owns what."""

    name: Literal["npz"]
    """Chooses a data set of your own in an .npz file."""
    path: InputFile
    """The .npz file, relative to the scenario."""

    def load(self, clients: int, seed: int) -> DataSet:
        path = Path(self.path)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            train, test = (_half(name, arrays) for name in ("train", "test"))
        except (OSError, ValueError, KeyError) as error:
            wanted = "x_train, y_train, x_test, y_test"
            raise DataError(f"data.path: {path} is not an npz with {wanted}: {error}") from error
        for half in (train, test):
            if len(half.x) != len(half.y) or (half.owner is not None and len(half.owner) != len(half.y)):
                raise DataError(f"{path}: {half.name} samples, labels and owners differ in number")
        if train.x.shape[1:] != test.x.shape[1:] or (train.owner is None) != (test.owner is None):
            raise DataError(f"{path}: train and test differ in shape, or only one of them has owners")
        if not len(train.y) or min(train.y.min(), test.y.min(initial=0)) < 0:
            raise DataError(f"{path}: there must be training samples, and labels must count from 0")
        return DataSet(train, test, classes=int(max(train.y.max(), test.y.max(initial=0))) + 1)


DataSpec = Annotated[DigitsSpec | MnistSpec | SyntheticSpec | NpzSpec, Field(discriminator="name")]


def load(spec: DataSpec, clients: int, seed: int) -> DataSet:
    """Load the data set that a scenario names. Only `synthetic` depends on clients and seed."""
    with memory_errors_in_words(f"loading the data set {spec.name}", "choose a smaller one, or fewer clients"):
        return spec.load(clients, seed)


def _half(name: Literal["train", "test"], arrays: dict[str, Any]) -> Samples:
    """The training or test samples among the arrays of an npz."""
    labels = _integers(arrays, f"y_{name}")
    return Samples(name, as_inputs(arrays[f"x_{name}"]), labels, arrays.get(f"owner_{name}"))


def _integers(arrays: dict[str, Any], name: str) -> Labels:
    """The array of this name, provided that it is a vector of integers."""
    if arrays[name].ndim != 1 or not np.issubdtype(arrays[name].dtype, np.integer):
        raise ValueError(f"{name} must be a vector of integers")
    labels: Labels = arrays[name].astype(np.int64)
    return labels
