"""What the paper says, held against our runs: each claim with the numbers that decide it.

A claim's verdict is in words: "not run yet" where the runs it needs are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from studies.paper import open_page, study, tables

SURE = 0.95
"""Share of the subsets of seeds that must agree to decide a claim about tau*."""
PUBLISHED_ROUNDS = {5: 48, 10: 41, 20: 32, 30: 25}
"""The paper's rounds to 85 % in the worst client."""


class Claim(NamedTuple):
    says: str
    """The paper's sentence, shortened."""
    verdict: str
    """holds, does not hold, undecided, not run yet"""
    because: str


def best_worst(table: pd.DataFrame) -> Claim:
    """DRDM has the best worst client in every setting."""
    complete, won, clear, lost = 0, 0, 0, []
    for alpha, sigma, data in _places(table):
        found = tables.lead(data, alpha, sigma)
        if found is None:
            continue
        rival, mean, low, _ = found
        complete += 1
        won += mean > 0
        clear += bool(low > 0)
        if mean <= 0:
            where = f"{study.DATA_SETS[data]} alpha {alpha:g} sigma {sigma:g}"
            lost.append(f"{where} ({study.ALGORITHMS[rival]} {-mean:+.1f})")
    worst = table[table["metric"] == "worst"]
    paper = tables.wins(worst, "value_percent")
    every = len(_places(table))
    said = f"in {won} of {complete} settings run (the paper: {paper} of {every}), in {clear} of them with a paired "
    said += "95 % interval over seeds that excludes zero"
    if lost:
        said += "; not in " + ", ".join(lost)
    says = "DRDM has the best worst-case accuracy in every setting"
    return Claim(says, _verdict(won == complete, complete, table), said)


def most_even(table: pd.DataFrame) -> Claim:
    """DRDM has the lowest standard deviation."""
    rows = table[table["metric"] == "std"]
    won, complete = tables.wins(rows, "ours", most=False), _complete(rows)
    paper = tables.wins(rows, "value_percent", most=False)
    said = f"lowest in {won} of {complete} settings run (the paper: {paper} of {len(_places(table))})"
    says = "DRDM has the lowest standard deviation over clients"
    return Claim(says, _verdict(won == complete, complete, table), said)


def fedavg_last(table: pd.DataFrame) -> Claim:
    """FedAvg is the worst everywhere."""
    rows = table[table["metric"] == "worst"]
    won, complete = tables.wins(rows, "ours", "fedavg", most=False), _complete(rows)
    paper = tables.wins(rows, "value_percent", "fedavg", most=False)
    said = f"it has the lowest worst accuracy in {won} of {complete} settings run "
    said += f"(the paper's own tables: {paper} of {len(_places(table))})"
    return Claim("FedAvg is consistently the worst", _verdict(won == complete, complete, table), said)


def first(run: pd.DataFrame, measure: str, accuracy: float) -> float:
    """The first evaluated round of one run with at least that accuracy; NaN where there is none."""
    return run.loc[run[measure] >= accuracy, "round"].min()


class Passing(NamedTuple):
    """A published percentage, and when the long runs have it; one entry per seed."""

    policy: str
    measure: str
    published: float
    rounds: list[float]
    """The first evaluated round with at least that; NaN: none."""
    last: list[float]
    """In percent, at the last evaluation."""
    diverged: list[float]
    """In which round; NaN: it did not."""


def passings(table: pd.DataFrame) -> Iterator[Passing]:
    """Of the algorithms that were run for longer."""
    for entry, runs in study.read(study.entries(study.LONG_STUDY)):
        known = tables.of(table, entry)["value_percent"]
        each = [one.sort_values("round") for _, one in runs.groupby("seed")]
        diverged = [one.loc[one["average"].isna(), "round"].min() for one in each]
        for measure in ("average", "worst"):
            rounds = [first(one, measure, known[measure] / 100) for one in each]
            last = [100 * one[measure].dropna().iloc[-1] for one in each]
            yield Passing(entry.policy, measure, known[measure], rounds, last, diverged)


def rounds_to(accuracy: float) -> pd.DataFrame:
    """[tau, seed]: first evaluated round with that worst accuracy; NaN where it was not reached in the rounds run."""
    rows = []
    for entry, runs in study.read(study.entries(study.TAU_STUDY)):
        for seed, one in runs.groupby("seed"):
            rows.append({"tau": entry.tau, "seed": seed, "rounds": first(one, "worst", accuracy)})
    return pd.DataFrame(rows, columns=["tau", "seed", "rounds"]).pivot(index="tau", columns="seed", values="rounds")


