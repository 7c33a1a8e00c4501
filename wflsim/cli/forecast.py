"""How much work `wflsim run` and `wflsim tune` would have with a scenario.

Counts come from the plans that these commands follow, times from rounds that are rehearsed on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wflsim.analysis.formats import duration
from wflsim.cli.preview import Rehearsed, Stage, evenly
from wflsim.experiments.plan import Run, plan, regimes
from wflsim.results.digest import learning_digest
from wflsim.results.store import Store
from wflsim.scenario import Scenario
from wflsim.scenario.blocks import TuneSpec
from wflsim.scenario.knobs import TauRange
from wflsim.simulation.stop import StopSpec
from wflsim.tune.attempt import dearest, is_sampled
from wflsim.tune.costs import reach
from wflsim.tune.growth import first_taus, ladder
from wflsim.tune.live import live_runs
from wflsim.tune.posed import refuse_ill_posed
from wflsim.tune.question import refuse_learning_keys
from wflsim.tune.setting import Setting, with_setting
from wflsim.tune.space import Space, space_of
from wflsim.world.spec import WorldSpec


class Forecast(NamedTuple):
    """The work that one command would do at most, and how long it would take."""

    regimes: int
    runs: int
    """Number of runs: every (regime, policy, seed), and every tau where it is tuned."""
    trainings: int
    """Number of trainings that are done once and replayed in every regime."""
    live: int
    """Number of runs that are trained in their own world."""
    held_runs: int
    """Runs and co-simulations that the store holds finished."""
    held_trainings: int
    """Trainings that the store holds to their end: to the target, the last round or divergence."""
    rounds: int
    """Number of rounds that are trained at most."""
    seconds: float
    """Seconds that it takes at most, on `workers` processes."""
    workers: int
    rehearsed: int
    """Number of regimes in which one round was computed to measure its time."""
    searched: bool = False
    """tau is searched in a range, or settings are sampled: the counts are those of the dearest search, and the largest
    that are possible."""
    about_knobs: str = ""
    """A sentence about knobs besides tau: which are trained, which replayed, and why; empty without any."""


class _Work:
    """Tasks that can run side by side, in seconds."""

    def __init__(self) -> None:
        self.tasks: list[float] = []
        self.rounds = 0

    def seconds(self, workers: int) -> float:
        """Least time that so many workers need for all tasks."""
        return max(sum(self.tasks) / max(1, workers), max(self.tasks, default=0.0))

    @property
    def workers(self) -> int:
        """Number of processes that would be used."""
        return max(1, min(os.cpu_count() or 1, len(self.tasks)))


def forecast_run(scenario: Scenario, stage: Stage) -> Forecast:
    """The work of `wflsim run`: a sweep finds finished runs in the store, a single regime only trainings."""
    found = regimes(scenario)
    chosen = evenly([regime.scenario for regime in found])
    store, work = Store(), _Work()
    runs = plan(found)
    distinct = {run.digest: run for run in runs}
    missing = [run for run in distinct.values() if scenario.sweep is None or not store.has_record(run.digest)]
    rate = _mean_rate(chosen, stage)
    alone = [run for run in missing if not run.exact]
    _add_live(work, alone, [rate(run.policy) for run in alone])
    exact = [run for run in missing if run.exact]
    left = {run.learning: rounds_left(store, run.learning, run.scenario.stop) for run in exact}
    for learning, rounds in left.items():
        mine = [run for run in exact if run.learning == learning]
        _add_training(work, rounds, mine[0].scenario.stop.rounds * len(mine), rate(mine[0].policy))
    trainings = {run.learning: run for run in runs if run.exact}
    ended = [rounds_left(store, name, run.scenario.stop) == 0 for name, run in trainings.items()]
    return Forecast(
        len(found), len(distinct), len(trainings), sum(not run.exact for run in distinct.values()),
        len(distinct) - len(missing), sum(ended), work.rounds, work.seconds(work.workers), work.workers, len(chosen),
    )  # fmt: skip


def forecast_tune(scenario: Scenario, stage: Stage) -> Forecast:
    """Of `wflsim tune`, if no tau is given up early and a search grows as far as tune.trainings allows.

    ScenarioError where it would refuse the scenario.
    """
    spec = scenario.tune or TuneSpec()
    found = regimes(scenario)
    worlds = [regime.scenario for regime in found]
    refuse_learning_keys(scenario, worlds)
    chosen = evenly(worlds)
    store, work = Store(), _Work()
    searched, about = False, list[str]()
    runs = trainings = live = held_runs = held_trainings = 0
    for policy in range(len(scenario.policies)):
        space = space_of(spec, scenario, policy, worlds)
        refuse_ill_posed(spec, space, worlds, policy)
        alone = space.because is not None
        start, each = int(scenario.policies[policy].tau), len(scenario.seeds) * (len(worlds) if alone else 1)
        allowed = max(1, spec.trainings // each)
        sampled, settings = is_sampled(space, allowed), dearest(space, start, allowed)
        searched |= sampled or isinstance(space.taus, TauRange)
        taus = first_taus(ladder(space.taus), start, allowed) if isinstance(space.taus, TauRange) else space.taus
        rate = _rate_by_tau(chosen, policy, [Setting(tau, settings[0].knobs) for tau in taus], stage)
        about.append(_about_knobs(space, sampled))
        if alone:
            own = {run.digest: run for column in live_runs(found, policy, settings) for run in column}
            missing = [run for name, run in own.items() if not store.has_record(name)]
            _add_live(work, missing, [rate(run.scenario.policies[0].tau) for run in missing])
            runs, live, held_runs = runs + len(own), live + len(own), held_runs + len(own) - len(missing)
            continue
        for setting in settings:
            variant = with_setting(scenario, policy, setting)
            for seed in variant.seeds:
                left = rounds_left(store, learning_digest(variant, policy, seed), variant.stop)
                _add_training(work, left, variant.stop.rounds * len(worlds), rate(setting.tau))
                held_trainings += left == 0
        trainings += len(settings) * len(scenario.seeds)
        runs += len(settings) * len(scenario.seeds) * len(worlds)
    return Forecast(
        len(found), runs, trainings, live, held_runs, held_trainings, work.rounds, work.seconds(work.workers),
        work.workers, len(chosen), searched, " ".join(dict.fromkeys(filter(None, about))),
    )  # fmt: skip


def rounds_left(store: Store, learning: str, stop: StopSpec) -> int:
    """Rounds that a training may still need: none if it is known to the last round, to divergence or to its target."""
    entry = store.trace(learning)
    if entry.reaches(stop.rounds):
        return 0
    held = entry.read()
    if held is None:
        return stop.rounds
    done = stop.at_target and stop.target is not None and reach(held.trace, stop.target).held
    return 0 if done else stop.rounds - len(held.trace)


def _add_live(work: _Work, runs: Sequence[Run], rates: Sequence[Rehearsed]) -> None:
    for run, one in zip(runs, rates, strict=True):
        rounds = run.scenario.stop.rounds
        work.tasks.append(one.setup_s + rounds * (one.train_s + one.carry_s))
        work.rounds += rounds


def _add_training(work: _Work, train: int, carry: int, one: Rehearsed) -> None:
    """Add a training to the work. `train`: rounds to be trained; `carry`: rounds to be replayed, in all regimes."""
    work.tasks.append((one.setup_s if train else 0.0) + train * one.train_s + carry * one.carry_s)
    work.rounds += train


def _mean_rate(chosen: Sequence[Scenario], stage: Stage) -> Callable[[int], Rehearsed]:
    """Mean time of a policy's round over the regimes that are rehearsed."""
    rates = {
        policy: _mean([stage.rehearse(world, policy) for world in chosen if policy < len(world.policies)])
        for policy in range(max(len(world.policies) for world in chosen))
    }
    return lambda policy: rates[policy]


