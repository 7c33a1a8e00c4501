"""A trace as arrays: the orders of all its rounds side by side, prepared once for many vectorised replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wflsim.errors import ReplayRefused
from wflsim.exchange import Order, Until
from wflsim.records import Step, TraceRound

Integers = NDArray[np.int64]
NOBODY = -1
"""Stands for an order that does not exist."""


@dataclass(frozen=True, slots=True)
class TraceArrays:
    """The orders of a trace, sorted by phase and ask. Where nothing else is said, an array has an entry per order."""

    order: Any
    """An `Order` whose fields are arrays: the formulas for one order then serve all of them."""
    phase: Integers
    """Number of the order's phase, counted over the whole trace."""
    starts: Integers
    """[phase + 1] The phase's first order; then the number of orders."""
    ask: Integers
    """Number of the order's ask, counted over the whole trace."""
    ask_starts: Integers
    """[ask] The ask's first order."""
    row: Integers
    """Ordinal of the order's round in the trace."""
    ends: Integers
    """[round] How many phases there are until the round ends."""
    previous: Integers
    """The client's order before this one, or NOBODY."""
    transferred: Integers
    """The client's latest order before this one that moved any bits, or NOBODY."""

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.ends)

    @classmethod
    def of(cls, trace: Sequence[TraceRound]) -> TraceArrays:
        """The arrays of a trace; ReplayRefused if a phase is anything but a Gather that waits for all."""
        orders: list[Order] = []
        phases, rows, ends = [], [], []
        phase = 0
        for row, entry in enumerate(trace):
            for step in entry.steps:
                _refuse_waiting(step)
                ordered = sorted(step.orders, key=lambda order: order.ask)
                orders += ordered
                phases += [phase] * len(ordered)
                rows += [row] * len(ordered)
                phase += 1
            ends.append(phase)
        # Numbers beyond 2^53 bits would not be exact as floats, but then neither are SimPy's times.
        columns = np.array(orders, dtype=np.float64).reshape(len(orders), len(Order._fields)).T
        order = Order(*columns)._replace(client=columns[0].astype(np.int64))
        in_phase = np.array(phases, dtype=np.int64)
        new_ask = np.diff(in_phase, prepend=-1).astype(bool) | np.diff(columns[3], prepend=-1.0).astype(bool)
        moves = columns[4] + columns[5] + columns[6] > 0
        everybody = np.ones(len(orders), dtype=bool)
        return cls(
            order=order,
            phase=in_phase,
            starts=np.searchsorted(in_phase, np.arange(phase + 1)),
            ask=np.cumsum(new_ask) - 1,
            ask_starts=np.flatnonzero(new_ask),
            row=np.array(rows, dtype=np.int64),
            ends=np.array(ends, dtype=np.int64),
            previous=_before(columns[0], everybody),
            transferred=_before(columns[0], moves),
        )

    def latest(self, clients: int) -> tuple[Integers, Integers]:
        """[round x client] Each client's latest order until the end of each round, and the latest that moved any bits;
        or NOBODY."""
        order = self.order
        moves = order.shared_bits + order.each_bits + order.up_bits > 0
        return self._latest(clients, np.ones_like(moves)), self._latest(clients, moves)

    def _latest(self, clients: int, counts: NDArray[np.bool_]) -> Integers:
        """The same of those orders that count."""
        found = np.full((self.rounds, clients), NOBODY)
        numbers = np.flatnonzero(counts)
        found[self.row[numbers], self.order.client[numbers]] = numbers  # of several in a round, the last is kept
        return np.maximum.accumulate(found, axis=0).ravel()


def _refuse_waiting(step: Step) -> None:
    """Refuse a phase in which the server does not simply wait for everybody."""
    if step.kind != "gather":
        raise ReplayRefused(f"policies: a phase of the kind {step.kind} is replayed by events, not by arrays")
    if step.until not in (None, Until()):
        raise ReplayRefused("policies: a policy that sets a deadline of its own is replayed by events, not by arrays")


def _before(client: NDArray[np.float64], counts: NDArray[np.bool_]) -> Integers:
    """Of each order: the client's latest one before it that counts, or NOBODY."""
    seen: dict[float, int] = {}
    found = np.full(len(client), NOBODY)
    for number, (who, kept) in enumerate(zip(client.tolist(), counts.tolist(), strict=True)):
        found[number] = seen.get(who, NOBODY)
        if kept:
            seen[who] = number
    return found
