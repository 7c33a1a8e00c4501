"""The unit of a sweep: one regime, one policy, one seed. Cells that learn alike share one training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from wflsim.curve import Curve, why_live
from wflsim.digest import cell_digest, learning_digest
from wflsim.drive.loop import drive
from wflsim.drive.stop import Stop
from wflsim.engines import in_words
from wflsim.errors import Diverged
from wflsim.record import ClientRow, Leg, RoundRow, TraceRound
from wflsim.scenario import Scenario
from wflsim.store import Store
from wflsim.sweep.regimes import Regime
from wflsim.tables import run_facts
from wflsim.world.carrier import World


class Cell(NamedTuple):
    """One run of a sweep."""

    regime: int
    scenario: Scenario
    policy: int
    seed: int
    learning: str
    name: str
    """Its digest: where the store keeps it."""
    exact: bool
    """A trace may stand in for training."""


class Task(NamedTuple):
    """What one process does at a stretch."""

    root: Path
    cells: tuple[Cell, ...]
    threads: int
    wait: bool
    """Until another process has finished with the same training; otherwise the task says so and ends."""


class Finished(NamedTuple):
    """How a cell ended."""

    name: str
    record: dict[str, Any] | None
    """None: it failed."""
    failure: str


def plan(found: Sequence[Regime]) -> list[Cell]:
    """Every (regime, policy, seed) in the order of the table."""
    cells = []
    for regime in found:
        scenario = regime.scenario
        exact = [why_live(scenario.world, policy) is None for policy in scenario.policies]
        for policy in range(len(scenario.policies)):
            for seed in scenario.seeds:
                learning = learning_digest(scenario, policy, seed)
                name = cell_digest(learning, scenario)
                cells.append(Cell(regime.number, scenario, policy, seed, learning, name, exact[policy]))
    return cells


def tasks(cells: Iterable[Cell], root: Path, threads: int, wait: bool) -> list[Task]:
    """Grouped by what is learnt; a cell whose world can change the learning stands alone."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.learning if cell.exact else cell.name, []).append(cell)
    return [Task(root, tuple(group), threads, wait) for group in groups.values()]


def work(task: Task) -> list[Finished]:
    """All cells of a task. A cell that fails does not stop the others; what is finished is in the store at once."""
    store, first = Store(task.root), task.cells[0]
    done: list[Finished] = []
    with store.computing(first.learning if first.exact else first.name, task.wait):
        curve: Curve | None = None
        for cell in task.cells:
            try:
                record = store.cell(cell.name)
                if record is None:
                    if curve is None or not (cell.exact and curve.replayable):
                        source = store if cell.exact else None
                        curve = Curve(cell.scenario, cell.policy, cell.seed, source, task.threads, cell.learning)
                    record = play(cell, curve)
                    store.put_cell(cell.name, record)
                done.append(Finished(cell.name, record, ""))
            except Exception as error:
                curve = None  # it may stand in the middle of a round
                done.append(Finished(cell.name, None, in_words(error)))
    return done


def play(cell: Cell, curve: Curve) -> dict[str, Any]:
    """Carry the curve through the cell's world until its stop rule ends it."""
    scenario = cell.scenario
    world = World(scenario.world, scenario.clients, cell.seed, curve.flops_per_sample)
    rows = _Rows(curve)
    try:
        reason, ending = drive(curve, world, rows, Stop(scenario.stop), scenario.clients, cell.seed), "done"
    except Diverged as error:
        reason, ending = str(error), "diverged"
    curve.save()
    target = scenario.stop.target.model_dump() if scenario.stop.target else None
    frame = pd.DataFrame(rows.rounds, columns=list(RoundRow._fields))
    return {"status": ending, "reason": reason, "facts": run_facts(frame, target)}


class _Rows:
    """A sink for facts: one row per round, and the curve's memory."""

    def __init__(self, curve: Curve) -> None:
        self.rounds: list[RoundRow] = []
        self._curve = curve

    def round(self, entry: TraceRound, row: RoundRow, clients: list[ClientRow], legs: list[Leg]) -> None:
        self._curve.remember(entry)
        self.rounds.append(row)

