"""What `wflsim check` says about a valid scenario.

One round of every policy is rehearsed, so that bits, joules and the expected duration are measured, not guessed; then
follows how much `run` and `tune` would have to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from wflsim.analysis.formats import duration, si
from wflsim.door import origin_of
from wflsim.errors import ScenarioError
from wflsim.experiments.plan import why_live, world_of
from wflsim.learning.build import build
from wflsim.learning.learner import Learner
from wflsim.policies.adaptive import adaptation
from wflsim.policies.base import Policy
from wflsim.records import FinishedRound, RoundRow
from wflsim.scenario import Scenario
from wflsim.scenario.schema import remarks
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.simulation.training import Training
from wflsim.world.spec import influences

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


def preview(scenario: Scenario) -> Group:
    """A table of payload, memory, mode and cost with a column per policy; below, the work of all runs, and remarks."""
    stage = Stage()
    facts = [_fact(scenario, policy, stage) for policy in range(len(scenario.policies))]
    from wflsim.cli.forecast import forecast_run, words  # which stands on the rehearsal above

    learner, _ = stage.learner(scenario)
    sizes = learner.samples
    table = Table(title_justify="left")
    table.title = (
        f"{scenario.clients} clients with {min(sizes)} to {max(sizes)} samples, model {scenario.model.name} of "
        f"{learner.parameters} parameters, {len(scenario.seeds)} seeds"
    )
    table.add_column("")
    for label in scenario.labels:
        table.add_column(label, justify="right")
    for name in facts[0]:
        table.add_row(name, *(fact[name] for fact in facts))
    lines = [words("run", forecast_run(scenario, stage))]
    if scenario.tune is not None:
        lines.append(_tuning(scenario, stage))
    return Group(table, *(Text(line) for line in (*lines, *_own_code(scenario), *remarks(scenario))))


def _own_code(scenario: Scenario) -> list[str]:
    """Which files of the user's own would be run, policy by policy."""
    found = []
    for label, policy in zip(scenario.labels, scenario.policies, strict=True):
        if origin := origin_of(policy):
            loads = [str(file) for file in origin.files if file != origin.file]
            more = f"of {origin.package}" if origin.package else f"which loads {', '.join(loads)}" if loads else ""
            found.append(f"{label} would be run from {origin.file}:{origin.line}{', ' * bool(more)}{more}")
    return found


def _tuning(scenario: Scenario, stage: Stage) -> str:
    """What `wflsim tune` would have to do, or why it would refuse."""
    from wflsim.cli.forecast import forecast_tune, words

    if scenario.stop.target is None:
        return "`wflsim tune`: needs a target: stop.target in the scenario, or --target 0.8"
    try:
        return words("tune", forecast_tune(scenario, stage))
    except ScenarioError as error:
        return f"`wflsim tune` would refuse: {error}"


def mode(scenario: Scenario, policy: Policy) -> str:
    """Learner and carrier of a policy, and why these."""
    if policy.asynchronous:
        return "live (asynchronous: the order of replies is part of the learning)"
    found = ([] if adaptation(policy.tau) is None else ["policies.tau.adapt"]) + influences(scenario.world)
    if found:
        return f"live ({', '.join(found)} can change the learning)"
    return "live; its trace replays exactly in other regimes"


def _fact(scenario: Scenario, policy: int, stage: Stage) -> dict[str, str]:
    """What is said about one policy: the text of each row of the table, by its heading."""
    found = stage.rehearse(scenario, policy)
    row = found.row
    run_s = found.setup_s + (found.train_s + found.carry_s) * scenario.stop.rounds
    never = f"no round can begin: {found.reason}"
    return {
        "learner and carrier": mode(scenario, scenario.policies[policy]),
        "sent up in a round": si(row.up_bits, "bit") if row else never,
        "received in a round": si(row.down_bits, "bit") if row else never,
        "simulated time of a round": duration(row.end_s) if row else never,
        "energy of a round": si(row.energy_j, "J") if row else never,
        "client memories, at most": si(found.client_bytes * scenario.clients, "B"),
        "rounds, at most": str(scenario.stop.rounds),
        "computing time of a run, at most": duration(run_s),
    }
