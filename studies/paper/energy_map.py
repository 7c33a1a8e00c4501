"""The paper's energy map with tau open, from committed runs and without training: reports/paper/energy_*.

    python -m studies.paper.energy_map [FOLDER]      default: reports/paper

What the tuner takes from a training is the accuracy of the worst client in every round (runs_open_map.csv) and what a
round sends and computes. All clients have equally many samples, so of the latter only three things are not the same in
every round: who trains, who tells its loss, and whether the snapshot is the last local step and sent once
(cohorts_open_map.csv). The rest is counted by a round of the policy without training (`wflsim.tune.dry`). From these
the traces are put together in a store of their own, and the tuner does the rest.

Small taus have five seeds, large ones two. So there are two maps by each accounting: energy_full and energy_paper of
all taus with five seeds, energy_full_wide and energy_paper_wide of all taus on the seeds that all of them have.
energy_open.csv joins them: where tau* is at an end of the first, and the second finds a cheaper one beyond, that one
holds, with its seeds beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from studies.paper import open_map, study
from wflsim.experiments.plan import Run
from wflsim.files import write
from wflsim.records import Evaluation, Step, TraceRound
from wflsim.results.store import Store
from wflsim.scenario import Scenario, load
from wflsim.scenario.blocks import TuneSpec
from wflsim.tune.dry import DryRound, DryRounds
from wflsim.tune.folder import tune
from wflsim.tune.question import candidate_taus, with_tau

SCENARIO = study.ROOT / "scenarios/paper/energy_map.yaml"
KEPT = ("answer.txt", "costs.csv", "curves.csv", "map.csv")
"""Files of a tuning folder that are committed."""
SEEDS = {"": 5, "_wide": open_map.FIRST_SEEDS}
"""Seeds of every tau in a map, by the end of its folder's name."""
PLACE = ["radio.snr", "radio.bandwidth"]


