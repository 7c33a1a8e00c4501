"""The one place that imports torchvision, and where its files live."""

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
    """`torchvision.<module>`, imported when it is needed.

    A CUDA build of torchvision beside a CPU build of torch cannot load its compiled operators, and then fails to import
    because Python code of its own refers to them. Declaring the missing ones is enough: we never call them.
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
    """WFLSIM_DATA, or a cache directory of the user's."""
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
    """Unpack or download into the data directory, one process at a time; failures say what to do."""
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
