"""Payload quantisation for any policy: what is sent is really rounded, and counted as the bits it takes.

Blocks of 1,024 values are mapped to 2^bits levels between their smallest and largest value, rounded up or down at
random so that the mean is right. Each block carries two 32-bit numbers. Scalars and integers are sent as they are.

Server and clients compute with the rounded values (`Me.sent`, `Reply.given`), so sums that the server keeps of what
clients remember (FedDyn's and DRDM's c, SCAFFOLD's c) stay right to the last digit. A model that is sent whole can then
settle only as near to an optimum as one level of its largest block allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from wflsim.exchange import BITS_PER_VALUE

BLOCK = 1024


class StochasticRounding:
    """An `Encoder` that spends so many bits on each value."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        values = rows.shape[1]
        rounded = torch.stack([stochastic_round(row, self.bits, rng) for row, rng in zip(rows, rngs, strict=True)])
        return rounded, self.bits * values + 2 * BITS_PER_VALUE * -(-values // BLOCK)


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
