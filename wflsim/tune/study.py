"""The whole question: for every policy and regime, which setting of its knobs; by replay where that is exact, else by
co-simulation."""

from __future__ import annotations

import os
from dataclasses import replace

from wflsim.analysis.formats import percent
from wflsim.errors import ReplayRefused, ScenarioError
from wflsim.experiments.compute import Tick, Watch
from wflsim.experiments.plan import regimes
from wflsim.experiments.pool import open_pool
from wflsim.results.store import Store
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.tune.attempt import Tried, attempt, is_sampled
from wflsim.tune.candidate import Beside
from wflsim.tune.choice import choose_from
from wflsim.tune.costs import Limits
from wflsim.tune.curves import Trained
from wflsim.tune.front import front_of, points_of
from wflsim.tune.live import Lived, live_runs
from wflsim.tune.posed import refuse_ill_posed
from wflsim.tune.question import Line, Question, Say, Study, refuse_learning_keys
from wflsim.tune.remarks import ends_of, together
from wflsim.tune.sampling import Axes
from wflsim.tune.search import runs_of
from wflsim.tune.setting import Setting
from wflsim.tune.space import space_of
from wflsim.world.spec import WorldSpec

FEW_ROUNDS = 20
"""Rounds to target below which one round is more than 5 % of the cost."""


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
    for number in range(len(scenario.labels)):
        which = f"policy {number + 1} of {len(scenario.labels)}, " if several else ""

        def tell(tick: Tick, which: str = which) -> None:
            watch(tick._replace(doing=which + tick.doing))

        worlds = [regime.scenario for regime in found.regimes]
        if spec.rounds_to_target is None:
            refuse_learning_keys(scenario, worlds)
        space = space_of(spec, scenario, number, worlds)
        asked = Question(found, scenario, number, workers, pool, say, tell, space)
        if spec.rounds_to_target is not None:
            from wflsim.tune.published import answer_from_table

            answer_from_table(asked)
            continue
        refuse_ill_posed(spec, space, worlds, number)
        if space.because is not None:
            _live(asked, space.because)
        else:
            try:
                _replayed(asked)
            except ReplayRefused as refusal:  # an order failed where the scenario promised that none can
                again = space_of(spec, scenario, number, worlds, str(refusal))
                _live(replace(asked, space=again), str(refusal))
    return found


def _replayed(asked: Question) -> None:
    """One training per (setting, seed), replayed in every regime, with early stopping."""
    with open_pool(asked.pool, asked.workers) as opened:
        trained = Trained(asked, Store(), opened)
        tried = _try(asked, trained, len(asked.scenario.seeds))
    for setting in tried.settings:
        for line in trained.lines[setting]:
            hit = line.hit is not None
            asked.found.lines.append(
                Line(
                    asked.label, setting.tau, line.seed, float(line.rounds), hit, line.ended and not hit, setting.knobs
                )
            )
    asked.found.trained_rounds += trained.trained_rounds
    trainings = len(tried.settings) * len(asked.scenario.seeds)
    together = f"{trainings} trainings of {trained.rounds} rounds together"
    _note(asked, f"{together}, each replayed in {len(asked.worlds)} regimes")
    _tell(asked, tried)