def rounds_fall(accuracy: float, published: dict[int, int]) -> Claim:
    """Rounds to a worst accuracy fall as tau rises: the log-log slope of every seed that has all taus decides."""
    says = f"rounds to {accuracy:.0%} in the worst client fall as tau rises".replace("%", " %")
    found = rounds_to(accuracy)
    if len(found) < 3:
        return Claim(says, "not run yet", "")
    parts = []
    for tau, row in found.iterrows():
        number, reached = int(str(tau)), row.dropna().to_numpy()
        mean, low, high = tables.interval(reached)
        span = f" ({low:.0f} to {high:.0f})" if len(reached) > 1 else ""
        missed = f"{len(reached)} of {len(row)} seeds within {study.TAU_ROUNDS[number]}"
        words = [f"{mean:.0f}{span}"] if len(reached) else []
        words += [missed] if len(reached) < len(row) else []
        words += [f"paper {published[number]}"] if number in published else []
        parts.append(f"tau {tau}: {', '.join(words)}")
    whole = found.dropna(axis=1)
    if whole.empty:
        return Claim(says, "undecided", "; ".join(parts) + "; no seed got there with every tau in the rounds we ran")
    slopes = np.polyfit(np.log(whole.index.to_numpy(dtype=float)), np.log(whole.to_numpy()), 1)[0]
    mean, low, high = tables.interval(slopes)
    said = f"{'; '.join(parts)}; rounds ~ tau^{mean:.2f} ({low:.2f} to {high:.2f} over seeds; "
    said += "the paper's four numbers for 85 %: tau^-0.36)"
    return Claim(says, "holds" if high < 0 else "undecided" if mean < 0 else "does not hold", said)


def energy_claims() -> list[Claim]:
    """tau* falls as SNR and as bandwidth rise; at 20 dB it is at most 15."""
    claims = []
    for name, words in {"paper": "the paper's formula", "full": "the whole device"}.items():
        file = study.MAPS[name]
        if not file.exists():
            claims.append(Claim(f"energy map by {words}", "not run yet", ""))
            continue
        regimes, table = pd.read_csv(file)["regime"], open_page.read().query("accounting == @name")
        table = table.assign(regime=regimes.to_numpy())
        rows, columns = (list(dict.fromkeys(table[key])) for key in ("radio.snr", "radio.bandwidth"))
        square = table.pivot(index="radio.snr", columns="radio.bandwidth", values=["tau_star", "within5"]).loc[rows]
        best, near = square["tau_star"][columns].to_numpy(dtype=int), square["within5"][columns]
        for axis, key, low, high in ((0, "SNR", rows[0], rows[-1]), (1, "bandwidth", columns[0], columns[-1])):
            up = int((np.diff(best, axis=axis) > 0).sum())
            first, last = np.take(best, 0, axis=axis), np.take(best, -1, axis=axis)
            said = f"from {first.tolist()} at {low} to {last.tolist()} at {high}; "
            said += f"{up} of {np.diff(best, axis=axis).size} steps rise"
            claims.append(Claim(f"tau* falls as {key} rises ({words})", "holds" if not up else "does not hold", said))
        top = best[rows.index("20 dB")]
        near_top = ", ".join(f"{{{taus}}}" for taus in near.loc["20 dB"])
        costs = pd.read_csv(file.with_name("costs.csv"))
        few = costs[costs["tau"] <= 15].groupby("regime")["p_best"].sum()
        chances = few.loc[table.loc[table["radio.snr"] == "20 dB", "regime"]]
        percents = ", ".join(f"{100 * one:.0f}" for one in chances)
        said = f"tau* at 20 dB: {top.tolist()}; within 5 % of the least energy: {near_top}; "
        said += f"some tau <= 15 is the best of those with five seeds in {percents} % of the subsets of the seeds, the "
        said += "empty one won by nobody"
        verdict = "holds" if min(chances) >= SURE else "does not hold" if min(chances) <= 1 - SURE else "undecided"
        claims.append(Claim(f"at 20 dB tau* <= 15 for every bandwidth ({words})", verdict, said))
    return claims


def _places(table: pd.DataFrame) -> list[tuple[float, float, str]]:
    return list(dict.fromkeys(zip(table["alpha"], table["sigma"], table["data"], strict=True)))


def _complete(rows: pd.DataFrame) -> int:
    return sum(bool((one["seeds"] > 0).all()) for _, one in rows.groupby(["data", "alpha", "sigma"]))


def _verdict(holds: bool, complete: int, table: pd.DataFrame) -> str:
    if not complete:
        return "not run yet"
    return f"{'holds' if holds else 'does not hold'}{' so far' if holds and complete < len(_places(table)) else ''}"
