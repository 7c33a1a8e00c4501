"""Ways to compute losses and gradients of several clients at once, each the fastest for some models and devices.

All take parameters y [k, P], inputs x [k, b, ...], labels [k, b] and weight [k, b] (None: 1/b each) of k clients, and
give gradients [k, P] and losses [k] of the weighted sum over the b samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap
from torch.nn.functional import cross_entropy, log_softmax, softmax

from wflsim.learning.machine import refuse_without_room_for_the_compiler
from wflsim.learning.models.builtin import Model


def mean_loss(logits: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
    """[...] cross-entropy of logits [..., b, classes], summed over b with these weights (None: their mean)."""
    each = cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none").view(labels.shape)
    return each.mean(-1) if weight is None else (each * weight).sum(-1)


class Descent(NamedTuple):
    """A local step y <- y - eta gradient(y) + pull (anchor - y)."""

    eta: float
    """Learning rate."""
    anchor: Tensor | None
    """[P] or [k, P] parameters that y is drawn to; None: no such term."""
    pull: float
    """Share of the way to the anchor."""

    def attract(self, y: Tensor) -> None:
        """Add pull (anchor - y) to y in place; the gradient at y must have been taken before."""
        if self.anchor is not None:
            y.lerp_(self.anchor, self.pull)


class Gradients(ABC):
    """A way to compute losses and gradients of a model for the clients of a chunk."""

    chunk: int | None = None
    """Number of clients computed at once; None: the whole cohort. The same on every machine, so results are, too."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @abstractmethod
    def loss(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        """[k] losses at y."""

    @abstractmethod
    def gradient(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """New [k, P] gradients at y, and the [k] losses."""

    def with_inputs(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """New [k, P] gradients with respect to y, and [k, b, ...] with respect to x; client after client."""
        pairs = []
        for i, flat in enumerate(y):
            with torch.enable_grad():
                parameters, inputs = flat.detach().requires_grad_(), x[i].detach().requires_grad_()
                logits = self.model.forward(self.model.split(parameters), inputs)
                loss = mean_loss(logits, labels[i], None if weight is None else weight[i])
                pairs.append(torch.autograd.grad(loss, (parameters, inputs)))
        return torch.stack([g for g, _ in pairs]), torch.stack([g_x for _, g_x in pairs])

    def descend(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None, descent: Descent) -> None:
        """Take the local step from y, in place."""
        gradient, _ = self.gradient(y, x, labels, weight)
        descent.attract(y)
        y.sub_(gradient, alpha=descent.eta)


class Batched(Gradients):
    """One forward and one backward pass with parameters [k, ...]: for models whose layers are matrix products."""

    def loss(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        return mean_loss(self.model.forward(self.model.split(y), x), labels, weight)

    def gradient(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            parameters = [part.detach().requires_grad_() for part in self.model.split(y)]
            losses = mean_loss(self.model.forward(parameters, x), labels, weight)
            # Client i's loss depends on row i alone, so the gradient of the sum holds every client's own.
            parts = torch.autograd.grad(losses.sum(), parameters)
        return torch.cat([part.flatten(1) for part in parts], dim=1), losses.detach()


class OneByOne(Gradients):
    """One client at a time: for convolutions on a CPU, where several clients at once do not fit its caches."""

    chunk = 1

    def loss(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        return mean_loss(self.model.forward(self.model.split(y[0]), x[0]), labels, weight)

    def gradient(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            parameters = [part.detach().requires_grad_() for part in self.model.split(y[0])]
            losses = mean_loss(self.model.forward(parameters, x[0]), labels, weight)
            parts = torch.autograd.grad(losses.sum(), parameters)
        return torch.cat([part.flatten() for part in parts]).unsqueeze(0), losses.detach()


class Vmapped(Gradients):
    """The whole cohort in one vectorised pass (torch.func.vmap): for a GPU."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        refuse_without_room_for_the_compiler("train.gradients: vmap", "choose auto or threads")
        # The first gradient imports 800 modules: here, and not within a round.
        vmap(grad_and_value(torch.sum))(torch.zeros(1, 1))

    def loss(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        dims = (0, 0, 0, None if weight is None else 0)
        return vmap(self._one, in_dims=dims)(y, x, labels, weight)

    def gradient(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        dims = (0, 0, 0, None if weight is None else 0)
        gradients, losses = vmap(grad_and_value(self._one), in_dims=dims)(y, x, labels, weight)
        return gradients, losses

    def _one(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        return mean_loss(self.model.forward(self.model.split(y), x), labels, weight)


class LinearSoftmax(Gradients):
    """Softmax regression differentiated by hand: two batched matrix products per local step, and flat gradients."""

    def loss(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        return mean_loss(torch.bmm(x, y.view(len(y), -1, x.shape[-1]).mT), labels, weight)

    def gradient(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        k, b, features = x.shape
        log_p = log_softmax(torch.bmm(x, y.view(k, -1, features).mT), dim=-1)
        weights = x.new_full((k, b), 1 / b) if weight is None else weight
        losses = -(log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1) * weights).sum(-1)
        return torch.bmm(self._residual(log_p.exp_(), labels, weight).mT, x).view(k, -1), losses

    def descend(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None, descent: Descent) -> None:
        matrices = y.view(len(y), -1, x.shape[-1])
        residual = self._residual(softmax(torch.bmm(x, matrices.mT), dim=-1), labels, weight)
        descent.attract(y)
        matrices.baddbmm_(residual.mT, x, alpha=-descent.eta)

    def _residual(self, p: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        """Derivative of the losses with respect to the logits, in place of the probabilities p [k, b, classes]."""
        p.scatter_add_(-1, labels.unsqueeze(-1), p.new_full((1, 1, 1), -1.0).expand(*labels.shape, 1))
        return p.div_(p.shape[1]) if weight is None else p.mul_(weight.unsqueeze(-1))
