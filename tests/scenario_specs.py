"""Every block that a scenario can hold, found by walking the specs from `Scenario` on."""

from __future__ import annotations

from pydantic import BaseModel

from wflsim.scenario.allowed import specs_in
from wflsim.scenario.schema import Scenario

ELSEWHERE = {"SweepSpec", "TuneSpec", "CostSpec"}
"""Blocks that ask many questions of one scenario (test_sweep.py, test_tune.py) and change no run."""


def all_specs() -> list[type[BaseModel]]:
    """Every block that a scenario can hold."""
    found: list[type[BaseModel]] = []
    todo: list[type[BaseModel]] = [Scenario]
    while todo:
        spec = todo.pop(0)
        if spec not in found and spec.__name__ not in ELSEWHERE:
            found.append(spec)
            todo += [inner for field in spec.model_fields.values() for inner in specs_in(field.annotation)]
    return found
