"""The whole scenario, composed of specs that stand beside what they configure; only upper rooms see a `Scenario`.

`remarks` are sentences about a scenario that a user should read before a long run.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from wflsim.compress.compressors import Sparse
from wflsim.errors import ScenarioError
from wflsim.learning.data.partition import PartitionSpec
from wflsim.learning.data.sets import DataSpec
from wflsim.learning.specs import ModelSpec, TrainSpec
from wflsim.policies.adaptive import adaptation
from wflsim.policies.registry import PolicySpec
from wflsim.scenario.blocks import SweepSpec, TuneSpec
from wflsim.scenario.explain import Inconsistent
from wflsim.simulation.stop import StopSpec
from wflsim.spec import Means
from wflsim.world import spec as world
from wflsim.world.access.d2d import D2dSpec
from wflsim.world.access.graph import colours
from wflsim.world.server import ServerSpec
from wflsim.world.spec import WorldSpec, graph_of

MAX_CLIENTS = 1_000_000
Seed = Annotated[int, Field(ge=0, lt=2**31)]
SEEDS = "a number of seeds from 1 to 10000, or a list of so many different seeds"


class Scenario(WorldSpec):
    """One experiment: how many clients, what they learn, behind which radio, under which policies.

    Made by `wflsim.load`, frozen, in SI units; its keys are attributes. `labels` are the policies' names in tables.

    >>> import wflsim
    >>> scenario = wflsim.load({
    ...     "name": "small", "clients": 4, "seeds": 2, "data": {"name": "digits"}, "partition": {"alpha": 0.5},
    ...     "model": {"name": "linear"}, "policies": [{"name": "fedavg", "m": 2}], "stop": {"rounds": 3},
    ... })
    >>> scenario.seeds, scenario.labels, scenario.stop.rounds
    ((0, 1), ['fedavg'], 3)
    """

    name: Annotated[str, Field(min_length=1, max_length=80)]
    """Name of the scenario, in tables and in the name of its run folder."""
    description: Annotated[str, Field(max_length=2000)] = ""
    """What the scenario is for, in words for its readers."""
    clients: Annotated[int, Field(ge=1, le=MAX_CLIENTS)]
    """Number of clients N."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=10_000), Means(SEEDS)] = (0,)
    """Number of Monte-Carlo runs of each policy (seeds 0, 1, ...), or a list of seeds."""
    data: DataSpec
    """Data set from which clients learn."""
    partition: PartitionSpec
    """How samples are divided among clients."""
    model: ModelSpec
    """Model that is trained."""
    train: TrainSpec = TrainSpec()
    """How clients compute: minibatches, floating-point type, compression of what is sent."""
    evaluate_every: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Rounds between two evaluations, which is the resolution of the round that reaches the target."""
    policies: Annotated[tuple[PolicySpec, ...], Field(min_length=1, max_length=100)]
    """Server policies to compare; each meets the same clients, minibatches and channel."""
    stop: StopSpec
    """When a run ends."""
    sweep: SweepSpec | None = None
    """Regimes: worlds in which every policy and seed is run; null: only the one that the other keys describe."""
    tune: TuneSpec | None = None
    """What `wflsim tune` chooses and how; null: by its command line alone."""

    @field_validator("name", "description")
    @classmethod
    def _printable(cls, text: str) -> str:
        if any(not (character.isprintable() or character == "\n") for character in text):
            raise ValueError("control characters are not allowed; remove them")
        return text

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_or_list(cls, given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            if not 1 <= given <= 10_000:
                raise ValueError(f"must be {SEEDS}")
            return tuple(range(given))
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        findings: list[tuple[tuple[str | int, ...], str]] = []
        for i, (policy, label) in enumerate(zip(self.policies, self.labels, strict=True)):
            if (policy.m or 0) > self.clients:
                findings.append((("policies", i, "m"), f"draws {policy.m} of only {self.clients} clients"))
            if policy.asynchronous and self.server.selector == "fedcs":
                words = f"fedcs plans phases, and {label} is asynchronous and has none; choose another selector"
                findings.append((("server", "selector"), words))
            for key in ("scheme", "sampling"):
                default = getattr(type(policy).model_fields.get(key), "default", None)
                if getattr(policy, key, default) != default and (chooser := self.server.chooser):
                    words = f"has no effect: {chooser} chooses the cohort, with equal weights; remove one of the two"
                    findings.append((("policies", i, key), words))
            if self.server.compute_budget is not None and not policy.unequal_steps:
                words = f"gives clients different numbers of local steps, but the equations of {label} have one for all"
                cure = "remove the key, or choose fedavg, fedprox or fednova"
                findings.append((("server", "compute_budget"), f"{words}; {cure}"))
            if self.server.compute_budget is not None and adaptation(policy.tau) is not None:
                words = f"lets clients take fewer steps than the tau that {label} adapts; remove one of the two"
                findings.append((("server", "compute_budget"), words))
            if label in self.labels[:i]:
                cure = f"give each a label of its own, e.g. label: {label}-2"
                findings.append((("policies", i), f"two policies are called {label!r}; {cure}"))
        if self.model.name == "resnet18_last" and getattr(self.data, "standardise", False):
            findings.append((("data", "standardise"), "resnet18_last scales its pixels itself; remove one of the two"))
        if any(policy.decentralised for policy in self.policies):
            if isinstance(self.train.compress.up, Sparse):
                words = "would set most values to zero: peers send models whole; use quantise, dithering or identity"
                findings.append((("train", "compress", "up"), words))
            try:
                for seed in self.seeds:
                    graph_of(self, self.clients, seed)
            except ScenarioError as error:
                findings.append((("d2d", "topology"), str(error).removeprefix("d2d.topology: ")))
        if self.train.compress.up.name != "identity" and all(hasattr(policy, "compress") for policy in self.policies):
            words = "has no effect: every policy here compresses what it sends by its own key compress; remove it"
            findings.append((("train", "compress", "up"), words))
        if len(set(self.seeds)) < len(self.seeds):
            findings.append((("seeds",), "the same seed is given twice"))
        if self.stop.rounds < self.evaluate_every:
            words = f"{self.evaluate_every} exceeds stop.rounds={self.stop.rounds}, so nothing would be evaluated"
            findings.append((("evaluate_every",), words))
        if findings:
            raise Inconsistent(findings)
        return self

    @property
    def labels(self) -> list[str]:
        """Name of each policy in folders and tables: its label, else its name, of which a path is left away."""
        return [slug(policy.label or policy.name.rpartition(":")[2]) for policy in self.policies]

    @property
    def world(self) -> WorldSpec:
        """The world's blocks of the scenario."""
        return WorldSpec(**{name: getattr(self, name) for name in WorldSpec.model_fields})


