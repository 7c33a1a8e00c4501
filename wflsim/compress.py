"""Compression of payloads: each tensor is encoded once, and sender and receiver compute with the decoded values.

`Payload` passes the items of one order or reply through an `Encoder`; without one everything is sent as it is, 32 bits
per value. `StochasticRounding` is the quantiser: blocks of 1,024 values are mapped to 2^bits levels between their
smallest and largest value, rounded up or down at random so that the mean is right; each block carries two 32-bit
numbers. Scalars and integers are sent as they are.

Server and clients compute with the rounded values (`Me.sent`, `Reply.given`), so sums that the server keeps of what
clients remember (FedDyn's and DRDM's c, SCAFFOLD's c) stay right to the last digit. A model that is sent whole can then
come no nearer to an optimum than one level of its widest block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from wflsim.exchange import BITS_PER_VALUE, Coded, value_of

BLOCK = 1024
"""Number of values that share one range of levels."""


class Encoder(Protocol):
    """A way to compress vectors."""

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        """The [k, n] rows as the receiver will see them, and the bits of one row; row i may draw from rngs[i] only."""


class Payload:
    """The items of one message to (or from) k clients, passed through an encoder; None: everything is sent as it is.

    Row i of every item belongs to client i; what all clients share has one row. Scalars, integers and items that a
    policy has encoded itself pass unchanged. A tensor under two names is encoded, and later paid for, once.
    """

    def __init__(self, encoder: Encoder | None, rngs: Sequence[np.random.Generator]) -> None:
        self._encoder = encoder
        self._rngs = rngs
        self._coded: dict[int, Any] = {}
        """Encoded item of a tensor, by its id. Decoded tensors are listed, too, so that they are not encoded again."""
        self._promised: dict[int, tuple[Tensor, int]] = {}
        """Tensors that were encoded already, with torch's count of changes at that time: later changes are an error."""

    def sent(self, *items: Any) -> Any:
        """Implements `exchange.Me.sent`."""
        seen = tuple(value_of(self._encode(item)) for item in items)
        for tensor in (*items, *seen):
            if isinstance(tensor, Tensor):
                self._promised[id(tensor)] = (tensor, tensor._version)
        return seen[0] if len(seen) == 1 else seen

    def encode(self, items: Mapping[str, Any]) -> dict[str, Any]:
        """All items as they are sent."""
        for name, item in items.items():
            tensor, changes = self._promised.get(id(item), (None, 0))
            if tensor is not None and tensor._version != changes:
                raise ValueError(f"payload {name!r} was changed after me.sent had said what the server will see of it")
        return {name: self._encode(item) for name, item in items.items()}

    def _encode(self, item: Any) -> Any:
        if self._encoder is None or not isinstance(item, Tensor) or not item.is_floating_point():
            return item
        if id(item) not in self._coded:
            rows = item.reshape(len(self._rngs), -1)
            if rows.shape[1] < 2:
                return item
            seen, bits = self._encoder(rows, self._rngs)
            coded = Coded(seen.view(item.shape), bits)
            self._promised[id(item)] = (item, item._version)
            self._coded[id(item)] = self._coded[id(coded.value)] = coded
        return self._coded[id(item)]


class StochasticRounding:
    """An `Encoder` that rounds each value at random to one of 2^bits levels."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        values = rows.shape[1]
        rounded = torch.stack([stochastic_round(row, self.bits, rng) for row, rng in zip(rows, rngs, strict=True)])
        return rounded, self.bits * values + 2 * BITS_PER_VALUE * -(-values // BLOCK)


def stochastic_round(vector: Tensor, bits: int, rng: np.random.Generator) -> Tensor:
    """The vector [n] rounded to 2^bits levels per block, at random so that the mean is right."""
    short = -len(vector) % BLOCK
    # Filled up with its own last value, a short block keeps its range.
    blocks = torch.cat([vector, vector[-1:].expand(short)]).view(-1, BLOCK)
    low, high = blocks.aminmax(dim=1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    chance = torch.from_numpy(rng.random(blocks.shape, dtype=np.float32)).to(vector)
    level = ((blocks - low) / step.where(step > 0, 1.0) + chance).floor_().clamp_(max=2**bits - 1)
    rounded: Tensor = (low + step * level).flatten()[: len(vector)]
    return rounded
