"""What the reproduction of the paper runs, and its committed runs: a tidy CSV per study, one line per evaluation.

A study is the tables of one data set, the runs over tau behind the energy map, or the longer runs. An entry of a study
is one algorithm in one setting (data set, alpha, sigma) with one tau, run with several seeds. A study that was
interrupted, or goes on with more seeds, adds lines to its file and computes nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run, regimes
from wflsim.files import write
from wflsim.results.store import Store
from wflsim.scenario import Scenario, load
from wflsim.target import metrics
from wflsim.tune.training import UNLIMITED

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "paper"
DATA_SETS = {"kmnist": "KMNIST", "mnist": "MNIST", "fashion": "FashionMNIST"}
ALGORITHMS = {"drdm": "DRDM", "drfa": "DRFA", "scaffold": "SCAFFOLD", "scaffpd": "SCAFF-PD", "fedavg": "FedAvg"}
MEASURES = ("average", "worst", "std")
COLUMNS = ("data", "alpha", "sigma", "policy", "tau", "seed", "round", *MEASURES, "ended", "machine")
"""Columns of reports/paper/runs_*.csv. `ended` is empty, or says that the run diverged in that round."""
KEY = COLUMNS[:7]
"""Columns that name one evaluation."""
TAU_STUDY = "energy_map"
TAU_ROUNDS = {5: 110, 10: 85, 15: 70, 20: 60, 30: 50}
"""How far DRDM is followed for every tau: far enough for 85 % in the worst client."""
LONG_STUDY = "long"
LONG_ROUNDS = 250
"""How far DRDM and FedAvg are followed in the CNN's first setting: when do they pass the paper's numbers?"""
MAPS = {name: REPORT / f"energy_{name}" / "map.csv" for name in ("paper", "full")}
"""What `wflsim tune` found, by accounting."""


class Entry(NamedTuple):
    """One algorithm in one setting of a study."""

    study: str
    """Names the file of the runs: a key of DATA_SETS, TAU_STUDY or LONG_STUDY."""
    alpha: float
    sigma: float
    policy: str
    tau: int = 10
    rounds: int | None = None
    """Rounds per run; None: as many as the scenario says."""

    @property
    def data(self) -> str:
        """Data set, a key of DATA_SETS."""
        return self.study if self.study in DATA_SETS else "kmnist"

    @property
    def scenario(self) -> Scenario:
        """The published scenario, in this entry's setting."""
        overrides = [f"partition.alpha={self.alpha}", f"partition.sigma={self.sigma}", "sweep=null"]
        found = load(scenario_file(self.data if self.study == LONG_STUDY else self.study), overrides)
        policies = [p.model_copy(update={"tau": self.tau}) for p in found.policies if p.name == self.policy]
        return found.model_copy(update={"policies": tuple(policies)})

    @property
    def place(self) -> dict[str, Any]:
        """What names the entry in its file."""
        return {name: getattr(self, name) for name in ("data", "alpha", "sigma", "policy", "tau")}


def entries(study: str) -> list[Entry]:
    """All entries of a study, setting by setting."""
    if study == TAU_STUDY:
        return [Entry(study, 0.1, 0.0, "drdm", tau, rounds) for tau, rounds in TAU_ROUNDS.items()]
    if study == LONG_STUDY:
        return [Entry(study, 0.1, 0.0, policy, rounds=LONG_ROUNDS) for policy in ("drdm", "fedavg")]
    return [Entry(study, *setting, policy) for setting in settings(study) for policy in ALGORITHMS]


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
    curve = CachedTraining(Run(scenario, policy, seed), Store(root), keep_bytes=UNLIMITED)
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


def file_of(study: str) -> Path:
    """The committed runs of a study."""
    return REPORT / f"runs_{study}.csv"


def read(entries: Iterable[Entry]) -> Iterator[tuple[Entry, pd.DataFrame]]:
    """Those entries that have been run, with their runs."""
    for entry in entries:
        found = runs(entry)
        if len(found):
            yield entry, found


def runs(entry: Entry) -> pd.DataFrame:
    """The committed evaluations of an entry, seed by seed and round by round; empty if it was never run."""
    file = file_of(entry.study)
    if not file.exists():
        return pd.DataFrame(columns=list(COLUMNS))
    table = pd.read_csv(file)
    mine = pd.concat([table[name] == value for name, value in entry.place.items()], axis=1).all(axis=1)
    return table[mine].drop(columns=list(entry.place)).reset_index(drop=True)


def add_runs(entry: Entry, rows: Sequence[dict[str, Any]]) -> None:
    """Add the evaluations of a run to the file of its study, which stays sorted."""
    new = pd.DataFrame([{**entry.place, **row} for row in rows]).reindex(columns=list(COLUMNS))
    add(file_of(entry.study), new, KEY)


def add(file: Path, new: pd.DataFrame, key: Sequence[str]) -> None:
    """Add rows to a committed CSV, in place of those with the same key, and sort it by the key."""
    whole = pd.concat([pd.read_csv(file), new]) if file.exists() else new
    write(file, whole.drop_duplicates(list(key), keep="last").sort_values(list(key)).to_csv(index=False))


def as_read(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Rows as they look once they were in a file."""
    return pd.read_csv(StringIO(pd.DataFrame(rows).to_csv(index=False)))
