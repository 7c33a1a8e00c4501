"""Changed images: shifts chosen against a model, and affine changes of each client's own, as in FedRobust's paper."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from wflsim.learning.learner import Learner
from wflsim.learning.samples import Shards
from wflsim.rng import stream
from wflsim.simulation.training import Training

AMOUNT = 0.2
"""How far a random affine change moves an image, relative to its length: once by Lambda - I and once by delta."""
LENGTH = 3.5
"""Length of an image of digits, on average."""


def affine(seed: int, client: int, pixels: int, times: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(Lambda - I, delta) of normal numbers: the change of one client's images, so many times the usual one."""
    draw = stream(seed, "affine", client)
    matrix, delta = draw.normal(size=(pixels, pixels)), draw.normal(size=pixels)
    scale = times * AMOUNT / np.sqrt(pixels)
    return torch.tensor(scale * matrix).float(), torch.tensor(scale * LENGTH * delta).float()


def changed(x: torch.Tensor, seed: int, client: int, times: float) -> torch.Tensor:
    """Images [n, q] under the client's affine change."""
    L, delta = affine(seed, client, x.shape[1], times)
    return x + x @ L.T + delta


def change_images(learner: Learner, seed: int) -> Learner:
    """The same learner; each client's training and test images have its own affine change from now on."""
    model = learner._gradients.model
    for shards in (learner._train, learner._test):
        for client, (start, size) in enumerate(zip(shards.starts, shards.sizes, strict=True)):
            own = shards.x[start : start + size]
            own.copy_(model.with_data(own, changed(model.data_part(own), seed, client, 1.0)))
    return learner


def _clients(test: Shards) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Client, images and labels of all who have test images."""
    for client, count in enumerate(test.sizes):
        if count:
            (x, labels), *_ = test.pieces(client)
            yield client, x, labels


def _right(training: Training, x: torch.Tensor, data: torch.Tensor, labels: torch.Tensor) -> float:
    """Accuracy of the server's model on these images, x with `data` in place of its pixels."""
    model = training.learner._gradients.model
    with torch.no_grad():
        logits = model.forward(model.split(training.state.w), model.with_data(x, data))
    return float((logits.argmax(-1) == labels).double().mean())


def shifted_accuracy(training: Training, length: float, steps: int = 50) -> float:
    """Accuracy, averaged over clients, when each client's test images are shifted by one vector of at most this length,
    chosen against the model by ascent on the test loss."""
    gradients = training.learner._gradients
    right = []
    for _, x, labels in _clients(training.learner._test):
        data, delta = gradients.model.data_part(x), 0 * gradients.model.data_part(x[:1])
        for _ in range(steps if length else 0):
            moved = gradients.model.with_data(x, data + delta)
            _, g_x = gradients.with_inputs(training.state.w[None], moved[None], labels[None], None)
            uphill = gradients.model.data_part(g_x[0]).sum(0, keepdim=True)
            delta = delta + 0.1 * length * uphill / uphill.norm().clamp(min=1e-12)
            delta = delta * min(1.0, length / float(delta.norm()))
        right.append(_right(training, x, data + delta, labels))
    return float(np.mean(right))


def changed_accuracy(training: Training, seed: int, times: float) -> float:
    """Accuracy, averaged over clients, when each client's test images get one more affine change, a new one."""
    model = training.learner._gradients.model
    return float(
        np.mean(
            [
                _right(training, x, changed(model.data_part(x), seed, client, times), labels)
                for client, x, labels in _clients(training.learner._test)
            ]
        )
    )
