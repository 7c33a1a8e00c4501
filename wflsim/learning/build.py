"""From specs to a learner."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from wflsim.errors import ScenarioError
from wflsim.learning import engines, models
from wflsim.learning.by_hand import CnnByHand
from wflsim.learning.client import Shards
from wflsim.learning.data import DataSpec, Samples, load
from wflsim.learning.fits import failures_in_words, refuse_unless_it_fits
from wflsim.learning.partition import Owned, PartitionSpec, divide
from wflsim.learning.specs import ModelSpec, TrainSpec
from wflsim.learning.trainer import Learner


def build(
    data: DataSpec,
    partition: PartitionSpec,
    model: ModelSpec,
    train: TrainSpec,
    clients: int,
    seed: int,
    threads: int = 1,
) -> Learner:
    """Load the data, deal it out, and put the model on the device."""
    smaller = "choose a smaller model or data set"
    with failures_in_words("building the model and the clients' data", smaller):
        loaded = load(data, clients, seed)
        owned = divide(partition, loaded, clients, seed)
        made = models.make(model, loaded, seed)
        dtype, device = getattr(torch, train.dtype), _device(train.device)
        # Initial values are drawn in float64; then there are a server's model, a client's, its gradient and a reply.
        model_bytes = made.parameters * (2 * 8 + 4 * dtype.itemsize)
        refuse_unless_it_fits(model_bytes, f"model.name: {model.name} of {made.parameters} parameters", smaller)
        halves = [
            _shards(made, half, own, dtype, device)
            for half, own in ((loaded.train, owned.train), (loaded.test, owned.test))
        ]
        return Learner(_engine(made, train.engine, device), halves[0], halves[1], train, seed, threads)


def _shards(model: models.Model, half: Samples, owned: Owned, dtype: torch.dtype, device: str) -> Shards:
    order = np.concatenate(owned)
    sizes = [len(own) for own in owned]
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    x, y = model.inputs(model.represent(half.x)[order], dtype), torch.from_numpy(half.y[order])
    return Shards(x.to(device), y.to(device), starts, sizes)


def _engine(model: models.Model, wanted: Literal["auto", "threads", "vmap"], device: str) -> engines.Engine:
    """The engine a scenario names, or the fastest measured for this kind of model and device."""
    if wanted == "auto":
        if isinstance(model, models.Linear):
            return engines.LinearSoftmax(model)
        if model.batched:
            return engines.Batched(model)
    if wanted == "vmap" or (wanted == "auto" and device == "cuda"):
        return engines.Vmapped(model)
    return CnnByHand(model) if isinstance(model, models.Cnn) else engines.OneByOne(model)


def _device(wanted: str) -> str:
    present = torch.cuda.is_available()
    if wanted == "cuda" and not present:
        raise ScenarioError("train.device: cuda asked for, but torch sees no CUDA device; use auto or cpu")
    return "cuda" if present and wanted == "auto" else wanted.replace("auto", "cpu")
