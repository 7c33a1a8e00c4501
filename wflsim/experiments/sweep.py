"""Sweeps: every regime, policy and seed of a scenario, in one table with a line per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pandas as pd

from wflsim.analysis.tables import FACTS, over_seeds, summary_html
from wflsim.experiments.compute import Finished, compute
from wflsim.experiments.keepers import InStore
from wflsim.experiments.plan import Regime, Run, plan, regimes
from wflsim.experiments.run import RUNS
from wflsim.files import write
from wflsim.results.folders import FORMER_RUNS_TABLE, RUNS_TABLE
from wflsim.results.opening import opened
from wflsim.results.store import Store
from wflsim.scenario import Given, load, slug

Watch = Callable[[Sequence[Run], Store], AbstractContextManager[Any]]
"""Makes a context that is entered while the runs are computed and may look into the store, where each run is as soon as
it is finished."""


class SweepResults:
    """A sweep as frames: `runs`, a line per regime, policy and seed; `summary`, per regime and policy.

    `wflsim.run_sweep` returns one.

    >>> import pandas as pd, wflsim
    >>> runs = pd.DataFrame({"regime": [0], "policy": ["fedavg"], "status": ["failed"], "energy_j": [float("nan")]})
    >>> wflsim.SweepResults("runs/none", runs, keys=[], has_target=False).failures["policy"].tolist()
    ['fedavg']
    """

    def __init__(self, folder: str | Path, runs: pd.DataFrame, keys: Sequence[str], has_target: bool) -> None:
        self.folder = Path(folder)
        self.runs = runs
        self.keys = list(keys)
        """The swept keys of the scenario."""
        self.has_target = has_target

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means and intervals over the seeds that ended; failed runs are in `runs` only."""
        rows = []
        ended = self.runs[self.runs["energy_j"].notna()]
        for key, runs in cast("Any", ended.groupby(["regime", "policy"], sort=False)):
            values = {name: runs[name].iloc[0] for name in self.keys}
            rows.append({"regime": key[0], **values, "policy": key[1], **over_seeds(runs, self.has_target)})
        return pd.DataFrame(rows)

    @property
    def failures(self) -> pd.DataFrame:
        """Lines of the runs that failed twice and have no result."""
        return self.runs[self.runs["status"] == "failed"]

    def _repr_html_(self) -> str:
        return summary_html(self.summary)

    def __repr__(self) -> str:
        table = self.summary.to_string(index=False, float_format="{:.4g}".format)
        return f"SweepResults({str(self.folder)!r})\n{table}"


def run_sweep(
    scenario: Given,
    out: str | Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
    pool: str = "local",
    watch: Watch = lambda runs, store: nullcontext(),
) -> SweepResults:
    """Compute every run of every regime. Finished runs are never computed again; killed and called again, it goes on.

    Parameters as for `wflsim.run`; `watch` is entered while runs are computed. Returns the tables. A run that fails
    twice stops no other: it is a line with status "failed". Raises ScenarioError, DataError or StoreError as `run`.

    >>> import tempfile, wflsim
    >>> sweep = wflsim.run_sweep({
    ...     "name": "small", "clients": 4, "data": {"name": "digits"}, "partition": {"alpha": 0.5},
    ...     "model": {"name": "linear"}, "policies": [{"name": "fedavg", "m": 2}], "stop": {"rounds": 3},
    ...     "sweep": {"grid": {"radio.snr": ["0 dB", "10 dB"]}},
    ... }, out=tempfile.mkdtemp() + "/small", workers=1)
    >>> sweep.summary["radio.snr"].tolist(), len(sweep.failures)
    (['0 dB', '10 dB'], 0)
    """
    scenario = load(scenario)
    found = regimes(scenario)
    folder = Path(out) if out is not None else RUNS / slug(scenario.name)
    keys = scenario.sweep.keys if scenario.sweep else ()
    with opened(scenario, folder, fresh, kind="sweep", keys=list(keys)):
        runs = plan(found)
        keeper = InStore(Store().root.resolve())
        with watch(runs, keeper.store):
            done = compute(runs, keeper, workers, pool)
        results = SweepResults(folder, _table(found, runs, done), keys, scenario.stop.target is not None)
        write(folder / RUNS_TABLE, results.runs.to_csv(index=False))
        (folder / FORMER_RUNS_TABLE).unlink(missing_ok=True)
        write(folder / "summary.csv", results.summary.to_csv(index=False))
    return results


def _table(found: Sequence[Regime], runs: Sequence[Run], done: dict[str, Finished]) -> pd.DataFrame:
    """A line per run: regime, swept values, policy, seed, costs and accuracies, and how it ended."""
    values = {regime.number: regime.values for regime in found}
    rows = []
    for run in runs:
        finished = done[run.digest]
        record = finished.record or {"status": "failed", "reason": str(finished.failure), "facts": {}}
        facts = {name: record["facts"].get(name) for name in FACTS}
        rows.append(
            {"regime": run.regime, **values[run.regime], "policy": run.label, "seed": run.seed, **facts,
             "status": record["status"], "reason": record["reason"]}
        )  # fmt: skip
    return pd.DataFrame(rows)
