"""Candidates by training: one curve per (setting, seed), carried through every regime's world as it grows.

All candidates share the seeds' data, initial models, draws of clients and channels: what they have in common cancels
when they are compared. How far each is looked at follows from the search alone, never from what the store happens to
hold, so that the same question gives the same bytes again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wflsim.errors import ReplayRefused, WflsimError
from wflsim.experiments.compute import Tick
from wflsim.experiments.plan import Run
from wflsim.experiments.pool import Pool, persist
from wflsim.results.store import Store
from wflsim.tune.chance import Floats
from wflsim.tune.costs import reach
from wflsim.tune.physical import Optimum, minimised
from wflsim.tune.physical import Wanted as WantedOptimum
from wflsim.tune.question import Question
from wflsim.tune.search import Progress
from wflsim.tune.setting import Setting, with_setting
from wflsim.tune.training import Line, Wanted, train

BLOCKS = 40
"""A candidate is carried on by this part of its rounds at a time."""


class Trained:
    """`search.Candidates` for one policy: trained once per (setting, seed), replayed in every regime.

    With knobs that change only time and energy, a candidate's cost is known when its training is finished: they are
    then minimised in every regime.
    """

    def __init__(self, asked: Question, store: Store, pool: Pool) -> None:
        self._asked, self._store, self._pool = asked, store, pool
        self._target = asked.found.target
        stop, every = asked.scenario.stop, asked.scenario.evaluate_every
        self._block = every * math.ceil(stop.rounds / BLOCKS / every)
        self._most = stop.rounds
        self._whole = bool(asked.space.physical) or asked.found.spec.objective == "pareto"
        """No candidate is given up for being dear, so that each is trained to its end at once."""
        self._allowed: dict[Setting, int] = {}
        self.lines: dict[Setting, list[Line]] = {}
        """The curves of every candidate that was asked about, a seed each."""
        self.optima: dict[Setting, list[list[Optimum]]] = {}
        """Of finished candidates, the physical knobs in every regime: the best, then the points of a front."""
        self.trained_rounds = 0
        """By this call; the rest was known."""
        self._doing = ""

    def _lines(self, setting: Setting) -> list[Line]:
        """The curves of one candidate, which begin empty."""
        if setting not in self.lines:
            asked = self._asked
            variant = with_setting(asked.scenario, asked.policy, setting)
            self.lines[setting] = [
                Line(variant, asked.policy, seed, asked.worlds, asked.found.spec) for seed in variant.seeds
            ]
            self._allowed[setting] = 0
        return self.lines[setting]

    @property
    def rounds(self) -> int:
        """Looked at, trained now or earlier."""
        return sum(len(line.trace) for lines in self.lines.values() for line in lines)

    def progress(self, setting: Setting, /) -> Progress:
        lines = self._lines(setting)
        physical = bool(self._asked.space.physical)
        if not self._allowed[setting] or (physical and setting not in self.optima):
            empty = np.zeros((len(self._asked.worlds), len(lines)))
            return Progress(empty, empty.astype(np.bool_), False)
        if physical:
            ends = np.array([found[0].ends for found in self.optima[setting]], dtype=np.float64).swapaxes(0, 1)
        else:
            ends = np.array([line.ends(self._target) for line in lines], dtype=np.float64)
        return self._progress(lines, ends)

    def _progress(self, lines: Sequence[Line], table: Floats) -> Progress:
        """How far a candidate has come, from the ends of its runs [seed, regime, field]."""
        cost, reached, diverged, exhausted, attained, time_s, client_j = np.moveaxis(table, (2, 1), (0, 1))
        flags = [field.astype(np.bool_) for field in (reached, diverged, exhausted)]
        rounds = np.broadcast_to([float(line.rounds) for line in lines], cost.shape)
        done = all(line.finished for line in lines)
        return Progress(cost, flags[0], done, flags[1], flags[2], attained, rounds, time_s, client_j)

    def extend(self, settings: Sequence[Setting], /) -> None:
        for setting in settings:
            self._lines(setting)
            upto = self._most if self._whole else self._allowed[setting] + self._block
            self._allowed[setting] = min(self._most, upto)
        self._doing = ", ".join(f"{setting} up to round {self._allowed[setting]}" for setting in settings)
        self._tell(0)
        lines = [line for setting in settings for line in self.lines[setting] if not line.finished]
        rounds = {id(line): self._allowed[setting] for setting in settings for line in self.lines[setting]}
        root = str(self._store.root.resolve())
        until = self._target if self._whole else None
        every = [Wanted(root, line.run, rounds[id(line)], self._block, until) for line in lines]
        missing = [one for one in every if not self._known(one)]
        trained = 0
        for number, answer in persist(self._pool, train, missing):
            if isinstance(answer, Exception):
                raise _failure(missing[number].run, answer)
            self.trained_rounds += answer
            trained += answer
            self._tell(trained)
        for line in lines:
            line.read_trace(self._store, rounds[id(line)], self._target, self._block)
            if line.finished:
                self._store.trace(line.run.learning).trim()
        if self._asked.space.physical:
            self._minimise([one for one in settings if all(line.finished for line in self.lines[one])])

    def _known(self, wanted: Wanted) -> bool:
        """Whether the store holds a training as far as it is wanted."""
        entry = self._store.trace(wanted.run.learning)
        if entry.reaches(wanted.rounds):
            return True
        held = entry.read() if wanted.target is not None else None
        return held is not None and wanted.target is not None and reach(held.trace, wanted.target).held

    def _minimise(self, settings: Sequence[Setting]) -> None:
        """Minimise the physical knobs of finished candidates, in every regime."""
        asked, root = self._asked, str(self._store.root.resolve())
        wanted = []
        for setting in settings:
            lines = self.lines[setting]
            runs, carried = tuple(line.run for line in lines), tuple(line.carried(self._target) for line in lines)
            wanted += [
                WantedOptimum(root, runs, carried, world, asked.found.spec, asked.space.physical)
                for world in asked.worlds
            ]
        found = dict(persist(self._pool, minimised, wanted))
        for number, setting in enumerate(settings):
            answers = [found[number * len(asked.worlds) + row] for row in range(len(asked.worlds))]
            failure = next((answer for answer in answers if isinstance(answer, Exception)), None)
            if isinstance(failure, ReplayRefused):
                raise failure
            if failure is not None:
                raise _failure(self.lines[setting][0].run, failure)
            self.optima[setting] = [answer for answer in answers if not isinstance(answer, Exception)]

    def _tell(self, trained: int) -> None:
        """How far it is: rounds known, those just trained included, and how many there could be at most."""
        left = sum(self._most - len(line.trace) for lines in self.lines.values() for line in lines if not line.finished)
        known = self.rounds
        self._asked.watch(Tick(f"{self._asked.label}, {self._doing}", known + trained, known + left, "rounds"))


def _failure(run: Run, error: Exception) -> WflsimError:
    """The error that ends tuning: a tau cannot be judged without one of its seeds."""
    return WflsimError(f"tau={run.scenario.policies[run.policy].tau}, seed {run.seed} failed twice: {error}")
