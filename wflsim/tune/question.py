"""What tuning asks and what it finds: the types that every way to an answer shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from wflsim.errors import ScenarioError
from wflsim.experiments.compute import Watch
from wflsim.experiments.plan import Regime
from wflsim.policies.adaptive import adaptation
from wflsim.policies.registry import PolicySpec
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TauRange, TuneSpec
from wflsim.simulation.stop import Target
from wflsim.tune.choice import Choice
from wflsim.tune.costs import UNITS

Say = Callable[[str], None]


@dataclass(frozen=True)
class Line:
    """One training: how many rounds one tau needs with one seed."""

    policy: str
    tau: int
    seed: int
    rounds_to_target: float
    """Of the whole run, where the target was missed or the tau was given up."""
    reached: bool
    diverged: bool = False


@dataclass
class Study:
    """What tuning found."""

    spec: TuneSpec
    target: Target
    regimes: list[Regime]
    keys: tuple[str, ...]
    choices: dict[tuple[str, int], Choice] = field(default_factory=dict)
    """By policy and regime."""
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trained_rounds: int = 0

    @property
    def unit(self) -> str:
        """Unit of the costs: J, s, or the word cost."""
        return UNITS[self.spec.objective]


@dataclass(frozen=True)
class Question:
    """Which tau one policy should have in every regime, and who is told how far the answer is."""

    found: Study
    """The study that takes the answer."""
    scenario: Scenario
    policy: int
    """Position of the policy in the scenario."""
    workers: int
    pool: str
    say: Say
    watch: Watch

    @property
    def label(self) -> str:
        """Label of the policy."""
        return self.scenario.labels[self.policy]

    @property
    def worlds(self) -> list[Scenario]:
        """The scenario of every regime."""
        return [regime.scenario for regime in self.found.regimes]

    @property
    def start(self) -> int:
        """Where a search over a range begins: the tau that the scenario gives the policy."""
        return int(self.scenario.policies[self.policy].tau)


def candidate_taus(spec: TuneSpec) -> list[int] | TauRange:
    """The values of tau that are compared, in ascending order; or the range in which the search chooses them."""
    table, given = spec.rounds_to_target, spec.knobs.tau
    if isinstance(given, tuple):
        return sorted(given)
    if isinstance(given, TauRange):
        return given
    return list(range(min(table), max(table) + 1)) if table else TauRange()


def with_tau(scenario: Scenario, policy: int, tau: int) -> Scenario:
    """The scenario with one policy's tau changed, as valid as if it were written so."""
    given = scenario.policies[policy].model_dump(mode="json")
    try:
        changed = TypeAdapter(PolicySpec).validate_python({**given, "tau": tau})
    except ValidationError as error:
        words = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ScenarioError(f"tune: {scenario.labels[policy]} cannot have tau={tau}: {words}") from None
    policies = (*scenario.policies[:policy], changed, *scenario.policies[policy + 1 :])
    return scenario.model_copy(update={"policies": policies, "sweep": None, "tune": None})


def refuse_learning_keys(scenario: Scenario, worlds: Sequence[Scenario]) -> None:
    """Regimes of a map are worlds; another data set or policy is another map, and tau is tune's to choose."""
    for policy, label in zip(scenario.policies, scenario.labels, strict=True):
        if adaptation(policy.tau) is not None:
            raise ScenarioError(f"tune: {label} chooses its tau itself, by tau.adapt; run it, or give tau as a number")
    world_keys = {*type(scenario.world).model_fields, "sweep", "tune"}
    for number, world in enumerate(worlds):
        for name in set(Scenario.model_fields) - world_keys:
            if getattr(world, name) != getattr(scenario, name):
                raise ScenarioError(
                    f"sweep: regime {number} changes {name}; a tune map goes over worlds only (radio, cell, devices, "
                    f"server); tune each {name} by itself, with --set"
                )
