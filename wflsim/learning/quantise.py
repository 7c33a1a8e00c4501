"""Payload quantisation for any policy: what is sent is really rounded, and counted as the bits it takes.

Blocks of 1,024 values are mapped to 2^bits levels between their smallest and largest value, rounded up or down at
random so that the mean is right. Each block carries two 32-bit numbers. Scalars and integers are sent as they are.

The server then knows a client's model only up to that rounding: sums it keeps of what clients remember exactly
(FedDyn's and DRDM's c, SCAFFOLD's c) are right on average, no longer to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wflsim.exchange import BITS_PER_VALUE, Coded

BLOCK = 1024


def encode(items: Mapping[str, Any], bits: int, rngs: Sequence[np.random.Generator]) -> dict[str, Any]:
    """The payload with its vectors as `Coded`; one generator per copy, that is per row, or one if all get the same.

    An object that is sent under two names stays one object, because it is sent once.
    """
    coded: dict[int, Any] = {}
    for item in items.values():
        if id(item) not in coded:
            coded[id(item)] = _encode(item, bits, rngs)
    return {name: coded[id(item)] for name, item in items.items()}


def _encode(item: Any, bits: int, rngs: Sequence[np.random.Generator]) -> Any:
    if not isinstance(item, Tensor) or not item.is_floating_point():
        return item
    copies = item.reshape(len(rngs), -1)
    values = copies.shape[1]
    if values < 2:
        return item
    rounded = torch.stack([stochastic_round(row, bits, rng) for row, rng in zip(copies, rngs, strict=True)])
    return Coded(rounded.view(item.shape), bits * values + 2 * BITS_PER_VALUE * -(-values // BLOCK))


def stochastic_round(vector: Tensor, bits: int, rng: np.random.Generator) -> Tensor:
    """[n] rounded to 2^bits levels per block, unbiased."""
    short = -len(vector) % BLOCK
    # Filled up with its own last value, a short block keeps its range.
    blocks = torch.cat([vector, vector[-1:].expand(short)]).view(-1, BLOCK)
    low, high = blocks.aminmax(dim=1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    chance = torch.from_numpy(rng.random(blocks.shape, dtype=np.float32)).to(vector)
    level = ((blocks - low) / step.where(step > 0, 1.0) + chance).floor_().clamp_(max=2**bits - 1)
    rounded: Tensor = (low + step * level).flatten()[: len(vector)]
    return rounded
