"""The items of one message, passed through a compressor: each tensor is encoded once, and both sides compute with that.

Server and clients compute with the decoded values (`Me.sent`, `Reply.given`), so sums that the server keeps of what
clients remember (FedDyn's and DRDM's c, SCAFFOLD's c) stay right to the last digit. Scalars and integers are sent as
they are. Without a compressor everything is, at 32 bits per value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from wflsim.compress.compressors import Compressor, Identity
from wflsim.exchange import Coded, value_of


class Payload:
    """The items of one message to (or from) k clients, passed through a compressor.

    Row i of every item belongs to client i; what all clients share has one row. Scalars, integers and items that a
    policy has encoded itself pass unchanged. A tensor under two names is encoded, and later paid for, once.
    """

    def __init__(self, compressor: Compressor, streams: Callable[[], Sequence[np.random.Generator]]) -> None:
        self._compressor = compressor
        self._streams = streams
        """Makes the random streams of the rows, which are seldom needed and take time to make."""
        self._coded: dict[int, Any] = {}
        """Encoded item of a tensor, by its id. Decoded tensors are listed, too, so that they are not encoded again."""
        self._promised: dict[int, tuple[Tensor, int]] = {}
        """Tensors that were encoded already, with torch's count of changes at that time: later changes are an error."""

    @cached_property
    def _rngs(self) -> Sequence[np.random.Generator]:
        return self._streams()

    def sent(self, *items: Any, near: Tensor | None = None) -> Any:
        """Implements `exchange.Me.sent`."""
        seen = tuple(value_of(self._encode(item, near)) for item in items)
        for tensor in (*items, *seen):
            if isinstance(tensor, Tensor):
                self._promised[id(tensor)] = (tensor, tensor._version)
        return seen[0] if len(seen) == 1 else seen

    def coded(self, rows: Tensor, compressor: Compressor) -> Coded:
        """Implements `exchange.Me.coded`."""
        seen, bits = compressor(rows, self._rngs)
        return Coded(seen, bits)

    def encode(self, items: Mapping[str, Any]) -> dict[str, Any]:
        """All items as they are sent."""
        for name, item in items.items():
            tensor, changes = self._promised.get(id(item), (None, 0))
            if tensor is not None and tensor._version != changes:
                raise ValueError(f"payload {name!r} was changed after me.sent had said what the server will see of it")
        return {name: self._encode(item) for name, item in items.items()}

    def _encode(self, item: Any, near: Tensor | None = None) -> Any:
        if isinstance(self._compressor, Identity) or not isinstance(item, Tensor) or not item.is_floating_point():
            return item
        if id(item) not in self._coded:
            rows = item.reshape(len(self._rngs), -1)
            if rows.shape[1] < 2:
                return item
            base = near if self._compressor.of_changes else None
            seen, bits = self._compressor(rows if base is None else rows - base, self._rngs)
            coded = Coded((seen if base is None else seen + base).view(item.shape), bits)
            self._promised[id(item)] = (item, item._version)
            self._coded[id(item)] = self._coded[id(coded.value)] = coded
        return self._coded[id(item)]
