"""The meter of a device that harvests: its battery fills while time passes, spills what it cannot take, and revives.

A leg is drawn from the battery when it is written, and what was harvested meanwhile is taken in when the next one
begins, step by step, so that it is known when the battery was full. So legs add up to what the battery has lost plus
what it has taken in, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wflsim.records import Leg
from wflsim.world.fleet.harvest import RESTART_SHARE
from wflsim.world.fleet.meter import Meter
from wflsim.world.fleet.series import Series
from wflsim.world.fleet.traits import Traits

ROUNDING = 1e-6
"""Share by which a battery may be short of what it needs to work again: clocks round."""
STEPS_AT_MOST = 100_000
"""Steps of a harvest after which nobody looks any further whether a battery runs empty."""


class Draw(NamedTuple):
    """A constant power that is drawn from one instant to another."""

    start_s: float
    end_s: float
    power_w: float


def _draw(leg: Leg, energy_j: float) -> Draw:
    """What a leg of this energy draws."""
    duration_s = leg.end_s - leg.start_s
    return Draw(leg.start_s, leg.end_s, energy_j / duration_s if duration_s > 0 else 0.0)


class HarvestingMeter(Meter):
    """A meter whose battery takes in power. Empty, the device is off until it holds 5 % of its capacity again."""

    __slots__ = ("_collected_s", "_died_s", "_flat", "_full_j", "_grid_j", "_harvest", "_pending")

    def __init__(
        self,
        client: int,
        traits: Traits,
        legs: list[Leg],
        idle_counts: bool,
        harvest: Series,
        intensity: Series | None = None,
    ) -> None:
        super().__init__(client, traits, legs, idle_counts, intensity)
        self._harvest = harvest
        self._full_j = self._grid_j = self.left_j
        self._collected_s = self._died_s = 0.0
        self._flat = False
        self._pending: list[Draw] = []
        """Legs that are drawn from `left_j` already, since the harvest was last taken in."""

    @property
    def dead(self) -> bool:
        """Whether the battery is empty, or was and has not recovered."""
        return self._flat

    def collect(self, until_s: float) -> None:
        """Take in what was harvested until then, as far as there is room."""
        if until_s <= self._collected_s:
            return
        spilled_j = self._spilled_j(self._pending, until_s)
        taken_j = self._harvest.total(self._collected_s, until_s) - spilled_j
        self._collected_s = until_s
        self._pending = [Draw(until_s, end_s, power_w) for _, end_s, power_w in self._pending if end_s > until_s]
        self.left_j += taken_j
        self.harvested_j += taken_j
        self.spilled_j += spilled_j
        if self._flat and self.left_j >= self._restart_j * (1 - ROUNDING):
            self._flat = False

    def pass_time(self, round: int, now_s: float) -> None:
        """Charge what an idle device draws between phases, and take in what it has harvested."""
        self.charge_tail(round, 0, self.accounted_s if self._idle_counts else now_s)
        super().pass_time(round, now_s)
        self.collect(now_s)

    def usable_s(self, at_s: float) -> float:
        """The first instant from this one on at which the device is on, if it does nothing meanwhile; inf if never."""
        if not self._idle_counts:
            return max(at_s, self._restarts_s(self._collected_s, self.left_j)) if self._flat else at_s
        self.collect(self.accounted_s)
        level_j, flat, now_s = self.left_j, self._flat, self.accounted_s
        for _ in range(STEPS_AT_MOST):
            if flat:
                now_s, level_j = self._restarts_s(now_s, level_j), self._restart_j
                if now_s >= at_s:
                    return now_s
            now_s = self._runs_empty_s(level_j, now_s, at_s, self._idle_w, self._sleep_w)
            if now_s > at_s:
                return at_s
            level_j, flat = 0.0, True
        return math.inf

    def empty_s(self, start_s: float, power_w: float, rest_w: float | None, until_s: float = math.inf) -> float:
        """Simulated time at which the battery is empty; see `Meter.empty_s`. Nobody looks beyond `until_s`."""
        self.collect(start_s)
        return self._runs_empty_s(self.left_j, start_s, until_s, power_w, rest_w)

    def write(self, leg: Leg) -> str:
        """Write a leg and charge its energy; returns its true outcome."""
        outcome = super().write(leg)
        self._pending.append(_draw(leg, self._legs[-1].energy_j))
        if outcome == "dead":
            self._flat, self._died_s = True, leg.end_s
            self.asleep_s = min(self.asleep_s, leg.end_s)
            self._tail_written_s = max(self._tail_written_s, leg.end_s)  # who is off has no tail
            self.collect(leg.end_s)
        return outcome

    def begin_tail(self, now_s: float) -> None:
        """Begin the modem's tail, unless the device is off."""
        if not self._flat:
            super().begin_tail(now_s)

    def charge_idle(self, round: int, phase: int, now_s: float, rest_w: float | None = None) -> None:
        """Charge the time since the last activity, in which the battery may run empty and recover several times."""
        start_s = self.accounted_s
        while start_s < now_s:
            self.collect(start_s)
            if self._flat:
                start_s = self._restarts_s(self._collected_s, self.left_j)
                self.collect(min(start_s, now_s))
                continue
            self.accounted_s = start_s
            super().charge_idle(round, phase, now_s, rest_w)
            if not self._flat:
                break
            start_s = self._died_s
        self.accounted_s = now_s

    def available_j(self, leg: Leg) -> float:
        """Joules that can be drawn in a leg: what the battery holds, and what it takes in meanwhile."""
        self.collect(leg.start_s)
        until_s = max(leg.end_s, self._collected_s)
        spilled_j = self._spilled_j([*self._pending, _draw(leg, leg.energy_j)], until_s)
        return self.left_j + self._harvest.total(self._collected_s, until_s) - spilled_j

    def grid_share(self, energy_j: float, available_j: float) -> float:
        """Share of the joules that are drawn now that came from the grid: stored and harvested ones mix evenly."""
        share = min(1.0, self._grid_j / available_j) if available_j > 0 else 0.0
        self._grid_j -= energy_j * share
        return share

    def _spilled_j(self, draws: Sequence[Draw], until_s: float) -> float:
        """Joules that the battery could not take since the harvest was last taken in, if this is drawn meanwhile."""
        level_j = self.left_j + sum(power_w * (end_s - start_s) for start_s, end_s, power_w in self._pending)
        edges_s = sorted({at_s for start_s, end_s, _ in draws for at_s in (start_s, end_s)})
        now_s, spilled_j = self._collected_s, 0.0
        while now_s < until_s:
            step_s = min(until_s, self._harvest.changes_s(now_s), next((at for at in edges_s if at > now_s), math.inf))
            drawn_w = sum(power_w for start_s, end_s, power_w in draws if start_s <= now_s < end_s)
            level_j += (self._harvest.at(now_s) - drawn_w) * (step_s - now_s)
            if level_j > self._full_j:
                spilled_j, level_j = spilled_j + level_j - self._full_j, self._full_j
            now_s = step_s
        return spilled_j

    @property
    def _restart_j(self) -> float:
        """Joules from which on a battery that was empty works again."""
        return RESTART_SHARE * self._full_j

    def _restarts_s(self, at_s: float, level_j: float) -> float:
        """When a battery that is off and holds this much at an instant works again."""
        return self._harvest.reaches_s(at_s, self._restart_j - level_j)

    def _runs_empty_s(
        self, level_j: float, start_s: float, until_s: float, power_w: float, rest_w: float | None
    ) -> float:
        """When a battery that holds this much at `start_s` is empty; inf if not before `until_s`.

        From step to step of the harvest and of the modem; a level that is not lower after a whole lap never runs out.
        """
        now_s, lap_s, lap_j = start_s, start_s + self._harvest.period_s, level_j
        for _ in range(STEPS_AT_MOST):
            tail = rest_w is not None and now_s < self.asleep_s
            drawn_w = power_w + (self._tail_w if tail else rest_w or 0.0)
            step_s = min(until_s, self._harvest.changes_s(now_s), self.asleep_s if tail else math.inf)
            net_w = self._harvest.at(now_s) - drawn_w
            if net_w < 0 and level_j <= -net_w * (step_s - now_s):
                return now_s + level_j / -net_w
            if step_s >= until_s or (step_s == math.inf and net_w >= 0):
                return math.inf
            level_j, now_s = min(self._full_j, level_j + net_w * (step_s - now_s)), step_s
            if now_s >= lap_s:
                if level_j >= lap_j:
                    return math.inf
                lap_s, lap_j = now_s + self._harvest.period_s, level_j
        return math.inf


def meter_of(
    client: int, traits: Traits, legs: list[Leg], idle_counts: bool, intensity: Series | None = None
) -> Meter:
    """The meter of one device, which harvests or not."""
    if traits.harvest is None:
        return Meter(client, traits, legs, idle_counts, intensity)
    return HarvestingMeter(client, traits, legs, idle_counts, traits.harvest, intensity)


class Harvested:
    """Counts what a fleet has harvested from one time to the next."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        self.meters = [meter for meter in meters if isinstance(meter, HarvestingMeter)]
        """The meters of devices that harvest."""
        self._told = (0.0, 0.0)

    def since_last(self) -> tuple[float, float] | None:
        """Joules taken in since the last call, and joules spilled; None if nobody harvests."""
        if not self.meters:
            return None
        before, (taken_j, spilled_j) = self._told, self._so_far()
        self._told = taken_j, spilled_j
        return taken_j - before[0], spilled_j - before[1]

    def _so_far(self) -> tuple[float, float]:
        return sum(meter.harvested_j for meter in self.meters), sum(meter.spilled_j for meter in self.meters)
