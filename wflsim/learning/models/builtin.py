"""Built-in models as functions of flat parameter vectors: softmax regression, dense layers, the paper's CNN."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, linear, max_pool2d
from torch.utils.flop_counter import FlopCounterMode

from wflsim.errors import ScenarioError
from wflsim.learning.data.arrays import DataSet, Floats
from wflsim.learning.machine import refuse_without_room_for_the_compiler
from wflsim.learning.specs import CnnSpec, LinearSpec, MlpSpec, ModelSpec, ModuleSpec, ResNet18LastSpec
from wflsim.rng import stream


class Layer(NamedTuple):
    """One parameter tensor of a model."""

    shape: tuple[int, ...]
    fan_in: int
    """Number of inputs that feed one output: initial values are of the order 1/sqrt(fan_in)."""


class Model(ABC):
    """A forward pass over a list of parameter tensors, which are slices of one flat vector of P values."""

    batched = False
    """Whether `forward` also takes parameters [k, ...] with samples [k, b, ...]."""
    layers: Sequence[Layer]
    """Parameter tensors in the order of the flat vector."""

    @abstractmethod
    def forward(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        """Logits [b, classes] of samples [b, ...]."""

    def represent(self, x: Floats) -> Floats:
        """What clients train on instead of the samples themselves; called once for each half of the data set."""
        return x

    def inputs(self, x: Floats, dtype: torch.dtype) -> Tensor:
        """Samples as the tensor that `forward` takes."""
        return torch.from_numpy(x).to(dtype)

    def data_part(self, x: Tensor) -> Tensor:
        """[b, q] values of inputs [b, ...] that come from the data: all of them, unless the model appends some."""
        return x.flatten(1)

    def with_data(self, x: Tensor, data: Tensor) -> Tensor:
        """New inputs, like x but with these [b, q] values from the data: the inverse of `data_part`."""
        return data.view(x.shape)

    def initial(self, seed: int) -> Tensor:
        """[P] initial parameters in float64, uniform in +-1/sqrt(fan_in), which is torch's default for these layers."""
        draws = [
            stream(seed, "initial", number).uniform(-(layer.fan_in**-0.5), layer.fan_in**-0.5, prod(layer.shape))
            for number, layer in enumerate(self.layers)
        ]
        return torch.from_numpy(np.concatenate(draws))

    def split(self, flat: Tensor) -> list[Tensor]:
        """Parameter tensors as views of a flat vector [P], or of k of them [k, P]."""
        parts = torch.split(flat, [prod(layer.shape) for layer in self.layers], dim=-1)
        return [part.view(*flat.shape[:-1], *layer.shape) for part, layer in zip(parts, self.layers, strict=True)]

    @property
    def parameters(self) -> int:
        """P, the number of parameters."""
        return sum(prod(layer.shape) for layer in self.layers)

    def flops(self, sample: Tensor) -> float:
        """Floating-point operations of the forward pass of one sample [1, ...]: two for every weight of a matrix."""
        return 2.0 * sum(prod(layer.shape) for layer in self.layers if len(layer.shape) == 2)

    def counted_flops(self, sample: Tensor) -> float:
        """The same, counted by torch during a forward pass. Slow at first: it makes torch import its compiler."""
        refuse_without_room_for_the_compiler("counting the operations of model.module", "raise the limit on memory")
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            self.forward(self.split(sample.new_zeros(self.parameters)), sample)
        return float(counter.get_total_flops())


class Linear(Model):
    """Softmax regression. The bias is the weight of an input that is always one, so there is one matrix product."""

    batched = True

    def __init__(self, features: int, classes: int) -> None:
        self.layers = [Layer((classes, features + 1), features)]

    def inputs(self, x: Floats, dtype: torch.dtype) -> Tensor:
        flat = torch.from_numpy(x).to(dtype).flatten(1)
        return torch.cat([flat, flat.new_ones(len(flat), 1)], dim=1)

    def data_part(self, x: Tensor) -> Tensor:
        return x[:, :-1]

    def with_data(self, x: Tensor, data: Tensor) -> Tensor:
        return torch.cat([data, x[:, -1:]], dim=1)

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


class Cnn(Model):
    """The paper's network: conv 3x3 (16), max-pool, conv 3x3 (32), max-pool, dense 500, ReLU, dense.

    As the text has it, no ReLU follows the convolutions. Samples and kernels are stored channels last, which makes
    pooling and its gradient several times faster on a CPU; the views below then copy nothing.
    """

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        if len(shape) != 3 or min(shape[1:]) < 4:
            raise ScenarioError(f"model.name: cnn needs images of at least 4 x 4 pixels, the data has shape {shape}")
        channels, height, width = shape
        flat = 32 * (height // 4) * (width // 4)
        weights = ((16, 3, 3, channels), (32, 3, 3, 16), (500, flat), (classes, 500))
        self.layers = [layer for w in weights for layer in (Layer(w, prod(w[1:])), Layer(w[:1], prod(w[1:])))]

    def inputs(self, x: Floats, dtype: torch.dtype) -> Tensor:
        return super().inputs(x, dtype).movedim(1, -1).contiguous()

    def flops(self, sample: Tensor) -> float:
        _, height, width, _ = sample.shape
        places = (height * width, (height // 2) * (width // 2))
        kernels = (layer.shape for layer in self.layers if len(layer.shape) == 4)
        return super().flops(sample) + sum(2.0 * prod(k) * n for k, n in zip(kernels, places, strict=True))

    def forward(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        k1, b1, k2, b2, w1, c1, w2, c2 = parameters
        x = x.movedim(-1, 1)
        for kernel, bias in ((k1, b1), (k2, b2)):
            x = max_pool2d(conv2d(x, kernel.movedim(-1, 1), bias, padding=1), 2)
        x = linear(x.movedim(1, -1).flatten(1), w1, c1).relu()
        return linear(x, w2, c2)


def make_model(spec: ModelSpec, data: DataSet, seed: int) -> Model:
    """The model a scenario names, for samples of this data set."""
    match spec:
        case LinearSpec():
            return Linear(prod(data.shape), data.classes)
        case MlpSpec():
            return Mlp(prod(data.shape), spec.hidden, data.classes)
        case CnnSpec():
            return Cnn(data.shape, data.classes)
        case ResNet18LastSpec():
            from wflsim.learning.models.backbone import LastLayer

            return LastLayer(spec.size, data.classes)
        case ModuleSpec():
            from wflsim.learning.models.module import UserModule

            return UserModule(spec, data.shape, data.classes, seed)
