"""A candidate in one regime with what it costs and how sure that is, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wflsim.analysis.tables import Interval
from wflsim.tune.setting import Knobs, in_words


@dataclass(frozen=True)
class Candidate:
    """One candidate in one regime: a tau, and the other knobs beside it."""

    tau: int
    cost: Interval
    """Over the seeds that did not diverge; NaN if all did. A run that was cut off counts with all it had spent: then
    the mean is a lower bound and has no interval."""
    p_reach: float
    p_best: float
    """Probability of being the best of the candidates, at least; NaN with fewer than three seeds."""
    p_best_most: float
    """The same, at most: if its own runs that were cut off had reached the target with what they had spent."""
    regret: float
    """How much more it costs than the best, as a share; NaN where it reaches less surely than the best."""
    stopped: bool
    """Given up early, because it had already spent too much: its cost is a lower bound."""
    censored: int
    """Seeds on which it missed the target without diverging; with any of them its cost is a lower bound."""
    diverged: int
    """Seeds on which the training diverged before the target."""
    could_win: bool
    """Cut off by stop.rounds while it was still cheaper than the best, or surer: more rounds may make it the best."""
    attained: float
    """Accuracy at the last evaluation, in the target's metric: mean over seeds, diverged ones counting 0."""
    knobs: Knobs = ()
    """The other knobs; those that are minimised by replay have the value that is best in this regime."""

    @property
    def name(self) -> str:
        """The setting in words, as --set takes it: "tau=10, m=5"."""
        return in_words(self.tau, self.knobs)


@dataclass(frozen=True)
class Choice:
    """The answer in one regime."""

    best: Candidate | None
    """None: no tau brought any seed to the target."""
    nearest: Candidate
    """The best; where there is none, the tau with the highest accuracy at the end."""
    candidates: tuple[Candidate, ...]
    as_good: tuple[Candidate, ...]
    """Those as sure as the best, within 5 % of its cost."""
    edge: str
    """low or high: the best sits at that end of the taus of its other knobs, so a better one may lie beyond; or
    empty."""
    unseen: Interval
    """What the best costs on seeds that did not choose it; see `chance.on_unseen_seeds`."""
    unseen_missed: int
    """Seeds on which the tau that the other seeds chose missed the target."""
    seeds: int
    why_edge: str = ""
    """Why a search over a range of tau went no further than the edge; empty inside, and where a list was given."""
    unmet: str = ""
    """Where no tau keeps to tune.subject_to: the limit that the nearest misses, in words."""

    @property
    def within5(self) -> tuple[int, ...]:
        """Taus of `as_good`."""
        return tuple(one.tau for one in self.as_good)

    @property
    def cut_off(self) -> tuple[Candidate, ...]:
        """Candidates that stop.rounds cut off and that may win with more rounds."""
        return tuple(one for one in self.candidates if one.could_win)

    @property
    def could_win(self) -> tuple[int, ...]:
        """Taus of `cut_off`."""
        return tuple(one.tau for one in self.cut_off)


class Beside(NamedTuple):
    """The knobs of one candidate in one regime besides tau."""

    learning: Knobs
    """Those that its training depends on; candidates that have them in common are one curve over tau."""
    physical: Knobs = ()
    """Those that were minimised by replay."""
