"""Models as functions of flat parameter vectors; each knows its layers, its forward pass and its input layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from wflsim.learning.data import Floats
from wflsim.learning.specs import LinearSpec, ModelSpec
from wflsim.rng import stream


class Layer(NamedTuple):
    """One parameter tensor, and how many inputs feed one of its outputs (which scales its initial values)."""

    shape: tuple[int, ...]
    fan_in: int


class Model(ABC):
    """A forward pass over a list of parameter tensors, which are slices of one flat vector."""

    batched = False
    """`forward` also takes parameters [k, ...] with samples [k, b, ...]."""
    layers: Sequence[Layer]

    @abstractmethod
    def forward(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Logits [b, classes] of samples [b, ...]."""

    def inputs(self, x: Floats, dtype: torch.dtype) -> Tensor:
        """Samples as `forward` wants them."""
        return torch.from_numpy(x).to(dtype)

    def initial(self, seed: int) -> Tensor:
        """[P] uniform in +-1/sqrt(fan_in), torch's own default for these layers, in float64."""
        draws = [
            stream(seed, "initial", number).uniform(-(layer.fan_in**-0.5), layer.fan_in**-0.5, prod(layer.shape))
            for number, layer in enumerate(self.layers)
        ]
        return torch.from_numpy(np.concatenate(draws))

    def split(self, flat: Tensor) -> list[Tensor]:
        """Views of the last dimension of [P] or [k, P] as parameter tensors."""
        parts = torch.split(flat, [prod(layer.shape) for layer in self.layers], dim=-1)
        return [part.view(*flat.shape[:-1], *layer.shape) for part, layer in zip(parts, self.layers, strict=True)]

    @property
    def parameters(self) -> int:
        """P."""
        return sum(prod(layer.shape) for layer in self.layers)

    def flops(self, sample: Tensor) -> float:
        """Floating-point operations of the forward pass of one sample [1, ...], counted while it runs."""
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            self.forward(self.split(torch.zeros(self.parameters, dtype=sample.dtype)), sample)
        return float(counter.get_total_flops())


class Linear(Model):
    """Softmax regression. The bias is the weight of a feature that is always one: one matrix product does it all."""

    batched = True

    def __init__(self, features: int, classes: int) -> None:
        self.layers = [Layer((classes, features + 1), features)]

    def inputs(self, x: Floats, dtype: torch.dtype) -> Tensor:
        flat = torch.from_numpy(x).to(dtype).flatten(1)
        return torch.cat([flat, flat.new_ones(len(flat), 1)], dim=1)

    def forward(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        return x @ parameters[0].mT


class Mlp(Model):
    """Fully connected layers with ReLU in between."""

    batched = True

    def __init__(self, features: int, hidden: Sequence[int], classes: int) -> None:
        widths = [features, *hidden, classes]
        self.layers = [
            layer
            for before, after in pairwise(widths)
            for layer in (Layer((after, before), before), Layer((after,), before))
        ]

    def inputs(self, x: Floats, dtype: torch.dtype) -> Tensor:
        return super().inputs(x, dtype).flatten(1)

    def forward(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        for number in range(0, len(parameters), 2):
            if number:
                x = x.relu()
            x = x @ parameters[number].mT + parameters[number + 1].unsqueeze(-2)
        return x


def make(spec: ModelSpec, shape: tuple[int, ...], classes: int) -> Model:
    """The model a scenario names, for samples of this shape."""
    if isinstance(spec, LinearSpec):
        return Linear(prod(shape), classes)
    return Mlp(prod(shape), spec.hidden, classes)
