"""Which settings are tried: all that are listed, those that a search over a range of tau chooses, or a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wflsim.tune import growth
from wflsim.tune.choice import SLACK
from wflsim.tune.costs import Limits
from wflsim.tune.growth import GIVEN_UP_ABOVE, dearest_taus, explore
from wflsim.tune.sampling import Axes, sample
from wflsim.tune.search import Candidates, Progress, search
from wflsim.tune.setting import Knobs, Setting
from wflsim.tune.space import Space


class Tried(NamedTuple):
    """The settings that were tried."""

    settings: list[Setting]
    given_up: set[Setting]
    why: dict[Knobs, list[str]]
    """Per regime, why the search over tau ended there, by the other knobs; empty where there was none, and where the
    optimum lies inside."""
    unresolved: float
    """Largest share that an untried tau promises in some regime and that the seeds could not tell from noise."""
    smoothed: bool
    """tau was searched in a range: costs are compared along fitted curves."""
    slack: float
    """Share above the best at which a candidate was given up; inf: none was."""


class Arm:
    """Candidates of one setting of the other knobs, which differ in tau alone."""

    def __init__(self, candidates: Candidates[Setting], knobs: Knobs) -> None:
        self._candidates, self._knobs = candidates, knobs

    def progress(self, tau: int, /) -> Progress:
        """How far this tau has come."""
        return self._candidates.progress(Setting(tau, self._knobs))

    def extend(self, taus: Sequence[int], /) -> None:
        """Carry these taus on by a block of rounds each."""
        self._candidates.extend([Setting(tau, self._knobs) for tau in taus])


def attempt(
    space: Space, start: int, candidates: Candidates[Setting], allowed: int, limits: Limits, keep_all: bool
) -> Tried:
    """Try settings, beginning at tau = `start` where tau is a range, no more than `allowed` where they are not listed.

    `keep_all`: give none up for being dear, because what is dear with one physical knob or in energy may yet win.
    """
    narrow, wide = (np.inf if limits.exclude or keep_all else slack for slack in (SLACK, GIVEN_UP_ABOVE))
    if is_sampled(space, allowed):
        settings, given_up = sample(space, candidates, allowed, limits, wide)
        return Tried(settings, given_up, {}, 0.0, False, wide)
    if isinstance(space.taus, list):
        given_up = search(space.settings, candidates, narrow)
        return Tried(space.settings, given_up, {}, 0.0, False, narrow)
    found = Tried([], set(), {}, 0.0, True, wide)
    each = max(1, allowed // len(space.arms))
    for arm in space.arms:
        own = explore(space.taus, start, Arm(candidates, arm), each, limits, wide)
        found = Tried(
            [*found.settings, *(Setting(tau, arm) for tau in own.taus)],
            found.given_up | {Setting(tau, arm) for tau in own.given_up},
            {**found.why, arm: own.why}, max(found.unresolved, own.unresolved), True, wide,
        )  # fmt: skip
    return found


def is_sampled(space: Space, allowed: int) -> bool:
    """Whether there are more combinations of several learning knobs than may be trained."""
    if not space.learning:
        return False
    if isinstance(space.taus, list):
        return len(space.settings) > allowed
    return allowed // len(space.arms) < growth.FIRST


def dearest(space: Space, start: int, allowed: int) -> list[Setting]:
    """The settings of the attempt that costs most, for a forecast."""
    if is_sampled(space, allowed):
        axes, found, number = Axes(space), dict[Setting, None](), 0
        while len(found) < min(allowed, axes.size):
            found[axes.drawn(number)] = None
            number += 1
        return list(found)
    if isinstance(space.taus, list):
        return space.settings
    taus = dearest_taus(space.taus, start, max(1, allowed // len(space.arms)))
    return [Setting(tau, arm) for arm in space.arms for tau in taus]
