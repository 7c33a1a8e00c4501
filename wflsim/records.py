"""Flat rows, traces and the run folder: what a run leaves behind, append-only.

Rows hold what happened; sums, averages and hitting times are derived from them later (tables, reports). Floats are
written by `repr`, so that a file read back is the run, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wflsim.errors import StoreError
from wflsim.exchange import Edges, Order, Until
from wflsim.questions import Pace

Activity = Literal["receive", "compute", "transmit", "idle", "tail"]


class Leg(NamedTuple):
    """One activity of one client: enough to draw a Gantt chart and to re-derive every total."""

    round: int
    """Round in which the order was given, counted from 0; under an asynchronous policy the server's version then."""
    phase: int
    """Phase of the round, counted from 0: its first Gather or Send is phase 0."""
    client: int
    """Number of the client, counted from 0."""
    activity: Activity
    """What the device did: receive, compute, transmit, idle (wait for the others) or tail (radio still awake)."""
    start_s: float
    """Simulated time at which the activity began, in seconds since the start of the run."""
    end_s: float
    """Simulated time at which the activity ended, in seconds since the start of the run."""
    bits: int = 0
    """Bits sent or received by the end of the leg, counted once however many attempts it took: of an upload that was
    lost, late or in outage, the part that had been on the air, the block that failed included. 0 if not a transfer."""
    snr_db: float | None = None
    """SNR in dB when the leg began; empty if nothing is received at all, or if the leg is no transfer."""
    rate_bps: float | None = None
    """Mean rate on the air in bit/s, failed attempts included; empty if the leg is no transfer or took no time."""
    attempts: int = 0
    """Number of attempts that the transfer took, over all its blocks; 0 if the leg is no transfer."""
    energy_j: float = 0.0
    """Energy in joules that the whole device spent on this activity."""
    radiated_j: float = 0.0
    """The part of energy_j in joules that left the antenna."""
    paper_j: float = 0.0
    """Joules that the paper's formula charges: main-phase compute, and power x paper bits / rate."""
    outcome: str = "ok"
    """ok, or why the activity was in vain or cut short: lost, late, outage, dead, dropped, gone; no_step: no
    local step fits into the time for computing, and the client was not asked."""
    peer: int | None = None
    """Device to device: the neighbour from which the client received, or to which it sent alone. Empty: the server,
    or a broadcast to all neighbours."""
    saved_j: float | None = None
    """Joules that computing at a lower clock saves by the plan of devices.dvfs just_in_time, against computing at the
    scenario's clock and waiting for the slowest; empty elsewhere."""


class RoundRow(NamedTuple):
    """One communication round (one server version, if asynchronous). Costs are this round's own, not running sums."""

    round: int
    """Number of the round, counted from 0."""
    start_s: float
    """Simulated time at which the round began, in seconds since the start of the run."""
    end_s: float
    """Simulated time at which the round ended, in seconds since the start of the run."""
    asked: int
    """Number of orders that the server gave in the round, over all phases."""
    delivered: int
    """Number of orders whose whole reply the server received."""
    energy_j: float
    """Energy in joules that all devices spent in the round, by the full accounting."""
    radiated_j: float
    """The part of energy_j in joules that left antennas."""
    paper_energy_j: float
    """Energy in joules by the paper's formula: computing and sending of the main phase only."""
    up_bits: int
    """Bits sent up by all clients in the round."""
    down_bits: int
    """Bits received by all clients in the round; a broadcast counts once for every receiver."""
    average: float | None
    """Mean over clients of the accuracy on their own test samples, from 0 to 1; empty if not evaluated."""
    worst: float | None
    """Lowest accuracy of a client, from 0 to 1; empty if the round was not evaluated."""
    std: float | None
    """Population standard deviation of the accuracies over clients; empty if the round was not evaluated."""
    worst10: float | None
    """Mean accuracy of the lowest tenth of the clients, at least one; empty if the round was not evaluated."""
    jain: float | None
    """Jain's fairness index (sum a)^2 / (N sum a^2) of the accuracies, from 1/N to 1; empty if not evaluated."""
    loss: float | None
    """Mean over clients of the mean test loss; empty if the round was not evaluated."""
    planned_s: float | None = None
    """Duration that the selector has planned for the round's last phase; empty if it plans none. 0: nobody fitted."""
    tau: int | None = None
    """Local steps that the controller of tau chose for the round; empty where the policy's tau is a number."""
    adapt_bits: int | None = None
    """The part of up_bits that the controller needs: each client's gradient and two numbers; empty if there is none."""
    adapt_j: float | None = None
    """The part of energy_j that the controller costs: of each client's computing and sending, in proportion to the
    samples and bits that it needs; empty if there is none."""


