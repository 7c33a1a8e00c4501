"""Minibatches of several clients side by side, and which clients of a chunk are at work on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Team:
    """The clients of a chunk that are at work in a step: all of them, until the first has taken its last step."""

    rows: list[int]
    """Their rows in the chunk."""
    counts: list[int]
    """Samples in a minibatch of each."""
    offsets: NDArray[np.int64]
    """[k b] where each one's own samples begin, for every sample of the padded minibatches."""
    weight: Tensor | None
    """[k, b] weights of the mean over each one's own count; None if all count the same."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A minibatch of each client of a team: x [k, b, ...], labels [k, b], weight [k, b] (None: all have b samples)."""

    x: Tensor
    labels: Tensor
    weight: Tensor | None
    counts: list[int]
    rows: list[int]
    """Whose they are, as rows of the chunk."""

    def of(self, rows: list[int]) -> Batch:
        """The part of these clients."""
        if rows == self.rows:
            return self
        if missing := set(rows) - set(self.rows):
            raise ValueError(f"this minibatch was drawn while clients in rows {sorted(missing)} of the chunk rested")
        places = [self.rows.index(row) for row in rows]
        weight = None if self.weight is None else self.weight[places]
        return Batch(self.x[places], self.labels[places], weight, [self.counts[i] for i in places], rows)


def whole_numbers(tau: Any, clients: int) -> list[int]:
    """Steps of each client, from one number for all or one for each."""
    given = torch.as_tensor(tau)
    if given.ndim > 1 or (given.ndim == 1 and len(given) != clients):
        raise ValueError(f"me.steps(tau): tau must be a number or one for each of {clients} clients, got {tau!r}")
    steps = [int(entry) for entry in given.expand(clients).tolist()]
    if min(steps, default=0) < 0 or (given != torch.tensor(steps, device=given.device)).any():
        raise ValueError(f"me.steps(tau): tau must be whole numbers of at least 0, got {tau!r}")
    return steps


def weights(counts: list[int], like: Tensor) -> Tensor | None:
    """[k, b] weights of the mean over each client's own count; None if all count the same."""
    if len(set(counts)) < 2:
        return None
    rows = np.array(counts)[:, None]
    return torch.from_numpy((np.arange(max(counts)) < rows) / rows).to(like)
