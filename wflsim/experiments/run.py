"""`wflsim run`: every policy and seed of a scenario with one regime, each with its rows in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wflsim.analysis.tables import Results
from wflsim.errors import ScenarioError, WflsimError
from wflsim.experiments.compute import compute
from wflsim.experiments.keepers import InFolder
from wflsim.experiments.plan import Run, plan, regimes
from wflsim.files import Damaged, Mark, write
from wflsim.learning.data.partition import class_counts, divide
from wflsim.learning.data.sets import load as load_data
from wflsim.records import csv_lines
from wflsim.results.folders import ended, made_by, partition_name
from wflsim.results.opening import opened
from wflsim.results.store import Store
from wflsim.scenario import Given, Scenario, load, slug

RUNS = Path("runs")
"""The folder of result folders that were given no other place."""
Say = Callable[[str], None]


def run(
    scenario: Given,
    out: str | Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
    say: Say = lambda words: None,
    pool: str = "local",
) -> Results:
    """Run what is not yet there of a scenario, and return its tables. Killed and called again, it goes on.

    `scenario`: whatever `wflsim.load` takes. `out`: the result folder, by default runs/NAME. `workers`: processes, by
    default one per core. `fresh`: discard what is in the folder. `pool`: local processes, or ray. `say` is told which
    finished runs are computed again because a file of theirs was damaged. A run that fails is tried twice and stops no
    other; the error comes when all others are finished. Raises ScenarioError for what cannot be run, and for one with
    a sweep (`run_sweep`); DataError if data are missing; StoreError if the folder cannot be used.

    >>> import tempfile, wflsim
    >>> results = wflsim.run({
    ...     "name": "small", "clients": 4, "data": {"name": "digits"}, "partition": {"alpha": 0.5},
    ...     "model": {"name": "linear"}, "policies": [{"name": "fedavg", "m": 2}], "stop": {"rounds": 3},
    ... }, out=tempfile.mkdtemp() + "/small", workers=1)
    >>> len(results.rounds), results.runs["status"].tolist()
    (3, ['done'])
    """
    scenario = load(scenario)
    if scenario.sweep is not None:
        raise ScenarioError("sweep: this scenario has many regimes; use wflsim.run_sweep(scenario) for it")
    folder = Path(out) if out is not None else RUNS / slug(scenario.name)
    with opened(scenario, folder, fresh) as sealed:
        keeper = InFolder(folder.resolve() if pool == "ray" else folder, Store().root.resolve())
        runs = planned(scenario)
        missing = [run for run in runs if not _finished(run, keeper, say)]
        for seed in scenario.seeds:
            name = partition_name(seed)
            if name not in sealed:
                leave_partition(scenario, folder / name, seed)
                sealed[name] = Mark.of_file(folder / name)
        done = compute(missing, keeper, workers, pool)
        failures = {run.title: error for run in missing if (error := done[keeper.key(run)].failure) is not None}
        if failures:
            raise _failure(failures, len(runs), folder)
        results = Results(folder)
        write(folder / "summary.csv", results.summary.to_csv(index=False))
        write(folder / "runs.csv", results.runs.to_csv(index=False))
        write(folder / "world.csv", results.world.to_csv(index=False))
    return results


def planned(scenario: Scenario) -> list[Run]:
    """The runs in the order in which they are computed: seeds outermost, so that what is there can be compared."""
    return sorted(plan(regimes(scenario)), key=lambda run: scenario.seeds.index(run.seed))


def _finished(run: Run, keeper: InFolder, say: Say) -> bool:
    """Whether the run has ended and its files are what they were then."""
    place = keeper.place(run)
    try:
        if ended(place) is None:
            return False
        if not made_by(place, run.code):
            say(f"{run.title} is computed again: its code has changed since")
            return False
        return True
    except Damaged as error:
        say(f"{run.title} is computed again: {error}")
        return False


def _failure(failures: dict[str, WflsimError], runs: int, folder: Path) -> WflsimError:
    """One error for all runs that failed, of their kind if they are of one kind; equal reasons are said once."""
    reasons: dict[str, list[str]] = {}
    for title, error in failures.items():
        reasons.setdefault(str(error), []).append(title)
    sentences = [f"{', '.join(titles)} failed twice: {reason}" for reason, titles in reasons.items()]
    kinds = {type(error) for error in failures.values()}
    kind = kinds.pop() if len(kinds) == 1 else WflsimError
    kept = f"{runs - len(failures)} of {runs} runs are finished and kept in {folder}; the same command tries the rest"
    return kind("\n".join([*sentences, kept]))


def leave_partition(scenario: Scenario, path: Path, seed: int) -> None:
    """Write who holds how many samples of which class; this also finds out, before any training, that data is there."""
    data = load_data(scenario.data, scenario.clients, seed)
    owned = divide(scenario.partition, data, scenario.clients, seed)
    train = class_counts(owned.train, data.train.y, data.classes)
    test = class_counts(owned.test, data.test.y, data.classes)
    rows = [(i, c, train[i, c], test[i, c]) for i in range(scenario.clients) for c in range(data.classes)]
    write(path, "client,class,samples,test_samples\n" + csv_lines(rows))
