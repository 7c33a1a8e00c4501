"""Candidates by co-simulation: the finished runs of one regime, each trained in its own world, become a choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.stop import ALL_ROUNDS
from wflsim.tune.chance import Floats
from wflsim.tune.choice import Choice, choose
from wflsim.tune.costs import cost_of_facts


class LiveRun(NamedTuple):
    """One finished co-simulation."""

    facts: dict[str, Any]
    """Empty if it diverged in its first round."""
    status: str
    reason: str

    @property
    def reached(self) -> bool:
        """Whether the run reached the target."""
        return bool(self.facts.get("reached"))

    @property
    def diverged(self) -> bool:
        """Whether the training diverged before the target."""
        return self.status == "diverged" and not self.reached

    @property
    def exhausted(self) -> bool:
        """A budget was spent or nobody was left: more rounds would not help."""
        return not self.reached and not self.diverged and self.reason != ALL_ROUNDS


def choose_among(taus: Sequence[int], runs: Sequence[Sequence[LiveRun]], spec: TuneSpec, metric: str) -> Choice:
    """The best tau of one regime from its runs, [tau][seed]; `metric` is the target's, worst or average."""

    def table(value: Callable[[LiveRun], float]) -> Floats:
        return np.array([[value(run) for run in row] for row in runs], dtype=np.float64)

    # a run that diverged in its first round has spent nothing that was recorded; `choose` gives it no cost
    cost = table(lambda run: cost_of_facts(spec, run.facts) if run.facts else 0.0)
    reached, diverged, exhausted = (
        table(value) > 0 for value in (lambda run: run.reached, lambda run: run.diverged, lambda run: run.exhausted)
    )
    attained = np.nan_to_num(table(lambda run: run.facts.get(f"final_{metric}", 0.0)))
    return choose(taus, cost, reached, None, diverged, exhausted, attained)
