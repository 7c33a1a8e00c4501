"""torchvision's data sets, imported in this one place, and the directory where downloaded files are kept."""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wflsim.errors import DataError


def torchvision(module: str) -> Any:
    """Import `torchvision.<module>`.

    A CUDA build of torchvision beside a CPU build of torch cannot load its compiled operators, and then fails to import
    because Python code of its own refers to them. Declaring the missing ones is enough: wflsim never calls them.
    """
    import torch

    while True:
        try:
            return importlib.import_module(f"torchvision.{module}")
        except RuntimeError as error:
            missing = re.search(r"operator (torchvision::\w+) does not exist", str(error))
            if not missing:
                raise
        torch.library.define(missing[1], "() -> ()")


def data_dir() -> Path:
    """Directory of data sets and weights: WFLSIM_DATA, or wflsim/data in the user's cache directory."""
    given = os.environ.get("WFLSIM_DATA")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(cache) / "wflsim" / "data"


def images(name: str, train: bool) -> tuple[Any, Any]:
    """uint8 images [n, height, width] and labels of torchvision's MNIST, FashionMNIST or KMNIST."""
    root, kind = data_dir(), getattr(torchvision("datasets"), name)
    try:
        half = kind(root, train=train, download=False)
    except RuntimeError:
        with fetching(name, f"the archives in {name}/raw"):
            half = kind(root, train=train, download=True)
    return half.data.numpy(), half.targets.numpy().astype(np.int64)


@contextmanager
def fetching(what: str, files: str) -> Iterator[None]:
    """Hold the data directory while the block unpacks or downloads `what`; errors say which `files` are missing."""
    from filelock import FileLock  # torch itself depends on it

    root, patience_s = data_dir(), socket.getdefaulttimeout()
    try:
        root.mkdir(parents=True, exist_ok=True)
        socket.setdefaulttimeout(30)
        with FileLock(root / ".lock"):
            yield
    except PermissionError as error:
        raise DataError(f"{what}: {root} must be writable, to unpack there; point WFLSIM_DATA to a copy") from error
    except (RuntimeError, OSError) as error:
        raise DataError(
            f"{what} is not in {root} and could not be downloaded ({error}). Without network: set WFLSIM_DATA (or "
            f"--data-dir) to a directory that has {files}, or choose `data: {{name: digits}}`, which is bundled."
        ) from error
    finally:
        socket.setdefaulttimeout(patience_s)
