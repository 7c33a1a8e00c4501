"""The plan of an experiment: every run, that is one policy with one seed in one regime.

`wflsim run` without a sweep is the plan of one regime; sweeps and tuning plan many. A sweep block becomes one scenario
per regime, each as valid as if it had been written by hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from wflsim.errors import ReplayRefused, ScenarioError
from wflsim.learning.data.partition import divide
from wflsim.learning.data.sets import load as load_data
from wflsim.policies.adaptive import adaptation
from wflsim.policies.base import Policy
from wflsim.results.digest import brought_code, learning_digest, partition_digest, run_digest
from wflsim.scenario import Scenario, assign, build
from wflsim.scenario.blocks import SweepSpec
from wflsim.scenario.source import Source
from wflsim.simulation.loop import Instant
from wflsim.simulation.replay import refuse_inexact
from wflsim.world.spec import WorldSpec, graph_of, influences
from wflsim.world.world import World

MAX_REGIMES = 100_000


class Regime(NamedTuple):
    """One world of a sweep: the scenario with one choice of the swept keys."""

    number: int
    values: dict[str, str]
    """Value of each swept key as it was written, for example "10 dB"."""
    scenario: Scenario


def regimes(scenario: Scenario) -> list[Regime]:
    """All regimes of a scenario, in the order of the file; the last key of a grid changes fastest.

    Without a sweep block there is one, the scenario itself.
    """
    plain = scenario.model_copy(update={"sweep": None, "tune": None})
    if scenario.sweep is None:
        return [Regime(0, {}, plain)]
    count = _count(scenario.sweep)
    if count > MAX_REGIMES:
        raise ScenarioError(f"sweep: {count} regimes are too many (at most {MAX_REGIMES}); sweep fewer values")
    document = plain.model_dump(mode="json")
    keys = scenario.sweep.keys
    folder = Path(scenario.sweep.folder or "")
    return [_regime(number, document, case, keys, folder) for number, case in enumerate(_cases(scenario.sweep))]


def _cases(spec: SweepSpec) -> Iterator[dict[str, Any]]:
    grid = [[(key, value) for value in values] for key, values in spec.grid.items()]
    steps = list(zip(*spec.zip.values(), strict=True)) if spec.zip else [()]
    walked = [dict(zip(spec.zip, step, strict=True)) for step in steps]
    for crossed, together, listed in itertools.product(itertools.product(*grid), walked, spec.list or ({},)):
        yield {**dict(crossed), **together, **listed}


def _count(spec: SweepSpec) -> int:
    count = max(1, len(spec.list)) * (len(next(iter(spec.zip.values()))) if spec.zip else 1)
    for values in spec.grid.values():
        count *= len(values)
    return count


def _regime(
    number: int, document: Mapping[str, Any], case: Mapping[str, Any], keys: tuple[str, ...], folder: Path
) -> Regime:
    data = deepcopy(dict(document))
    said = f"sweep, regime {number} ({', '.join(f'{key}={written(value)}' for key, value in case.items())})"
    for key, value in case.items():
        assign(data, key, deepcopy(value), said)
    values = {key: written(case[key]) if key in case else "" for key in keys}
    return Regime(number, values, build(Source(said, data, folder=folder)))


def written(value: Any) -> str:
    """A value as people write it: 10 dB stays 10 dB."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)


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
        chosen = [] if adaptation(policy.tau) is None else ["policies.tau.adapt"]
        refuse_inexact([*chosen, *influences(world)], policy.name, policy.asynchronous)
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
