"""The whole question: for every policy and regime, which tau; by replay where that is exact, else by co-simulation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wflsim.analysis.formats import percent
from wflsim.errors import ReplayRefused, ScenarioError
from wflsim.experiments.compute import Tick, Watch
from wflsim.experiments.plan import regimes, why_live
from wflsim.experiments.pool import open_pool
from wflsim.results.store import Store
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TauRange, TuneSpec
from wflsim.tune.choice import SLACK, choose_from
from wflsim.tune.costs import Limits
from wflsim.tune.curves import Trained
from wflsim.tune.growth import Explored, explore
from wflsim.tune.live import Lived, live_runs
from wflsim.tune.question import Line, Question, Say, Study, candidate_taus, refuse_learning_keys
from wflsim.tune.search import Candidates, runs_of, search

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

        asked = Question(found, scenario, number, workers, pool, say, tell)
        if spec.rounds_to_target is not None:
            from wflsim.tune.published import answer_from_table

            answer_from_table(asked)
            continue
        refuse_learning_keys(scenario, asked.worlds)
        because = [why_live(world.world, world.policies[number]) for world in asked.worlds]
        if any(because):
            _live(asked, because)
        else:
            try:
                _replayed(asked)
            except ReplayRefused as refusal:  # an order failed where the scenario promised that none can
                _live(asked, [str(refusal)])
    return found


def _replayed(asked: Question) -> None:
    """One training per (tau, seed), replayed in every regime, with early stopping."""
    with open_pool(asked.pool, asked.workers) as opened:
        trained = Trained(asked, Store(), opened)
        tried = _try(asked, trained, len(asked.scenario.seeds))
    for tau in tried.taus:
        for line in trained.lines[tau]:
            hit = line.hit is not None
            asked.found.lines.append(
                Line(asked.label, tau, line.seed, float(line.rounds), hit, line.ended and not hit)
            )
    asked.found.trained_rounds += trained.trained_rounds
    trainings = len(tried.taus) * len(asked.scenario.seeds)
    together = f"{trainings} trainings of {trained.rounds} rounds together"
    _note(asked, f"{together}, each replayed in {len(asked.worlds)} regimes")
    _tell(asked, tried)


def _live(asked: Question, because: Sequence[str | None]) -> None:
    """Where the world can change the learning, every (tau, seed, regime) is trained in its own world."""
    found, seeds = asked.found, asked.scenario.seeds
    reason = next(words for words in because if words)
    taus = candidate_taus(found.spec)
    lived = Lived(asked)
    if isinstance(taus, TauRange):
        words = f"at most {found.spec.trainings} trainings"
    else:
        flat = [run for column in live_runs(found.regimes, asked.policy, taus) for run in column]
        live = sum(not run.exact for run in flat) or len(flat)
        words = f"{live} trainings"
        taus = list(taus)
    replayed = f" (replay would need {len(taus) * len(seeds)})" if isinstance(taus, list) else ""
    _note(asked, f"{words}, each in its own world{replayed}, because {reason}")
    asked.say(found.notes[-1])
    if isinstance(taus, list):
        lived.extend(taus)
    tried = _try(asked, lived, len(seeds) * len(found.regimes))
    first = found.regimes[0].number
    for tau in tried.taus:
        for seed, one in zip(seeds, lived.runs[tau][0], strict=True):
            rounds = float(one.facts.get("rounds", 0.0))
            found.lines.append(Line(asked.label, tau, seed, rounds, one.reached, one.diverged))
    if len(found.regimes) > 1:
        _note(asked, f"rounds to target depend on the regime; curves.csv holds those of regime {first}")
    _tell(asked, tried)


def _try(asked: Question, candidates: Candidates, trainings_of_a_tau: int) -> Explored:
    """Try the listed taus, or those that a search over the range chooses, and choose in every regime."""
    found = asked.found
    given, limits = candidate_taus(found.spec), Limits.of(found.spec.subject_to)
    if isinstance(given, TauRange):
        allowed = max(1, found.spec.trainings // trainings_of_a_tau)
        tried = explore(given, asked.start, candidates, allowed, limits)
    else:
        given_up = search(given, candidates, np.inf if limits.exclude else SLACK)
        tried = Explored(given, given_up, [""] * len(found.regimes), 0.0)
    states = [candidates.progress(tau) for tau in tried.taus]
    stopped = [tau in tried.given_up for tau in tried.taus]
    few: set[int] = set()
    for row, regime in enumerate(found.regimes):
        runs = runs_of(states, stopped, row)
        runs_alone = runs._replace(rounds=None)
        choice = choose_from(tried.taus, runs if isinstance(given, TauRange) else runs_alone, limits)
        found.choices[asked.label, regime.number] = replace(choice, why_edge=tried.why[row])
        if choice.best is not None and runs.rounds is not None:
            rounds = float(runs.rounds[tried.taus.index(choice.best.tau)].mean())
            few |= {choice.best.tau} if rounds < FEW_ROUNDS else set()
    if few:
        _note(
            asked, f"tau={', '.join(map(str, sorted(few)))} reaches the target in fewer than {FEW_ROUNDS} rounds, so "
            f"that one round is more than 5 % of the cost: taus cannot be told apart more finely there"
        )  # fmt: skip
    return tried


def _tell(asked: Question, tried: Explored) -> None:
    """Which taus were given up, and what the seeds cannot resolve."""
    if tried.given_up:
        which = ", ".join(map(str, sorted(tried.given_up)))
        above = "100 %" if isinstance(candidate_taus(asked.found.spec), TauRange) else "5 %"
        _note(
            asked, f"tau={which} given up early, having already cost over {above} more than the best in every regime; "
            f"their costs are lower bounds"
        )  # fmt: skip
    if tried.unresolved:
        _note(
            asked, f"a tau that was not tried may be up to {percent(tried.unresolved)} better in some regime, which "
            f"{len(asked.scenario.seeds)} seeds would not tell from noise; more seeds would"
        )  # fmt: skip


def _note(asked: Question, words: str) -> None:
    asked.found.notes.append(f"{asked.label}: {words}")