def _rate_by_tau(
    chosen: Sequence[Scenario], policy: int, settings: Sequence[Setting], stage: Stage
) -> Callable[[int], Rehearsed]:
    """A round's time grows in a straight line with tau: the smallest and the largest are rehearsed."""
    low, high = (
        _mean([stage.rehearse(with_setting(world, policy, one), policy) for world in chosen])
        for one in (settings[0], settings[-1])
    )
    taus = [one.tau for one in settings]

    def rate(tau: int) -> Rehearsed:
        share = (tau - taus[0]) / max(1, taus[-1] - taus[0])
        return high._replace(train_s=low.train_s + share * (high.train_s - low.train_s))

    return rate


def _about_knobs(space: Space, sampled: bool) -> str:
    """Which knobs besides tau are trained and which replayed."""
    parts = []
    if space.learning:
        how = "sampled by Optuna" if sampled else "every combination"
        parts.append(f"{', '.join(space.learning)} with tau: trained, {how}.")
    if space.physical:
        keys = ", ".join(knob.key for knob in space.physical)
        parts.append(f"{keys}: minimised by replay for every candidate and regime, which trains nothing.")
    if space.because is not None and any(key.split(".")[0] in WorldSpec.model_fields for key in space.learning):
        parts.append(f"Knobs of the world are trained, too, because {space.because}.")
    return " ".join(parts)


def _mean(rehearsed: Sequence[Rehearsed]) -> Rehearsed:
    setup_s, train_s, carry_s = (
        float(np.mean([getattr(one, name) for one in rehearsed])) for name in ("setup_s", "train_s", "carry_s")
    )
    return Rehearsed(None, "", setup_s, train_s, carry_s)


def words(command: str, work: Forecast) -> str:
    """The forecast as one sentence."""
    parts, most = [], "at most " if work.searched else ""
    if work.trainings:
        replayed = f", each replayed in {work.regimes} regimes" if work.regimes > 1 else ""
        parts.append(f"{most}{_count(work.trainings, 'training')}{replayed}")
    if work.live:
        parts.append(f"{most}{_count(work.live, 'co-simulation')}, trained in its own world")
    held = [f"{work.held_trainings} of the trainings"] if work.trainings else []
    held += [f"{work.held_runs} of the runs"] if work.held_runs or work.live else []
    where = "" if work.rehearsed == work.regimes else f", from rounds rehearsed in {work.rehearsed} of them"
    counts = f"{_count(work.regimes, 'regime')}, {most}{_count(work.runs, 'run')}"
    return (
        f"`wflsim {command}`: {counts}: {' and '.join(parts)}. The "
        f"store holds {' and '.join(held)} already. At most {work.rounds} rounds to train, at most about "
        f"{duration(work.seconds)} on {_count(work.workers, 'worker')}{where}."
        f"{' ' * bool(work.about_knobs)}{work.about_knobs}"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
