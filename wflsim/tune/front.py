"""The front of energy against time: the settings that no other beats in both, each with its knobs and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wflsim.analysis.tables import Interval
from wflsim.tune.chance import Flags, Floats
from wflsim.tune.costs import Limits, kept
from wflsim.tune.physical import Optimum
from wflsim.tune.search import Progress
from wflsim.tune.setting import Knobs, Setting, in_words


class Point(NamedTuple):
    """One setting of the knobs in one regime, by the energy and the time that it takes to the target."""

    tau: int
    knobs: Knobs
    energy: Interval
    """Joules by the accounting that was chosen."""
    time: Interval
    """Simulated seconds."""
    p_reach: float

    @property
    def name(self) -> str:
        """The setting in words, as --set takes it."""
        return in_words(self.tau, self.knobs)


def points_of(
    settings: Sequence[Setting],
    states: Sequence[Progress],
    row: int,
    optima: Mapping[Setting, Sequence[Sequence[Optimum]]],
    limits: Limits,
) -> list[Point]:
    """Every setting that keeps to the limits and reaches the target on some seed, with each of its physical knobs."""
    found = []
    for setting, state in zip(settings, states, strict=True):
        if state.time_s is None or state.client_j is None:
            continue
        plain: list[tuple[Knobs, tuple[Floats, Flags, Floats, Floats]]] = [
            ((), (state.cost[row], state.reached[row], state.time_s[row], state.client_j[row]))
        ]
        columns = [(one.knobs, _columns(one)) for one in optima[setting][row]] if setting in optima else plain
        for knobs, (energy_j, reached, time_s, client_j) in columns:
            stand = kept(limits, reached[None, :], time_s[None, :], client_j[None, :])
            if reached.any() and stand.allowed[0]:
                energy, time = (Interval.of_costs(values[reached].tolist()) for values in (energy_j, time_s))
                share = float(reached.mean())
                found.append(Point(setting.tau, (*setting.knobs, *knobs), energy, time, share))
    return found


def front_of(points: Sequence[Point]) -> list[Point]:
    """Of the surest points, those that no other beats in energy and time, the fastest first."""
    surest = max((point.p_reach for point in points), default=0.0)
    rivals = sorted(
        (point for point in points if point.p_reach == surest), key=lambda one: (one.time.mean, one.energy.mean)
    )
    front: list[Point] = []
    for point in rivals:
        if not front or point.energy.mean < front[-1].energy.mean:
            front.append(point)
    return front


def _columns(one: Optimum) -> tuple[Floats, Flags, Floats, Floats]:
    """Energy, whether the target was reached, time and energy of a client, per seed."""
    ends = one.ends
    reached = np.array([end.reached for end in ends], dtype=np.bool_)
    energy, time_s, client_j = (
        np.array([getattr(end, name) for end in ends], dtype=np.float64) for name in ("cost", "time_s", "client_j")
    )
    return energy, reached, time_s, client_j