def _live(asked: Question, because: str) -> None:
    """Where the world can change the learning, every (setting, seed, regime) is trained in its own world."""
    found, seeds, space = asked.found, asked.scenario.seeds, asked.space
    lived = Lived(asked)
    allowed = max(1, found.spec.trainings // (len(seeds) * len(found.regimes)))
    listed = space.settings if isinstance(space.taus, list) and not is_sampled(space, allowed) else []
    words, replayed = f"at most {found.spec.trainings} trainings", ""
    if listed:
        flat = [run for column in live_runs(found.regimes, asked.policy, listed) for run in column]
        live = sum(not run.exact for run in flat) or len(flat)
        words, replayed = f"{live} trainings", f" (replay would need {len(listed) * len(seeds)})"
    _note(asked, f"{words}, each in its own world{replayed}, because {because}")
    asked.say(found.notes[-1])
    if world_knobs := [key for key in space.learning if key.split(".")[0] in WorldSpec.model_fields]:
        _note(asked, f"{', '.join(world_knobs)} can change what is learnt here, so that every value of it is trained")
        asked.say(found.notes[-1])
    if listed:
        lived.extend(listed)
    tried = _try(asked, lived, len(seeds) * len(found.regimes))
    first = found.regimes[0].number
    for setting in tried.settings:
        for seed, one in zip(seeds, lived.runs[setting][0], strict=True):
            rounds = float(one.facts.get("rounds", 0.0))
            found.lines.append(
                Line(asked.label, setting.tau, seed, rounds, one.reached, one.diverged, setting.knobs)
            )
    if len(found.regimes) > 1:
        _note(asked, f"rounds to target depend on the regime; curves.csv holds those of regime {first}")
    _tell(asked, tried)


def _try(asked: Question, candidates: Trained | Lived, trainings_of_one: int) -> Tried:
    """Try the listed settings, those that a search over a range chooses, or a sample; and choose in every regime."""
    found, space = asked.found, asked.space
    limits, allowed = Limits.of(found.spec.subject_to), max(1, found.spec.trainings // trainings_of_one)
    keep_all = bool(space.physical) or found.spec.objective == "pareto"
    if is_sampled(space, allowed):
        every = Axes(space).size
        _note(asked, f"{allowed} of {every} settings are tried, sampled by Optuna: tune.trainings allows no more")
        asked.say(found.notes[-1])
    tried = attempt(space, asked.start, candidates, allowed, limits, keep_all)
    states = [candidates.progress(setting) for setting in tried.settings]
    stopped = [setting in tried.given_up for setting in tried.settings]
    taus, few = [setting.tau for setting in tried.settings], set[Setting]()
    optima = candidates.optima if isinstance(candidates, Trained) else {}
    for row, regime in enumerate(found.regimes):
        runs = runs_of(states, stopped, row)
        beside = [Beside(one.knobs, optima[one][row][0].knobs if one in optima else ()) for one in tried.settings]
        choice = choose_from(taus, runs if tried.smoothed else runs._replace(rounds=None), limits, beside)
        best = choice.candidates.index(choice.nearest)
        why = tried.why.get(tried.settings[best].knobs, [""] * len(found.regimes))[row]
        found.choices[asked.label, regime.number] = replace(choice, why_edge=why)
        if choice.best is not None and runs.rounds is not None and float(runs.rounds[best].mean()) < FEW_ROUNDS:
            few.add(tried.settings[best])
        if found.spec.objective == "pareto":
            points = points_of(tried.settings, states, row, optima, limits)
            found.front[asked.label, regime.number] = front_of(points)
    if few:
        _note(
            asked, f"{together(few)} reaches the target in fewer than {FEW_ROUNDS} rounds, so that one round is more "
            f"than 5 % of the cost: {'candidates' if space.learning else 'taus'} cannot be told apart more finely there"
        )  # fmt: skip
    return tried


def _tell(asked: Question, tried: Tried) -> None:
    """Which candidates were given up, what the seeds cannot resolve, and which knobs are at an end of their values."""
    if tried.given_up:
        above = f"{100 * tried.slack:g} %"
        _note(
            asked, f"{together(tried.given_up)} given up early, having already cost over {above} more than the best "
            f"in every regime; their costs are lower bounds"
        )  # fmt: skip
    if tried.unresolved:
        _note(
            asked, f"a tau that was not tried may be up to {percent(tried.unresolved)} better in some regime, which "
            f"{len(asked.scenario.seeds)} seeds would not tell from noise; more seeds would"
        )  # fmt: skip
    own = [choice for (label, _), choice in asked.found.choices.items() if label == asked.label]
    for key, end, count in ends_of(asked.space, own, asked.scenario.clients):
        where = f"in {count} of {len(own)} regimes" if len(own) > 1 else "here"
        _note(asked, f"the best {key} is {end} of its values {where}: a better one may lie beyond")


def _note(asked: Question, words: str) -> None:
    asked.found.notes.append(f"{asked.label}: {words}")
