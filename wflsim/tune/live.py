"""Candidates by co-simulation: each (setting, seed, regime) is trained in its world, which can change the learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wflsim.errors import WflsimError
from wflsim.experiments.compute import compute, watching_runs
from wflsim.experiments.keepers import InStore
from wflsim.experiments.plan import Regime, Run, plan
from wflsim.results.store import Store
from wflsim.scenario import Scenario
from wflsim.simulation.stop import ALL_ROUNDS
from wflsim.tune.chance import Floats
from wflsim.tune.costs import cost_of_facts
from wflsim.tune.question import Question
from wflsim.tune.search import Progress
from wflsim.tune.setting import Setting, with_setting


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


class Lived:
    """`search.Candidates` for one policy, each of whose runs is trained whole, in its own world."""

    def __init__(self, asked: Question) -> None:
        self._asked = asked
        self.runs: dict[Setting, list[list[LiveRun]]] = {}
        """By setting, [regime][seed]."""

    def progress(self, setting: Setting, /) -> Progress:
        found = self._asked.found
        runs = self.runs.get(setting)
        if runs is None:
            empty = np.zeros((len(found.regimes), len(self._asked.scenario.seeds)))
            return Progress(empty, empty > 0, False)

        def table(value: Callable[[LiveRun], float]) -> Floats:
            return np.array([[value(run) for run in row] for row in runs], dtype=np.float64)

        # a run that diverged in its first round has spent nothing that was recorded; `choose` gives it no cost
        cost = table(lambda run: cost_of_facts(found.spec, run.facts) if run.facts else 0.0)
        reached, diverged, exhausted = (
            table(value) > 0 for value in (lambda run: run.reached, lambda run: run.diverged, lambda run: run.exhausted)
        )
        attained = np.nan_to_num(table(lambda run: run.facts.get(f"final_{found.target.metric}", 0.0)))
        rounds = table(lambda run: run.facts.get("rounds", 0.0))
        time_s = table(lambda run: run.facts.get("time_s", 0.0))
        client_j = table(lambda run: run.facts.get("energy_j", 0.0)) / self._asked.scenario.clients
        return Progress(cost, reached, True, diverged, exhausted, attained, rounds, time_s, client_j)

    def extend(self, settings: Sequence[Setting], /) -> None:
        """Compute every run of these candidates that is not in the store."""
        asked = self._asked
        columns = live_runs(asked.found.regimes, asked.policy, settings)
        flat = [run for column in columns for run in column]
        keeper = InStore(Store().root.resolve())
        doing = f"{asked.label}, each run in its own world"
        with watching_runs(doing, [run.digest for run in flat], keeper.store, asked.watch):
            done = compute(flat, keeper, asked.workers, asked.pool)
        missing = [finished.failure for finished in done.values() if finished.record is None]
        if missing:
            raise WflsimError(f"{asked.label}: {len(missing)} runs failed twice, so no tau can be chosen: {missing[0]}")
        for setting, column in zip(settings, columns, strict=True):
            by_place = {(run.regime, run.seed): done[run.digest].record or {} for run in column}
            self.runs[setting] = [
                [
                    LiveRun(record["facts"], record["status"], record["reason"])
                    for record in (by_place[regime.number, seed] for seed in regime.scenario.seeds)
                ]
                for regime in asked.found.regimes
            ]


def live_runs(found: Sequence[Regime], policy: int, settings: Sequence[Setting]) -> list[list[Run]]:
    """Per setting, every (regime, seed) of one policy that is trained in its own world."""
    return [
        plan([each._replace(scenario=_only(with_setting(each.scenario, policy, setting), policy)) for each in found])
        for setting in settings
    ]


def _only(scenario: Scenario, policy: int) -> Scenario:
    return scenario.model_copy(update={"policies": (scenario.policies[policy],)})
