"""Limits that keep the simulated world within numbers that mean something: for ratios, for one wait, for one transfer.

What lies outside is refused with a sentence, instead of becoming infinite or endless somewhere deep. And the time that
Python's garbage collector may take: none, while a phase is carried out.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import simpy
from pydantic import AfterValidator

from wflsim.errors import ScenarioError
from wflsim.units import ratio_to_db

LONGEST_WAIT_S = 1e10
"""Longest wait in seconds (about 300 years): a clock that far on cannot tell microseconds apart any more."""
BLOCKS_AT_MOST = 100_000
"""Most blocks of a channel that one transfer may see; each is computed, and over so many the channel averages out."""


def within_db(low_db: float, high_db: float) -> AfterValidator:
    """A validator of linear ratios that refuses what lies outside these decibels, and the ratio 0."""

    def check(ratio: float) -> float:
        value_db = ratio_to_db(ratio)
        if not low_db - 1e-9 <= value_db <= high_db + 1e-9:
            said = "0 linear" if ratio == 0 else f"{value_db:.4g} dB"
            raise ValueError(f"{said} is outside what is allowed: {low_db:g} dB to {high_db:g} dB")
        return ratio

    return AfterValidator(check)


class Clock(simpy.Environment):
    """SimPy's environment, except that a wait of centuries, or of NaN seconds, is refused with a sentence."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self._unlimited_timeout = self.timeout
        # SimPy binds its event classes to the instance, so that a method of the same name would never be called.
        self.timeout = self._limited_timeout  # type: ignore[method-assign]

    def _limited_timeout(self, delay: float = 0, value: Any | None = None) -> simpy.Timeout:
        refuse_centuries(delay)
        return self._unlimited_timeout(delay, value)


def refuse_centuries(wait_s: float) -> None:
    """Refuse a wait of centuries, or of NaN seconds."""
    if not wait_s <= LONGEST_WAIT_S:
        raise ScenarioError(
            f"a transfer, a computation or a wait would last {wait_s:.3g} simulated seconds (at most "
            f"{LONGEST_WAIT_S:.0e} s, some 300 years): look at radio (snr, power, bandwidth, path_loss, patience), "
            f"devices (frequency, cycles_per_sample, speed, step_overhead, availability) and server (deadline, "
            f"aggregation)"
        )


def refuse_blocks(how_many: str, bits: float, client: int, step_s: float) -> ScenarioError:
    """The error for a transfer that would see more changes of its channel than can be computed in reasonable time."""
    return ScenarioError(
        f"a transfer of {bits:.4g} bits with client {client} would last {how_many} blocks of {step_s:.3g} s, "
        f"each with a channel of its own (at most {BLOCKS_AT_MOST} blocks can be computed): let radio.fading.time be "
        f"ergodic, which is the mean over many blocks, or make radio.fading.block longer, radio.fading.speed or "
        f"cell.speed slower, or the steps of radio.trace longer; a wider radio.bandwidth shortens the transfer"
    )


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would walk the thirty objects per order of a phase again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
