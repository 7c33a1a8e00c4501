"""Data sets by name, as arrays: images [n, channels, height, width] in [0, 1], or features [n, features]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wflsim.rng import stream
from wflsim.units import Spec

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


class DigitsSpec(Spec):
    """scikit-learn's 8x8 handwritten digits: 1,797 images, bundled, nothing to download."""

    name: Literal["digits"]


DataSpec = DigitsSpec


@dataclass(frozen=True, slots=True)
class Samples:
    """One half of a data set."""

    x: Floats
    y: Labels


@dataclass(frozen=True, slots=True)
class DataSet:
    """What there is to learn from, before anybody owns it."""

    train: Samples
    test: Samples
    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample."""
        return self.train.x.shape[1:]


def load(spec: DataSpec) -> DataSet:
    """The data set a scenario names."""
    return _digits()


def _digits() -> DataSet:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    x = (bunch.images[:, None] / 16.0).astype(np.float32)
    y = bunch.target.astype(np.int64)
    # scikit-learn ships one set. Everybody shares this split: two seeds must differ in training, not in the exam.
    order = stream(0, "digits split").permutation(len(y))
    test, train = order[:599], order[599:]
    return DataSet(Samples(x[train], y[train]), Samples(x[test], y[test]), classes=10)
