"""One round of a policy, really trained and really carried through its world: what it costs and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

from wflsim.experiments.plan import why_live, world_of
from wflsim.learning.build import build
from wflsim.learning.learner import Learner
from wflsim.records import FinishedRound, RoundRow
from wflsim.scenario import Scenario
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.simulation.training import Training

AT_MOST = 6
"""Regimes that are rehearsed; of more, so many evenly spaced ones stand for all."""


class Rehearsed(NamedTuple):
    """What one round showed; wall-clock seconds on this machine."""

    row: RoundRow | None
    """Costs and accuracies of the round; None if the world let none begin."""
    reason: str
    """Why the rehearsal ended, in words of the loop."""
    setup_s: float
    """Seconds to load the data and build the clients, once per training."""
    train_s: float
    """Seconds to train a round, with what the world adds where it must be trained in its own."""
    carry_s: float
    """Seconds to replay a round in a world; 0 where replay is not exact."""
    client_bytes: int = 0
    """Bytes that a client may have to remember after the round."""


class Stage:
    """Builds each learner once: policies and worlds that share data, model and clients share it."""

    def __init__(self) -> None:
        self._learners: dict[str, tuple[Learner, dict[str, Any], float]] = {}

    def learner(self, scenario: Scenario) -> tuple[Learner, float]:
        """The learner of a scenario as it is before the first round, and the seconds it took to build."""
        blocks = (scenario.data, scenario.partition, scenario.model, scenario.train)
        key = repr((*(block.model_dump(mode="json") for block in blocks), scenario.clients))
        if key not in self._learners:
            began_s = perf_counter()
            made = build(*blocks, scenario.clients, scenario.seeds[0])
            self._learners[key] = made, made.snapshot(), perf_counter() - began_s
        made, blank, setup_s = self._learners[key]
        made.restore(blank)
        return made, setup_s

    def rehearse(self, scenario: Scenario, policy: int) -> Rehearsed:
        """Train one round of a policy with the first seed, and carry it through its world."""
        learner, setup_s = self.learner(scenario)
        seed, spec = scenario.seeds[0], scenario.policies[policy]
        rounds: list[FinishedRound] = []
        world = world_of(scenario, seed, learner.flops_per_sample, learner.samples)
        began_s = perf_counter()
        training = Training(spec, learner, seed)
        reason = drive(training, world, rounds.append, lambda row: "one round", scenario.clients, seed)
        train_s, carry_s = perf_counter() - began_s, 0.0
        if rounds and why_live(scenario.world, spec) is None:
            again = world_of(scenario, seed, learner.flops_per_sample, learner.samples)
            began_s = perf_counter()
            replay = Replay([rounds[0].trace])
            drive(replay, again, lambda finished: None, lambda row: "one round", scenario.clients, seed)
            carry_s = perf_counter() - began_s
            train_s = max(0.0, train_s - carry_s)
        kept = [rows for store, held in learner.snapshot().items() if store != "scratch" for rows in held.values()]
        client_bytes = sum(max(row.nbytes for row in rows.values()) for rows in kept)
        return Rehearsed(rounds[0].row if rounds else None, reason, setup_s, train_s, carry_s, client_bytes)


def evenly(things: Sequence[Scenario]) -> list[Scenario]:
    """All of a few, or evenly spaced ones, the first and the last among them."""
    if len(things) <= AT_MOST:
        return list(things)
    return [things[round(i * (len(things) - 1) / (AT_MOST - 1))] for i in range(AT_MOST)]
