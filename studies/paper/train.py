"""Train the runs behind the paper's tables, its figures over tau, and a few for longer: lines of a study's CSV.

    python -m studies.paper.train kmnist|mnist|fashion|energy_map|long [--seeds 0 1 2] [--first 1] [--workers 2]

What reports/paper/runs_*.csv has is not computed again; what the store of traces has is not trained again. `--first 1`
keeps to the first setting (alpha=0.1, sigma=0). `--again` computes runs that are there already and compares instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed

from studies.paper import study
from wflsim.results.store import Store


def run(entry: study.Entry, seed: int, root: Path) -> tuple[study.Entry, list[dict[str, Any]]]:
    scenario = entry.scenario
    return entry, study.evaluations(scenario, 0, seed, entry.rounds or scenario.stop.rounds, root)


def committed(entry: study.Entry, seed: int) -> pd.DataFrame | None:
    """The run's evaluations in the repository, if it is there."""
    table = study.runs(entry)
    mine = table[table["seed"] == seed].reset_index(drop=True)
    return mine if len(mine) else None


def compared(known: pd.DataFrame, again: pd.DataFrame) -> str:
    """In words; accuracies of another kind of machine differ, because training amplifies the last bit."""
    numbers = known.columns.drop("machine")
    if known[numbers].equals(again.reindex(columns=numbers)):
        return "the same, bit for bit"
    mine, here = known["machine"].iloc[0], again["machine"].iloc[0]
    if mine == here:
        return "DIFFERENT"
    off = (again["average"].iloc[-1] - known["average"].iloc[-1]) * 100
    return f"computed on {mine}, here {here}: the final average differs by {off:+.2f} points"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=[*study.DATA_SETS, study.TAU_STUDY, study.LONG_STUDY])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--first", type=int, help="only so many settings, in the order of the scenario's sweep")
    parser.add_argument("--policies", nargs="+", default=list(study.ALGORITHMS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="compute what is there, and compare")
    options = parser.parse_args()
    root = Store().root
    every = [entry for entry in study.entries(options.study) if entry.policy in options.policies]
    places = list(dict.fromkeys((entry.alpha, entry.sigma) for entry in every))[: options.first]
    # Seed by seed, so that an interrupted study has something of everything.
    wanted = [(entry, seed) for seed in options.seeds for entry in every if (entry.alpha, entry.sigma) in places]
    jobs = [delayed(run)(*job, root) for job in wanted if (committed(*job) is None) != options.again]
    for entry, rows in Parallel(n_jobs=options.workers, return_as="generator_unordered")(jobs):
        seed = rows[-1]["seed"]
        if options.again:
            known = committed(entry, seed)
            assert known is not None, "only what is there is computed again"
            print(f"{entry} seed {seed}: {compared(known, study.as_read(rows))}", flush=True)
        else:
            study.add_runs(entry, rows)
            print(f"{entry} seed {seed}: {rows[-1]}", flush=True)


if __name__ == "__main__":
    main()
