"""The meter of one device: it writes the device's legs and counts what is left in its battery; it decides nothing."""

from __future__ import annotations

import math

from wflsim.records import Leg
from wflsim.world.fleet.spec import Traits


class Meter:
    """Writes the legs of one client, with their joules, and counts down its battery."""

    __slots__ = (
        "_client", "_idle_counts", "_idle_w", "_legs", "_tail_s", "_tail_w", "_tail_written_s",
        "accounted_s", "asleep_s", "left_j",
    )  # fmt: skip

    def __init__(self, client: int, traits: Traits, legs: list[Leg], idle_counts: bool) -> None:
        self.left_j = math.inf if traits.battery_j is None else traits.battery_j
        """Joules left in the battery; inf on mains."""
        self.accounted_s = 0.0
        """Simulated time up to which the device's time is written down or free of charge."""
        self.asleep_s = 0.0
        """Simulated time at which the radio falls asleep, or fell."""
        self._client = client
        self._idle_w = traits.idle_w
        self._tail_w = traits.tail_w
        self._tail_s = traits.tail_s
        self._tail_written_s = 0.0
        self._idle_counts = idle_counts
        """Whether every idle second is charged, not only those spent waiting for others in a phase."""
        self._legs = legs

    @property
    def dead(self) -> bool:
        """Whether the battery is empty."""
        return self.left_j <= 0

    def alive_at(self, at_s: float) -> bool:
        """Whether the battery lasts until then if the device does nothing."""
        return self.left_j > (self._idle_w * (at_s - self.accounted_s) if self._idle_counts else 0.0)

    def write(self, leg: Leg) -> str:
        """Write a leg and charge its energy; returns its true outcome.

        A battery gives no more than it has, and one that died during the leg gave all. The paper's formula knows no
        failures: a leg that failed is charged by it at most what it really spent.
        """
        energy_j, outcome = leg.energy_j, leg.outcome
        if energy_j > self.left_j or outcome == "dead":
            energy_j, outcome = self.left_j, "dead"
        if outcome != "ok":
            leg = leg._replace(energy_j=energy_j, outcome=outcome, paper_j=min(leg.paper_j, energy_j))
        self.left_j -= energy_j
        self._legs.append(leg)
        return outcome

    def charge_idle(self, round: int, phase: int, now_s: float) -> None:
        """Charge the time since the last activity: idling, and the radio's tail."""
        self.charge_tail(round, phase, now_s)
        start_s, self.accounted_s = self.accounted_s, now_s
        energy_j = self._idle_w * (now_s - start_s)
        if energy_j <= 0 or self.dead:
            return
        if energy_j < self.left_j:
            self.write(Leg(round, phase, self._client, "idle", start_s, now_s, energy_j=energy_j))
        else:
            death_s = start_s + self.left_j / self._idle_w
            self.write(
                Leg(round, phase, self._client, "idle", start_s, death_s, energy_j=self.left_j, outcome="dead")
            )

    def begin_tail(self, now_s: float) -> None:
        """Begin the radio's tail, because a transfer has ended."""
        if self._tail_s > 0:
            self.asleep_s = now_s + self._tail_s
            self._tail_written_s = now_s

    def charge_tail(self, round: int, phase: int, now_s: float) -> None:
        """Charge the radio's tail as far as it has come; called before each transfer and at the end of each phase."""
        end_s = min(now_s, self.asleep_s)
        if end_s > self._tail_written_s and not self.dead:
            energy_j = self._tail_w * (end_s - self._tail_written_s)
            self.write(Leg(round, phase, self._client, "tail", self._tail_written_s, end_s, energy_j=energy_j))
        self._tail_written_s = max(self._tail_written_s, end_s)
