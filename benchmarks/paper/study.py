"""What the reproduction consists of, and its committed results: one small CSV per cell, one line per evaluation.

A cell is one algorithm in one setting (data set, alpha, sigma) with one tau. Its file holds all its seeds, so that a
study that is interrupted, or goes on next week, adds lines and never starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from wflsim.curve import Curve
from wflsim.learning.metrics import metrics
from wflsim.scenario import Scenario, load
from wflsim.store import Store
from wflsim.sweep.regimes import regimes
from wflsim.tune.curves import UNLIMITED

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "paper"
CELLS = REPORT / "cells"
DATA_SETS = {"kmnist": "KMNIST", "mnist": "MNIST", "fashion": "FashionMNIST"}
ALGORITHMS = {"drdm": "DRDM", "drfa": "DRFA", "scaffold": "SCAFFOLD", "scaffpd": "SCAFF-PD", "fedavg": "FedAvg"}
MEASURES = ("average", "worst", "std")
TAU_STUDY = "energy_map"
TAU_ROUNDS = {5: 110, 10: 85, 15: 70, 20: 60, 30: 50}
"""How far DRDM is followed for every tau: far enough for 85 % in the worst client."""
LONG_STUDY = "long"
LONG_ROUNDS = 250
"""How far DRDM and FedAvg are followed in the CNN's first setting: when do they pass the paper's numbers?"""
MAPS = {name: REPORT / f"energy_{name}" / "map.csv" for name in ("paper", "full")}
"""What `wflsim tune` found, by accounting."""


class Cell(NamedTuple):
    """One algorithm in one setting."""

    data: str
    alpha: float
    sigma: float
    policy: str
    tau: int = 10
    rounds: int | None = None
    """None: those of the scenario."""

    @property
    def file(self) -> Path:
        kind = f"_tau{self.tau}" if self.data == TAU_STUDY else f"_rounds{self.rounds}" if self.rounds else ""
        return CELLS / f"{self.data}_alpha{self.alpha:g}_sigma{self.sigma:g}_{self.policy}{kind}.csv"

    @property
    def scenario(self) -> Scenario:
        """The published scenario, in this cell's setting."""
        overrides = [f"partition.alpha={self.alpha}", f"partition.sigma={self.sigma}", "sweep=null"]
        found = load(scenario_file(self.data), overrides)
        policies = [p.model_copy(update={"tau": self.tau}) for p in found.policies if p.name == self.policy]
        return found.model_copy(update={"policies": tuple(policies)})


def cells(data: str) -> list[Cell]:
    """All cells of a data set, or of one of the two other studies: setting by setting."""
    if data == TAU_STUDY:
        return [Cell(data, 0.1, 0.0, "drdm", tau, rounds) for tau, rounds in TAU_ROUNDS.items()]
    if data == LONG_STUDY:
        return [Cell("kmnist", 0.1, 0.0, policy, rounds=LONG_ROUNDS) for policy in ("drdm", "fedavg")]
    return [Cell(data, *setting, policy) for setting in settings(data) for policy in ALGORITHMS]


def scenario_file(data: str) -> Path:
    return ROOT / "scenarios" / "paper" / f"{data}.yaml"


def settings(data: str) -> list[tuple[float, float]]:
    """(alpha, sigma) of every column of a data set's tables, as its scenario sweeps them."""
    partitions = [regime.scenario.partition for regime in regimes(load(scenario_file(data)))]
    return [(float(p.alpha), float(p.sigma)) for p in partitions]  # type: ignore[union-attr]


def evaluations(scenario: Scenario, policy: int, seed: int, rounds: int, root: Path) -> list[dict[str, Any]]:
    """Train (or remember) one run; one row per evaluation, the last one named if it diverged.

    Every row says on what kind of machine it was computed: on that kind it comes out again bit for bit.
    """
    curve = Curve(scenario, policy, seed, Store(root), keep_bytes=UNLIMITED)
    curve.extend(rounds)
    rows: list[dict[str, Any]] = []
    for entry in curve.trace[:rounds]:
        if entry.evaluation is not None:
            found = metrics(entry.evaluation.accuracy)
            rows.append({"seed": seed, "round": entry.round + 1, **{name: found[name] for name in MEASURES}})
    if curve.ended is not None and len(curve.trace) < rounds:
        rows.append({"seed": seed, "round": len(curve.trace) + 1, "ended": "diverged"})
    here = machine()
    return [{**row, "machine": here} for row in rows]


def machine() -> str:
    """What decides the last bits of a float: the kind of processor, and torch."""
    import torch

    file = Path("/proc/cpuinfo")
    lines = file.read_text().split("\n\n")[0].splitlines() if file.exists() else []
    found = {key.strip(): value.strip() for key, value in (line.split(":", 1) for line in lines if ":" in line)}
    kind = [found.get(key, "unknown") for key in ("model name", "cpu family", "model")]
    return f"{' '.join(kind)} torch {torch.__version__}"


def read(cells: Iterable[Cell]) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """Those that have results, with their results."""
    for cell in cells:
        if cell.file.exists():
            yield cell, runs(cell)


def runs(cell: Cell) -> pd.DataFrame:
    """What is committed of a cell; one in which every run diverged before its first evaluation has measures, too."""
    table = pd.read_csv(cell.file)
    return table.reindex(columns=list(dict.fromkeys(["seed", "round", *MEASURES, *table])))


def add(file: Path, rows: Sequence[dict[str, Any]], key: Sequence[str]) -> None:
    """Add rows to a committed CSV, in place of those with the same key, in order."""
    new = pd.DataFrame(rows)
    old = pd.read_csv(file) if file.exists() else new.iloc[:0]
    kept = old[~old[list(key)].apply(tuple, axis=1).isin(set(new[list(key)].apply(tuple, axis=1)))] if len(old) else old
    whole = pd.concat([kept, new]) if len(kept) else new
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    whole.to_csv(part, index=False)
    part.replace(file)


def as_read(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Rows as they look once they were in a file."""
    return pd.read_csv(StringIO(pd.DataFrame(rows).to_csv(index=False)))
