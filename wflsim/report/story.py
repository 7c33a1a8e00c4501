"""What a page shows of the legs of one policy: joules and durations, telling moments, and clients over rounds.

A page cannot hold every leg. It holds sums over all of them, a few moments leg by leg, and maps of clients x rounds in
as many columns as a screen can show; budgets keep the whole page small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wflsim.analysis.legs import CAUSES, WORK, energy_by_client, pooled, recorded_in, stragglers, world_facts
from wflsim.report.series import Series

COLUMNS = (
    "round", "phase", "client", "activity", "start_s", "end_s", "bits", "rate_bps", "attempts", "energy_j", "outcome"
)  # fmt: skip
"""Columns of legs.csv that a page needs."""
WINDOW_LEGS = 600
"""Legs that one moment shows at most; beyond it a Gantt chart is a wall of colour."""
ALL_WINDOWS_LEGS = 3_000
"""Legs that all moments of a page may hold together; they take about 400 kB with their hover texts."""
ASYNCHRONOUS_ORDERS = 3
"""Orders per client that a moment of an asynchronous run takes in: its single round is one arrival."""
MAP_COLUMNS = 160
"""Columns that a map of clients over rounds has at most."""
MAP_ENTRIES = 90_000
"""Entries that all maps of clients of a page may hold together; they take about 500 kB."""


@dataclass(frozen=True)
class Window:
    """One moment of a run, leg by leg: a round, or consecutive versions of an asynchronous run."""

    title: str
    """Which round it is, and why it is shown."""
    seed: int
    start_s: float
    end_s: float
    legs: pd.DataFrame
    versions: int
    """Number of rounds that it spans."""
    cut: bool
    """Whether legs were left out because there are too many."""


@dataclass(frozen=True)
class Heat:
    """One map of clients x rounds, its rounds binned into columns."""

    values: NDArray[np.float64]
    """[client, column]; NaN where nothing is known."""
    clients: list[int]
    rounds: list[float]
    """Middle of each column, as a round counted from 1."""
    bin: int
    """Number of rounds per column."""
    top: float
    """Value that has the darkest colour."""
    ticks: str
    """Format of the numbers beside the colour bar, in plotly's language."""
    text: str
    """What an entry says when it is pointed at, in plotly's language."""


@dataclass
class Story:
    """What the legs of one policy say over its seeds."""

    energy: pd.DataFrame
    """Joules to the target by client (rows) and cause (columns), mean over seeds; what was in vain is its own cause."""
    durations: pd.DataFrame
    """Columns phase, activity, p50_s, p95_s and (number of) legs, over all clients, rounds and seeds."""
    last: pd.Series
    """By client, the share of its phases with company in which it was the last; empty if nobody ever is."""
    part: pd.DataFrame
    """Columns client and round: who was asked, in the first seed."""
    asynchronous: bool = False
    """Whether some client was at work on an older version when a round began."""
    windows: list[Window] = field(default_factory=list)
    """The moments that are shown leg by leg, of the first seed."""
    world: list[dict[str, Any]] = field(default_factory=list)
    """The rows of world.csv, one per seed."""


def story(series: Series) -> Story | None:
    """Read the legs of every seed once and derive all that the page shows; None if there are no legs."""
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
        legs["at"] = recorded_in(legs, rounds)
        overlapping = bool((legs["at"] != legs["round"])[legs["activity"].isin(WORK)].any())
        energy.append(energy_by_client(legs[legs["at"] <= series.last_round(seed)]))
        took = legs["end_s"] - legs["start_s"]
        # an asynchronous server's phases only count what it sends in a round: they tell nothing apart
        phases = legs["phase"] * (not overlapping)
        for (phase, activity), group in took.groupby([phases, legs["activity"]]):
            lengths[int(str(phase)), str(activity)].append(group.to_numpy())
        lasts.append(stragglers(legs))
        world.append({"policy": series.policy, "seed": seed, **world_facts(legs).row()})
        if not shown:
            part = legs[legs["activity"].isin(WORK)][["client", "round"]].drop_duplicates()
            asynchronous = overlapping
            shown = windows(legs, rounds, seed, series.last_round(seed), asynchronous)
    if not energy:
        return None
    total = pd.concat(energy).groupby(level=0).sum() / len(energy)
    return Story(total.sort_index(), _durations(lengths), _shares(pooled(lasts)), part, asynchronous, shown, world)


def _durations(lengths: dict[tuple[int, str], list[np.ndarray]]) -> pd.DataFrame:
    order = {activity: i for i, activity in enumerate(CAUSES)}
    rows = []
    for phase, activity in sorted(lengths, key=lambda key: (key[0], order.get(key[1], len(order)))):
        took = np.concatenate(lengths[phase, activity])
        p50, p95 = np.quantile(took, (0.5, 0.95))
        rows.append({"phase": phase, "activity": activity, "p50_s": p50, "p95_s": p95, "legs": len(took)})
    return pd.DataFrame(rows)


def _shares(table: pd.DataFrame) -> pd.Series:
    share = table["last"] / table["phases"]
    return share if share.any() else share.iloc[:0]


