"""The source that remembers: a trace stands in for training."""

from __future__ import annotations

from collections.abc import Sequence

from wflsim.drive.loop import Flow, Source
from wflsim.errors import ReplayRefused, StoreError
from wflsim.record import TraceRound


class Replay:
    """Reads the rounds of a trace; after its end, goes on with `then` if there is one (a run resumed or extended)."""

    def __init__(self, trace: Sequence[TraceRound], then: Source | None = None) -> None:
        self._trace = trace
        self._then = then

    def round(self, s: int) -> Flow:
        if s < len(self._trace):
            for step in self._trace[s].steps:  # noqa: UP028 (the loop sends outcomes back, a list cannot take them)
                yield step
            return self._trace[s].evaluation
        if self._then is None:
            raise StoreError(f"the trace ends after {len(self._trace)} rounds and the stop rule asks for more")
        return (yield from self._then.round(s))


def refuse_inexact(influences: Sequence[str], policy: str, asynchronous: bool) -> None:
    """Raise unless a trace of this policy is exact in a world with these influences on the learning."""
    if asynchronous:
        raise ReplayRefused(
            f"policies: {policy} is asynchronous, so the order of replies is part of its learning; run it live"
        )
    if influences:
        raise ReplayRefused(
            f"{influences[0]} can change what is learnt"
            + (f" (so can {', '.join(influences[1:])})" if influences[1:] else "")
            + ", so a trace cannot stand in for training; run it live, or remove the key"
        )
