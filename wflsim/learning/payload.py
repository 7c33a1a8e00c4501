"""What a payload becomes on its way: each of its tensors is encoded once, and both ends know the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from wflsim.exchange import Coded, value_of


class Encoder(Protocol):
    """A way to compress vectors: what the receiver will see of them, and what they cost."""

    def __call__(self, rows: Tensor, rngs: Sequence[np.random.Generator]) -> tuple[Tensor, int]:
        """New [k, n] rows in place of [k, n], and the bits of one row; row i may draw from rngs[i] alone."""


class Payload:
    """One payload of k copies on its way through an encoder (None: everything is sent as it is).

    Copy i of every item is row i; what all receivers share is one copy. Scalars, integers and what a policy has coded
    itself pass unchanged. A tensor under two names is encoded, and later paid for, once.
    """

    def __init__(self, encoder: Encoder | None, rngs: Sequence[np.random.Generator]) -> None:
        self._encoder = encoder
        self._rngs = rngs
        self._coded: dict[int, Any] = {}
        """What became of a tensor, by its id. What the receiver sees of it is listed too: it is not coded again."""
        self._promised: dict[int, tuple[Tensor, int]] = {}
        """Tensors whose coded values are settled, kept alive, with torch's count of the changes made to them."""

    def sent(self, *items: Any) -> Any:
        """Implements `exchange.Me.sent`."""
        seen = tuple(value_of(self._encode(item)) for item in items)
        for tensor in (*items, *seen):
            if isinstance(tensor, Tensor):
                self._promised[id(tensor)] = (tensor, tensor._version)
        return seen[0] if len(seen) == 1 else seen

    def encode(self, items: Mapping[str, Any]) -> dict[str, Any]:
        """The whole payload as it goes over the air."""
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
