"""Flat rows, traces and the run folder: what a run leaves behind, append-only.

Rows hold what happened; sums, averages and hitting times are derived from them later (tables, reports). Floats are
written by `repr`, so that a file read back is the run, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wflsim.errors import StoreError
from wflsim.exchange import Edges, Order, Until
from wflsim.files import Damaged, Mark, new_hash

Activity = Literal["receive", "compute", "transmit", "idle", "tail"]


class Leg(NamedTuple):
    """One activity of one client: enough to draw a Gantt chart and to re-derive every total."""

    round: int
    phase: int
    client: int
    activity: Activity
    start_s: float
    end_s: float
    bits: int = 0
    """Sent or received by the end of the leg, counted once however many attempts it took: of an upload that was lost,
    late or in outage, the part that had been on the air, the block that failed included. 0 if not a transfer."""
    snr_db: float | None = None
    """When the leg began; None if nothing is received at all, or if the leg is no transfer."""
    rate_bps: float | None = None
    attempts: int = 0
    energy_j: float = 0.0
    """Whole device, caused by this activity."""
    radiated_j: float = 0.0
    """The part of it that left the antenna."""
    paper_j: float = 0.0
    """What the paper's formula charges: main-phase compute, and power x paper bits / rate."""
    outcome: str = "ok"
    """ok, or why the activity was in vain or cut short: lost, late, outage, dead, dropped."""
    peer: int | None = None
    """Device to device: the neighbour from which the client received, or to which it sent alone. Empty: the server,
    or a broadcast to all neighbours."""


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
    cluster: int | None = None
    """Number of the group whose model the client has, where a policy groups clients; empty before it is known."""
    since: int | None = None
    """The round in which the client came into that group, or the group was split off."""
    mean_accuracy: float | None = None
    """Accuracy of the network's mean model on the client's test samples, where a policy has no server."""
    apart: float | None = None
    """Euclidean distance of the client's model from the network's mean model, where a policy has no server."""


class Evaluation(NamedTuple):
    """Per client: accuracy and mean loss of its own model on its own test samples; None where it has none."""

    accuracy: list[float | None]
    loss: list[float | None]
    lam: list[float] | None
    cluster: list[int | None] | None = None
    since: list[int | None] | None = None
    mean_accuracy: list[float | None] | None = None
    apart: list[float] | None = None


class Step(NamedTuple):
    """One request to the world: a gather of orders, a send, (no orders) a receive, or a gossip along edges."""

    kind: Literal["gather", "send", "receive", "gossip"]
    orders: list[Order]
    until: Until | None
    edges: Edges = ()
    """Links (sender, receiver) along which a gossip sends; else none."""

    @property
    def transfers(self) -> int:
        """How many deliveries the step asks for: one per order, or one per link."""
        return len(self.edges) if self.kind == "gossip" else len(self.orders)


class TraceRound(NamedTuple):
    """One round of learning as the world sees it; a list of them is a trace."""

    round: int
    steps: list[Step]
    evaluation: Evaluation | None


class FinishedRound(NamedTuple):
    """All that is kept of one round: what the loop hands to a sink when the round is over."""

    trace: TraceRound
    row: RoundRow
    clients: list[ClientRow]
    """One row per client, if the round was evaluated; else none."""
    legs: list[Leg]
    """Every activity of every device; none without a world."""


def trace_to_json(entry: TraceRound) -> str:
    """One line of `trace.jsonl`."""
    steps = [
        [step.kind, [list(order) for order in step.orders], _until_to_list(step.until)]
        + ([step.edges] if step.edges else [])
        for step in entry.steps
    ]
    evaluation = None if entry.evaluation is None else list(entry.evaluation)
    return json.dumps([entry.round, steps, evaluation], separators=(",", ":"))


def trace_from_json(line: str) -> TraceRound:
    """Inverse of `trace_to_json`; StoreError if the line is not one of ours."""
    try:
        number, steps, evaluation = json.loads(line)
        return TraceRound(
            number,
            [
                Step(
                    kind,
                    [Order(*order) for order in orders],
                    _until_from_list(until),
                    tuple((sender, receiver) for along in edges for sender, receiver in along),
                )
                for kind, orders, until, *edges in steps
            ],
            None if evaluation is None else Evaluation(*evaluation),
        )
    except (ValueError, TypeError) as error:
        raise StoreError(f"not a trace line ({error}): {line[:60]!r}") from error


