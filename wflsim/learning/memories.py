"""What clients remember: rows by name and client, staged while a client works, stored when the simulation says so."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from wflsim.learning.machine import refuse_unless_it_fits

COPIES = 3
"""How often the rows of a chunk are in memory: as they were read, as they will be, and row by row for each client."""
LESS = "lower the policy's m (or clients, where all take part), or let each client keep less: a smaller model, say"

Rows = dict[str, dict[int, Tensor]]
"""One store: name -> client -> row. A row is never changed in place, so copies of the dicts are snapshots."""


class Keep:
    """One store (memory, personal or scratch) as the k clients of a chunk see it; what they read is a copy."""

    def __init__(self, rows: Rows, clients: Sequence[int], blank: Tensor) -> None:
        self._rows = rows
        self._clients = clients
        self._blank = blank
        """[P] zeros: the row of a client that never assigned one."""
        self.staged: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self.get(name, 0.0)

    def __setitem__(self, name: str, rows: Tensor) -> None:
        if not isinstance(rows, Tensor) or rows.ndim == 0 or len(rows) != len(self._clients):
            got = f"shape {list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise ValueError(f"{name!r} must be a tensor with one row per client ({len(self._clients)}), got {got}")
        self.staged[name] = rows

    def get(self, name: str, default: Any) -> Tensor:
        """[k, ...] rows; `default` (a number, one row or k rows) for clients that never assigned one."""
        if name in self.staged:
            return self.staged[name]
        k, kept = len(self._clients), self._rows.get(name, {})
        rows = {i: kept[client] for i, client in enumerate(self._clients) if client in kept}
        like = next(iter(rows.values()), default if isinstance(default, Tensor) else self._blank)
        shape = like.shape[1:] if like is default and like.ndim > 1 else like.shape
        copies_bytes = COPIES * k * prod(shape) * like.element_size()
        refuse_unless_it_fits(copies_bytes, f"{name!r}, which {k} clients keep for themselves,", LESS)
        if rows and len(rows) == k:
            return torch.stack(list(rows.values()))
        result = self._blank.new_empty(k, *shape, dtype=like.dtype).copy_(torch.as_tensor(default))
        for i, row in rows.items():
            result[i] = row
        return result

    def rows(self) -> list[dict[str, Tensor]]:
        """What each client of the chunk assigned, as copies: a stored row must not keep a whole chunk in memory."""
        own = {name: [row.clone() for row in rows] for name, rows in self.staged.items()}
        return [{name: rows[i] for name, rows in own.items()} for i in range(len(self._clients))]
