"""Data sets by name, as arrays: images [n, channels, height, width] in [0, 1], or features [n, features]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wflsim.errors import DataError
from wflsim.learning.fits import failures_in_words, refuse_unless_it_fits
from wflsim.rng import stream
from wflsim.units import InputFile, Spec

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


class DigitsSpec(Spec):
    """scikit-learn's 8x8 handwritten digits: 1,797 images, bundled, nothing to download."""

    name: Literal["digits"]


class MnistSpec(Spec):
    """One of torchvision's 28x28 sets, 60,000 + 10,000 images; downloaded on first use, or found in WFLSIM_DATA."""

    name: Literal["mnist", "fashion_mnist", "kmnist"]
    standardise: bool = False
    """Shift and scale the pixels to mean 0 and deviation 1 over all training images; otherwise they are 0 to 1."""


class SyntheticSpec(Spec):
    """FedProx's synthetic(alpha, beta), arXiv:1812.06127: 60 features, 10 classes, drawn anew for every seed."""

    name: Literal["synthetic"]
    alpha: Annotated[float, Field(ge=0)] = 0.5
    """How much local models differ (standard deviation, as in the authors' code)."""
    beta: Annotated[float, Field(ge=0)] = 0.5
    """How much local inputs differ."""


class NpzSpec(Spec):
    """A file with x_train, y_train, x_test, y_test, and owner_train, owner_test if it says who owns what."""

    name: Literal["npz"]
    path: InputFile


DataSpec = Annotated[DigitsSpec | MnistSpec | SyntheticSpec | NpzSpec, Field(discriminator="name")]


@dataclass(frozen=True, slots=True)
class Samples:
    """One half of a data set."""

    name: Literal["train", "test"]
    x: Floats
    y: Labels
    owner: Labels | None = None


@dataclass(frozen=True, slots=True)
class DataSet:
    """What there is to learn from."""

    train: Samples
    test: Samples
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample."""
        return self.train.x.shape[1:]

    @property
    def owned(self) -> bool:
        """The data itself says which client each sample belongs to."""
        return self.train.owner is not None


def load(spec: DataSpec, clients: int, seed: int) -> DataSet:
    """The data set a scenario names. Only `synthetic` depends on clients and seed."""
    with failures_in_words(f"loading the data set {spec.name}", "choose a smaller one, or fewer clients"):
        match spec:
            case DigitsSpec():
                return _digits()
            case MnistSpec():
                return _mnist(spec)
            case SyntheticSpec():
                return _synthetic(spec, clients, seed)
            case NpzSpec():
                return _npz(Path(spec.path))


def _digits() -> DataSet:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    x = (bunch.images[:, None] / 16.0).astype(np.float32)
    y = bunch.target.astype(np.int64)
    # scikit-learn ships one set. Everybody shares this split: two seeds must differ in training, not in the exam.
    order = stream(0, "digits split").permutation(len(y))
    test, train = order[:599], order[599:]
    return DataSet(Samples("train", x[train], y[train]), Samples("test", x[test], y[test]), classes=10)


def _mnist(spec: MnistSpec) -> DataSet:
    from wflsim.learning.vision import images

    kind = {"mnist": "MNIST", "fashion_mnist": "FashionMNIST", "kmnist": "KMNIST"}[spec.name]
    (bytes_train, y), (bytes_test, y_test) = images(kind, train=True), images(kind, train=False)
    x, x_test = _pixels(bytes_train), _pixels(bytes_test)
    if spec.standardise:
        mean, deviation = (np.float32(value) for value in (x.mean(dtype=np.float64), x.std(dtype=np.float64)))
        x, x_test = (x - mean) / deviation, (x_test - mean) / deviation
    return DataSet(Samples("train", x, y), Samples("test", x_test, y_test), classes=10)


def _synthetic(spec: SyntheticSpec, clients: int, seed: int) -> DataSet:
    # On average 50 + exp(6) samples of 60 features, a label and an owner; drawn, then joined, then dealt out.
    needed_bytes = 3 * clients * (50 + np.exp(6)) * (60 * 4 + 8 + 8)
    refuse_unless_it_fits(needed_bytes, f"data.name: synthetic data of {clients} clients", "lower clients")
    halves: list[list[tuple[Floats, Labels, Labels]]] = [[], []]
    scale = np.arange(1, 61) ** -0.6  # covariance diag(j^-1.2)
    for client in range(clients):
        rng = stream(seed, "synthetic", client)
        u, centre = rng.normal(0, spec.alpha), rng.normal(0, spec.beta)
        w, b, v = rng.normal(u, 1, (60, 10)), rng.normal(u, 1, 10), rng.normal(centre, 1, 60)
        count = int(rng.lognormal(4, 2)) + 50
        x = v + scale * rng.normal(size=(count, 60))
        y = (x @ w + b).argmax(axis=1)
        tests = count // 10
        for half, part in zip(halves, (slice(tests, None), slice(tests)), strict=True):
            half.append((x[part].astype(np.float32), y[part], np.full(len(y[part]), client)))
    train, test = ([np.concatenate(column) for column in zip(*half, strict=True)] for half in halves)
    return DataSet(Samples("train", *train), Samples("test", *test), classes=10)


def _npz(path: Path) -> DataSet:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        halves = [
            Samples(name, _pixels(arrays[f"x_{name}"]), _integers(arrays, f"y_{name}"), arrays.get(f"owner_{name}"))
            for name in ("train", "test")
        ]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"data.path: {path} is not an npz with x_train, y_train, x_test, y_test: {error}") from error
    train, test = halves
    for half in halves:
        if len(half.x) != len(half.y) or (half.owner is not None and len(half.owner) != len(half.y)):
            raise DataError(f"{path}: {half.name} samples, labels and owners differ in number")
    if train.x.shape[1:] != test.x.shape[1:] or (train.owner is None) != (test.owner is None):
        raise DataError(f"{path}: train and test differ in shape, or only one of them has owners")
    if not len(train.y) or min(train.y.min(), test.y.min(initial=0)) < 0:
        raise DataError(f"{path}: there must be training samples, and labels must count from 0")
    return DataSet(train, test, classes=int(max(train.y.max(), test.y.max(initial=0))) + 1)


def _integers(arrays: dict[str, Any], name: str) -> Labels:
    if arrays[name].ndim != 1 or not np.issubdtype(arrays[name].dtype, np.integer):
        raise ValueError(f"{name} must be a vector of integers")
    labels: Labels = arrays[name].astype(np.int64)
    return labels


def _pixels(x: NDArray[Any]) -> Floats:
    """Bytes are pixels of 0..255; a channel is added where images have none."""
    scaled = x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 else 1)
    return scaled[:, None] if x.ndim == 3 else scaled
