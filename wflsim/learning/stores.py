"""What clients remember: named rows per client, staged while they work, kept when the driver says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Rows = dict[str, dict[int, Tensor]]
"""Of one store: name -> client -> row. A row is never changed in place, so copies of the dicts are snapshots."""


class Keep:
    """One store as the k clients of a chunk see it. What is read is a copy: it may be updated in place."""

    def __init__(self, rows: Rows, clients: Sequence[int], blank: Tensor) -> None:
        self._rows = rows
        self._clients = clients
        self._blank = blank
        """[P] zeros: what a client has that never assigned anything."""
        self.staged: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self.get(name, 0.0)

    def __setitem__(self, name: str, rows: Tensor) -> None:
        if not isinstance(rows, Tensor) or rows.ndim == 0 or len(rows) != len(self._clients):
            got = f"shape {list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise ValueError(f"{name!r} must be a tensor with one row per client ({len(self._clients)}), got {got}")
        self.staged[name] = rows

    def get(self, name: str, default: Any) -> Tensor:
        """[k, ...] rows; where a client never assigned one, `default`: a number, one row, or k rows."""
        if name in self.staged:
            return self.staged[name]
        k, kept = len(self._clients), self._rows.get(name, {})
        rows = {i: kept[client] for i, client in enumerate(self._clients) if client in kept}
        if rows and len(rows) == k:
            return torch.stack(list(rows.values()))
        like = next(iter(rows.values()), default if isinstance(default, Tensor) else self._blank)
        shape = like.shape[1:] if like is default and like.ndim > 1 else like.shape
        result = self._blank.new_empty(k, *shape, dtype=like.dtype).copy_(torch.as_tensor(default))
        for i, row in rows.items():
            result[i] = row
        return result

    def rows(self) -> list[dict[str, Tensor]]:
        """What each client of the chunk staged, on storage of its own: a kept row must not keep a whole chunk alive."""
        own = {name: [row.clone() for row in rows] for name, rows in self.staged.items()}
        return [{name: rows[i] for name, rows in own.items()} for i in range(len(self._clients))]