def committed() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The evaluations and the cohorts of all runs."""
    masks = {"main": str, "dual": str}
    return pd.read_csv(study.file_of(study.OPEN_STUDY)), pd.read_csv(open_map.COHORTS, dtype=masks)


def taus_with(seeds: int) -> list[int]:
    """Every tau of which the first so many seeds are committed."""
    runs, _ = committed()
    held = runs.groupby("tau")["seed"].unique()
    return [int(tau) for tau, found in held.items() if set(range(seeds)) <= set(found)]


def question(accounting: str, seeds: int) -> Scenario:
    """The scenario of a map: all taus with so many seeds."""
    taus, rounds = taus_with(seeds), open_map.MOST_ROUNDS
    knobs = [f"tune.accounting={accounting}", f"tune.knobs.tau={taus}", f"seeds={seeds}"]
    return load(SCENARIO, [*knobs, "evaluate_every=1", f"stop.rounds={rounds}"])


def clients_of(mask: str) -> list[int]:
    """Numbers of the clients in a cohort."""
    number = int(mask, 16)
    return [client for client in range(number.bit_length()) if number >> client & 1]


def trace_of(dry: DryRound, rows: pd.DataFrame, cohorts: pd.DataFrame, clients: int) -> list[TraceRound]:
    """The trace of a run with these evaluations and cohorts; `dry` is a round of the same policy without training.

    The accuracy of the worst client is all that is needed of an evaluation, and stands in it for that of every client.
    """
    (first,), _ = dry
    main, dual = (step.orders[0] for step in first.steps)
    trace = []
    for worst, who in zip(rows["worst"], cohorts.itertuples(), strict=True):
        s = int(who.round) - 1
        up_bits = main.paper_bits // 2 * int(who.models_up)
        steps = [
            Step("gather", [main._replace(client=i, round=s, up_bits=up_bits) for i in clients_of(who.main)], None),
            Step("gather", [dual._replace(client=i, round=s) for i in clients_of(who.dual)], None),
        ]
        trace.append(TraceRound(s, steps, Evaluation([worst] * clients, [0.0] * clients, None)))
    return trace


def filled_up(trace: Sequence[TraceRound], rounds: int) -> list[TraceRound]:
    """The trace with its last round again and again, not evaluated: the tuner asks for whole blocks of rounds, and what
    follows the target counts for nothing."""
    last = trace[-1]
    return [*trace, *(TraceRound(s, last.steps, None) for s in range(len(trace), rounds))]


def fill(store: Store, scenario: Scenario) -> None:
    """Put the trace of every tau and seed of a map into the store."""
    runs, cohorts = committed()
    drys = DryRounds(scenario, 0)
    for tau in candidate_taus(scenario.tune or TuneSpec()):
        for seed in scenario.seeds:
            mine = [table[(table["tau"] == tau) & (table["seed"] == seed)] for table in (runs, cohorts)]
            dry = drys.round(tau, seed)
            trace = filled_up(trace_of(dry, *mine, scenario.clients), scenario.stop.rounds)
            entry = store.trace(Run(with_tau(scenario, 0, tau), 0, seed).learning)
            entry.write(trace, dry.flops_per_sample, None, f"tau={tau} seed {seed}, from committed rows", None)


def make(folder: Path, accounting: str, seeds: int) -> None:
    """Write the map of all taus with so many seeds into the folder."""
    scenario = question(accounting, seeds)
    with tempfile.TemporaryDirectory() as place:
        os.environ["WFLSIM_STORE"] = str(Path(place) / "store")
        fill(Store(), scenario)
        made, found = tune(scenario, Path(place) / "map", workers=1)
        assert found.trained_rounds == 0, "the committed runs are shorter than the tuner asks for"
        folder.mkdir(parents=True, exist_ok=True)
        for file in KEPT:
            (folder / file).write_bytes((made / file).read_bytes())


def joined(place: Path) -> pd.DataFrame:
    """One row per accounting and regime: tau* of the open map, how many seeds chose it, and why it is at an end."""
    return pd.DataFrame([row for name in study.MAPS for row in _joined(place, name)])


def _joined(place: Path, name: str) -> Iterator[dict[str, Any]]:
    five, wide = (pd.read_csv(place / f"energy_{name}{end}" / "map.csv") for end in SEEDS)
    costs = {end: pd.read_csv(place / f"energy_{name}{end}" / "costs.csv") for end in SEEDS}
    taus = {end: sorted(set(table["tau"])) for end, table in costs.items()}
    for one, other in zip(five.to_dict("records"), wide.to_dict("records"), strict=True):
        beyond = other["tau_star"] < taus[""][0] or other["tau_star"] > taus[""][-1]
        beyond = beyond and one["edge"] == ("low" if other["tau_star"] < taus[""][0] else "high")
        end = "_wide" if beyond else ""
        chosen = other if beyond else one
        yield {
            "accounting": name, **{key: one[key] for key in PLACE}, "tau_star": int(chosen["tau_star"]),
            "seeds": SEEDS[end], "cost": chosen["cost"], "within5": chosen["within5"],
            "of_first_map": int(one["tau_star"]), "saved": saved(costs["_wide"], one, chosen) if beyond else 0.0,
            "end": reason(one, other, beyond, taus),
        }  # fmt: skip


def saved(costs: pd.DataFrame, one: Mapping[str, Any], chosen: Mapping[str, Any]) -> float:
    """Share of the energy of the first map's tau* that the chosen one saves, on the seeds that both have."""
    mine = costs[costs["regime"] == one["regime"]].set_index("tau")["cost"]
    return float(1 - mine[chosen["tau_star"]] / mine[one["tau_star"]])


def reason(one: Mapping[str, Any], other: Mapping[str, Any], beyond: bool, taus: Mapping[str, Sequence[int]]) -> str:
    """Why tau* lies at an end of what was tried; empty where it lies inside."""
    if one["edge"] not in ("low", "high"):
        return ""
    tried = taus["_wide"]
    if beyond and other["tau_star"] in (tried[0], tried[-1]):
        if other["tau_star"] == 1:
            return "there are no fewer steps than 1"
        return f"no {'smaller' if other['tau_star'] == tried[0] else 'larger'} tau was trained yet"
    if beyond:
        return ""
    further = [tau for tau in tried if (tau < taus[""][0] if one["edge"] == "low" else tau > taus[""][-1])]
    if not further:
        return f"no {'smaller' if one['edge'] == 'low' else 'larger'} tau was trained yet"
    return f"tau {', '.join(map(str, further))} is not cheaper on {SEEDS['_wide']} seeds"


def main() -> None:
    """Write all maps and what joins them."""
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else study.REPORT
    for end, seeds in SEEDS.items():
        for name in study.MAPS:
            make(place / f"energy_{name}{end}", name, seeds)
    write(place / "energy_open.csv", joined(place).to_csv(index=False))


if __name__ == "__main__":
    main()
