"""What the rows say about a world: latency, stragglers, failures, lifetime, joules by cause. Pure functions of rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from wflsim.record import Activity, Leg, RoundRow

WAITING: tuple[Activity, ...] = ("idle", "tail")
"""Not part of serving an order."""


class WorldFacts(NamedTuple):
    """One run's world in one line."""

    p50_latency_s: float
    """Of a round, start to end."""
    p95_latency_s: float
    straggler: int | None
    """The client that most often kept a phase waiting."""
    straggler_share: float
    """In which share of the phases with company."""
    failures: dict[str, int]
    """Orders that brought no reply, by the outcome of their last leg: lost, outage, late, dead, dropped."""
    lifetime_rounds: int | None
    """Rounds until the first battery died; None if none did."""
    dead: int
    """Clients whose battery died."""
    energy_j: dict[str, float]
    """By cause."""


def world_facts(rounds: Sequence[RoundRow], legs: Sequence[Leg]) -> WorldFacts:
    """All of the below at once."""
    p50_s, p95_s = latency_s(rounds)
    late = stragglers(legs)
    client, times = late.most_common(1)[0] if late else (None, 0)
    deaths = died_in(legs)
    energy_j: dict[str, float] = defaultdict(float)
    for (_, cause), joules in energy_by_client_and_cause(legs).items():
        energy_j[cause] += joules
    return WorldFacts(
        p50_s, p95_s, client, times / late.total() if late else 0.0, dict(failures(legs)),
        min(deaths.values()) + 1 if deaths else None, len(deaths), dict(energy_j),
    )  # fmt: skip


def latency_s(rounds: Sequence[RoundRow]) -> tuple[float, float]:
    """Median and 95th percentile of the length of a round; NaN without rounds."""
    if not rounds:
        return float("nan"), float("nan")
    p50_s, p95_s = np.percentile([row.end_s - row.start_s for row in rounds], [50, 95])
    return float(p50_s), float(p95_s)


def stragglers(legs: Iterable[Leg]) -> Counter[int]:
    """How often each client was the last to end its order in a phase; nobody, where all or several end together."""
    found: Counter[int] = Counter()
    for _, phase in groupby(sorted(last_legs(legs), key=_phase), key=_phase):
        # At a deadline several are cut at the same instant: the one whose last leg began last had least left to do.
        ends = sorted(((leg.end_s, -leg.start_s, leg.client) for leg in phase), reverse=True)
        if len(ends) > 1 and ends[0][:2] != ends[1][:2]:
            found[ends[0][2]] += 1
    return found


def failures(legs: Iterable[Leg]) -> Counter[str]:
    """Orders without a reply, by why."""
    return Counter(leg.outcome for leg in last_legs(legs) if leg.outcome != "ok")


def died_in(legs: Iterable[Leg]) -> dict[int, int]:
    """Round in which each dead client died."""
    deaths: dict[int, int] = {}
    for leg in legs:
        if leg.outcome == "dead":
            deaths.setdefault(leg.client, leg.round)
    return deaths


def energy_by_client_and_cause(legs: Iterable[Leg]) -> dict[tuple[int, str], float]:
    """Joules of whole devices."""
    energy_j: dict[tuple[int, str], float] = defaultdict(float)
    for leg in legs:
        energy_j[leg.client, leg.activity] += leg.energy_j
    return dict(energy_j)


def last_legs(legs: Iterable[Leg]) -> list[Leg]:
    """The leg with which each order ended; waiting counts only if it was cut short."""
    last: dict[tuple[int, int, int], Leg] = {}
    for leg in legs:
        if leg.activity not in WAITING or leg.outcome in ("late", "dropped"):
            last[leg.round, leg.phase, leg.client] = leg
    return list(last.values())


def _phase(leg: Leg) -> tuple[int, int]:
    return leg.round, leg.phase
