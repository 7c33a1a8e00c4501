"""What a data set is: training and test samples as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Samples:
    """The training or the test samples of a data set."""

    name: Literal["train", "test"]
    x: Floats
    """[n, ...] inputs."""
    y: Labels
    """[n] labels, counted from 0."""
    owner: Labels | None = None
    """[n] client that each sample belongs to, if the data itself says so."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Training and test samples of a classification task."""

    train: Samples
    test: Samples
    classes: int
    """Number of classes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.train.x.shape[1:]

    @property
    def owned(self) -> bool:
        """Whether the data itself says which client each sample belongs to."""
        return self.train.owner is not None


def as_inputs(x: NDArray[Any]) -> Floats:
    """Inputs as float32: bytes are pixels of 0..255 and become 0..1; images without a channel get one."""
    scaled = x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 else 1)
    return scaled[:, None] if x.ndim == 3 else scaled
