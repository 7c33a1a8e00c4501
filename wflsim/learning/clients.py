"""A chunk of clients as their own code sees it (`exchange.Me`): minibatches, losses, gradients, what they remember."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wflsim import exchange
from wflsim.compress.payload import Payload
from wflsim.learning.machine import refuse_unless_it_fits
from wflsim.learning.models.gradients import Descent, Gradients
from wflsim.learning.samples import Batch, Batches, Keep, Rows, Shards, Team, steps_of_each, weights_of_mean

FEWER = "lower the policy's m (or clients, where all take part), or choose a smaller model"
"""What to do when the models of a cohort do not fit into memory."""
EVERYTHING = object()
"""Given as `on`: all training samples of each client, instead of a minibatch."""


class Chunk:
    """The k clients of a chunk, computed together; counts the samples and batches that each pushes through
    the model.

    Implements `exchange.Me`, where every method that client code may call is described.
    """

    memory: exchange.Keep
    personal: exchange.Keep
    scratch: exchange.Keep

    def __init__(
        self,
        clients: Sequence[int],
        shards: Shards,
        gradients: Gradients,
        batches: Sequence[Batches],
        stores: dict[str, Rows],
        blank: Tensor,
        upload: Payload,
    ) -> None:  # seven: what the learner has of these clients; it alone makes chunks
        self.clients = clients
        self.samples = torch.tensor([shards.sizes[client] for client in clients], device=blank.device)
        self._stores = [Keep(stores[name], clients, blank) for name in ("memory", "personal", "scratch")]
        self.memory, self.personal, self.scratch = self._stores
        self.sent = upload.sent
        self.coded = upload.coded
        self.forward_samples = [0] * len(clients)
        self.backward_samples = [0] * len(clients)
        self.forward_steps = [0] * len(clients)
        self.backward_steps = [0] * len(clients)
        self.watched = False
        """Whether the losses of all minibatches that are trained on are noted. A by-product of training: no work."""
        self.local: Tensor | None = None
        """[k, P] local models: the first copies of a model that the work has made, which its steps update in place."""
        self.local_version = 0
        """torch's count of changes of the local models when they were made."""
        self._losses: list[list[float]] = [[] for _ in clients]
        self._shards = shards
        self._gradients = gradients
        self._batches = batches
        self._blank = blank
        self._everybody = self._at_work = self._team(list(range(len(clients))))

    def copies_of(self, w: Tensor) -> Tensor:
        """A new [k, P] tensor with w ([P] or [k, P]) in every row."""
        k, P = len(self.clients), len(self._blank)
        both = f"{k} clients' models of {P} parameters, trained at once, and their gradients"
        refuse_unless_it_fits(2 * k * self._blank.nbytes, both, FEWER)
        copies = self._blank.new_empty(k, P).copy_(w)
        if self.local is None:
            self.local, self.local_version = copies, copies._version
        return copies

    def steps(self, tau: Any, *models: Tensor) -> Iterator[int]:
        """Local steps k = 1, 2, ... up to the largest tau; a client that has taken its own tau steps rests."""
        last = steps_of_each(tau, len(self.clients))
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
        """[k, P] gradients of the mean loss."""
        return self.gf(y, on)[0]

    def f(self, y: Tensor, on: Any = None) -> Tensor:
        """[k] mean losses."""
        rows = y.expand(len(self.clients), -1)
        if on is EVERYTHING:
            return self._whole(rows, with_gradient=False)[1]
        batch = self._metered(on, backward=False)
        return self._spread(self._gradients.loss(self._part(rows), batch.x, batch.labels, batch.weight))

    def gf(self, y: Tensor, on: Any = None) -> tuple[Tensor, Tensor]:
        """Gradients and losses on the same samples."""
        if on is EVERYTHING:
            return self._whole(y, with_gradient=True)
        batch = self._metered(on, backward=True)
        gradients, losses = self._gradients.gradient(self._part(y), batch.x, batch.labels, batch.weight)
        self._watch(batch, losses)
        return self._spread(gradients), self._spread(losses)

    def inputs(self, on: Batch) -> Tensor:
        """[k, b, q] inputs of the minibatch, flat."""
        x = on.of(self._at_work.rows).x
        return self._spread(self._gradients.model.data_part(x.flatten(0, 1)).view(*x.shape[:2], -1))

    def g_inputs(self, y: Tensor, inputs: Tensor, on: Batch) -> tuple[Tensor, Tensor]:
        """Gradients with respect to y and to these inputs, in the place of those of the minibatch."""
        batch = self._metered(on, backward=True)
        ours, model = self._part(inputs), self._gradients.model
        x = model.with_data(batch.x.flatten(0, 1), ours.flatten(0, 1)).view(batch.x.shape)
        g, g_x = self._gradients.with_inputs(self._part(y), x, batch.labels, batch.weight)
        return self._spread(g), self._spread(model.data_part(g_x.flatten(0, 1)).view(ours.shape))

    def descend(
        self, y: Tensor, eta: float, anchor: Tensor | None = None, pull: float = 0.0, on: Batch | None = None
    ) -> None:
        """y <- y - eta g(y) + pull (anchor - y) on a minibatch, in place."""
        batch, part = self._metered(on, backward=True), self._part(y)
        if self.watched:  # the step itself keeps no losses
            self._watch(batch, self._gradients.loss(part, batch.x, batch.labels, batch.weight))
        towards = anchor if anchor is None or anchor.ndim == 1 else self._part(anchor)
        self._gradients.descend(part, batch.x, batch.labels, batch.weight, Descent(eta, towards, pull))
        if part is not y:
            y[self._at_work.rows] = part

    def loss_rms(self, row: int) -> float:
        """Root mean square of the losses noted for the client in this row; 0 without any."""
        noted = self._losses[row]
        return float(np.sqrt(np.mean(np.square(noted)))) if noted else 0.0

    def _watch(self, batch: Batch, losses: Tensor) -> None:
        """Note the losses of minibatches that are trained on, where they are watched."""
        if self.watched:
            for row, loss in zip(batch.rows, losses.tolist(), strict=True):
                self._losses[row].append(loss)

    def staged(self) -> Iterator[tuple[dict[str, Tensor], ...]]:
        """Client by client: what it assigned to memory, personal and scratch."""
        return zip(*(store.rows() for store in self._stores), strict=True)

    def _team(self, rows: list[int]) -> Team:
        """The clients in these rows of the chunk, at work."""
        counts = [self._batches[row].size for row in rows] if self._batches else []
        starts = [self._shards.starts[self.clients[row]] for row in rows]
        return Team(rows, counts, np.repeat(starts, max(counts, default=0)), weights_of_mean(counts, self._blank))

    def _part(self, y: Tensor) -> Tensor:
        """Rows of y of the clients at work; y itself while that is everybody."""
        return y if self._at_work is self._everybody else y[self._at_work.rows]

    def _spread(self, part: Tensor) -> Tensor:
        """The inverse of `_part`: one row for every client of the chunk, zeros for those that rest."""
        if self._at_work is self._everybody:
            return part
        whole = part.new_zeros(len(self.clients), *part.shape[1:])
        whole[self._at_work.rows] = part
        return whole

    def _whole(self, y: Tensor, with_gradient: bool) -> tuple[Tensor, Tensor]:
        """Gradients and losses on all training samples.

        Client after client, piece by piece: their sizes differ by orders of magnitude, so padding would be most of it.
        """
        gradients = torch.zeros_like(y) if with_gradient else y
        losses = y.new_zeros(len(y))
        for i in self._at_work.rows:
            client = self.clients[i]
            for x, labels in self._shards.pieces(client):
                part, one = len(labels) / self._shards.sizes[client], y[i : i + 1]
                if with_gradient:
                    gradient, loss = self._gradients.gradient(one, x.unsqueeze(0), labels.unsqueeze(0), None)
                    gradients[i].add_(gradient[0], alpha=part)
                else:
                    loss = self._gradients.loss(one, x.unsqueeze(0), labels.unsqueeze(0), None)
                losses[i].add_(loss[0], alpha=part)
            size = self._shards.sizes[client]
            batch = self._batches[i].size if self._batches else size  # none where a model is only evaluated
            self._meter(i, size, math.ceil(size / max(1, batch)), backward=with_gradient)
        return gradients, losses

    def _metered(self, on: Batch | None, backward: bool) -> Batch:
        """The minibatches to compute on (the next ones unless given), their samples already counted."""
        batch = self.batch() if on is None else on.of(self._at_work.rows)
        for row, samples in zip(batch.rows, batch.counts, strict=True):
            self._meter(row, samples, 1, backward)
        return batch

    def _meter(self, row: int, samples: int, steps: int, backward: bool) -> None:
        """Count samples that the client in this row pushes forward, and backward if asked, in so many batches."""
        self.forward_samples[row] += samples
        self.backward_samples[row] += samples * backward
        self.forward_steps[row] += steps
        self.backward_steps[row] += steps * backward
