"""The meter of one device: it writes the device's legs and counts what is left in its battery; it decides nothing.

A modem that has nothing to transfer is in its tail until `asleep_s`, and rests afterwards: it listens or sleeps. The
tail has legs of its own, which run beside those of computing and idling; so at every instant the power of all legs
together is that of the processor's state plus that of the modem's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wflsim.records import Leg
from wflsim.world.fleet.series import Series
from wflsim.world.fleet.traits import Number, Traits


def resting_s(start_s: Number, end_s: Number, asleep_s: Number, larger: Callable[..., Any] = max) -> Number:
    """Seconds between two instants that a modem rests, whose tail ends at `asleep_s`. `larger`: np.maximum, where these
    are arrays."""
    seconds: Number = larger(0.0, end_s - larger(start_s, asleep_s))
    return seconds


class Meter:
    """Writes the legs of one client, with their joules, and counts down its battery."""

    __slots__ = (
        "_client", "_idle_counts", "_idle_w", "_intensity", "_legs", "_sleep_w", "_tail_s", "_tail_w",
        "_tail_written_s", "accounted_s", "asleep_s", "harvested_j", "left_j", "spilled_j",
    )  # fmt: skip

    def __init__(
        self, client: int, traits: Traits, legs: list[Leg], idle_counts: bool, intensity: Series | None = None
    ) -> None:
        """`intensity`: grams of CO2 equivalent per joule over time; None: nobody asks."""
        self.left_j = math.inf if traits.battery_j is None else traits.battery_j
        """Joules left in the battery; inf on mains."""
        self.accounted_s = 0.0
        """Simulated time up to which the device's time is written down or free of charge."""
        self.asleep_s = 0.0
        """Simulated time at which the modem's tail ends, or ended."""
        self.harvested_j = 0.0
        """Joules that the battery has taken in."""
        self.spilled_j = 0.0
        """Joules that were harvested while the battery was full."""
        self._intensity = intensity
        self._client = client
        self._idle_w = traits.processor.idle_w
        self._sleep_w = traits.modem.sleep_w
        self._tail_w = traits.modem.tail_w
        self._tail_s = traits.modem.tail_s
        self._tail_written_s = 0.0
        self._idle_counts = idle_counts
        """Whether every idle second is charged, not only those spent waiting for others in a phase."""
        self._legs = legs

    @property
    def dead(self) -> bool:
        """Whether the battery is empty."""
        return self.left_j <= 0

    def alive_at(self, at_s: float) -> bool:
        """Whether the device is on then, if it does nothing meanwhile."""
        return self.usable_s(at_s) == at_s

    def usable_s(self, at_s: float) -> float:
        """The first instant from this one on at which the device is on, if it does nothing meanwhile; inf if never."""
        if not self._idle_counts:
            return at_s if self.left_j > 0 else math.inf
        return at_s if self.empty_s(self.accounted_s, self._idle_w, self._sleep_w) > at_s else math.inf

    def pass_time(self, round: int, now_s: float) -> None:
        """Charge what an idle device draws between phases, where all idle time counts."""
        if self._idle_counts:
            self.charge_idle(round, 0, now_s)

    def resting_j(self, start_s: float, end_s: float, rest_w: float) -> float:
        """Joules of a modem that rests at this power between two instants, without those of its tail."""
        return rest_w * resting_s(start_s, end_s, self.asleep_s)

    def empty_s(self, start_s: float, power_w: float, rest_w: float | None, until_s: float = math.inf) -> float:
        """Simulated time at which the battery is empty, if the processor draws `power_w` from `start_s` on and the
        modem what its tail takes, then `rest_w`; inf if never. `rest_w` None: the modem is at work, and its power in
        `power_w`. `until_s`: whoever asks looks no further."""
        if self.left_j == math.inf:
            return math.inf
        if rest_w is None:
            return start_s + self.left_j / power_w if power_w > 0 else math.inf
        in_tail_w, after_w = power_w + self._tail_w, power_w + rest_w
        tail_s = max(0.0, self.asleep_s - start_s)
        if self.left_j <= in_tail_w * tail_s:
            return start_s + self.left_j / in_tail_w if in_tail_w > 0 else start_s
        left_j = self.left_j - in_tail_w * tail_s
        return start_s + tail_s + left_j / after_w if after_w > 0 else math.inf

    def write(self, leg: Leg) -> str:
        """Write a leg and charge its energy; returns its true outcome.

        A battery gives no more than it has, and one that died during the leg gave all. The paper's formula knows no
        failures: a leg that failed is charged by it at most what it really spent.
        """
        energy_j, outcome = leg.energy_j, leg.outcome
        available_j = self.available_j(leg)
        if energy_j > available_j or outcome == "dead":
            energy_j, outcome = available_j, "dead"
        if outcome != "ok":
            leg = leg._replace(energy_j=energy_j, outcome=outcome, paper_j=min(leg.paper_j, energy_j))
        if self._intensity is not None:
            grid_j = energy_j * self.grid_share(energy_j, available_j)
            leg = leg._replace(co2e_g=grid_j * self._intensity.mean(leg.start_s, leg.end_s))
        self.left_j -= energy_j
        self._legs.append(leg)
        return outcome

    def available_j(self, leg: Leg) -> float:
        """Joules that can be drawn in a leg: what the battery holds."""
        return self.left_j

    def grid_share(self, energy_j: float, available_j: float) -> float:
        """Share of the joules that are drawn now that came from the grid: all of them."""
        return 1.0

    def charge_idle(self, round: int, phase: int, now_s: float, rest_w: float | None = None) -> None:
        """Charge the time since the last activity: an idle processor, and a modem in its tail, then at `rest_w`
        (None: asleep)."""
        start_s, self.accounted_s = self.accounted_s, now_s
        if self.dead:
            return
        rest_w = self._sleep_w if rest_w is None else rest_w
        death_s = self.empty_s(start_s, self._idle_w, rest_w, now_s)
        end_s = min(now_s, death_s)
        self.charge_tail(round, phase, end_s)
        energy_j = self._idle_w * (end_s - start_s) + self.resting_j(start_s, end_s, rest_w)
        if self.dead:  # of the tail alone
            return
        if death_s <= now_s:
            self.write(Leg(round, phase, self._client, "idle", start_s, end_s, energy_j=energy_j, outcome="dead"))
        elif energy_j > 0:
            self.write(Leg(round, phase, self._client, "idle", start_s, end_s, energy_j=energy_j))

    def begin_tail(self, now_s: float) -> None:
        """Begin the modem's tail, because a transfer has ended."""
        if self._tail_s > 0:
            self.asleep_s = now_s + self._tail_s
            self._tail_written_s = now_s

    def charge_tail(self, round: int, phase: int, now_s: float) -> None:
        """Charge the modem's tail as far as it has come."""
        start_s, end_s = self._tail_written_s, min(now_s, self.asleep_s)
        if end_s > start_s and not self.dead:
            energy_j = self._tail_w * (end_s - start_s)
            leg = Leg(round, phase, self._client, "tail", start_s, end_s, energy_j=energy_j)
            if energy_j >= self.available_j(leg):
                end_s = min(end_s, self.empty_s(start_s, self._tail_w, None, end_s))
                leg = leg._replace(end_s=end_s, outcome="dead")
            self.write(leg)
        self._tail_written_s = max(start_s, end_s)
