"""Hyper-parameters by one protocol for every algorithm; the search is recorded in reports/paper/search.csv.

    python -m studies.paper.search kmnist|mnist|fashion [--workers 2]

The paper gives neither steps nor rounds. Per data set, at alpha=0.1 and sigma=0 only, with seeds that no table uses:
first the local step over STEPS with everything else at its default, then, at the best step, two variations of what
else the algorithm has. Every algorithm has the same number of trials. A trial's score is the worst client's
accuracy, averaged over the last three evaluations and the search seeds; a run that diverges scores zero, and a tie is
decided by the average. Where time allows one search seed only (the CNN), the best trial must then survive two more: if
it diverges with one of them, the next in rank is asked. The winner is written into scenarios/paper/ by hand and holds
for every setting, tau and seed. What search.csv has is not computed again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed

from studies.paper import study
from wflsim.results.store import Store
from wflsim.scenario import load

FILE = study.REPORT / "search.csv"
CHEAP = (0.025, 0.05, 0.1, 0.2, 0.4)
STEPS = {"kmnist": (0.0125, 0.025, 0.05, 0.1), "mnist": CHEAP, "fashion": CHEAP}
SEEDS = {"kmnist": (101,), "mnist": (101, 102, 103), "fashion": (101, 102, 103)}
CONFIRM = {"kmnist": (102, 103), "mnist": (), "fashion": ()}
STEP = {"drdm": "eta", "drfa": "eta", "scaffold": "eta_l", "scaffpd": "eta_l", "fedavg": "eta"}
DEFAULTS: dict[str, dict[str, Any]] = {
    "drdm": {"mu": 0.5, "gamma": 5e-4},
    "drfa": {"gamma": 5e-4},
    "scaffold": {},
    "scaffpd": {"sigma": 5e-3, "loss": "minibatch"},
    "fedavg": {},
}


def variations(policy: str, step: float) -> list[dict[str, float]]:
    """The second half of the trials; FedAvg has nothing but its step, so that is refined."""
    return {
        "drdm": [{"mu": 0.25}, {"gamma": 5e-3}],
        "drfa": [{"gamma": 5e-3}, {"gamma": 5e-2}],
        "scaffold": [{"eta_g": 0.7}, {"eta_g": 1.4}],
        "scaffpd": [{"sigma": 5e-2}, {"eta_g": 1.4}],
        "fedavg": [{"eta": round(0.7 * step, 6)}, {"eta": round(1.4 * step, 6)}],
    }[policy]


def trial(data: str, policy: str, parameters: dict[str, Any], seed: int, root: Path) -> dict[str, Any]:
    chosen = {"name": policy, "m": 20, "tau": 10, **parameters}
    scenario = load(study.scenario_file(data), [f"policies={json.dumps([chosen])}", "sweep=null"])
    rows = study.evaluations(scenario, 0, seed, scenario.stop.rounds, root)
    late = pd.DataFrame(rows).tail(3)
    diverged = "ended" in rows[-1]
    scores = {name: 0.0 if diverged else round(float(late[name].mean()), 4) for name in ("average", "worst")}
    who = {"data": data, "policy": policy, "parameters": written(parameters), "seed": seed}
    return {**who, **scores, "diverged": diverged}


def written(parameters: dict[str, Any]) -> str:
    """As search.csv names a trial."""
    return json.dumps(parameters, sort_keys=True)


def results(data: str, policy: str) -> pd.DataFrame:
    table = pd.read_csv(FILE)
    return table[(table["data"] == data) & (table["policy"] == policy)]


def score(data: str, policy: str) -> pd.Series[float]:
    """Of every trial with the search seeds, the best first."""
    mine = results(data, policy)
    means = mine[mine["seed"].isin(SEEDS[data])].groupby("parameters")[["worst", "average"]].mean()
    return means.sort_values(["worst", "average"], ascending=False)["worst"]


def winner(data: str, policy: str) -> str:
    """The best trial that has not diverged with a confirming seed."""
    mine = results(data, policy)
    unstable = set(mine.loc[mine["seed"].isin(CONFIRM[data]) & mine["diverged"], "parameters"])
    return next(trial for trial in score(data, policy).index if trial not in unstable)


def done(data: str, policy: str, parameters: dict[str, Any], seed: int) -> bool:
    if not FILE.exists():
        return False
    mine = results(data, policy)
    return bool(((mine["parameters"] == written(parameters)) & (mine["seed"] == seed)).any())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=study.DATA_SETS)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    data, root = options.data, Store().root

    def run(plan: list[tuple[str, dict[str, Any], int]]) -> None:
        jobs = [delayed(trial)(data, *job, root) for job in plan if not done(data, *job)]
        for row in Parallel(n_jobs=options.workers, return_as="generator_unordered")(jobs):
            study.add(FILE, pd.DataFrame([row]), key=("data", "policy", "parameters", "seed"))
            print(row, flush=True)

    first = {p: [{STEP[p]: step, **DEFAULTS[p]} for step in STEPS[data]] for p in study.ALGORITHMS}
    run([(policy, trial, seed) for policy, trials in first.items() for trial in trials for seed in SEEDS[data]])
    second = []
    for policy, trials in first.items():
        ranks = list(score(data, policy).index)
        best = min(trials, key=lambda trial: ranks.index(written(trial)))
        second += [(policy, {**best, **change}) for change in variations(policy, best[STEP[policy]])]
    run([(policy, trial, seed) for policy, trial in second for seed in SEEDS[data]])
    while doubtful := [
        (policy, best, seed)
        for policy in study.ALGORITHMS
        for best in [json.loads(winner(data, policy))]
        for seed in CONFIRM[data]
        if not done(data, policy, best, seed)
    ]:
        run(doubtful)
    for policy in study.ALGORITHMS:
        found, best = score(data, policy), winner(data, policy)
        print(f"{data} {policy}: {best} ({found[best]:.4f}; {len(found)} trials)")


if __name__ == "__main__":
    main()
