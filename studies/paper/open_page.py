"""What the open energy map says, in tables and sentences: a part of the paper's page, from committed results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from studies.paper import energy_map, open_map, study

FEW_ROUNDS = 20
"""Rounds to target below which one round is more than 5 % of them."""
WORDS = {"paper": "the paper's formula", "full": "the whole device"}
OPEN = study.REPORT / "energy_open.csv"


def rounds_to_target() -> pd.Series[Any]:
    """Rounds to 80 % in the worst client, by tau and seed."""
    runs, _ = energy_map.committed()
    return runs.groupby(["tau", "seed"]).apply(lambda one: open_map.hit(one.to_dict("records")), include_groups=False)


def rounds_table() -> Iterator[str]:
    """Rounds to the target of every run, and the slope of their logarithms."""
    found = rounds_to_target()
    yield "| tau | seeds | rounds to 80 % in the worst client | mean |"
    yield "|---|---|---|---|"
    for tau, mine in found.groupby(level="tau"):
        yield f"| {tau} | {len(mine)} | {', '.join(f'{one:.0f}' for one in mine)} | {mine.mean():.1f} |"
    means = found.groupby(level="tau").mean()
    slope = float(np.polyfit(np.log(means.index.to_numpy(dtype=float)), np.log(means.to_numpy(dtype=float)), 1)[0])
    yield ""
    yield f"Rounds fall as tau^{slope:.2f} over all of these; the published map's table as tau^-0.36."


def regimes_table(table: pd.DataFrame) -> Iterator[str]:
    """How many regimes lie inside what was tried, and why the others do not."""
    yield "| | tau* inside | at an end, because | more than one tau within 5 % | tau* takes fewer than 20 rounds |"
    yield "|---|---|---|---|---|"
    means = rounds_to_target().groupby(level="tau").mean()
    for name, mine in table.groupby("accounting", sort=False):
        ends = mine.loc[mine["end"] != "", "end"].value_counts()
        why = "; ".join(f"{words} ({times})" for words, times in ends.items()) or "-"
        flat = int(mine["within5"].astype(str).str.contains(" ").sum())
        few = int((means.loc[mine["tau_star"]] < FEW_ROUNDS).sum())
        inside = f"{len(mine) - int(ends.sum())} of {len(mine)}"
        yield f"| {WORDS[str(name)]} | {inside} | {why} | {flat} | {few} |"


def corner(table: pd.DataFrame) -> Iterator[str]:
    """tau* at -10 dB and 1 MHz, where it is largest."""
    for name, mine in table.groupby("accounting", sort=False):
        row = mine.iloc[0]
        where = f"At {row['radio.snr']} and {row['radio.bandwidth']} by {WORDS[str(name)]}, tau* is {shown(row)}"
        text = f"{where} for {row['cost'] / 1e3:.3g} kJ ({row['seeds']} seeds; within 5 %: {row['within5']})"
        if row["saved"]:
            text += f", {100 * row['saved']:.0f} % less than tau = {row['of_first_map']} on the same seeds"
        yield f"- {text}."


def shown(row: Any) -> str:
    """tau* of a regime, or more where no larger tau was trained."""
    more = {"no larger tau was trained yet": " or more", "no smaller tau was trained yet": " or less"}
    return f"{row['tau_star']}{more.get(row['end'], '')}"


def missing() -> str:
    """Which runs of the plan are not there yet."""
    held = set(rounds_to_target().index)
    absent = [(entry.tau, seed) for entry, seed in open_map.wanted() if (entry.tau, seed) not in held]
    if not absent:
        return "All runs that were planned are there."
    taus = sorted({tau for tau, _ in absent})
    parts = [f"tau {tau} (seeds {', '.join(str(s) for t, s in absent if t == tau)})" for tau in taus]
    return f"Of the {len(open_map.wanted())} runs that were planned, {len(absent)} are missing: {'; '.join(parts)}."


def read() -> pd.DataFrame:
    """The joined map."""
    return pd.read_csv(OPEN, keep_default_na=False)


def lines() -> Iterator[str]:
    """The part of the page."""
    table = read()
    yield from rounds_table()
    yield ""
    yield from regimes_table(table)
    yield ""
    yield from corner(table)
    yield ""
    yield missing()
