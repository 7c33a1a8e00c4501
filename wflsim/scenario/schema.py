"""The whole scenario: composes the specs that sit beside what they configure. Nobody below sees a whole Scenario."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from wflsim.drive.stop import StopSpec
from wflsim.learning.data import DataSpec
from wflsim.learning.partition import PartitionSpec
from wflsim.learning.specs import ModelSpec, TrainSpec
from wflsim.policies.registry import PolicySpec
from wflsim.scenario.blocks import SweepSpec, TuneSpec
from wflsim.scenario.explain import Inconsistent
from wflsim.units import Means
from wflsim.world.spec import WorldSpec

MAX_CLIENTS = 1_000_000
Seed = Annotated[int, Field(ge=0, lt=2**31)]
SEEDS = "a number of seeds from 1 to 10000, or a list of so many different seeds"


class Scenario(WorldSpec):
    """One experiment: clients, what they learn, behind which radio, under which policies."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    description: Annotated[str, Field(max_length=2000)] = ""
    clients: Annotated[int, Field(ge=1, le=MAX_CLIENTS)]
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=10_000), Means(SEEDS)] = (0,)
    """How many Monte-Carlo runs (seeds 0, 1, ...), or a list of seeds."""
    data: DataSpec
    partition: PartitionSpec
    model: ModelSpec
    train: TrainSpec = TrainSpec()
    evaluate_every: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Rounds between two evaluations: the resolution of every hitting time."""
    policies: Annotated[tuple[PolicySpec, ...], Field(min_length=1, max_length=100)]
    stop: StopSpec
    sweep: SweepSpec | None = None
    tune: TuneSpec | None = None

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
            for key in ("scheme", "sampling"):
                default = getattr(type(policy).model_fields.get(key), "default", None)
                if getattr(policy, key, default) != default and (chooser := self.server.chooser):
                    words = f"has no effect: {chooser} chooses the cohort, with equal weights; remove one of the two"
                    findings.append((("policies", i, key), words))
            if label in self.labels[:i]:
                cure = f"give each a label of its own, e.g. label: {label}-2"
                findings.append((("policies", i), f"two policies are called {label!r}; {cure}"))
        if self.model.name == "resnet18_last" and getattr(self.data, "standardise", False):
            findings.append((("data", "standardise"), "resnet18_last scales its pixels itself; remove one of the two"))
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
        """What each policy is called in folders and tables."""
        return [slug(policy.label or policy.name) for policy in self.policies]

    @property
    def world(self) -> WorldSpec:
        """The blocks that the world needs."""
        return WorldSpec(**{name: getattr(self, name) for name in WorldSpec.model_fields})


def slug(text: str) -> str:
    """A name that is one harmless path component on every system."""
    return re.sub(r"[^A-Za-z0-9_=+-]+", "-", text).strip("-")[:80] or "unnamed"
