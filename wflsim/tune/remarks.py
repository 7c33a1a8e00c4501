"""Words about a search besides its answer: several settings at once, and knobs at an end of their values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from wflsim.tune.candidate import Choice
from wflsim.tune.setting import Setting, encoded, quantity
from wflsim.tune.space import Space


def together(settings: Iterable[Setting]) -> str:
    """Several settings in words: "tau=5, 8" where tau is the only knob."""
    ordered = sorted(settings, key=lambda one: (one.tau, len(one.knobs), one.knobs))
    if any(one.knobs for one in ordered):
        return "; ".join(map(str, ordered))
    return f"tau={', '.join(str(one.tau) for one in ordered)}"


def ends_of(space: Space, choices: Sequence[Choice], clients: int) -> Iterator[tuple[str, str, int]]:
    """Knobs besides tau whose best value is the least or the most of those given: key, which end, in how many regimes.

    All clients are the most that there can be, so m at that end is no edge.
    """
    ends: dict[str, tuple[str, str]] = {}
    for key, values in space.learning.items():
        numbers = [json.loads(value) for value in values]
        if len(values) > 1 and all(isinstance(one, int | float) for one in numbers):
            ends[key] = values[numbers.index(min(numbers))], values[numbers.index(max(numbers))]
    for knob in space.physical:
        if not knob.values:
            ends[knob.key] = encoded(quantity(knob.key, knob.low)), encoded(quantity(knob.key, knob.high))
    for key, (least, most) in ends.items():
        chosen = [dict(choice.best.knobs).get(key) for choice in choices if choice.best is not None]
        for words, end in (("the least", least), ("the most", most)):
            count = sum(value == end for value in chosen)
            if count and not (key == "m" and json.loads(end) in (1, clients)):
                yield key, words, count
