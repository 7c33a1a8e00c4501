"""The k clients of a chunk, as their own code sees them: `exchange.Me`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wflsim import exchange
from wflsim.learning.data import Labels
from wflsim.learning.engines import Engine, Step
from wflsim.learning.stores import Keep, Rows

PIECE = 1024
"""Samples of one client pushed through the model at once when all of them are asked for: bounds the memory."""


@dataclass(frozen=True, slots=True)
class Shards:
    """Samples in order of their owner, so that a client's own are one slice."""

    x: Tensor
    y: Tensor
    starts: list[int]
    sizes: list[int]

    def pieces(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All samples of a client, at most PIECE at a time."""
        start, end = self.starts[client], self.starts[client] + self.sizes[client]
        for low in range(start, end, PIECE):
            yield self.x[low : min(low + PIECE, end)], self.y[low : min(low + PIECE, end)]


class Batches:
    """One client's minibatches of one dispatch, as numbers into its own samples."""

    def __init__(self, rng: np.random.Generator, samples: int, batch: int, replacement: bool) -> None:
        self.size = min(batch, samples)
        self._rng = rng
        self._samples = samples
        self._replacement = replacement
        self._pass = np.empty(0, dtype=np.int64)

    def next(self) -> Labels:
        """Independent draws, or the next slice of a shuffled pass (too little left: a new pass)."""
        if self._replacement:
            return self._rng.integers(0, self._samples, self.size)
        if len(self._pass) < self.size:
            self._pass = self._rng.permutation(self._samples)
        numbers, self._pass = self._pass[: self.size], self._pass[self.size :]
        return numbers


@dataclass(frozen=True, slots=True)
class Batch:
    """One minibatch of each client: x [k, b, ...], labels [k, b], weight [k, b] (None: all have b samples)."""

    x: Tensor
    labels: Tensor
    weight: Tensor | None
    counts: list[int]


EVERYTHING = object()


class Chunk:
    """Implements `exchange.Me`; meters what it computes."""

    memory: exchange.Keep
    personal: exchange.Keep
    scratch: exchange.Keep

    def __init__(
        self,
        clients: Sequence[int],
        shards: Shards,
        engine: Engine,
        batches: Sequence[Batches],
        stores: dict[str, Rows],
        blank: Tensor,
    ) -> None:
        self.clients = clients
        self.samples = torch.tensor([shards.sizes[client] for client in clients], device=blank.device)
        self._stores = [Keep(stores[name], clients, blank) for name in ("memory", "personal", "scratch")]
        self.memory, self.personal, self.scratch = self._stores
        self.forward_samples = [0] * len(clients)
        self.backward_samples = [0] * len(clients)
        self._shards = shards
        self._engine = engine
        self._batches = batches
        self._counts = [own.size for own in batches]
        self._offsets = np.repeat([shards.starts[client] for client in clients], max(self._counts, default=0))
        self._weight = _weight(self._counts, blank)
        self._blank = blank

    def fresh(self, w: Tensor) -> Tensor:
        """A new [k, P] tensor with w in every row."""
        return self._blank.new_empty(len(self.clients), len(self._blank)).copy_(w)

    def batch(self) -> Batch:
        """The next minibatch of each client."""
        counts, width = self._counts, max(self._counts)
        # A short batch is filled up with repetitions, which have weight zero.
        rows = [np.resize(own, width) if len(own) < width else own for own in (b.next() for b in self._batches)]
        flat = torch.from_numpy(np.concatenate(rows) + self._offsets).to(self._blank.device)
        x = self._shards.x.index_select(0, flat).view(len(counts), width, *self._shards.x.shape[1:])
        labels = self._shards.y.index_select(0, flat).view(len(counts), width)
        return Batch(x, labels, self._weight, counts)

    @property
    def everything(self) -> Any:
        """All training samples of each client."""
        return EVERYTHING

    def g(self, y: Tensor, on: Any = None) -> Tensor:
        """[k, P] gradients."""
        return self.gf(y, on)[0]

    def f(self, y: Tensor, on: Any = None) -> Tensor:
        """[k] losses."""
        rows = y.expand(len(self.clients), -1)
        if on is EVERYTHING:
            return self._whole(rows, with_gradient=False)[1]
        batch = self.batch() if on is None else on
        self._meter(batch.counts, backward=False)
        return self._engine.loss(rows, batch.x, batch.labels, batch.weight)

    def gf(self, y: Tensor, on: Any = None) -> tuple[Tensor, Tensor]:
        """Gradients and losses on the same samples."""
        if on is EVERYTHING:
            return self._whole(y, with_gradient=True)
        batch = self.batch() if on is None else on
        self._meter(batch.counts, backward=True)
        return self._engine.gradient(y, batch.x, batch.labels, batch.weight)

    def descend(self, y: Tensor, eta: float, anchor: Tensor | None = None, pull: float = 0.0) -> None:
        """A step on the next minibatch, in place."""
        batch = self.batch()
        self._meter(batch.counts, backward=True)
        self._engine.descend(y, batch.x, batch.labels, batch.weight, Step(eta, anchor, pull))

    def staged(self) -> Iterator[tuple[dict[str, Tensor], ...]]:
        """What each client assigned to memory, personal and scratch."""
        return zip(*(store.rows() for store in self._stores), strict=True)

    def _whole(self, y: Tensor, with_gradient: bool) -> tuple[Tensor, Tensor]:
        """Client after client and piece by piece: sizes differ by orders of magnitude, padding would be the bulk."""
        gradients = torch.zeros_like(y) if with_gradient else y
        losses = y.new_zeros(len(y))
        for i, client in enumerate(self.clients):
            for x, labels in self._shards.pieces(client):
                part, one = len(labels) / self._shards.sizes[client], y[i : i + 1]
                if with_gradient:
                    gradient, loss = self._engine.gradient(one, x.unsqueeze(0), labels.unsqueeze(0), None)
                    gradients[i].add_(gradient[0], alpha=part)
                else:
                    loss = self._engine.loss(one, x.unsqueeze(0), labels.unsqueeze(0), None)
                losses[i].add_(loss[0], alpha=part)
        self._meter([self._shards.sizes[client] for client in self.clients], backward=with_gradient)
        return gradients, losses

    def _meter(self, counts: list[int], backward: bool) -> None:
        for i, count in enumerate(counts):
            self.forward_samples[i] += count
            self.backward_samples[i] += count * backward


def _weight(counts: list[int], like: Tensor) -> Tensor | None:
    """[k, b] weights of the mean over each client's own count; None if all count the same."""
    if len(set(counts)) < 2:
        return None
    rows = np.array(counts)[:, None]
    return torch.from_numpy((np.arange(max(counts)) < rows) / rows).to(like)
