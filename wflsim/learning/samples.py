"""Samples of clients on the device, the minibatches drawn from them, and which clients of a chunk are at work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wflsim.learning.data.arrays import Labels

PIECE = 1024
"""Samples of one client pushed through the model at once when all of them are asked for: bounds the memory."""


@dataclass(frozen=True, slots=True)
class Shards:
    """One half of a data set in the order of its owners, so that the samples of a client are one slice."""

    x: Tensor
    """[n, ...] inputs as the model takes them."""
    y: Tensor
    """[n] labels."""
    starts: list[int]
    """Where each client's samples begin."""
    sizes: list[int]
    """Number of samples of each client."""

    def pieces(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All samples of a client as (x, labels), at most PIECE at a time."""
        start, end = self.starts[client], self.starts[client] + self.sizes[client]
        for low in range(start, end, PIECE):
            yield self.x[low : min(low + PIECE, end)], self.y[low : min(low + PIECE, end)]


class Batches:
    """The minibatches of one client in one order, as numbers of its own samples."""

    def __init__(self, rng: np.random.Generator, samples: int, batch: int, replacement: bool) -> None:
        self.size = min(batch, samples)
        self._rng = rng
        self._samples = samples
        self._replacement = replacement
        self._pass = np.empty(0, dtype=np.int64)

    def next(self) -> Labels:
        """Independent draws, or the next slice of a shuffled pass; if too few samples are left, a new pass begins."""
        if self._replacement:
            return self._rng.integers(0, self._samples, self.size)
        if len(self._pass) < self.size:
            self._pass = self._rng.permutation(self._samples)
        numbers, self._pass = self._pass[: self.size], self._pass[self.size :]
        return numbers


@dataclass(frozen=True, slots=True)
class Team:
    """The clients of a chunk that are at work in a local step: all of them, until the first has taken its last step."""

    rows: list[int]
    """Rows of these clients in the chunk."""
    counts: list[int]
    """Number of samples in a minibatch of each client."""
    offsets: NDArray[np.int64]
    """[k b] first sample of its owner, for every sample of the padded minibatches."""
    weight: Tensor | None
    """[k, b] weight of every sample in its client's mean loss; None if all minibatches have the same size."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One minibatch of each client of a team, padded to the longest."""

    x: Tensor
    """[k, b, ...] inputs."""
    labels: Tensor
    """[k, b] labels."""
    weight: Tensor | None
    """[k, b] weight of every sample in its client's mean loss; None if all minibatches have b samples."""
    counts: list[int]
    """Number of samples of each client without the padding."""
    rows: list[int]
    """Rows of these clients in the chunk."""

    def of(self, rows: list[int]) -> Batch:
        """The minibatches of these rows of the chunk only."""
        if rows == self.rows:
            return self
        if missing := set(rows) - set(self.rows):
            raise ValueError(f"this minibatch was drawn while clients in rows {sorted(missing)} of the chunk rested")
        places = [self.rows.index(row) for row in rows]
        weight = None if self.weight is None else self.weight[places]
        return Batch(self.x[places], self.labels[places], weight, [self.counts[i] for i in places], rows)


def steps_of_each(tau: Any, clients: int) -> list[int]:
    """Number of local steps of each client, from one number for all or one for each."""
    given = torch.as_tensor(tau)
    if given.ndim > 1 or (given.ndim == 1 and len(given) != clients):
        raise ValueError(f"me.steps(tau): tau must be a number or one for each of {clients} clients, got {tau!r}")
    steps = [int(entry) for entry in given.expand(clients).tolist()]
    if min(steps, default=0) < 0 or (given != torch.tensor(steps, device=given.device)).any():
        raise ValueError(f"me.steps(tau): tau must be whole numbers of at least 0, got {tau!r}")
    return steps


def weights_of_mean(counts: list[int], like: Tensor) -> Tensor | None:
    """[k, b] weights by which padded minibatches of these sizes give each client's mean loss; None if all are equal."""
    if len(set(counts)) < 2:
        return None
    rows = np.array(counts)[:, None]
    return torch.from_numpy((np.arange(max(counts)) < rows) / rows).to(like)
