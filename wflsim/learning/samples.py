"""Samples of clients on the device, the minibatches drawn from them, and what clients remember.

Memories are rows by name and client, staged while a client works and stored when the simulation says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wflsim.learning.data.arrays import Labels
from wflsim.learning.machine import refuse_unless_it_fits

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


COPIES = 3
"""How often the rows of a chunk are in memory: as they were read, as they will be, and row by row for each client."""
LESS = "lower the policy's m (or clients, where all take part), or let each client keep less: a smaller model, say"

Rows = dict[str, dict[int, Tensor]]
"""One store: name -> client -> row. A row is never changed in place, so copies of the dicts are snapshots."""


class Keep:
    """One store (memory, personal or scratch) as the k clients of a chunk see it; what they read is a copy."""

    def __init__(self, rows: Rows, clients: Sequence[int], blank: Tensor) -> None:
        self._rows = rows
        self._clients = clients
        self._blank = blank
        """[P] zeros: the row of a client that never assigned one."""
        self.staged: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self.get(name, 0.0)

    def __setitem__(self, name: str, rows: Tensor) -> None:
        if not isinstance(rows, Tensor) or rows.ndim == 0 or len(rows) != len(self._clients):
            got = f"shape {list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise ValueError(f"{name!r} must be a tensor with one row per client ({len(self._clients)}), got {got}")
        self.staged[name] = rows

    def get(self, name: str, default: Any) -> Tensor:
        """[k, ...] rows; `default` (a number, one row or k rows) for clients that never assigned one."""
        if name in self.staged:
            return self.staged[name]
        k, kept = len(self._clients), self._rows.get(name, {})
        rows = {i: kept[client] for i, client in enumerate(self._clients) if client in kept}
        like = next(iter(rows.values()), default if isinstance(default, Tensor) else self._blank)
        shape = like.shape[1:] if like is default and like.ndim > 1 else like.shape
        copies_bytes = COPIES * k * prod(shape) * like.element_size()
        refuse_unless_it_fits(copies_bytes, f"{name!r}, which {k} clients keep for themselves,", LESS)
        if rows and len(rows) == k:
            return torch.stack(list(rows.values()))
        result = self._blank.new_empty(k, *shape, dtype=like.dtype).copy_(torch.as_tensor(default))
        for i, row in rows.items():
            result[i] = row
        return result

    def rows(self) -> list[dict[str, Tensor]]:
        """What each client of the chunk assigned, as copies: a stored row must not keep a whole chunk in memory."""
        own = {name: [row.clone() for row in rows] for name, rows in self.staged.items()}
        return [{name: rows[i] for name, rows in own.items()} for i in range(len(self._clients))]
