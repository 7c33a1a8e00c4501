"""ResNet18 as a fixed feature extractor: features are computed once per set of images and cached on disk."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from wflsim.errors import DataError, ScenarioError
from wflsim.learning.data.arrays import Floats
from wflsim.learning.data.vision import data_dir, fetching, torchvision
from wflsim.learning.models.builtin import Linear

FEATURES = 512
"""Outputs of ResNet18 before its last layer."""
BATCH = 250
"""Images per forward pass."""
log = logging.getLogger(__name__)


class LastLayer(Linear):
    """Softmax regression on the 512 outputs of a frozen ResNet18."""

    def __init__(self, size: int | None, classes: int) -> None:
        super().__init__(FEATURES, classes)
        self._size = size

    def represent(self, x: Floats) -> Floats:
        return features(x, self._size)


def features(x: Floats, size: int | None) -> Floats:
    """[n, 512] features of images [n, 1 or 3, height, width], from the cache if the same images are in it."""
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise ScenarioError(f"model.name: resnet18_last needs images of 1 or 3 channels, the data is {x.shape[1:]}")
    weights = _weights()
    name = blake2b(repr((size, x.shape)).encode(), digest_size=12)
    name.update(weights.read_bytes())
    name.update(np.ascontiguousarray(x).data)
    cached = data_dir() / "features" / f"resnet18-{name.hexdigest()}.npy"
    if cached.exists():
        found: Floats = np.load(cached)
        return found
    log.warning("computing ResNet18 features of %d images, once; kept in %s", len(x), cached.parent)
    computed = _compute(_network(weights), x, size)
    _save(cached, computed)
    return computed


def _weights() -> Path:
    """File with ResNet18's parameters: one in the data directory, or torchvision's own, downloaded into it."""
    folder = data_dir() / "weights"
    given = folder / "resnet18_imagenet1k.pth"
    if given.exists():
        return given
    url = str(torchvision("models").ResNet18_Weights.IMAGENET1K_V1.url)
    file = folder / url.rsplit("/", 1)[1]
    if not file.exists():
        with fetching("ResNet18's ImageNet weights", f"weights/{given.name} or weights/{file.name}"):
            torch.hub.load_state_dict_from_url(url, str(folder), check_hash=True)
    return file


def _network(weights: Path) -> Any:
    """ResNet18 with these parameters and without its last layer."""
    network = torchvision("models").resnet18()
    try:
        network.load_state_dict(torch.load(weights, weights_only=True))
    except (RuntimeError, OSError, EOFError) as error:
        raise DataError(f"{weights} is not a state dict of ResNet18: {error}") from error
    network.fc = torch.nn.Identity()
    return network.eval().to(memory_format=torch.channels_last)


def _compute(network: Any, x: Floats, size: int | None) -> Floats:
    """Features of the images, batch by batch in threads."""
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)  # of ImageNet's training images
    std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def piece(low: int) -> Tensor:
        images = torch.from_numpy(x[low : low + BATCH]).expand(-1, 3, -1, -1)
        if size is not None:
            images = interpolate(images, size=(size, size), mode="bilinear", antialias=True)
        with torch.no_grad():
            out: Tensor = network(((images - mean) / std).contiguous(memory_format=torch.channels_last))
        return out

    torch.set_num_threads(1)  # as everywhere: threads run over pieces, so their number does not touch the result
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate([part.numpy() for part in pool.map(piece, range(0, len(x), BATCH))])


def _save(file: Path, array: Floats) -> None:
    """Write the file whole or not at all, also while other processes write the same one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}.tmp")
    with draft.open("wb") as out:
        np.save(out, array)
    draft.replace(file)
