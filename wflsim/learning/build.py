"""Builds a learner from the specs of a scenario: loads the data, divides it among clients, chooses the gradients."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from wflsim.errors import ScenarioError
from wflsim.learning.data.arrays import Samples
from wflsim.learning.data.partition import Owned, PartitionSpec, divide
from wflsim.learning.data.sets import DataSpec, load
from wflsim.learning.learner import Learner
from wflsim.learning.machine import memory_errors_in_words, refuse_unless_it_fits
from wflsim.learning.models.builtin import Cnn, Linear, Model, make_model
from wflsim.learning.models.by_hand import CnnByHand
from wflsim.learning.models.gradients import Batched, Gradients, LinearSoftmax, OneByOne, Vmapped
from wflsim.learning.samples import Shards
from wflsim.learning.specs import ModelSpec, TrainSpec


def build(
    data: DataSpec,
    partition: PartitionSpec,
    model: ModelSpec,
    train: TrainSpec,
    clients: int,
    seed: int,
    threads: int = 1,
) -> Learner:  # seven parameters: four blocks of the scenario, its clients and seed, and the threads
    """Load the data, divide it among the clients, and put model and samples on the device."""
    smaller = "choose a smaller model or data set"
    with memory_errors_in_words("building the model and the clients' data", smaller):
        loaded = load(data, clients, seed)
        owned = divide(partition, loaded, clients, seed)
        made = make_model(model, loaded, seed)
        dtype, device = getattr(torch, train.dtype), _device(train.device)
        # Initial values are drawn in float64; then there are a server's model, a client's, its gradient and a reply.
        model_bytes = made.parameters * (2 * 8 + 4 * dtype.itemsize)
        refuse_unless_it_fits(model_bytes, f"model.name: {model.name} of {made.parameters} parameters", smaller)
        training, tests = (
            _shards(made, half, own, dtype, device)
            for half, own in ((loaded.train, owned.train), (loaded.test, owned.test))
        )
        return Learner(_gradients(made, train.gradients, device), training, tests, train, seed, threads)


def _shards(model: Model, half: Samples, owned: Owned, dtype: torch.dtype, device: str) -> Shards:
    """One half of the data set in the order of its owners, as the model takes it, on the device."""
    order = np.concatenate(owned)
    sizes = [len(own) for own in owned]
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    x, y = model.inputs(model.represent(half.x)[order], dtype), torch.from_numpy(half.y[order])
    return Shards(x.to(device), y.to(device), starts, sizes)


def _gradients(model: Model, wanted: Literal["auto", "threads", "vmap"], device: str) -> Gradients:
    """The way to differentiate that the scenario names, or the fastest measured for this kind of model and device."""
    if wanted == "auto":
        if isinstance(model, Linear):
            return LinearSoftmax(model)
        if model.batched:
            return Batched(model)
    if wanted == "vmap" or (wanted == "auto" and device == "cuda"):
        return Vmapped(model)
    return CnnByHand(model) if isinstance(model, Cnn) else OneByOne(model)


def _device(wanted: str) -> str:
    """The device's name for torch; auto: cuda where there is one."""
    present = torch.cuda.is_available()
    if wanted == "cuda" and not present:
        raise ScenarioError("train.device: cuda asked for, but torch sees no CUDA device; use auto or cpu")
    return "cuda" if present and wanted == "auto" else wanted.replace("auto", "cpu")