def _until_to_list(until: Until | None) -> list[Any] | None:
    return None if until is None else [until.deadline_s, until.first, until.quorum]


def _until_from_list(fields: list[Any] | None) -> Until | None:
    return None if fields is None else Until(*fields)


TABLES: dict[str, type[tuple[Any, ...]]] = {"rounds.csv": RoundRow, "clients.csv": ClientRow, "legs.csv": Leg}
TRACE = "trace.jsonl"
ELSEWHERE = "make room for it, or name another folder with --out"
"""What to do where no results can be written."""


class Tables:
    """The append-only files of one run (one policy, one seed), a sink for the loop.

    `marks` say what the files held after `held` rounds: what lies behind was written by a process that died before its
    next checkpoint, and is cut off. Rounds below `held` come from a replayed prefix and are on disk already. `Damaged`
    if a file does not begin with what its mark promises; then nothing has been touched.
    """

    def __init__(self, folder: Path, held: int = 0, marks: Mapping[str, Mark] | None = None) -> None:
        self.folder = folder
        self.held = held
        self._hashes = {name: new_hash() for name in (*TABLES, TRACE)}
        self._sizes = dict.fromkeys(self._hashes, 0)
        if marks is not None:
            for name in self._hashes:
                self._take_up(name, marks[name])
        for name, kind in {**TABLES, TRACE: None}.items():
            header = ",".join(getattr(kind, "_fields")) + "\n" if kind and marks is None else ""  # noqa: B009
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"cannot make {folder}: {error.strerror or error}; {ELSEWHERE}") from error
            self._append(name, header, ELSEWHERE)

    def append(self, finished: FinishedRound) -> None:
        """Append one round to every table, unless it is there already."""
        number = finished.trace.round
        if number < self.held:
            return
        texts = {
            "rounds.csv": csv_lines([finished.row]),
            "clients.csv": csv_lines(finished.clients),
            "legs.csv": csv_lines(finished.legs),
            TRACE: trace_to_json(finished.trace) + "\n",
        }
        cure = f"rounds before {number} are safe, the same command goes on from the last checkpoint"
        for name, text in texts.items():
            self._append(name, text, cure)
        self.held = number + 1

    def marks(self) -> dict[str, Mark]:
        """Size and checksum of every file now: for a checkpoint, and for the seal when the run has ended."""
        return {name: Mark(size, self._hashes[name].hexdigest()) for name, size in self._sizes.items()}

    def _append(self, name: str, text: str, cure: str) -> None:
        """Append to a file, and cut off first what a process that died left behind its mark."""
        path, body = self.folder / name, text.encode()
        try:
            with path.open("ab") as file:
                file.truncate(self._sizes[name])
                file.write(body)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror or error}; {cure}") from error
        self._hashes[name].update(body)
        self._sizes[name] += len(body)

    def _take_up(self, name: str, mark: Mark) -> None:
        """Feed the hash with what is there already."""
        path = self.folder / name
        try:
            with path.open("rb") as file:
                while chunk := file.read(min(1 << 20, mark.size - self._sizes[name])):
                    self._hashes[name].update(chunk)
                    self._sizes[name] += len(chunk)
        except OSError as error:
            raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
        if self.marks()[name] != mark:
            raise Damaged(f"{path} is damaged: it does not begin with what its checkpoint promises")


def csv_lines(rows: Iterable[tuple[Any, ...]]) -> str:
    """Rows as CSV text: floats by repr, None as an empty field. No field of ours ever needs quoting."""
    return "".join(",".join("" if value is None else str(value) for value in row) + "\n" for row in rows)


def read_trace(path: Path, rounds: int | None = None) -> list[TraceRound]:
    """The first `rounds` rounds (all, if None) of a trace file."""
    try:
        with path.open(encoding="utf-8") as file:
            trace = [trace_from_json(line) for _, line in zip(range(rounds or 1 << 60), file, strict=False)]
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read the trace {path}: {error}") from error
    if rounds is not None and len(trace) < rounds:
        raise StoreError(f"{path} holds {len(trace)} rounds where its checkpoint promises {rounds}; use --fresh")
    return trace
