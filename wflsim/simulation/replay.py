"""Replay: the demands of a trace stand in for training.

A trace from the store says what is learnt when every order is delivered. Carried through a world in which one is not,
it says nothing any more: whoever replays it has to look at the outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wflsim.errors import ReplayRefused, StoreError
from wflsim.exchange import Outcome
from wflsim.records import TraceRound
from wflsim.simulation.loop import Demands, Flow


def undelivered(answer: Any) -> Outcome | None:
    """Of the answer to one step (the outcomes of a gather, or the one of a receive): the first that is no delivery."""
    outcomes = answer if isinstance(answer, list) else [answer] if isinstance(answer, Outcome) else []
    return next((outcome for outcome in outcomes if outcome.fate != "delivered"), None)


class Replay:
    """Reads the rounds of a trace; after its end, goes on with `then` if there is one (a run resumed or extended).

    `elsewhere`: the trace was not made in the world that it is carried through. It is then refused in the round in
    which that world fails to deliver an order, before a row of that round is written.
    """

    def __init__(self, trace: Sequence[TraceRound], then: Demands | None = None, elsewhere: bool = False) -> None:
        self._trace = trace
        self._then = then
        self._elsewhere = elsewhere

    def round(self, s: int) -> Flow:
        if s < len(self._trace):
            if (pace := self._trace[s].pace) is not None:
                yield pace
            for step in self._trace[s].steps:
                failed = undelivered((yield step))
                if failed is not None and self._elsewhere:
                    raise ReplayRefused(
                        f"in round {s} of this world the order of client {failed.client} was {failed.fate}, so a trace "
                        f"in which all were delivered cannot stand in for training; run it live"
                    )
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
