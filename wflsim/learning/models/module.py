"""A torch module of the user's own as a model: found beside the scenario, imported afresh, checked before training."""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from wflsim.errors import DataError
from wflsim.imports import import_fresh, said
from wflsim.learning.models.builtin import Layer, Model
from wflsim.learning.specs import ModuleSpec
from wflsim.rng import stream


class UserModule(Model):
    """A torch module that maps samples [b, ...] to logits [b, classes] and depends on nothing but its parameters."""

    def __init__(self, spec: ModuleSpec, shape: tuple[int, ...], classes: int, seed: int) -> None:
        self._module = _construct(spec, seed)
        self._names = [name for name, _ in self._module.named_parameters()]
        self.layers = [Layer(tuple(value.shape), 1) for value in self._module.parameters()]
        # Calling a module with other parameters swaps them inside it for a moment: each thread needs a copy.
        self._copies = threading.local()
        self._check(spec, shape, classes)

    def initial(self, seed: int) -> Tensor:
        """[P] parameters as the module's constructor left them, drawn from a generator that the seed names."""
        return torch.cat([value.detach().flatten() for value in self._module.parameters()]).double()

    def flops(self, sample: Tensor) -> float:
        return self.counted_flops(sample)

    def forward(self, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        if not hasattr(self._copies, "module"):
            self._copies.module = deepcopy(self._module)
        logits: Tensor = functional_call(self._copies.module, dict(zip(self._names, parameters, strict=True)), (x,))
        return logits

    def _check(self, spec: ModuleSpec, shape: tuple[int, ...], classes: int) -> None:
        """Raise a DataError unless the module can be trained on samples of this shape."""
        name = spec.module
        if not self.layers:
            raise DataError(f"model.module: {name} has no parameters, so there is nothing to train")
        if list(self._module.buffers()):
            raise DataError(f"model.module: {name} has buffers (batch norm?), which are not averaged; use group norm")
        if any(isinstance(part, nn.modules.dropout._DropoutNd) for part in self._module.modules()):
            raise DataError(f"model.module: {name} has dropout, whose randomness no named stream can give; remove it")
        try:
            with torch.no_grad():
                logits = self._module(torch.zeros(2, *shape))
        except Exception as error:  # a stranger's code may raise anything
            raise DataError(f"model.module: {name} cannot take samples of shape {shape}: {said(error)}") from error
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        if got != (2, classes):
            raise DataError(f"model.module: {name} maps 2 samples of shape {shape} to {got}, not to (2, {classes})")


def _construct(spec: ModuleSpec, seed: int) -> nn.Module:
    """An instance of the user's class, its initial parameters drawn from a stream of the seed."""
    made = _imported(spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "initial").integers(2**63)))
        try:
            module = made(**spec.arguments)
        except Exception as error:  # a stranger's code may raise anything
            given = spec.arguments or "no arguments"
            raise DataError(
                f"model.arguments: {spec.module} cannot be made with {given}: {said(error)}; "
                f"it accepts {_signature(made)}"
            ) from error
    if not isinstance(module, nn.Module):
        raise DataError(f"model.module: {spec.module} is not a torch.nn.Module")
    return module


def _imported(spec: ModuleSpec) -> Any:
    """The class that `package.file:Class` names."""
    dotted, name = spec.module.split(":")
    place = spec.place()
    beside = place is not None and spec.folder is not None and place.root == Path(spec.folder)
    try:
        module = import_fresh(place) if place is not None and beside else importlib.import_module(dotted)
    except Exception as error:  # a stranger's file may raise anything, from a syntax error on
        places = f"{spec.folder or Path.cwd()} and the installed packages"
        where = f"from {place.file}" if place else f"(looked for in {places})"
        raise DataError(f"model.module: cannot import {spec.module} {where}: {said(error)}") from error
    if not hasattr(module, name):
        raise DataError(f"model.module: cannot import {spec.module}: {spec.file()} defines no {name!r}")
    return getattr(module, name)


def _signature(made: Any) -> str:
    """The arguments that a class accepts, in words."""
    try:
        return f"{getattr(made, '__name__', made)}{inspect.signature(made)}"
    except (TypeError, ValueError):
        return "unknown arguments"
