"""Named random streams, keyed by what they are for, never drawn in event order.

`stream(seed, "batches", client, round, phase)` is the same generator wherever and whenever it is asked for. So no
generator state is ever saved, runs resume exactly, and policies that must coincide draw the same numbers.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

Key = int | str


def stream(seed: int, name: str, *key: Key) -> np.random.Generator:
    """The generator of purpose `name` at `key`: a Philox counter under a hash of all of it."""
    digest = blake2b(repr((int(seed), name, *key)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, dtype=np.uint64)))
