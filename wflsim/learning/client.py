"""The k clients of a chunk, as their own code sees them: `exchange.Me`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wflsim import exchange
from wflsim.learning.data import Labels
from wflsim.learning.engines import Engine, Step
from wflsim.learning.fits import refuse_unless_it_fits
from wflsim.learning.minibatch import Batch, Team, weights, whole_numbers
from wflsim.learning.payload import Payload
from wflsim.learning.stores import Keep, Rows

PIECE = 1024
"""Samples of one client pushed through the model at once when all of them are asked for: bounds the memory."""


FEWER = "lower the policy's m (or clients, where all take part), or choose a smaller model"


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
        upload: Payload,
    ) -> None:
        self.clients = clients
        self.samples = torch.tensor([shards.sizes[client] for client in clients], device=blank.device)
        self._stores = [Keep(stores[name], clients, blank) for name in ("memory", "personal", "scratch")]
        self.memory, self.personal, self.scratch = self._stores
        self.sent = upload.sent
        self.forward_samples = [0] * len(clients)
        self.backward_samples = [0] * len(clients)
        self._shards = shards
        self._engine = engine
        self._batches = batches
        self._blank = blank
        self._everybody = self._at_work = self._team(list(range(len(clients))))

    def fresh(self, w: Tensor) -> Tensor:
        """A new [k, P] tensor with w in every row."""
        k, P = len(self.clients), len(self._blank)
        both = f"{k} clients' models of {P} parameters, trained at once, and their gradients"
        refuse_unless_it_fits(2 * k * self._blank.nbytes, both, FEWER)
        return self._blank.new_empty(k, P).copy_(w)

    def steps(self, tau: Any, *models: Tensor) -> Iterator[int]:
        """k = 1, 2, ...; after its own tau a client rests."""
        last = whole_numbers(tau, len(self.clients))
        before = self._at_work
        try:
            for k in count(1):
                rows = [row for row in before.rows if last[row] >= k]
                if not rows:
                    return
                if rows != self._at_work.rows:
                    self._at_work = self._team(rows)
                resting = [row for row in range(len(last)) if row not in rows]
                kept = [model[resting] if resting else model for model in models]
                changes = [model._version for model in models]
                yield k
                for model, own, version in zip(models, kept, changes, strict=True):
                    if model._version == version:
                        raise ValueError("me.steps(tau, y): y was not updated in place (by y.sub_ or me.descend, say)")
                    if resting:
                        model[resting] = own
        finally:
            self._at_work = before

    def batch(self) -> Batch:
        """The next minibatch of each client at work."""
        team = self._at_work
        width = max(team.counts)
        # A short batch is filled up with repetitions, which have weight zero.
        drawn = [self._batches[row].next() for row in team.rows]
        filled = [np.resize(own, width) if len(own) < width else own for own in drawn]
        flat = torch.from_numpy(np.concatenate(filled) + team.offsets).to(self._blank.device)
        x = self._shards.x.index_select(0, flat).view(len(drawn), width, *self._shards.x.shape[1:])
        labels = self._shards.y.index_select(0, flat).view(len(drawn), width)
        return Batch(x, labels, team.weight, team.counts, team.rows)

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
        batch = self._metered(on, backward=False)
        return self._spread(self._engine.loss(self._part(rows), batch.x, batch.labels, batch.weight))

    def gf(self, y: Tensor, on: Any = None) -> tuple[Tensor, Tensor]:
        """Gradients and losses on the same samples."""
        if on is EVERYTHING:
            return self._whole(y, with_gradient=True)
        batch = self._metered(on, backward=True)
        gradients, losses = self._engine.gradient(self._part(y), batch.x, batch.labels, batch.weight)
        return self._spread(gradients), self._spread(losses)

    def descend(self, y: Tensor, eta: float, anchor: Tensor | None = None, pull: float = 0.0) -> None:
        """A step on the next minibatch, in place."""
        batch, part = self._metered(None, backward=True), self._part(y)
        towards = anchor if anchor is None or anchor.ndim == 1 else self._part(anchor)
        self._engine.descend(part, batch.x, batch.labels, batch.weight, Step(eta, towards, pull))
        if part is not y:
            y[self._at_work.rows] = part

    def staged(self) -> Iterator[tuple[dict[str, Tensor], ...]]:
        """What each client assigned to memory, personal and scratch."""
        return zip(*(store.rows() for store in self._stores), strict=True)

    def _team(self, rows: list[int]) -> Team:
        counts = [self._batches[row].size for row in rows] if self._batches else []
        starts = [self._shards.starts[self.clients[row]] for row in rows]
        return Team(rows, counts, np.repeat(starts, max(counts, default=0)), weights(counts, self._blank))

    def _part(self, y: Tensor) -> Tensor:
        """The rows of those at work; y itself while that is everybody."""
        return y if self._at_work is self._everybody else y[self._at_work.rows]

    def _spread(self, part: Tensor) -> Tensor:
        """The inverse: zeros for those who rest."""
        if self._at_work is self._everybody:
            return part
        whole = part.new_zeros(len(self.clients), *part.shape[1:])
        whole[self._at_work.rows] = part
        return whole

    def _whole(self, y: Tensor, with_gradient: bool) -> tuple[Tensor, Tensor]:
        """Client after client and piece by piece: sizes differ by orders of magnitude, padding would be the bulk."""
        gradients = torch.zeros_like(y) if with_gradient else y
        losses = y.new_zeros(len(y))
        for i in self._at_work.rows:
            client = self.clients[i]
            for x, labels in self._shards.pieces(client):
                part, one = len(labels) / self._shards.sizes[client], y[i : i + 1]
                if with_gradient:
                    gradient, loss = self._engine.gradient(one, x.unsqueeze(0), labels.unsqueeze(0), None)
                    gradients[i].add_(gradient[0], alpha=part)
                else:
                    loss = self._engine.loss(one, x.unsqueeze(0), labels.unsqueeze(0), None)
                losses[i].add_(loss[0], alpha=part)
            self._meter(i, self._shards.sizes[client], backward=with_gradient)
        return gradients, losses

    def _metered(self, on: Batch | None, backward: bool) -> Batch:
        """The samples to compute on, the next ones unless given, already charged for."""
        batch = self.batch() if on is None else on.of(self._at_work.rows)
        for row, samples in zip(batch.rows, batch.counts, strict=True):
            self._meter(row, samples, backward)
        return batch

    def _meter(self, row: int, samples: int, backward: bool) -> None:
        self.forward_samples[row] += samples
        self.backward_samples[row] += samples * backward
