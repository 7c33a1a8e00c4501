"""From a sweep block to scenarios: one per regime, each as valid as if it had been written by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from wflsim.errors import ScenarioError
from wflsim.scenario import Scenario, assign, build
from wflsim.scenario.blocks import SweepSpec
from wflsim.scenario.source import Source

MAX_REGIMES = 100_000


class Regime(NamedTuple):
    """One world of a sweep: the scenario with one choice of the swept keys."""

    number: int
    values: dict[str, str]
    """Value of each swept key as it was written, for example "10 dB"."""
    scenario: Scenario


def regimes(scenario: Scenario) -> list[Regime]:
    """All regimes of a scenario, in the order of the file; the last key of a grid changes fastest.

    Without a sweep block there is one, the scenario itself.
    """
    plain = scenario.model_copy(update={"sweep": None, "tune": None})
    if scenario.sweep is None:
        return [Regime(0, {}, plain)]
    count = _count(scenario.sweep)
    if count > MAX_REGIMES:
        raise ScenarioError(f"sweep: {count} regimes are too many (at most {MAX_REGIMES}); sweep fewer values")
    document = plain.model_dump(mode="json")
    keys = scenario.sweep.keys
    folder = Path(scenario.sweep.folder or "")
    return [_regime(number, document, case, keys, folder) for number, case in enumerate(_cases(scenario.sweep))]


def _cases(spec: SweepSpec) -> Iterator[dict[str, Any]]:
    grid = [[(key, value) for value in values] for key, values in spec.grid.items()]
    steps = list(zip(*spec.zip.values(), strict=True)) if spec.zip else [()]
    walked = [dict(zip(spec.zip, step, strict=True)) for step in steps]
    for crossed, together, listed in itertools.product(itertools.product(*grid), walked, spec.list or ({},)):
        yield {**dict(crossed), **together, **listed}


def _count(spec: SweepSpec) -> int:
    count = max(1, len(spec.list)) * (len(next(iter(spec.zip.values()))) if spec.zip else 1)
    for values in spec.grid.values():
        count *= len(values)
    return count


def _regime(
    number: int, document: Mapping[str, Any], case: Mapping[str, Any], keys: tuple[str, ...], folder: Path
) -> Regime:
    data = deepcopy(dict(document))
    said = f"sweep, regime {number} ({', '.join(f'{key}={written(value)}' for key, value in case.items())})"
    for key, value in case.items():
        assign(data, key, deepcopy(value), said)
    values = {key: written(case[key]) if key in case else "" for key in keys}
    return Regime(number, values, build(Source(said, data, folder=folder)))


def written(value: Any) -> str:
    """A value as people write it: 10 dB stays 10 dB."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)
