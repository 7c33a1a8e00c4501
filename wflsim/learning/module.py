"""A user's own torch module as a model."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from wflsim.errors import DataError
from wflsim.learning.models import Layer, Model
from wflsim.learning.specs import ModuleSpec
from wflsim.rng import stream


class UserModule(Model):
    """Any module that maps [b, ...] to logits [b, classes] and is a pure function of its parameters."""

    def __init__(self, spec: ModuleSpec, shape: tuple[int, ...], classes: int, seed: int) -> None:
        self._module = _construct(spec, seed)
        self._names = [name for name, _ in self._module.named_parameters()]
        self.layers = [Layer(tuple(value.shape), 1) for value in self._module.parameters()]
        # Calling a module with other parameters swaps them inside it for a moment: each thread needs a copy.
        self._copies = threading.local()
        self._check(spec.module, shape, classes)

    def initial(self, seed: int) -> Tensor:
        """As its constructor left them, under a generator that the seed names."""
        return torch.cat([value.detach().flatten() for value in self._module.parameters()]).double()

    def flops(self, sample: Tensor) -> float:
        return self.counted_flops(sample)

    def forward(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        if not hasattr(self._copies, "module"):
            self._copies.module = deepcopy(self._module)
        logits: Tensor = functional_call(self._copies.module, dict(zip(self._names, parameters, strict=True)), (x,))
        return logits

    def _check(self, name: str, shape: tuple[int, ...], classes: int) -> None:
        if list(self._module.buffers()):
            raise DataError(f"model.module: {name} has buffers (batch norm?), which are not averaged; use group norm")
        if any(isinstance(part, nn.modules.dropout._DropoutNd) for part in self._module.modules()):
            raise DataError(f"model.module: {name} has dropout, whose randomness no named stream can give; remove it")
        try:
            with torch.no_grad():
                got = tuple(self._module(torch.zeros(2, *shape)).shape)
        except RuntimeError as error:
            raise DataError(f"model.module: {name} cannot take samples of shape {shape}: {error}") from error
        if got != (2, classes):
            raise DataError(f"model.module: {name} maps 2 samples of shape {shape} to {got}, not to (2, {classes})")


def _construct(spec: ModuleSpec, seed: int) -> nn.Module:
    file, name = spec.module.split(":")
    sys.path.insert(0, os.getcwd())
    try:
        cls = getattr(importlib.import_module(file), name)
    except (ImportError, AttributeError) as error:
        raise DataError(f"model.module: cannot import {spec.module} from {os.getcwd()}: {error}") from error
    finally:
        sys.path.pop(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "initial").integers(2**63)))
        module = cls(**spec.arguments)
    if not isinstance(module, nn.Module):
        raise DataError(f"model.module: {spec.module} is not a torch.nn.Module")
    return module
