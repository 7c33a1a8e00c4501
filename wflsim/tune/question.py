"""What tuning asks and what it finds: the types that every way to an answer shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wflsim.errors import ScenarioError
from wflsim.experiments.compute import Watch
from wflsim.experiments.plan import Regime
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.stop import Target
from wflsim.tune.candidate import Choice
from wflsim.tune.costs import UNITS
from wflsim.tune.front import Point
from wflsim.tune.setting import Knobs
from wflsim.tune.space import Space

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
    knobs: Knobs = ()
    """The other knobs that the training depends on."""


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
    front: dict[tuple[str, int], list[Point]] = field(default_factory=dict)
    """By policy and regime, for the objective pareto: settings that no other beats in energy and time."""
    notes: list[str] = field(default_factory=list)
    trained_rounds: int = 0

    @property
    def unit(self) -> str:
        """Unit of the costs: J, s, or the word cost."""
        return UNITS[self.spec.objective]


@dataclass(frozen=True)
class Question:
    """Which setting of its knobs one policy should have in every regime, and who is told how far the answer is."""

    found: Study
    """The study that takes the answer."""
    scenario: Scenario
    policy: int
    """Position of the policy in the scenario."""
    workers: int
    pool: str
    say: Say
    watch: Watch
    space: Space
    """What the knobs may be set to."""

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


def refuse_learning_keys(scenario: Scenario, worlds: Sequence[Scenario]) -> None:
    """Regimes of a map are worlds; another data set or policy is another map."""
    world_keys = {*type(scenario.world).model_fields, "sweep", "tune"}
    for number, world in enumerate(worlds):
        for name in set(Scenario.model_fields) - world_keys:
            if getattr(world, name) != getattr(scenario, name):
                raise ScenarioError(
                    f"sweep: regime {number} changes {name}; a tune map goes over worlds only (radio, cell, devices, "
                    f"server); tune each {name} by itself, with --set"
                )
