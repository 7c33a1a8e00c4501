"""Flat rows, traces and the run folder: what a run leaves behind, append-only.

Rows hold what happened; sums, averages and hitting times are derived from them later (tables, reports). Floats are
written by `repr`, so that a file read back is the run, bit for bit.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

from wflsim.errors import StoreError
from wflsim.exchange import Order, Until

Activity = Literal["receive", "compute", "transmit", "idle", "tail"]


class Leg(NamedTuple):
    """One activity of one client: enough to draw a Gantt chart and to re-derive every total."""

    round: int
    phase: int
    client: int
    activity: Activity
    start_s: float
    end_s: float
    bits: int
    """On the air and useful: sent or received once, however many attempts it took; 0 if not a transfer."""
    snr_db: float | None
    rate_bps: float | None
    attempts: int
    energy_j: float
    """Whole device, caused by this activity."""
    radiated_j: float
    """The part of it that left the antenna."""
    paper_j: float
    """What the paper's formula charges: main-phase compute, and power x paper bits / rate."""
    outcome: str
    """ok, or why the activity was in vain or cut short: lost, late, outage, dead, dropped."""


class RoundRow(NamedTuple):
    """One communication round (one server version, if asynchronous). Costs are this round's own, not running sums."""

    round: int
    start_s: float
    end_s: float
    asked: int
    delivered: int
    energy_j: float
    radiated_j: float
    paper_energy_j: float
    up_bits: int
    down_bits: int
    average: float | None
    worst: float | None
    std: float | None
    worst10: float | None
    jain: float | None
    loss: float | None


class ClientRow(NamedTuple):
    """One client at one evaluation."""

    round: int
    client: int
    accuracy: float | None
    loss: float | None
    lam: float | None


class Evaluation(NamedTuple):
    """Per client: accuracy and mean loss of its own model on its own test samples; None where it has none."""

    accuracy: list[float | None]
    loss: list[float | None]
    lam: list[float] | None


class Step(NamedTuple):
    """One request to the world: a gather of orders, a send, or (no orders) a receive."""

    kind: Literal["gather", "send", "receive"]
    orders: list[Order]
    until: Until | None


class TraceRound(NamedTuple):
    """One round of learning as the world sees it; a list of them is a trace."""

    round: int
    steps: list[Step]
    evaluation: Evaluation | None


def trace_to_json(entry: TraceRound) -> str:
    """One line of `trace.jsonl`."""
    steps = [
        [step.kind, [list(order) for order in step.orders], _until_to_list(step.until)] for step in entry.steps
    ]
    evaluation = None if entry.evaluation is None else list(entry.evaluation)
    return json.dumps([entry.round, steps, evaluation], separators=(",", ":"))


def trace_from_json(line: str) -> TraceRound:
    """Inverse of `trace_to_json`; StoreError if the line is not one of ours."""
    try:
        number, steps, evaluation = json.loads(line)
        return TraceRound(
            number,
            [Step(kind, [Order(*order) for order in orders], _until_from_list(until)) for kind, orders, until in steps],
            None if evaluation is None else Evaluation(*evaluation),
        )
    except (ValueError, TypeError) as error:
        raise StoreError(f"not a trace line ({error}): {line[:60]!r}") from error


def _until_to_list(until: Until | None) -> list[Any] | None:
    return None if until is None else [until.deadline_s, until.first, until.quorum]


def _until_from_list(fields: list[Any] | None) -> Until | None:
    return None if fields is None else Until(*fields)
