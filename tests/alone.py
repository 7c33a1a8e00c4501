"""One run by itself, with its rows in a folder of any name; also for scripts that tests start as processes of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from wflsim.experiments.compute import Group, compute_group
from wflsim.experiments.keepers import InFolder
from wflsim.experiments.plan import Run
from wflsim.results.store import Store
from wflsim.scenario import Scenario


class Alone(InFolder):
    """Keeps its only run in the very folder that it is given."""

    def place(self, run: Run) -> Path:
        return self.folder


def run_alone(scenario: Scenario, policy: int, seed: int, place: str | Path, checkpoint_every_s: float | None = None) -> dict[str, Any]:
    """Compute the run unless it is there, going on from its checkpoint; return its record."""
    keeper = Alone(Path(place), Store().root, checkpoint_every_s)
    (finished,) = compute_group(Group(keeper, (Run(scenario, policy, seed),), 1), wait=True)
    if finished.failure is not None:
        raise finished.failure
    return finished.record


def environment() -> dict[str, str]:
    """For a process that is to import this module."""
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
