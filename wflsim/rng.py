"""Named random streams, keyed by what they are for, never drawn in event order.

`stream(seed, "batches", client, round, phase)` is the same generator wherever and whenever it is asked for. So no
generator state is ever saved, runs resume exactly, and policies that must coincide draw the same numbers.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

Key = int | str


class _Ready(ISeedSequence):
    """A key for Philox as it is: given as `key=`, it costs three times as much, for system entropy nobody reads."""

    def __init__(self, key: bytes) -> None:
        self._words = np.frombuffer(key, dtype=np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> Any:
        """The key, as numpy asks a seed sequence for it."""
        return self._words


def stream(seed: int, name: str, *key: Key) -> np.random.Generator:
    """The generator of purpose `name` at `key`: a Philox counter under a hash of all of it."""
    digest = blake2b(repr((int(seed), name, *key)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(_Ready(digest)))  # type: ignore[arg-type]
