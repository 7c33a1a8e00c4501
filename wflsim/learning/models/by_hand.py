"""Local steps of the paper's CNN, one client at a time, differentiated by hand: the fastest way found on a CPU.

Autograd writes the gradient of every layer, gathers them in one vector and subtracts it: three passes over memory that
take a seventh of a local step, nearly all of it for the first dense layer. Here the step of that layer is one matrix
product accumulated onto its weights, and its gradient is never written.

The function is compiled by TorchScript, so that the threads of two clients do not wait for each other's Python, which
saves a fifteenth of the time on two cores. TorchScript's optimiser stays off, so the result is that of the Python
function, bit for bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor

from wflsim.learning.models.builtin import Model
from wflsim.learning.models.gradients import Descent, OneByOne


class CnnByHand(OneByOne):
    """`OneByOne` with the local steps of this file; losses and gradients are computed as there."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._shapes = [layer.shape for layer in model.layers]
        self._sizes = [prod(shape) for shape in self._shapes]
        self._step = compiled_step()

    def descend(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None, descent: Descent) -> None:
        self._step(y, self._shapes, self._sizes, x[0], labels[0], *descent)


@cache
def compiled_step() -> Callable[..., None]:
    """`cnn_step` compiled by TorchScript, or as it is once torch has no TorchScript (its removal is announced)."""
    if not hasattr(torch.jit, "script"):
        return cnn_step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: Callable[..., None] = torch.jit.script(cnn_step)

    def unoptimised(*arguments: Any) -> None:
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]  # it holds for this thread only
            compiled(*arguments)

    return unoptimised


def cnn_step(  # compiled by torch.jit, which takes tensors and numbers, no objects of ours
    y: Tensor,
    shapes: list[list[int]],
    sizes: list[int],
    x: Tensor,
    labels: Tensor,
    eta: float,
    anchor: Tensor | None,
    pull: float,
) -> None:
    """A step from y [1, P], in place, on x [b, height, width, channels] and labels [b]."""
    # As Model.split, which would cost a hundredth of the step from Python. TorchScript knows no strict=.
    parts = [part.view(shape) for part, shape in zip(y[0].split_with_sizes(sizes), shapes)]  # noqa: B905
    k1, b1, k2, b2, w1, c1, w2, c2 = parts
    k1, k2 = k1.movedim(-1, 1), k2.movedim(-1, 1)
    x1 = x.movedim(-1, 1)
    z1 = torch.conv2d(x1, k1, b1, padding=[1, 1])
    x2, at1 = torch.ops.aten.max_pool2d_with_indices(z1, [2, 2], [2, 2])
    z2 = torch.conv2d(x2, k2, b2, padding=[1, 1])
    x3, at2 = torch.ops.aten.max_pool2d_with_indices(z2, [2, 2], [2, 2])
    flat = x3.movedim(1, -1).flatten(1)
    hidden = torch.addmm(c1, flat, w1.t()).relu_()
    p = torch.softmax(torch.addmm(c2, hidden, w2.t()), dim=-1)

    # d_: the derivative of the mean loss by the thing it is named after, all of them at the old weights.
    true = labels.unsqueeze(-1)
    d_logits = p.scatter_add_(-1, true, p.new_full([1, 1], -1.0).expand_as(true)).div_(len(p))
    d_hidden = torch.ops.aten.threshold_backward(d_logits @ w2, hidden, 0)
    d_x3 = (d_hidden @ w1).view_as(x3.movedim(1, -1)).movedim(-1, 1)
    d_z2 = _unpool(d_x3, z2, at2)
    d_x2, d_k2, d_b2 = _backward(d_z2, x2, k2, with_input=True)
    _, d_k1, d_b1 = _backward(_unpool(d_x2, z1, at1), x1, k1, with_input=False)

    if anchor is not None:
        y.lerp_(anchor, pull)
    w1.addmm_(d_hidden.t(), flat, alpha=-eta)
    w2.addmm_(d_logits.t(), hidden, alpha=-eta)
    k1.sub_(d_k1, alpha=eta)
    b1.sub_(d_b1, alpha=eta)
    k2.sub_(d_k2, alpha=eta)
    b2.sub_(d_b2, alpha=eta)
    c1.sub_(d_hidden.sum(0), alpha=eta)
    c2.sub_(d_logits.sum(0), alpha=eta)


def _unpool(d: Tensor, before: Tensor, at: Tensor) -> Tensor:
    """Derivative with respect to the input `before` of a 2 x 2 max-pooling that took its values at the places `at`."""
    unpooled: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
        d, before, [2, 2], [2, 2], [0, 0], [1, 1], False, at
    )
    return unpooled


def _backward(d: Tensor, x: Tensor, kernel: Tensor, with_input: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives of a convolution with respect to input (undefined unless `with_input`), kernel and bias."""
    wanted = [with_input, True, True]
    by: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        d, x, kernel, [len(kernel)], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted
    )
    return by
