"""The plan of an experiment: every run, that is one policy with one seed in one regime.

`wflsim run` without a sweep is the plan of one regime; sweeps and tuning plan many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from wflsim.errors import ReplayRefused
from wflsim.experiments.regimes import Regime
from wflsim.learning.data.partition import divide
from wflsim.learning.data.sets import load as load_data
from wflsim.policies.base import Policy
from wflsim.results.digest import brought_code, learning_digest, partition_digest, run_digest
from wflsim.scenario import Scenario
from wflsim.simulation.loop import Instant
from wflsim.simulation.replay import refuse_inexact
from wflsim.world.spec import WorldSpec, graph_of, influences
from wflsim.world.world import World

_SAMPLES: dict[str, tuple[int, ...]] = {}
"""By digest of a partition: number of training samples of each client."""


@dataclass(frozen=True, eq=False)
class Run:
    """One policy with one seed in one regime."""

    scenario: Scenario
    """The scenario of the regime."""
    policy: int
    """Position of the policy in the scenario."""
    seed: int
    regime: int = 0
    """Number of the regime in its sweep."""

    @property
    def label(self) -> str:
        """Name of the policy in tables and folders."""
        return self.scenario.labels[self.policy]

    @property
    def title(self) -> str:
        """Name of the run within its regime, in sentences: "drdm seed 1"."""
        return f"{self.label} seed {self.seed}"

    @cached_property
    def learning(self) -> str:
        """Digest of everything that can change the learning: address of the trace in the store."""
        return learning_digest(self.scenario, self.policy, self.seed)

    @cached_property
    def code(self) -> dict[str, str]:
        """Digests of the code that the user brings for this run: a policy's, a model's; mostly empty."""
        return brought_code(self.scenario, self.policy)

    @cached_property
    def digest(self) -> str:
        """Digest of everything that can change the run: address of its record in the store."""
        return run_digest(self.learning, self.scenario)

    @cached_property
    def why_live(self) -> str | None:
        """Why the run must train in its own world; None where a trace may stand in for training."""
        return why_live(self.scenario.world, self.scenario.policies[self.policy])

    @property
    def exact(self) -> bool:
        """Whether a trace may stand in for training."""
        return self.why_live is None


def plan(regimes: Sequence[Regime]) -> list[Run]:
    """Every run, in the order of the tables: regimes outermost, then policies, then seeds."""
    return [
        Run(regime.scenario, policy, seed, regime.number)
        for regime in regimes
        for policy in range(len(regime.scenario.policies))
        for seed in regime.scenario.seeds
    ]


def why_live(world: WorldSpec, policy: Policy) -> str | None:
    """Why a trace of this policy would not be exact in this world, naming the scenario key; None where it is."""
    try:
        refuse_inexact(influences(world), policy.name, policy.asynchronous)
    except ReplayRefused as refusal:
        return str(refusal)
    return None


def world_of(scenario: Scenario, seed: int, flops_per_sample: float, samples: Sequence[int] | None = None) -> World:
    """The world of a scenario. `samples`: training samples of each client; None: found out where the fleet needs it."""
    if samples is None and scenario.fleet is not None and scenario.fleet.needs_samples:
        samples = samples_of(scenario, seed)
    return World(scenario.world, scenario.clients, seed, flops_per_sample, samples)


def samples_of(scenario: Scenario, seed: int) -> tuple[int, ...]:
    """Number of training samples of each client; the data are loaded for it once per process."""
    name = partition_digest(scenario, seed)
    if name not in _SAMPLES:
        data = load_data(scenario.data, scenario.clients, seed)
        owned = divide(scenario.partition, data, scenario.clients, seed)
        _SAMPLES[name] = tuple(map(len, owned.train))
    return _SAMPLES[name]


def without_time(scenario: Scenario, policy: Policy, seed: int) -> Instant:
    """A carrier without time for the clients of a scenario, with its graph of peers where the policy has no server."""
    edges = graph_of(scenario.world, scenario.clients, seed) if policy.decentralised else None
    return Instant(scenario.clients, edges)
