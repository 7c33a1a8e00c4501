"""The paper's energy map by its own formula, from the committed runs and without training: reports/paper/energy_paper.

    python -m studies.paper.energy_map [FOLDER]

`wflsim tune scenarios/paper/energy_map.yaml --set tune.accounting=paper` trains 25 runs of the CNN and carries each
through 35 worlds. What it takes from a training is the accuracy of the worst client after each evaluation, which
runs_energy_map.csv holds, and what a round sends and computes. By the paper's formula the latter is the same in every
round: all clients have equally many samples, the same processor and the same SNR, and waiting costs nothing, so it
matters how many are asked and not who. It is counted here by a round of the policy without training
(`wflsim.tune.dry`). From these two the traces are put together in a store of their own, and the tuner does the rest.
The map of whole devices (energy_full) does not follow from the runs: who is asked in both phases of a round idles less.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pandas as pd

from studies.paper import study
from wflsim.experiments.plan import Run
from wflsim.records import Evaluation, Step, TraceRound
from wflsim.results.store import Store
from wflsim.scenario import Scenario, load
from wflsim.scenario.blocks import TuneSpec
from wflsim.tune.dry import dry_round
from wflsim.tune.folder import tune
from wflsim.tune.setting import with_tau
from wflsim.tune.space import candidate_taus

SCENARIO = study.ROOT / "scenarios/paper/energy_map.yaml"
KEPT = ("answer.txt", "costs.csv", "curves.csv", "map.csv")
"""Files of a tuning folder that are committed."""


def trace_of(run: Run, rows: pd.DataFrame, clients: int) -> tuple[list[TraceRound], float]:
    """The trace of a run whose evaluations are these rows, and the work of one sample in FLOP.

    The accuracy of the worst client is all that is known of an evaluation, and stands in it for that of every client.
    """
    (first,), flops = dry_round(run.scenario, run.scenario.policies[run.policy], run.seed)
    worst = dict(zip(rows["round"] - 1, rows["worst"], strict=True))
    trace = []
    for s in range(run.scenario.stop.rounds):
        steps = [
            Step(step.kind, [order._replace(round=s) for order in step.orders], step.until) for step in first.steps
        ]
        shown = Evaluation([worst[s]] * clients, [0.0] * clients, None) if s in worst else None
        trace.append(TraceRound(s, steps, shown))
    return trace[: int(rows["round"].max())], flops


def fill(store: Store, scenario: Scenario) -> None:
    """Put the trace of every tau and seed into the store, as far as its evaluations are committed."""
    table = pd.read_csv(study.REPORT / f"runs_{study.TAU_STUDY}.csv")
    for tau in candidate_taus(scenario.tune or TuneSpec()):
        for seed in scenario.seeds:
            run = Run(with_tau(scenario, 0, tau), 0, seed)
            rows = table[(table["tau"] == tau) & (table["seed"] == seed)]
            trace, flops = trace_of(run, rows, scenario.clients)
            store.trace(run.learning).write(trace, flops, None, f"tau={tau} seed {seed}, from committed rows", None)


def make(folder: Path) -> None:
    """Write the map into the folder."""
    scenario = load(SCENARIO, ["tune.accounting=paper"])
    with tempfile.TemporaryDirectory() as place:
        os.environ["WFLSIM_STORE"] = str(Path(place) / "store")
        fill(Store(), scenario)
        made, found = tune(scenario, Path(place) / "map", workers=1)
        assert found.trained_rounds == 0, "the committed runs are shorter than the tuner asks for"
        folder.mkdir(parents=True, exist_ok=True)
        for file in KEPT:
            (folder / file).write_bytes((made / file).read_bytes())


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else study.REPORT / "energy_paper")
