"""The whole question: for every policy and regime, which tau; by replay where that is exact, else by co-simulation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from wflsim.errors import ReplayRefused, ScenarioError, WflsimError
from wflsim.experiments.compute import compute
from wflsim.experiments.keepers import InStore
from wflsim.experiments.plan import Run, plan, why_live
from wflsim.experiments.pool import open_pool
from wflsim.experiments.regimes import Regime, regimes
from wflsim.experiments.watching import Tick, Watch, watching_runs
from wflsim.policies.registry import PolicySpec
from wflsim.results.store import Store
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.simulation.stop import Target
from wflsim.tune.choice import Choice, choose
from wflsim.tune.costs import UNITS
from wflsim.tune.curves import Trained
from wflsim.tune.live import LiveRun, choose_among
from wflsim.tune.search import Progress, search

TAUS = (5, 10, 15, 20, 25, 30)
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


def study(
    scenario: Scenario,
    workers: int | None = None,
    pool: str = "local",
    say: Say = lambda words: None,
    watch: Watch = lambda tick: None,
) -> Study:
    """Answer a scenario's tune block. `say` is told what it costs, `watch` how far it is."""
    spec = scenario.tune or TuneSpec()
    if scenario.stop.target is None:
        raise ScenarioError("tune needs a target: stop.target in the scenario, or --target 0.8")
    keys = scenario.sweep.keys if scenario.sweep else ()
    found = Study(spec, scenario.stop.target, regimes(scenario), keys)
    workers = workers or os.cpu_count() or 1
    several = len(scenario.labels) > 1
    for number, label in enumerate(scenario.labels):
        which = f"policy {number + 1} of {len(scenario.labels)}, " if several else ""

        def tell(tick: Tick, which: str = which) -> None:
            watch(tick._replace(doing=which + tick.doing))

        taus = candidate_taus(spec)
        variants = {tau: with_tau(scenario, number, tau) for tau in taus}
        worlds = [regime.scenario for regime in found.regimes]
        if spec.rounds_to_target is not None:
            _published(found, label, number, taus, variants, worlds)
            continue
        refuse_learning_keys(scenario, worlds)
        because = [why_live(world.world, world.policies[number]) for world in worlds]
        if any(because):
            _live(found, label, number, taus, because, workers, pool, say, tell)
        else:
            try:
                _replayed(found, label, number, taus, variants, worlds, workers, pool, tell)
            except ReplayRefused as refusal:  # an order failed where the scenario promised that none can
                _live(found, label, number, taus, [str(refusal)], workers, pool, say, tell)
    return found


def candidate_taus(spec: TuneSpec) -> list[int]:
    """The values of tau that are compared, in ascending order."""
    table = spec.rounds_to_target
    if spec.tau is not None:
        return sorted(spec.tau)
    return list(range(min(table), max(table) + 1)) if table else list(TAUS)


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
    """Regimes of a map are worlds; another data set or policy is another map."""
    world_keys = {*type(scenario.world).model_fields, "sweep", "tune"}
    for number, world in enumerate(worlds):
        for name in set(Scenario.model_fields) - world_keys:
            if getattr(world, name) != getattr(scenario, name):
                raise ScenarioError(
                    f"sweep: regime {number} changes {name}; a tune map goes over worlds only (radio, cell, devices, "
                    f"server); tune each {name} by itself, with --set"
                )


def _replayed(  # all that `study` knows about one policy
    found: Study, label: str, policy: int, taus: list[int], variants: dict[int, Scenario], worlds: list[Scenario],
    workers: int, pool: str, watch: Watch,
) -> None:  # fmt: skip
    """One training per (tau, seed), replayed in every regime, with early stopping."""
    with open_pool(pool, workers) as opened:
        trained = Trained(taus, variants, policy, worlds, found.spec, found.target, Store(), opened, watch)
        given_up = search(taus, trained)
    states = [trained.progress(tau) for tau in taus]
    stopped = [tau in given_up for tau in taus]
    for row, regime in enumerate(found.regimes):
        found.choices[label, regime.number] = choose(
            taus, np.array([state.cost[row] for state in states]), np.array([state.reached[row] for state in states]),
            stopped, *(_rows(states, name, row) for name in ("diverged", "exhausted", "attained")),
        )  # fmt: skip
    for tau in taus:
        for line in trained.lines[tau]:
            rounds = len(line.trace) if line.hit is None else line.hit + 1
            hit = line.hit is not None
            found.lines.append(Line(label, tau, line.seed, float(rounds), hit, line.ended and not hit))
    found.trained_rounds += trained.trained_rounds
    trainings = len(taus) * len(variants[taus[0]].seeds)
    found.notes.append(
        f"{label}: {trainings} trainings of {trained.rounds} rounds together, each replayed in {len(worlds)} regimes"
    )
    if given_up:
        which = ", ".join(map(str, sorted(given_up)))
        found.notes.append(
            f"{label}: tau={which} given up early, having already cost over 5 % more than the best in every regime; "
            f"their costs are lower bounds"
        )


