"""Joules of one device, by cause. It listens and never decides: legs are written here, and the battery runs down."""

from __future__ import annotations

import math

from wflsim.record import Activity, Leg
from wflsim.world.devices import Traits


class Meter:
    """Writes the legs of one client and keeps count of its battery."""

    __slots__ = (
        "_client", "_idle_counts", "_idle_w", "_legs", "_tail_s", "_tail_w", "_tail_written_s",
        "accounted_s", "asleep_s", "left_j",
    )  # fmt: skip

    def __init__(self, client: int, traits: Traits, legs: list[Leg], idle_counts: bool) -> None:
        self.left_j = math.inf if traits.battery_j is None else traits.battery_j
        self.accounted_s = 0.0
        """Up to here the device's time is written down or free of charge."""
        self.asleep_s = 0.0
        """When the radio falls asleep, or fell."""
        self._client = client
        self._idle_w = traits.idle_w
        self._tail_w = traits.tail_w
        self._tail_s = traits.tail_s
        self._tail_written_s = 0.0
        self._idle_counts = idle_counts
        """Every idle second is charged, not only those spent waiting for others."""
        self._legs = legs

    @property
    def dead(self) -> bool:
        """The battery is empty."""
        return self.left_j <= 0

    def alive_at(self, at_s: float) -> bool:
        """Whether it lasts until then, doing nothing."""
        return self.left_j > (self._idle_w * (at_s - self.accounted_s) if self._idle_counts else 0.0)

    def write(
        self,
        round: int,
        phase: int,
        activity: Activity,
        start_s: float,
        end_s: float,
        energy_j: float,
        outcome: str,
        bits: int = 0,
        snr_db: float | None = None,
        rate_bps: float | None = None,
        attempts: int = 0,
        radiated_j: float = 0.0,
        paper_j: float = 0.0,
    ) -> str:
        """One leg. No battery gives more than it has, and one that died gave all; returns the leg's true outcome.

        The paper's formula knows no failures: a leg that failed is charged by it at most what it really spent.
        """
        if energy_j > self.left_j or outcome == "dead":
            energy_j, outcome = self.left_j, "dead"
        if outcome != "ok":
            paper_j = min(paper_j, energy_j)
        self.left_j -= energy_j
        self._legs.append(
            Leg(
                round, phase, self._client, activity, start_s, end_s, bits, snr_db, rate_bps, attempts,
                energy_j, radiated_j, paper_j, outcome,
            )
        )  # fmt: skip
        return outcome

    def rest(self, round: int, phase: int, now_s: float) -> None:
        """Account for the time since the last activity: idle, and the radio's tail."""
        self.write_tail(round, phase, now_s)
        start_s, self.accounted_s = self.accounted_s, now_s
        energy_j = self._idle_w * (now_s - start_s)
        if energy_j <= 0 or self.dead:
            return
        if energy_j < self.left_j:
            self.write(round, phase, "idle", start_s, now_s, energy_j, "ok")
        else:
            death_s = start_s + self.left_j / self._idle_w
            self.write(round, phase, "idle", start_s, death_s, self.left_j, "dead")

    def stay_awake(self, now_s: float) -> None:
        """A transfer has ended: the radio's tail begins."""
        if self._tail_s > 0:
            self.asleep_s = now_s + self._tail_s
            self._tail_written_s = now_s

    def write_tail(self, round: int, phase: int, now_s: float) -> None:
        """The tail as far as it has come; called before each transfer and at the end of each phase."""
        end_s = min(now_s, self.asleep_s)
        if end_s > self._tail_written_s and not self.dead:
            energy_j = self._tail_w * (end_s - self._tail_written_s)
            self.write(round, phase, "tail", self._tail_written_s, end_s, energy_j, "ok")
        self._tail_written_s = max(self._tail_written_s, end_s)
