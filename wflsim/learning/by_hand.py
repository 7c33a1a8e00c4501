"""The paper's CNN, one client at a time, differentiated by hand: the fastest descent found on a CPU.

Autograd writes the gradient of every layer, gathers them in one vector and subtracts it: three passes over memory that
take a seventh of a step, nearly all of them for the first dense layer. Here that layer's step is one matrix product
accumulated onto the weights, and its gradient never exists.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import conv2d, softmax

from wflsim.learning.engines import OneByOne, Step

pool = torch.ops.aten.max_pool2d_with_indices
pool_backward = torch.ops.aten.max_pool2d_with_indices_backward
convolution_backward = torch.ops.aten.convolution_backward


class CnnByHand(OneByOne):
    """Like its parent, with a descent of its own."""

    def descend(self, y: Tensor, x: Tensor, labels: Tensor, weight: Tensor | None, step: Step) -> None:
        k1, b1, k2, b2, w1, c1, w2, c2 = self.model.split(y[0])
        k1, k2 = k1.movedim(-1, 1), k2.movedim(-1, 1)
        x1 = x[0].movedim(-1, 1)
        z1 = conv2d(x1, k1, b1, padding=1)
        x2, at1 = pool(z1, [2, 2], [2, 2])
        z2 = conv2d(x2, k2, b2, padding=1)
        x3, at2 = pool(z2, [2, 2], [2, 2])
        flat = x3.movedim(1, -1).flatten(1)
        hidden = torch.addmm(c1, flat, w1.T).relu_()
        p = softmax(torch.addmm(c2, hidden, w2.T), dim=-1)

        # d_: the derivative of the mean loss by the thing it is named after, all of them at the old weights.
        true = labels[0].unsqueeze(-1)
        d_logits = p.scatter_add_(-1, true, p.new_full((1, 1), -1.0).expand(true.shape)).div_(len(p))
        d_hidden = (d_logits @ w2).mul_(hidden > 0)
        d_x3 = (d_hidden @ w1).view_as(x3.movedim(1, -1)).movedim(-1, 1)
        d_z2 = _unpool(d_x3, z2, at2)
        d_x2, d_k2, d_b2 = _backward(d_z2, x2, k2, with_input=True)
        _, d_k1, d_b1 = _backward(_unpool(d_x2, z1, at1), x1, k1, with_input=False)

        step.attract(y)
        w1.addmm_(d_hidden.T, flat, alpha=-step.eta)
        w2.addmm_(d_logits.T, hidden, alpha=-step.eta)
        rest = ((k1, d_k1), (b1, d_b1), (k2, d_k2), (b2, d_b2), (c1, d_hidden.sum(0)), (c2, d_logits.sum(0)))
        for parameter, derivative in rest:
            parameter.sub_(derivative, alpha=step.eta)


def _unpool(d: Tensor, before: Tensor, at: Tensor) -> Tensor:
    unpooled: Tensor = pool_backward(d, before, [2, 2], [2, 2], [0, 0], [1, 1], False, at)
    return unpooled


def _backward(d: Tensor, x: Tensor, kernel: Tensor, with_input: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives by input (undefined unless asked), kernel and bias."""
    wanted = [with_input, True, True]
    by: tuple[Tensor, Tensor, Tensor] = convolution_backward(
        d, x, kernel, [len(kernel)], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted
    )
    return by
