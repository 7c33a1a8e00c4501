"""What differs between resolved scenarios, key by key, with values as people write them: 10 dB, 180 kHz, mlp."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from wflsim.units import ratio_to_db

ABSENT = "-"
"""Stands where a scenario does not have the key at all."""
SCALES = {
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "s": ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
    "W": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW"), (1e-6, "uW")),
    "J": ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")),
    "m": ((1e3, "km"), (1.0, "m"), (1e-2, "cm")),
    "bit": ((1e9, "Gbit"), (1e6, "Mbit"), (1e3, "kbit"), (1.0, "bit")),
    "bit/s": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
    "FLOP/s": ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")),
}


def differences(documents: Sequence[Any]) -> list[dict[str, str]]:
    """Per document (a scenario, or a part of one, as in scenario.yaml), the keys that are not alike in all of them."""
    found: list[dict[str, str]] = [{} for _ in documents]
    _compare([_plain(document) for document in documents], (), found)
    return found


def describe(values: Mapping[str, str]) -> str:
    """The differing keys of one document as text: radio.snr 10 dB, radio.bandwidth 1 MHz."""
    return ", ".join(f"{key} {value}" for key, value in values.items())


def _compare(parts: Sequence[Any], path: tuple[str, ...], found: list[dict[str, str]]) -> None:
    """Go down where all that have the key have a mapping there; say the values where they differ."""
    if all(part == parts[0] for part in parts):
        return
    there = [part for part in parts if part is not ABSENT]
    if all(isinstance(part, Mapping) for part in there):
        for key in dict.fromkeys(key for part in there for key in part):
            held = [part.get(key, ABSENT) if isinstance(part, Mapping) else ABSENT for part in parts]
            _compare(held, (*path, str(key)), found)
        return
    texts = [part if part is ABSENT else written(part, path) for part in parts]
    distinct: list[Any] = []
    for part in parts:
        if part not in distinct:
            distinct.append(part)
    if len(set(texts)) < len(distinct):  # so near to each other that rounding hides it
        texts = [part if part is ABSENT else str(part) for part in parts]
    for values, text in zip(found, texts, strict=True):
        values[".".join(path)] = text


def written(value: Any, path: tuple[str, ...]) -> str:
    """A resolved value of a scenario as people write it, with the unit of its key."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {written(entry, (*path, str(key)))}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(entry, path) for entry in value) + "]"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.endswith(" linear"):
        ratio = float(value.removesuffix(" linear"))
        return f"{ratio_to_db(ratio):.6g} dB" if ratio > 0 else "0 linear"
    if isinstance(value, int | float):
        return _quantity(float(value), _unit(path))
    return str(value)


def _quantity(value: float, unit: str) -> str:
    if not unit or unit == "dB" or not math.isfinite(value):
        return f"{value:.6g}"
    scales = SCALES.get(unit, ((1.0, unit),))
    size, name = next(((size, name) for size, name in scales if abs(value) >= size), (1.0, unit))
    return f"{value / size:.6g} {name}"


def _plain(value: Any) -> Any:
    """Lists of one entry as that entry: `devices: [{...}]` is written `devices: {...}`, `snr: [10 dB]` as `10 dB`."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return _plain(value[0]) if len(value) == 1 else [_plain(entry) for entry in value]
    return value


@cache
def _schema() -> dict[str, Any]:
    from wflsim.scenario.schema import Scenario  # a page of one folder needs neither the world nor its clock

    return Scenario.model_json_schema()


@cache
def _unit(path: tuple[str, ...]) -> str:
    """Base unit of the quantity at a key of the scenario, by its schema; empty for what is no quantity."""
    nodes: list[Any] = [_schema()]
    for key in path:
        nodes = [node["properties"][key] for node in _branches(nodes) if key in node.get("properties", {})]
    return next((str(node["unit"]) for node in _branches(nodes) if "unit" in node), "")


def _branches(nodes: list[Any]) -> list[Any]:
    """The schemas that these may stand for: references followed, alternatives and list items taken apart."""
    found = []
    waiting = list(nodes)
    while waiting:
        node = waiting.pop(0)
        found.append(node)
        if "$ref" in node:
            waiting.append(_schema()["$defs"][node["$ref"].rsplit("/", 1)[-1]])
        waiting += [*node.get("anyOf", []), *node.get("oneOf", []), *node.get("allOf", [])]
        waiting += [node["items"]] if isinstance(node.get("items"), dict) else []
    return found
