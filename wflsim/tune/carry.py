"""Trainings of one candidate replayed in one regime with any values of its physical knobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from wflsim.errors import ReplayRefused, StoreError
from wflsim.experiments.plan import Run
from wflsim.records import TraceRound
from wflsim.results.store import Store
from wflsim.scenario import Scenario, assign
from wflsim.scenario.blocks import TuneSpec
from wflsim.tune.costs import cost_of
from wflsim.tune.setting import Knobs
from wflsim.tune.walk import End, Walk
from wflsim.world.spec import WorldSpec
from wflsim.world.trace_arrays import TraceArrays
from wflsim.world.vectorised import forbidding_keys, vectorised


class Carried(NamedTuple):
    """How far one training is replayed, and what is known about its end."""

    rounds: int
    """Rounds to the target, or all that are known where it was missed."""
    hit: bool
    """It reached the target, in the last of these rounds."""
    diverged: bool
    attained: float
    """Accuracy at the last evaluation, in the target's metric."""


class Replays:
    """All seeds of one candidate in one regime, whose physical knobs may be set to any values."""

    def __init__(
        self, root: str, runs: Sequence[Run], carried: Sequence[Carried], regime: Scenario, spec: TuneSpec
    ) -> None:
        store = Store(root)
        self._seeds = [run.seed for run in runs]
        self._carried, self._regime, self._spec = carried, regime, spec
        self._traces: list[list[TraceRound]] = []
        self._flops: list[float] = []
        for run, one in zip(runs, carried, strict=True):
            held = store.trace(run.learning).read()
            if held is None:
                raise StoreError(f"{store.root}: a trace that was just written is gone; do not prune while tuning")
            self._traces.append(held.trace[: one.rounds])
            self._flops.append(held.flops_per_sample)
        self._document = regime.world.model_dump(mode="json")
        try:
            self._arrays = [TraceArrays.of(trace) for trace in self._traces]
        except ReplayRefused:  # a policy whose steps are no plain gathers
            self._arrays = []

    def ends(self, knobs: Knobs) -> list[End]:
        """What the candidate costs with these values, one entry per seed: on arrays where nobody waits for anybody,
        which equals the event simulation up to rounding, and by that simulation elsewhere."""
        regime = self._with(knobs)
        world = regime.world
        if not self._arrays or forbidding_keys(world):
            return self.simulated(knobs)
        return [self._quick_end(regime, world, number) for number in range(len(self._seeds))]

    def simulated(self, knobs: Knobs) -> list[End]:
        """The same by the event simulation."""
        regime = self._with(knobs)
        return [self._end(regime, number) for number in range(len(self._seeds))]

    def _with(self, knobs: Knobs) -> Scenario:
        """The regime with these values, as valid as if they were written so."""
        document = deepcopy(self._document)
        for key, value in knobs:
            assign(document, key, json.loads(value), f"tune.knobs.{key}")
        world = WorldSpec.model_validate(document)
        return self._regime.model_copy(update={name: getattr(world, name) for name in WorldSpec.model_fields})

    def _quick_end(self, regime: Scenario, world: WorldSpec, number: int) -> End:
        one, stop = self._carried[number], regime.stop
        costs = vectorised(self._arrays[number], world, regime.clients, self._seeds[number], self._flops[number])
        joules, end_s = np.cumsum(costs.energy_j), costs.end_s
        most_j, most_s = (np.inf if limit is None else limit for limit in (stop.energy, stop.time))
        spent = np.flatnonzero((joules >= most_j) | (end_s >= most_s))
        rounds = int(spent[0]) + 1 if len(spent) else len(end_s)
        column = costs.paper_j if self._spec.accounting == "paper" else costs.energy_j
        time_s = float(end_s[rounds - 1])
        cost = cost_of(self._spec, float(column[:rounds].sum()), time_s)
        return self._ended(one, rounds, bool(len(spent)), (cost, time_s, float(joules[rounds - 1]) / regime.clients))

    def _end(self, regime: Scenario, number: int) -> End:
        one, trace = self._carried[number], self._traces[number]
        walk = Walk(regime, self._seeds[number], self._flops[number], self._spec)
        walk.advance(trace)
        return self._ended(one, walk.rounds, walk.broke, (walk.cost, walk.time_s, walk.client_j))

    @staticmethod
    def _ended(one: Carried, rounds: int, broke: bool, costs: tuple[float, float, float]) -> End:
        """How a run ended that came so far; `costs` are cost, time and energy of a client."""
        reached = one.hit and rounds == one.rounds
        exhausted = broke and not reached
        diverged = one.diverged and not reached and not exhausted
        return End(costs[0], reached, diverged, exhausted, one.attained, costs[1], costs[2])
