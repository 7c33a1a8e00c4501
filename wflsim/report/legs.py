"""What the legs of a policy's runs say: joules by cause and client, how long things take, who is last."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from wflsim.report.palette import ACTIVITIES
from wflsim.report.series import Series
from wflsim.report.timeline import Window, windows

CAUSES = tuple(ACTIVITIES)
COLUMNS = (
    "round", "phase", "client", "activity", "start_s", "end_s", "bits", "rate_bps", "attempts", "energy_j", "outcome"
)  # fmt: skip
WORK = ("receive", "compute", "transmit")


@dataclass
class Story:
    """One policy's legs, over its seeds."""

    energy: pd.DataFrame
    """Joules to the target by client (rows) and cause (columns), mean over seeds; what was in vain is its own cause."""
    durations: pd.DataFrame
    """phase, activity, p50_s, p95_s, legs: over all clients, rounds and seeds."""
    last: pd.Series
    """client -> share of the rounds it took part in where it finished after all others; empty if nobody ever does."""
    part: pd.DataFrame
    """client, round: who was asked, in the first seed."""
    asynchronous: bool = False
    """Some client was at work on an older version when a round began."""
    windows: list[Window] = field(default_factory=list)
    world: list[dict[str, Any]] = field(default_factory=list)
    """Per seed: orders that brought no reply, by why, and clients whose battery died."""


def story(series: Series) -> Story | None:
    """Read the legs of every seed once; None if there are none."""
    energy: list[pd.DataFrame] = []
    lengths: defaultdict[tuple[int, str], list[np.ndarray]] = defaultdict(list)
    lasts: list[pd.DataFrame] = []
    world: list[dict[str, Any]] = []
    part, shown, asynchronous = pd.DataFrame(), list[Window](), False
    for seed in series.seeds:
        legs = series.folder.rows((series.policy, seed), "legs", COLUMNS)
        if not len(legs):
            continue
        rounds = series.rounds[seed]
        legs["at"] = _recorded(legs, rounds)
        overlapping = _overlaps(legs)
        energy.append(_energy(legs[legs["at"] <= series.last_round(seed)]))
        took = legs["end_s"] - legs["start_s"]
        # an asynchronous server's phases only count what it sends in a round: they tell nothing apart
        phases = legs["phase"] * (not overlapping)
        for (phase, activity), group in took.groupby([phases, legs["activity"]]):
            lengths[int(str(phase)), str(activity)].append(group.to_numpy())
        lasts.append(_last(legs))
        world.append({"policy": series.policy, "seed": seed, **_failures(legs)})
        if not shown:
            part = legs[legs["activity"].isin(WORK)][["client", "round"]].drop_duplicates()
            asynchronous = overlapping
            shown = windows(legs, rounds, seed, series.last_round(seed), asynchronous)
    if not energy:
        return None
    total = pd.concat(energy).groupby(level=0).sum() / len(energy)
    return Story(total.sort_index(), _durations(lengths), _shares(pd.concat(lasts)), part, asynchronous, shown, world)


def _recorded(legs: pd.DataFrame, rounds: pd.DataFrame) -> np.ndarray:
    """The round in whose row a leg is counted: the one that was going on when it ended.

    Under a synchronous policy that is the round it was ordered in; an asynchronous one may be versions ahead.
    """
    at = np.searchsorted(rounds["end_s"].to_numpy(), legs["end_s"].to_numpy(), side="left")
    return rounds["round"].to_numpy()[np.minimum(at, len(rounds) - 1)]


def _overlaps(legs: pd.DataFrame) -> bool:
    return bool((legs["at"] != legs["round"])[legs["activity"].isin(WORK)].any())


def _energy(legs: pd.DataFrame) -> pd.DataFrame:
    cause = legs["activity"].where(legs["outcome"] == "ok", "in vain")
    table = legs.groupby([legs["client"], cause])["energy_j"].sum().unstack()
    return table.reindex(columns=list(CAUSES)).fillna(0.0)


def _durations(lengths: dict[tuple[int, str], list[np.ndarray]]) -> pd.DataFrame:
    order = {activity: i for i, activity in enumerate(CAUSES)}
    rows = []
    for phase, activity in sorted(lengths, key=lambda key: (key[0], order.get(key[1], len(order)))):
        took = np.concatenate(lengths[phase, activity])
        p50, p95 = np.quantile(took, (0.5, 0.95))
        rows.append({"phase": phase, "activity": activity, "p50_s": p50, "p95_s": p95, "legs": len(took)})
    return pd.DataFrame(rows)


def _last(legs: pd.DataFrame) -> pd.DataFrame:
    """Per (round, phase) with at least two clients: who finished strictly last."""
    work = legs[legs["activity"].isin(WORK)]
    ends = work.groupby(["round", "phase", "client"], sort=False)["end_s"].max().reset_index()
    step = ends.groupby(["round", "phase"])["end_s"]
    ends["crowd"] = step.transform("size")
    ends["latest"] = ends["end_s"] >= step.transform("max") * (1 - 1e-12)
    ends["ties"] = ends.groupby(["round", "phase"])["latest"].transform("sum")
    ends = ends[ends["crowd"] > 1]
    return ends.assign(last=ends["latest"] & (ends["ties"] == 1))[["client", "last"]]


def _failures(legs: pd.DataFrame) -> dict[str, Any]:
    """As wflsim.world.facts counts them, without a loop: an order failed if its last leg did."""
    serving = legs[legs["activity"].isin(WORK) | legs["outcome"].isin(["late", "dropped"])]
    last = serving.drop_duplicates(["round", "phase", "client"], keep="last")["outcome"]
    why = last[last != "ok"].value_counts().sort_index()
    dead = legs[legs["outcome"] == "dead"].drop_duplicates("client")
    return {
        "failed_orders": int(why.sum()),
        "failures": " ".join(f"{outcome}:{times}" for outcome, times in why.items()),
        "dead_clients": len(dead),
        "lifetime_rounds": int(dead["round"].min()) + 1 if len(dead) else None,
    }


def _shares(lasts: pd.DataFrame) -> pd.Series:
    share = lasts.groupby("client")["last"].mean()
    return share if share.any() else share.iloc[:0]