class ClientRow(NamedTuple):
    """One client at one evaluation."""

    round: int
    """Number of the evaluated round, counted from 0."""
    client: int
    """Number of the client, counted from 0."""
    accuracy: float | None
    """Accuracy of the client's model on its own test samples, from 0 to 1; empty if it has none."""
    loss: float | None
    """Mean loss of the client's model on its own test samples; empty if it has none."""
    lam: float | None
    """The policy's dual variable lambda of the client; empty if the policy has none."""
    cluster: int | None = None
    """Number of the group whose model the client has, where a policy groups clients; empty before it is known."""
    since: int | None = None
    """The round in which the client came into that group, or the group was split off."""
    mean_accuracy: float | None = None
    """Accuracy of the network's mean model on the client's test samples, where a policy has no server."""
    apart: float | None = None
    """Euclidean distance of the client's model from the network's mean model, where a policy has no server."""


class FleetRow(NamedTuple):
    """One client of a run: which device it has, and what goes with it."""

    client: int
    """Number of the client, counted from 0."""
    kind: int
    """Ordinal of its kind of device in the scenario's list of devices, counted from 0."""
    compute: str
    """Name of the processor."""
    modem: str
    """Name of the modem."""
    clock_hz: float
    """Clock of the processor in hertz."""
    sample_s: float
    """Seconds that the device takes to train on one sample at that clock, beside the overhead of steps and orders; its
    speed is the inverse."""
    active_w: float
    """Watts of the device without its modem while it computes."""
    idle_w: float
    """Watts of the device without its modem while it does not compute."""
    radiated_w: float
    """Watts that it radiates while it sends, at most those where there is power control."""
    battery_j: float | None
    """Joules in its battery at the beginning; empty: it is on mains."""
    distance_m: float | None
    """Distance from the base station at the beginning, in metres on the ground; empty: the SNR is given."""
    samples: int | None
    """Number of its training samples; empty where nothing is trained."""
    group: int | None
    """Group of clients with which it fails together; empty without outages."""


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
    pace: Pace | None = None
    """What was asked of the controller of tau before the round; None where tau is fixed."""


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
        [step.kind, [_order_to_list(order) for order in step.orders], _until_to_list(step.until)]
        + ([step.edges] if step.edges else [])
        for step in entry.steps
    ]
    evaluation = None if entry.evaluation is None else list(entry.evaluation)
    paced = [] if entry.pace is None else [list(entry.pace)]
    return json.dumps([entry.round, steps, evaluation, *paced], separators=(",", ":"))


def trace_from_json(line: str) -> TraceRound:
    """Inverse of `trace_to_json`; StoreError if the line is not one of ours."""
    try:
        number, steps, evaluation, *paced = json.loads(line)
        return TraceRound(
            number,
            [
                Step(
                    kind,
                    [_order(order) for order in orders],
                    _until_from_list(until),
                    tuple((sender, receiver) for along in edges for sender, receiver in along),
                )
                for kind, orders, until, *edges in steps
            ],
            None if evaluation is None else Evaluation(*evaluation),
            Pace(*paced[0]) if paced else None,
        )
    except (ValueError, TypeError) as error:
        raise StoreError(f"not a trace line ({error}): {line[:60]!r}") from error


FIXED_TAU_FIELDS = Order._fields.index("adapt_bits")
"""Fields of an order that a trace holds where no controller chooses tau."""


def _order_to_list(order: Order) -> list[Any]:
    return list(order if order.adapt_bits else order[:FIXED_TAU_FIELDS])


def _order(fields: list[Any]) -> Order:
    """One order of a trace; StoreError where its local steps were not recorded, as in earlier versions."""
    if len(fields) < FIXED_TAU_FIELDS:
        raise StoreError(
            "the trace is from an earlier version of wflsim, which did not record local steps, so computing times "
            "cannot be told from it: compute the run again, with --fresh"
        )
    return Order(*fields)


def _until_to_list(until: Until | None) -> list[Any] | None:
    return None if until is None else [until.deadline_s, until.first, until.quorum]


def _until_from_list(fields: list[Any] | None) -> Until | None:
    return None if fields is None else Until(*fields)


TABLES: dict[str, type[tuple[Any, ...]]] = {"rounds.csv": RoundRow, "clients.csv": ClientRow, "legs.csv": Leg}
FLEET = "fleet.csv"
"""The table of a run with a line per client, written once, when the run begins."""
WRITTEN: dict[str, type[tuple[Any, ...]]] = {**TABLES, FLEET: FleetRow}
"""All tables that a run writes."""
TRACE = "trace.jsonl"


def fleet_text(rows: Iterable[FleetRow]) -> str:
    """The whole of `fleet.csv`."""
    return ",".join(FleetRow._fields) + "\n" + csv_lines(rows)


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
