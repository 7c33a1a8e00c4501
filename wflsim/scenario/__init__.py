"""From YAML to a frozen `Scenario`: the only place that knows units as people write them, and line numbers in errors.

Import `load` (a file or a mapping), `build` (a document with line numbers), `dump`, `Scenario` and `slug` from here.
Open `schema.py` first, which composes the blocks of all other rooms, then `source.py` (YAML with line numbers) and
`explain.py` (errors as sentences, with `allowed.py`); `blocks.py` has the sweep and tune blocks, `differences.py` says
in which keys two scenarios differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from wflsim.errors import ScenarioError
from wflsim.scenario.explain import explain, nearest
from wflsim.scenario.schema import Scenario, slug
from wflsim.scenario.source import Source, dotted, from_mapping, parse, read
from wflsim.spec import BASE

__all__ = ["Given", "Scenario", "build", "dump", "load", "slug"]

Given = Scenario | str | os.PathLike[str] | Mapping[str, Any]
"""A scenario as people hand it over: the file, its content as a mapping, or one that is loaded already."""


def load(given: Given, overrides: Sequence[str] = ()) -> Scenario:
    """Read and check a scenario: the name of a YAML file, a mapping of its keys, or one that is loaded already.

    `overrides` are `key.path=value` texts as after --set, applied before validation. Returns a frozen `Scenario` in SI
    units. Raises ScenarioError with every finding: where, what was given, what is allowed.

    >>> import wflsim
    >>> scenario = wflsim.load({
    ...     "name": "small", "clients": 4, "data": {"name": "digits"}, "partition": {"alpha": 0.5},
    ...     "model": {"name": "linear"}, "policies": [{"name": "fedavg", "m": 2}], "stop": {"rounds": 3},
    ... }, ["radio.bandwidth=180 kHz"])
    >>> scenario.radio.bandwidth
    180000.0
    >>> wflsim.load(scenario, ["clients=0"])
    Traceback (most recent call last):
    wflsim.errors.ScenarioError: scenario: clients: got 0; must be a whole number, at least 1 and at most 1000000
    """
    if isinstance(overrides, str):
        raise ScenarioError(f"overrides must be a list such as ['radio.snr=5 dB'], got the text {overrides[:60]!r}")
    if isinstance(given, Scenario):
        return build(from_mapping(given.model_dump(mode="json"), "scenario"), overrides) if overrides else given
    if isinstance(given, Mapping):
        return build(from_mapping(given, "scenario"), overrides)
    if isinstance(given, str | os.PathLike):
        if "\n" in str(given):
            raise ScenarioError(
                "a scenario is named by its file, got text of several lines; "
                "for YAML text write wflsim.load(yaml.safe_load(text))"
            )
        return build(read(Path(given)), overrides)
    raise ScenarioError(
        f"a scenario is the name of a file, a mapping of its keys, or what wflsim.load returns; "
        f"got {type(given).__name__}"
    )


def build(source: Source, overrides: Sequence[str] = ()) -> Scenario:
    """A validated scenario; every finding at once, as one ScenarioError."""
    for override in overrides:
        _apply(source, override)
    token = BASE.set(Path(source.name).parent if source.folder is None else source.folder)
    try:
        return Scenario.model_validate(source.data)
    except ValidationError as error:
        raise explain(error, source, Scenario) from None
    finally:
        BASE.reset(token)


def dump(scenario: Scenario) -> str:
    """The resolved scenario as YAML that loads to the same scenario: every default spelled out, SI units."""
    return yaml.safe_dump(scenario.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)


def _apply(source: Source, override: str) -> None:
    """Set one key of the document as the command line says."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ScenarioError(f"--set {override}: write it as key.path=value, e.g. --set radio.bandwidth='5 MHz'")
    value = parse(f"value: {text}" if text.strip() else "value: ''", f"--set {key}").data["value"]
    source.overridden.add(assign(source.data, key.strip(), value, f"--set {override}"))


def assign(data: dict[str, Any], key: str, value: Any, said: str) -> tuple[str | int, ...]:
    """Set one dotted key of a document; list items by position, policies also by label or name. Returns its path.

    `said`: who asks, for the message where there is no such place.
    """
    node: Any = data
    path: list[str | int] = []
    parts = key.split(".")
    for i, part in enumerate(parts):
        if isinstance(node, list) and len(node) == 1 and isinstance(node[0], dict) and part in node[0]:
            node = node[0]  # one kind of device, one policy: no need to say which
            path.append(0)
        if not isinstance(node, dict | list):
            raise ScenarioError(f"{said}: {dotted(path)} is a single value and has no key {part!r}")
        step = _index(node, part, said) if isinstance(node, list) else part
        path.append(step)
        if i == len(parts) - 1:
            node[step] = value  # type: ignore[index]
        elif isinstance(node, list):
            node = node[int(step)]
        else:
            if node.get(part) is None:  # an optional block that the document leaves out, or spells out as null
                node[part] = {}
            node = node[part]
    return tuple(path)


def _index(items: list[Any], part: str, said: str) -> int:
    given = [str(item.get("label") or item.get("name")) if isinstance(item, dict) else "" for item in items]
    names = [name.rpartition(":")[2] for name in given]  # ./mine.py:Mine is called Mine
    if part in names:
        return names.index(part)
    if part.isdecimal() and int(part) < len(items):
        return int(part)
    allowed = ", ".join([name for name in names if name] + [f"0..{len(items) - 1}"])
    raise ScenarioError(f"{said}: no item {part!r}{nearest(part, names)} Allowed: {allowed}")
