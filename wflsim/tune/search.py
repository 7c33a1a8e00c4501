"""Early stopping that cannot change the answer: best first, and a tau is given up only when it has lost for certain.

What a tau has spent so far is a lower bound on its cost. Once some tau has brought every seed to the target, a tau that
has already spent more than 1.05 times that in every regime can be neither the best nor within 5 % of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wflsim.tune.choice import SLACK, Flags, Floats


class Progress(NamedTuple):
    """How far one tau has come."""

    cost: Floats
    """[regime, seed]: to the target, or spent so far."""
    reached: Flags
    """[regime, seed]"""
    done: bool
    """No further round could change it."""


class Candidates(Protocol):
    """The taus, each of which can be carried on by a block of rounds."""

    def progress(self, tau: int) -> Progress: ...
    def extend(self, taus: Sequence[int]) -> None: ...


def search(taus: Sequence[int], candidates: Candidates) -> set[int]:
    """Carry on until nothing can change tau* or its 5 % set in any regime; returns the taus that were given up."""
    given_up: set[int] = set()
    while True:
        states = {tau: candidates.progress(tau) for tau in taus if tau not in given_up}
        spent = {tau: state.cost.mean(axis=1) for tau, state in states.items()}
        regimes = range(len(next(iter(spent.values()))))
        sure = [tau for tau, state in states.items() if state.done and state.reached.all()]
        limit = [(1 + SLACK) * min((spent[tau][r] for tau in sure), default=float("inf")) for r in regimes]
        waiting = [tau for tau, state in states.items() if not state.done]
        hopeless = {tau for tau in waiting if all(spent[tau][r] > limit[r] for r in regimes)}
        given_up |= hopeless
        wanted: set[int] = set()
        for r in regimes:
            hopeful = [tau for tau in waiting if tau not in hopeless and spent[tau][r] <= limit[r]]
            if hopeful:
                wanted.add(min(hopeful, key=lambda tau: (spent[tau][r], tau)))
        if not wanted:
            return given_up
        candidates.extend(sorted(wanted))