def lanes(legs: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centre and thickness of every leg's bar, in rows of a Gantt chart with one row per client, counted downwards.

    The radio's tail runs beside computing and waiting, so it has a thin lane of its own below the client's other bars.
    """
    clients = sorted(legs["client"].unique())
    row = legs["client"].map({client: number for number, client in enumerate(clients)}).to_numpy(float)
    tail = (legs["activity"] == "tail").to_numpy()
    return row + np.where(tail, 0.42, 0.0), np.where(tail, 0.13, 0.66)


def windows(legs: pd.DataFrame, rounds: pd.DataFrame, seed: int, last: int, asynchronous: bool) -> list[Window]:
    """Choose the telling moments of a run: the first round, the slowest, the one that lost most, and the last."""
    first, numbers = int(rounds["round"].iloc[0]), rounds["round"].to_numpy()
    wide = _versions(legs) if asynchronous else 1
    picks = {first: ["first"]}
    spans = (rounds["end_s"] - rounds["start_s"]).rolling(wide, min_periods=1).sum().to_numpy()
    if spans.max() > np.median(spans) * 1.001:
        picks.setdefault(max(int(numbers[spans.argmax()]) - wide + 1, first), []).append("slowest")
    vain = legs.loc[legs["outcome"] != "ok", "at"]
    if len(vain):
        picks.setdefault(int(vain.mode().iloc[0]), []).append("most losses")
    picks.setdefault(max(last - wide + 1, first), []).append("at the end")
    return [_window(legs, rounds, seed, at, wide, why) for at, why in sorted(picks.items())]


def within_budget(per_series: list[list[Window]]) -> list[list[Window]]:
    """Drop later moments, evenly over policies, until the page can hold the rest; cut the first ones if need be."""
    kept = [list(windows) for windows in per_series]
    while _legs(kept) > ALL_WINDOWS_LEGS:
        longest = max(kept, key=len)
        if len(longest) < 2:
            share = ALL_WINDOWS_LEGS // len(kept)
            return [[replace(w, legs=w.legs.head(share), cut=len(w.legs) > share) for w in each] for each in kept]
        longest.pop()
    return kept


def _legs(per_series: list[list[Window]]) -> int:
    return sum(len(window.legs) for windows in per_series for window in windows)


def _versions(legs: pd.DataFrame) -> int:
    """Number of consecutive rounds that make about ASYNCHRONOUS_ORDERS orders per client."""
    per_round = max(1.0, len(legs) / 3 / max(1, legs["round"].nunique()))
    return max(2, round(ASYNCHRONOUS_ORDERS * legs["client"].nunique() / per_round))


def _window(legs: pd.DataFrame, rounds: pd.DataFrame, seed: int, at: int, wide: int, why: list[str]) -> Window:
    span = rounds[(rounds["round"] >= at) & (rounds["round"] < at + wide)]
    start_s, end_s = float(span["start_s"].min()), float(span["end_s"].max())
    overlap = (legs["end_s"] > start_s) & (legs["start_s"] < end_s)
    inside = legs[overlap if wide > 1 else legs["at"] == at]
    name = f"round {at + 1}" if wide == 1 else f"versions {at + 1} to {int(span['round'].max()) + 1}"
    cut = len(inside) > WINDOW_LEGS
    return Window(f"{name} ({', '.join(why)})", seed, start_s, end_s, inside.head(WINDOW_LEGS), wide, cut)


def columns_for(series: int, clients: int) -> int:
    """Number of columns that each map may have on a page with three maps per policy."""
    return int(np.clip(MAP_ENTRIES // max(1, 3 * series * clients), 10, MAP_COLUMNS))


def heats(series: Series, story: Story, columns: int) -> dict[str, Heat]:
    """Maps of the first seed: "part" (who takes part), "lam", "cluster" and "accuracy", as far as it has them."""
    clients = series.folder.rows((series.policy, series.seeds[0]), "clients")
    rounds = int(series.rounds[series.seeds[0]]["round"].max()) + 1
    found: dict[str, Heat] = {}
    if len(story.part):
        part = story.part.assign(value=1.0)
        who = sorted(set(part["client"]) | set(clients["client"].astype(int)))
        found["part"] = _heat(part, who, rounds, columns, "sum", 1.0, ".0%", "asked in %{z:.0%} of rounds")
    if clients["lam"].notna().any():
        lam = clients.assign(value=clients["lam"]).dropna(subset="value")
        top = float(lam["value"].quantile(0.99)) or 1.0
        found["lam"] = _heat(lam, sorted(set(lam["client"])), rounds, columns, "mean", top, ".2f", "λ = %{z:.3f}")
    if clients["cluster"].notna().any():
        own = clients.assign(value=clients["cluster"]).dropna(subset="value")
        top = max(1.0, float(own["value"].max()))
        found["cluster"] = _heat(own, sorted(set(own["client"])), rounds, columns, "last", top, "d", "cluster %{z:.0f}")
    if clients["accuracy"].notna().any():
        seen = clients.assign(value=clients["accuracy"]).dropna(subset="value")
        found["accuracy"] = _heat(seen, sorted(set(seen["client"])), rounds, columns, "mean", 1.0, ".0%", "%{z:.1%}")
    return found


def _heat(  # what is drawn (4), and how it is labelled (4)
    rows: pd.DataFrame, who: Sequence[int], rounds: int, columns: int, how: str, top: float, ticks: str, text: str
) -> Heat:
    """A table of clients (rows) over rounds (columns, several rounds each where there are many) with its labels."""
    # evaluations may be sparser than rounds: then a column per evaluation, and no empty ones between
    at = np.arange(rounds) if how == "sum" else np.unique(rows["round"])
    width = -(-len(at) // columns)
    column = np.searchsorted(at, rows["round"]) // width
    table: pd.DataFrame = rows.groupby([rows["client"], column])["value"].agg(how).unstack()
    table = table.reindex(index=list(who), columns=range(-(-len(at) // width)))
    if how == "sum":
        sizes = np.minimum(width, len(at) - np.arange(table.shape[1]) * width)
        table = table.fillna(0.0).div(sizes, axis=1)
    centres = [float(at[i * width : (i + 1) * width].mean()) + 1 for i in range(table.shape[1])]
    return Heat(table.to_numpy(float), list(who), centres, width, top, ticks, text)
