"""Which model is trained, and how. Apart from the classes they configure only because those import torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wflsim.units import Spec

Count = Annotated[int, Field(gt=0)]


class LinearSpec(Spec):
    """Softmax regression on the flattened input (the paper's MNIST model: 7,850 parameters)."""

    name: Literal["linear"]


class MlpSpec(Spec):
    """Fully connected layers with ReLU in between."""

    name: Literal["mlp"]
    hidden: tuple[Count, ...] = (64,)
    """Width of each hidden layer."""


ModelSpec = Annotated[LinearSpec | MlpSpec, Field(discriminator="name")]


class TrainSpec(Spec):
    """How clients compute; the algorithm itself (steps, learning rates) belongs to the policy."""

    batch: Count = 32
    """Samples per minibatch; a client with fewer uses all it has."""
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: cuda where there is one."""
    replacement: bool = False
    """False: batches are successive slices of a shuffled pass over the client's data; True: independent draws."""
