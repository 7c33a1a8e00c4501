"""What `wflsim check` says about a valid scenario: one round of every policy is rehearsed, so that bits, joules and
the expected duration are measured, not guessed."""

from __future__ import annotations

import os
from time import perf_counter
from typing import NamedTuple

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from wflsim.answer import duration, si
from wflsim.drive.loop import drive
from wflsim.drive.training import Training
from wflsim.learning.build import build
from wflsim.learning.trainer import Learner
from wflsim.policies.base import Policy
from wflsim.record import ClientRow, Leg, RoundRow, TraceRound
from wflsim.scenario import Scenario
from wflsim.world.carrier import World
from wflsim.world.spec import influences, remarks


class _Last:
    """A sink that keeps the one row."""

    row: RoundRow

    def round(self, entry: TraceRound, row: RoundRow, clients: list[ClientRow], legs: list[Leg]) -> None:
        self.row = row


class Fact(NamedTuple):
    """One policy's column, and the wall seconds one of its runs may take."""

    rows: dict[str, str]
    run_s: float


def preview(scenario: Scenario) -> Group:
    """Clients, model, payload, memory, mode and duration, a column per policy; below, what to know beforehand."""
    seed = scenario.seeds[0]
    learner = build(scenario.data, scenario.partition, scenario.model, scenario.train, scenario.clients, seed)
    blank = learner.snapshot()
    facts = []
    for policy in scenario.policies:
        learner.restore(blank)
        facts.append(_fact(scenario, policy, learner))
    workers = min(os.cpu_count() or 1, len(scenario.seeds) * len(scenario.policies))
    total_s = sum(fact.run_s for fact in facts) * len(scenario.seeds) / workers
    sizes = learner.samples
    table = Table(title_justify="left")
    table.title = (
        f"{scenario.clients} clients with {min(sizes)} to {max(sizes)} samples, model {scenario.model.name} of "
        f"{learner.parameters} parameters, {len(scenario.seeds)} seeds on {workers} workers: "
        f"at most about {duration(total_s)}"
    )
    table.add_column("")
    for label in scenario.labels:
        table.add_column(label, justify="right")
    for name in facts[0].rows:
        table.add_row(name, *(fact.rows[name] for fact in facts))
    return Group(table, *(Text(remark) for remark in remarks(scenario.world)))


def mode(scenario: Scenario, policy: Policy) -> str:
    """Which learner and carrier, and why."""
    if policy.asynchronous:
        return "live (asynchronous: the order of replies is part of the learning)"
    found = influences(scenario.world)
    if found:
        return f"live ({', '.join(found)} can change the learning)"
    return "live; its trace replays exactly in other regimes"


def _fact(scenario: Scenario, policy: Policy, learner: Learner) -> Fact:
    seed, sink = scenario.seeds[0], _Last()
    training = Training(policy, learner, seed)
    world = World(scenario.world, scenario.clients, seed, learner.flops_per_sample)
    began_s = perf_counter()
    drive(training, world, sink, lambda row: "one round", scenario.clients, seed)
    run_s = (perf_counter() - began_s) * scenario.stop.rounds
    row = sink.row
    vectors = sum(len(rows) for store, rows in learner.snapshot().items() if store != "scratch")
    memory_bytes = vectors * scenario.clients * learner.parameters * np.dtype(scenario.train.dtype).itemsize
    rows = {
        "learner and carrier": mode(scenario, policy),
        "sent up in a round": si(row.up_bits, "bit"),
        "received in a round": si(row.down_bits, "bit"),
        "simulated time of a round": duration(row.end_s),
        "energy of a round": si(row.energy_j, "J"),
        "client memories, at most": si(memory_bytes, "B"),
        "rounds, at most": str(scenario.stop.rounds),
        "computing time of a run, at most": duration(run_s),
    }
    return Fact(rows, run_s)
