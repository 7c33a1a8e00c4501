"""Train the runs behind the open energy map: DRDM from tau 1 to 600, each seed as far as its target of 80 %.

    python -m studies.paper.open_map [--workers 2]

Adds to reports/paper/runs_open_map.csv (an evaluation in every round) and to cohorts_open_map.csv (who was asked), from
which `studies.paper.energy_map` makes the maps without training. What is committed is not trained again; an interrupted
run goes on from the store of traces, if that is still there. In order: the taus of the first map with five seeds, then
outwards from them with two, then the rest (`study.OPEN_SEEDS`). Tau 400 takes ten minutes of a core, tau 10 two.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed

from studies.paper import study
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run
from wflsim.records import TraceRound
from wflsim.results.store import Store
from wflsim.target import metrics, reached_in
from wflsim.tune.curves import UNLIMITED

TARGET = {"accuracy": 0.8}
FIRST_SEEDS = 2
"""Seeds with which a tau beyond the first map is tried before any tau gets more."""
MOST_ROUNDS = 300
AT_A_TIME = 4
"""Rounds after which the learning state is saved."""
COHORTS = study.REPORT / "cohorts_open_map.csv"
COHORT_KEY = ("tau", "seed", "round")


def wanted() -> list[tuple[study.Entry, int]]:
    """Entries and seeds, in the order in which they are trained."""
    entries = study.entries(study.OPEN_STUDY)
    first = [entry for entry in entries if entry.tau in study.TAU_ROUNDS]
    beyond = [entry for entry in entries if entry.tau not in study.TAU_ROUNDS]
    jobs = [(entry, seed) for seed in range(5) for entry in first]
    jobs += [(entry, seed) for entry in beyond for seed in range(FIRST_SEEDS)]
    return jobs + [(entry, seed) for entry in beyond for seed in range(FIRST_SEEDS, study.OPEN_SEEDS[entry.tau])]


def rows_of(trace: Sequence[TraceRound], seed: int, machine: str) -> list[dict[str, Any]]:
    """A row of runs_open_map.csv for every round."""
    found = []
    for entry in trace:
        assert entry.evaluation is not None, "every round of the open map is evaluated"
        shown = metrics(entry.evaluation.accuracy)
        measures = {name: shown[name] for name in study.MEASURES}
        found.append({"seed": seed, "round": entry.round + 1, **measures, "machine": machine})
    return found


def hit(rows: Sequence[dict[str, Any]]) -> int | None:
    """The round, counted from 1, in which the rows of a run reach the target."""
    return reached_in(((row["round"], row["worst"]) for row in rows), TARGET)


def cohorts_of(trace: Sequence[TraceRound], tau: int, seed: int) -> list[dict[str, Any]]:
    """A row of cohorts_open_map.csv for every round: who trained, who told its loss, and how many models each sent up.

    A cohort is a hexadecimal number whose bit i is client i. One model is sent where the snapshot is the last step.
    """
    found = []
    for entry in trace:
        main, dual = (step.orders for step in entry.steps)
        masks = [f"{sum(1 << order.client for order in orders):x}" for orders in (main, dual)]
        models = 2 * main[0].up_bits // main[0].paper_bits
        found.append({"tau": tau, "seed": seed, "round": entry.round + 1, "main": masks[0], "dual": masks[1],
                      "models_up": models})  # fmt: skip
    return found


def train(entry: study.Entry, seed: int, root: Path) -> tuple[study.Entry, int, list[TraceRound]]:
    """The trace of one run as far as its target, trained or remembered."""
    cached = CachedTraining(Run(entry.scenario, 0, seed), Store(root), keep_bytes=UNLIMITED)
    while hit(rows_of(cached.trace, seed, "")) is None and cached.ended is None and len(cached.trace) < MOST_ROUNDS:
        cached.extend(len(cached.trace) + AT_A_TIME)
    if cached.entry is not None:
        cached.entry.trim()
    return entry, seed, cached.trace


def add(entry: study.Entry, seed: int, trace: Sequence[TraceRound]) -> None:
    """Add a run to the two committed tables."""
    study.add_runs(entry, rows_of(trace, seed, study.machine()))
    study.add(COHORTS, pd.DataFrame(cohorts_of(trace, entry.tau, seed)), COHORT_KEY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    table = pd.read_csv(study.file_of(study.OPEN_STUDY))
    known = set(zip(table["tau"], table["seed"], strict=True))
    if others := set(table["machine"]) - {study.machine()}:
        print(f"the committed runs were computed on {others}: runs added here are of another machine", flush=True)
    jobs = [delayed(train)(*job, Store().root) for job in wanted() if (job[0].tau, job[1]) not in known]
    for entry, seed, trace in Parallel(n_jobs=options.workers, return_as="generator_unordered")(jobs):
        add(entry, seed, trace)
        print(f"tau {entry.tau} seed {seed}: {len(trace)} rounds", flush=True)


if __name__ == "__main__":
    main()
