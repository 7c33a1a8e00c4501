"""The walk of a sweep: what is not finished yet is computed, and all of it becomes one tidy table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pandas as pd

from wflsim.engines import ATTEMPTS, Engine, engine, in_words
from wflsim.experiment import RUNS, opened
from wflsim.files import Busy, write
from wflsim.scenario import Given, load, slug
from wflsim.store import Store
from wflsim.sweep.cells import Cell, Finished, Task, plan, tasks, work
from wflsim.sweep.regimes import Regime, regimes
from wflsim.tables import FACTS, over_seeds

Watch = Callable[[Sequence[Cell], Store], AbstractContextManager[Any]]
"""Entered while the cells are computed: each is in the store as soon as it is finished, whoever computed it."""


class SweepResults:
    """A sweep's folder as frames: `cells`, a line per regime, policy and seed; `summary`, per regime and policy."""

    def __init__(self, folder: str | Path, cells: pd.DataFrame, keys: Sequence[str], has_target: bool) -> None:
        self.folder = Path(folder)
        self.cells = cells
        self.keys = list(keys)
        self.has_target = has_target

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means and intervals over the seeds that ended; failed cells are in `cells` only."""
        rows = []
        ended = self.cells[self.cells["energy_j"].notna()]
        for key, runs in cast("Any", ended.groupby(["regime", "policy"], sort=False)):
            values = {name: runs[name].iloc[0] for name in self.keys}
            rows.append({"regime": key[0], **values, "policy": key[1], **over_seeds(runs, self.has_target)})
        return pd.DataFrame(rows)

    @property
    def failures(self) -> pd.DataFrame:
        """Cells without a result."""
        return self.cells[self.cells["status"] == "failed"]

    def __repr__(self) -> str:
        table = self.summary.to_string(index=False, float_format="{:.4g}".format)
        return f"SweepResults({str(self.folder)!r})\n{table}"


def run_sweep(
    scenario: Given,
    out: str | Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
    engine_name: str = "local",
    watch: Watch = lambda cells, store: nullcontext(),
) -> SweepResults:
    """Every regime, policy and seed. Finished cells are never computed again; killed and called again, it goes on."""
    scenario = load(scenario)
    found = regimes(scenario)
    folder = Path(out) if out is not None else RUNS / slug(scenario.name)
    keys = scenario.sweep.keys if scenario.sweep else ()
    with opened(scenario, folder, fresh, kind="sweep", keys=list(keys)):
        cells = plan(found)
        store = Store()
        with watch(cells, store):
            done = compute(cells, store, workers, engine_name)
        results = SweepResults(folder, _table(found, cells, done), keys, scenario.stop.target is not None)
        write(folder / "cells.csv", results.cells.to_csv(index=False))
        write(folder / "summary.csv", results.summary.to_csv(index=False))
    return results


def compute(
    cells: Sequence[Cell], store: Store, workers: int | None, engine_name: str = "local"
) -> dict[str, Finished]:
    """Every cell by its name: from the store, or computed now. One that fails is tried once more, then reported."""
    done: dict[str, Finished] = {}
    for cell in cells:
        record = store.cell(cell.name)
        if record is not None:
            done[cell.name] = Finished(cell.name, record, "")
    missing = {cell.name: cell for cell in cells if cell.name not in done}
    workers = workers or os.cpu_count() or 1
    failed: dict[str, Finished] = {}
    attempts = dict.fromkeys(missing, 0)
    workers = min(workers, len(tasks(missing.values(), store.root, 1, False)))
    # With fewer trainings than cores, each may use several: results do not depend on it.
    threads = max(1, (os.cpu_count() or 1) // max(1, workers)) if engine_name == "local" else 1
    wait = False
    with engine(engine_name, workers) as runner:
        while missing:
            before = len(missing)
            jobs = tasks(missing.values(), store.root.resolve(), threads, wait)
            for finished in _once(runner, jobs, store):
                if finished.record is not None:
                    if not store.has_cell(finished.name):  # it was computed on another machine
                        store.put_cell(finished.name, finished.record)
                    done[finished.name] = finished
                    missing.pop(finished.name, None)
                elif finished.failure:
                    attempts[finished.name] += 1
                    failed[finished.name] = finished
                    if attempts[finished.name] >= ATTEMPTS:
                        missing.pop(finished.name, None)
            # What others were computing is waited for only when there is nothing else to do.
            wait = wait or len(missing) == before
    return {**failed, **done}


def _once(runner: Engine, jobs: Sequence[Task], store: Store) -> Iterator[Finished]:
    """One pass; a cell that another process is computing comes back without record and failure."""
    for number, answer in runner.run(work, jobs):
        if isinstance(answer, Busy):
            yield from (Finished(cell.name, store.cell(cell.name), "") for cell in jobs[number].cells)
        elif isinstance(answer, Exception):
            for cell in jobs[number].cells:
                record = store.cell(cell.name)
                yield Finished(cell.name, record, "" if record else in_words(answer))
        else:
            yield from answer


def _table(found: Sequence[Regime], cells: Sequence[Cell], done: dict[str, Finished]) -> pd.DataFrame:
    values = {regime.number: regime.values for regime in found}
    rows = []
    for cell in cells:
        finished = done[cell.name]
        record = finished.record or {"status": "failed", "reason": finished.failure, "facts": {}}
        facts = {name: record["facts"].get(name) for name in FACTS}
        label = cell.scenario.labels[cell.policy]
        rows.append(
            {"regime": cell.regime, **values[cell.regime], "policy": label, "seed": cell.seed, **facts,
             "status": record["status"], "reason": record["reason"]}
        )  # fmt: skip
    return pd.DataFrame(rows)