def _rows(states: Sequence[Progress], name: str, row: int) -> Any:
    """One regime's row of every tau's `diverged`, `exhausted` or `attained`."""
    return np.array([getattr(state, name)[row] for state in states])


def _live(  # all that `study` knows about one policy
    found: Study, label: str, policy: int, taus: list[int], because: Sequence[str | None], workers: int,
    pool: str, say: Say, watch: Watch,
) -> None:  # fmt: skip
    """Where the world can change the learning, every (tau, seed, regime) is trained in its own world."""
    columns = live_runs(found.regimes, policy, taus)
    flat = [run for column in columns for run in column]
    live = sum(not run.exact for run in flat) or len(flat)
    seeds = len(found.regimes[0].scenario.seeds)
    reason = next(words for words in because if words)
    found.notes.append(
        f"{label}: {live} trainings, each in its own world (replay would need {len(taus) * seeds}), because {reason}"
    )
    say(found.notes[-1])
    keeper = InStore(Store().root.resolve())
    doing = f"{label}, each run in its own world"
    with watching_runs(doing, [run.digest for run in flat], keeper.store, watch):
        done = compute(flat, keeper, workers, pool)
    missing = [finished.failure for finished in done.values() if finished.record is None]
    if missing:
        raise WflsimError(f"{label}: {len(missing)} runs failed twice, so no tau can be chosen: {missing[0]}")
    runs: dict[tuple[int, int, int], LiveRun] = {}
    for tau, column in zip(taus, columns, strict=True):
        for run in column:
            record = done[run.digest].record or {}
            runs[tau, run.regime, run.seed] = LiveRun(record["facts"], record["status"], record["reason"])
    for regime in found.regimes:
        table = [[runs[tau, regime.number, seed] for seed in regime.scenario.seeds] for tau in taus]
        found.choices[label, regime.number] = choose_among(taus, table, found.spec, found.target.metric)
    first = found.regimes[0].number
    for tau in taus:
        for seed in found.regimes[0].scenario.seeds:
            one = runs[tau, first, seed]
            found.lines.append(
                Line(label, tau, seed, float(one.facts.get("rounds", 0.0)), one.reached, one.diverged)
            )
    if len(found.regimes) > 1:
        found.notes.append(f"{label}: rounds to target depend on the regime; curves.csv holds those of regime {first}")


def live_runs(found: Sequence[Regime], policy: int, taus: Sequence[int]) -> list[list[Run]]:
    """Per tau, every (regime, seed) of one policy that is trained in its own world."""
    return [
        plan([Regime(each.number, each.values, _only(with_tau(each.scenario, policy, tau), policy)) for each in found])
        for tau in taus
    ]


def _only(scenario: Scenario, policy: int) -> Scenario:
    return scenario.model_copy(update={"policies": (scenario.policies[policy],)})


def _published(
    found: Study, label: str, policy: int, taus: list[int], variants: dict[int, Scenario], worlds: list[Scenario]
) -> None:
    """No training and no data."""
    from wflsim.tune.published import published_costs, rounds_law

    spec = found.spec
    if spec.rounds_to_target is None:
        return
    law = rounds_law(spec.rounds_to_target, spec.interpolate)
    costs = published_costs(taus, variants, policy, worlds, spec, law)
    for row, regime in enumerate(found.regimes):
        cost = costs[row][:, None]
        found.choices[label, regime.number] = choose(taus, cost, np.ones_like(cost, dtype=np.bool_))
    found.lines += [Line(label, tau, seed, law(tau), True) for tau in taus for seed in variants[taus[0]].seeds[:1]]
    law_name = {"power_law": "a power law", "pchip": "PCHIP"}[spec.interpolate]
    found.notes.append(
        f"{label}: rounds to target are given, interpolated by {law_name} and not rounded; nothing was trained, and no "
        f"interval can be given"
    )
