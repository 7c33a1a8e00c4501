"""Candidates by sampling, where several learning knobs have more combinations than may be trained.

Optuna's tree-structured Parzen estimator proposes settings, a study of its own for each regime, which take turns. They
are asked in batches of a fixed size and told in order of number, and every study is told of every candidate: what comes
out depends on the question alone, never on the number of workers or on what the store holds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from wflsim.errors import WflsimError
from wflsim.rng import stream
from wflsim.tune.costs import Limits, penalised
from wflsim.tune.growth import ladder
from wflsim.tune.search import Candidates, Progress, search
from wflsim.tune.setting import Setting
from wflsim.tune.space import Space

BATCH = 4
"""Settings that are asked for at a time."""
FIRST = 10
"""Settings that are drawn at random before anything is learnt from them."""
AGAIN = 20
"""Proposals of known settings after which one is drawn from those that are not known."""
LARGEST_TAU = 1000
"""Where a range of tau has no end, sampling goes so far."""


class Axes:
    """The grid from which settings are drawn: tau and the other learning knobs, each with its values in order."""

    def __init__(self, space: Space) -> None:
        rungs = space.taus if isinstance(space.taus, list) else ladder(space.taus)
        taus = [tau for tau in rungs if tau <= LARGEST_TAU] or rungs[:1]
        self._values: dict[str, Sequence[Any]] = {"tau": taus, **space.learning}

    @property
    def size(self) -> int:
        """Number of combinations."""
        return int(np.prod([float(len(values)) for values in self._values.values()]))

    def setting(self, place: Sequence[int]) -> Setting:
        """The setting at these positions, one for each knob."""
        chosen = {key: values[i] for (key, values), i in zip(self._values.items(), place, strict=True)}
        tau = chosen.pop("tau")
        return Setting(tau, tuple(chosen.items()))

    def distributions(self, optuna: ModuleType) -> dict[str, Any]:
        """The distribution of every knob's position: in order for numbers, without for words and blocks."""
        found = {}
        for key, values in self._values.items():
            numbers = [value if key == "tau" else json.loads(value) for value in values]
            ordered = all(isinstance(one, int | float) for one in numbers) and numbers == sorted(numbers)
            last = len(values) - 1
            kinds = optuna.distributions
            found[key] = kinds.IntDistribution(0, last) if ordered else kinds.CategoricalDistribution(range(last + 1))
        return found

    def drawn(self, number: int) -> Setting:
        """A setting drawn at random, always the same for the same number."""
        rng = stream(0, "tune", "settings", number)
        return self.setting([int(rng.integers(len(values))) for values in self._values.values()])


def sample(
    space: Space, candidates: Candidates[Setting], allowed: int, limits: Limits, slack: float
) -> tuple[list[Setting], set[Setting]]:
    """Settings that were trained, no more than `allowed`, and those of them that were given up; see `search`."""
    optuna, axes = _optuna(), Axes(space)
    distributions = axes.distributions(optuna)
    regimes = len(candidates.progress(axes.drawn(0)).cost)
    studies = [
        optuna.create_study(sampler=optuna.samplers.TPESampler(seed=row, n_startup_trials=FIRST, multivariate=True))
        for row in range(regimes)
    ]
    tried: dict[Setting, list[float]] = {}
    given_up: set[Setting] = set()
    allowed = min(allowed, axes.size)
    while len(tried) < allowed:
        batch: dict[Setting, tuple[int, Any]] = {}
        for number in range(len(tried), min(allowed, len(tried) + BATCH)):
            row = number % regimes
            setting, trial = _propose(studies[row], axes, distributions, {**tried, **dict.fromkeys(batch)}, row)
            batch[setting] = row, trial
        given_up = search([*tried, *batch], candidates, slack)
        for setting, (own, trial) in batch.items():
            tried[setting] = _values(candidates.progress(setting), limits)
            for row, study in enumerate(studies):
                if row == own and trial is not None:
                    study.tell(trial, tried[setting][row])
                elif trial is not None:
                    held = optuna.trial.create_trial(
                        params=trial.params, distributions=distributions, value=tried[setting][row]
                    )
                    study.add_trial(held)
    return list(tried), given_up


def _propose(study: Any, axes: Axes, distributions: Any, known: Any, row: int) -> tuple[Setting, Any]:
    """A setting that is not known, with the trial that proposes it; None where chance does."""
    for _ in range(AGAIN):
        trial = study.ask(distributions)
        setting = axes.setting([int(trial.params[key]) for key in distributions])
        if setting not in known:
            return setting, trial
        if known[setting] is not None:
            study.tell(trial, known[setting][row])
        else:
            study.tell(trial, state=_optuna().trial.TrialState.FAIL)
    number = 0
    while axes.drawn(number) in known:
        number += 1
    return axes.drawn(number), None


def _values(state: Progress, limits: Limits) -> list[float]:
    """What a candidate is worth in every regime, the lowest best."""
    nothing = np.zeros(state.cost.shape[1])
    return [
        penalised(
            limits, state.cost[row], state.reached[row],
            nothing if state.time_s is None else state.time_s[row],
            nothing if state.client_j is None else state.client_j[row],
        )
        for row in range(len(state.cost))
    ]  # fmt: skip


def _optuna() -> ModuleType:
    """The package optuna, silent; an error that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise WflsimError(
            "tune.knobs has more combinations than tune.trainings allows, and sampling them needs optuna: "
            "pip install 'wflsim[tune]', or raise tune.trainings, or give fewer values"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found: ModuleType = optuna
    return found