def slug(text: str) -> str:
    """A name made fit to be one part of a path on every system."""
    return re.sub(r"[^A-Za-z0-9_=+-]+", "-", text).strip("-")[:80] or "unnamed"


ONLY_SERVERS = ("deadline", "first", "quorum", "loss_detection", "selector", "over_selection")
"""Keys of the block server that mean nothing where there is no server."""


def remarks(scenario: Scenario) -> list[str]:
    """Slow combinations, idle keys, and how devices talk to each other where a policy has no server."""
    found = world.remarks(scenario.world)
    alone = [policy.decentralised for policy in scenario.policies]
    if not any(alone):
        return found + ([] if scenario.d2d == D2dSpec() else ["d2d has no effect here: every policy has a server"])
    d2d, seed = scenario.d2d, scenario.seeds[0]
    edges = world.graph_of(scenario.world, scenario.clients, seed)
    turns = f"in {len(colours(edges))} turns" if d2d.duplex == "half" else "all at once"
    found.append(
        f"device to device: {d2d.topology.name} graph of {scenario.clients} nodes with {len(edges) // 2} links "
        f"(seed {seed}), {d2d.sending}, {d2d.duplex} duplex: nodes send {turns}"
    )
    if all(alone):
        default = ServerSpec()
        idle = [key for key in ONLY_SERVERS if getattr(scenario.server, key) != getattr(default, key)]
        found += [f"server.{key} has no effect here: no policy has a server" for key in idle]
    return found
