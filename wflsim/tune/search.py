"""Early stopping that cannot change the answer: best first, and a tau is given up only when it has lost for certain.

What a tau has spent so far is a lower bound on its cost. Once some tau has brought every seed to the target, a tau that
has already spent more than 1.05 times that in every regime can be neither the best nor within 5 % of it. The same must
hold with any one seed left out: then the costs on seeds that did not choose the winner are the same, too, as if every
tau had been trained to its end.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from wflsim.tune.chance import Flags, Floats
from wflsim.tune.choice import SLACK, Runs

One = TypeVar("One", bound=Hashable)
Which = TypeVar("Which", bound=Hashable, contravariant=True)


class Progress(NamedTuple):
    """How far one tau has come; arrays are [regime, seed]."""

    cost: Floats
    """To the target, or spent so far."""
    reached: Flags
    done: bool
    """No further round could change it."""
    diverged: Flags | None = None
    """The training diverged before the target; None: on no seed."""
    exhausted: Flags | None = None
    """A budget was spent, or nobody was left, before the target; None: on no seed."""
    attained: Floats | None = None
    """Accuracy at the last evaluation, in the target's metric; None: not known."""
    rounds: Floats | None = None
    """To the target, or so far; None: not known."""
    time_s: Floats | None = None
    """Simulated time to the target, or so far; None: not known."""
    client_j: Floats | None = None
    """Energy of the whole devices over the number of clients, likewise."""


class Candidates(Protocol[Which]):
    """The taus, or settings of several knobs, each of which can be carried on by a block of rounds."""

    def progress(self, tau: Which, /) -> Progress:
        """How far this tau has come."""

    def extend(self, taus: Sequence[Which], /) -> None:
        """Carry these taus on by a block of rounds each."""


def search(taus: Sequence[One], candidates: Candidates[One], slack: float = SLACK) -> set[One]:
    """Carry on until nothing can change tau* or its 5 % set in any regime; returns the taus that were given up.

    `slack`: by which share more than the best a tau must have cost before it is given up. Equals in their order.
    """
    given_up: set[One] = set()
    place = {tau: number for number, tau in enumerate(taus)}
    states = {tau: candidates.progress(tau) for tau in taus}
    spent = {tau: _means(state.cost) for tau, state in states.items()}
    while True:
        limit = np.full_like(next(iter(spent.values())), np.inf)
        for tau, state in states.items():
            if state.done and state.reached.all():
                limit = np.minimum(limit, (1 + slack) * spent[tau])
        waiting = [tau for tau, state in states.items() if not state.done and tau not in given_up]
        hopeful = {tau: np.any(spent[tau] <= limit, axis=1) for tau in waiting}
        given_up |= {tau for tau in waiting if not hopeful[tau].any()}
        wanted: set[One] = set()
        for r in range(len(limit)):
            here = [tau for tau in waiting if hopeful[tau][r]]
            if here:
                wanted.add(min(here, key=lambda tau: (spent[tau][r, 0], place[tau])))
        if not wanted:
            return given_up
        candidates.extend(sorted(wanted, key=place.__getitem__))
        for tau in wanted:
            states[tau] = candidates.progress(tau)
            spent[tau] = _means(states[tau].cost)


def runs_of(states: Sequence[Progress], stopped: Sequence[bool], row: int) -> Runs:
    """The runs of one regime, from the progress of every tau."""
    cost, reached = np.array([state.cost[row] for state in states]), np.array([state.reached[row] for state in states])

    def rows(values: Sequence[Flags | Floats | None]) -> Floats:
        nothing = np.zeros(cost.shape[1])
        return np.array([nothing if value is None else value[row] for value in values], dtype=np.float64)

    known = all(state.rounds is not None for state in states)
    return Runs(
        cost, reached, np.asarray(stopped, dtype=np.bool_), rows([state.diverged for state in states]) > 0,
        rows([state.exhausted for state in states]) > 0, rows([state.attained for state in states]),
        rows([state.rounds for state in states]) if known else None,
        rows([state.time_s for state in states]), rows([state.client_j for state in states]),
    )  # fmt: skip


def _means(cost: Floats) -> Floats:
    """[regime, 1 + seed]: the mean over all seeds, then with each seed left out in turn."""
    seeds = cost.shape[1]
    whole = cost.mean(axis=1, keepdims=True)
    return whole if seeds == 1 else np.hstack([whole, (cost.sum(axis=1, keepdims=True) - cost) / (seeds - 1)])
