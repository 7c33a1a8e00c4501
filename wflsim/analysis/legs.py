"""What the legs of a run say: who keeps a phase waiting, which orders fail, when batteries die, where the joules go.

One rule for the terminal, world.csv and the report page. All functions take the rows of legs.csv of one run as a frame
and compute without loops over legs, because a report may hold millions of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

WORK = ("receive", "compute", "transmit")
"""Activities that serve an order; the others (idle, tail) are waiting."""
CAUSES = (*WORK, "idle", "tail", "in vain")
"""What joules are spent on: an activity, or any activity that was lost, late or cut short."""
ORDER = ["round", "phase", "client"]
"""Columns that name one order."""
SAME_TIME = 1e-12
"""Relative difference up to which two instants count as the same: they are sums of the same durations."""


class WorldFacts(NamedTuple):
    """What one run says about its world, in one row of world.csv."""

    straggler: int | None
    """Client that kept the most phases waiting; None if nobody ever did."""
    straggler_share: float
    """Share of that client's phases with company in which it was the last; 0 if nobody ever was."""
    failures: dict[str, int]
    """Orders that brought no reply, by the outcome of their last leg: lost, outage, late, dead, dropped, gone;
    or no_step, of clients that were drawn and could not be asked."""
    lifetime_rounds: int | None
    """Rounds until the first battery died; None if none did."""
    dead: int
    """Number of clients whose battery died."""
    energy_j: dict[str, float]
    """Joules of all devices by activity."""
    co2e_g: dict[str, float] = {}  # noqa: RUF012 (a NamedTuple's default)
    """Grams of CO2 equivalent by activity; none without a block `carbon`."""

    def row(self) -> dict[str, Any]:
        """The columns of world.csv after policy and seed."""
        return {
            "straggler": self.straggler,
            "straggler_share": self.straggler_share,
            "lifetime_rounds": self.lifetime_rounds,
            "dead_clients": self.dead,
            "failed_orders": sum(self.failures.values()),
            "failures": " ".join(f"{why}:{times}" for why, times in sorted(self.failures.items())),
            **{f"{activity}_j": joules for activity, joules in sorted(self.energy_j.items())},
            **{f"{activity}_g": grams for activity, grams in sorted(self.co2e_g.items())},
        }


def world_facts(legs: pd.DataFrame) -> WorldFacts:
    """Straggler, failures, lifetime and energy of one run."""
    client, share = worst_straggler(stragglers(legs))
    deaths = died_in(legs)
    lifetime = min(deaths.values()) + 1 if deaths else None
    return WorldFacts(client, share, failures(legs), lifetime, len(deaths), energy_by_activity(legs), grams(legs))


def last_legs(legs: pd.DataFrame) -> pd.DataFrame:
    """The leg with which each order ended; waiting counts only if it was cut short."""
    serving = legs["activity"].isin(WORK) | legs["outcome"].isin(["late", "dropped", "gone"])
    return legs[serving].drop_duplicates(ORDER, keep="last")


def stragglers(legs: pd.DataFrame) -> pd.DataFrame:
    """Per client: `phases` in which it had company, and in how many of them it was the `last` to end its order.

    Where several end at the same instant, as at a deadline, the last is the one whose last leg began first: it was
    furthest behind. Nobody is, where those began together, too.
    """
    place = ["round", "phase"]
    ends = last_legs(legs)
    ends = ends[ends.groupby(place)["client"].transform("size") > 1]
    latest_s = ends.groupby(place)["end_s"].transform("max")
    tied = ends[ends["end_s"] >= latest_s * (1 - SAME_TIME)]
    began_s = tied.groupby(place)["start_s"].transform("min") + SAME_TIME * latest_s[tied.index]
    behind = tied[tied["start_s"] <= began_s]
    alone = behind[behind.groupby(place)["client"].transform("size") == 1]
    phases = ends.groupby("client").size()
    last = alone.groupby("client").size().reindex(phases.index, fill_value=0)
    return pd.DataFrame({"phases": phases, "last": last}).astype(int)


def pooled(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The stragglers of several runs of one policy as one table."""
    return pd.concat(list(tables)).groupby(level=0).sum()


def worst_straggler(table: pd.DataFrame) -> tuple[int | None, float]:
    """The client that was the last in most phases (of equals the one with the lowest number), and in what share."""
    if not len(table) or not table["last"].any():
        return None, 0.0
    at = int(table["last"].to_numpy().argmax())
    return int(table.index[at]), float(table["last"].iloc[at] / table["phases"].iloc[at])


def failures(legs: pd.DataFrame) -> dict[str, int]:
    """Number of orders without a reply, by the outcome of their last leg."""
    outcomes = last_legs(legs)["outcome"]
    return {str(why): int(times) for why, times in outcomes[outcomes != "ok"].value_counts().items()}


def died_in(legs: pd.DataFrame) -> dict[int, int]:
    """Round (counted from 0) in which the battery of each dead client died."""
    dead = legs[legs["outcome"] == "dead"].drop_duplicates("client")
    return dict(zip(dead["client"].tolist(), dead["round"].tolist(), strict=True))


def grams(legs: pd.DataFrame) -> dict[str, float]:
    """Grams of CO2 equivalent by activity; empty where the legs have none."""
    counted = legs.dropna(subset=["co2e_g"]) if "co2e_g" in legs else legs.iloc[:0]
    return {str(activity): float(own["co2e_g"].sum()) for activity, own in counted.groupby("activity")}


def energy_by_activity(legs: pd.DataFrame) -> dict[str, float]:
    """Joules of all devices by activity, whatever came of it: added up client by client, in the order of the legs."""
    pair = legs.groupby(["client", "activity"], sort=False).ngroup().to_numpy()
    per_pair_j = np.bincount(pair, legs["energy_j"].to_numpy(float))
    activity, names = pd.factorize(legs.drop_duplicates(["client", "activity"])["activity"])
    return dict(zip(names.tolist(), np.bincount(activity, per_pair_j).tolist(), strict=True))


def cause(legs: pd.DataFrame) -> pd.Series:
    """What each leg's joules were spent on, one of CAUSES."""
    return legs["activity"].where(legs["outcome"] == "ok", "in vain")


def energy_by_client(legs: pd.DataFrame) -> pd.DataFrame:
    """Joules by client (rows) and cause (columns)."""
    table = legs.groupby([legs["client"], cause(legs)])["energy_j"].sum().unstack()
    return table.reindex(columns=list(CAUSES)).fillna(0.0)


def recorded_in(legs: pd.DataFrame, rounds: pd.DataFrame) -> NDArray[np.int64]:
    """The round in whose row each leg is counted: the one that was going on when the leg ended.

    Under a synchronous policy that is the round it was ordered in; an asynchronous one may be versions ahead.
    """
    at = np.searchsorted(rounds["end_s"].to_numpy(), legs["end_s"].to_numpy(), side="left")
    return rounds["round"].to_numpy()[np.minimum(at, len(rounds) - 1)]


def latency_s(rounds: pd.DataFrame) -> tuple[float, float]:
    """Median and 95th percentile of the length of a round, in seconds; NaN without rounds."""
    if not len(rounds):
        return np.nan, np.nan
    p50_s, p95_s = np.quantile((rounds["end_s"] - rounds["start_s"]).to_numpy(float), (0.5, 0.95))
    return float(p50_s), float(p95_s)
