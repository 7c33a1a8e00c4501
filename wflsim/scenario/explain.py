"""pydantic's findings as sentences: file, line, key path, value given, what is allowed, the nearest valid name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from wflsim.errors import ScenarioError
from wflsim.scenario.allowed import Place, doors, is_spec, keys, names_of, places_at, without_tags, words
from wflsim.scenario.source import Source, dotted
from wflsim.spec import Means
from wflsim.units import SHARE_WORDS

MAX_SHOWN = 20
RENAMED = {"kind": "name", "engine": "gradients", "quantise": "compress", "tau": "knobs.tau"}
"""Old spellings of keys, each with the new one, dotted if it stands in a block of its own.

They are refused, because two spellings would become two regimes.
"""
REWRITTEN = {"quantise": "rename it and write {up: {name: quantise, bits: 8}, down: {name: quantise, bits: 8}}"}
"""What to do about an old key whose value is spelled otherwise, too."""

FORMER_PROFILES = {
    "generic": "leave it out",
    "raspberry_pi_4": "write compute: raspberry_pi_4 and modem: wifi_nic",
    "jetson_nano": "write compute: jetson_nano and modem: wifi_nic",
    "lte_phone": "write compute: phone_midrange and modem: lte (or modem: lte_2012, whose figures it had)",
    "wifi_station": "write modem: wifi_nic, and name the processor with compute",
}
"""What to write instead of each former profile of a device."""
FORMER_DEVICE_KEYS = {
    "profile": "a device is now a processor (compute) and a modem (modem)",
    "utilisation": "speed is now what training attains; write speed x utilisation there",
    "compute_power": "it is called compute_active_power now, and does not contain the modem",
    "idle_power": "it is now compute_idle_power (the processor), listen_power and sleep_power (the modem)",
    "transmit_power": "it now follows from what is radiated: circuit_power, amplifier_efficiency, amplifier_exponent",
    "promotion": "it is called wake now",
    "promotion_power": "it is called wake_power now, and is that of the modem alone",
}
"""What became of former keys of the devices block."""


class Inconsistent(ValueError):
    """Values that are fine each by itself but not together: (key path, what is wrong) of every finding."""

    def __init__(self, findings: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(f"{dotted(path)}: {words}" for path, words in findings))
        self.findings = findings


def explain(error: ValidationError, source: Source, model: type[BaseModel]) -> ScenarioError:
    """One error with a line for each finding, in the order of the file."""
    findings: list[tuple[tuple[str | int, ...], str]] = []
    for finding in _telling(error.errors()):
        cause = finding.get("ctx", {}).get("error")
        if isinstance(cause, Inconsistent):
            findings += cause.findings
        else:
            location = without_tags(model, finding["loc"])
            path, given = written(location, source.data, missing=finding["type"] == "missing")
            if finding["type"].startswith("union_tag") and isinstance(given, dict):
                key = next((key for key in ("name", "kind") if key in given), None)
                path, given = (path, given) if key is None else ((*path, key), given[key])
            findings.append((path, sentence(finding, path, given, model)))
    old = {path[:-1] for path, words in findings if path[-1:] and path[-1] in RENAMED and words == _renamed(path)}
    # Which variant is meant is not known before the key is renamed, so nothing else is said about its block.
    findings = [(path, words) for path, words in findings if path[:-1] not in old or path[-1] in RENAMED]
    lines = list(dict.fromkeys(f"{source.where(path)}: {dotted(path)}: {words}" for path, words in findings))
    rest = [f"... and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
    return ScenarioError("\n".join(lines[:MAX_SHOWN] + rest))


def _telling(found: Sequence[Any]) -> list[Any]:
    """Without the findings about a whole where another one is about a part of it.

    A list with a wrong item is reported as too short, too; and where a number or a block may stand, a block with a
    wrong key is reported as being no number.
    """

    def contains(whole: Any, part: Any) -> bool:
        above = whole["loc"] if whole["type"] == "too_short" else whole["loc"][:-1]
        block = whole["type"] == "too_short" or isinstance(whole["input"], dict)
        return block and len(part["loc"]) > len(whole["loc"]) and part["loc"][: len(above)] == above

    kept = ("value_error", "extra_forbidden", "missing")
    return [one for one in found if one["type"] in kept or not any(contains(one, other) for other in found)]


def sentence(finding: Mapping[str, Any], path: tuple[str | int, ...], value: Any, model: type[BaseModel]) -> str:
    """What is wrong with the value at a path, and what would be right."""
    kind, location = finding["type"], finding["loc"]
    places = places_at(model, location)
    if kind == "extra_forbidden":
        blocks = [place.annotation for place in places_at(model, location[:-1]) if is_spec(place.annotation)]
        allowed = sorted({name for spec in blocks for name in spec.model_fields})
        if RENAMED.get(str(location[-1]), "").partition(".")[0] in allowed:
            return _renamed(path)
        if "modem" in allowed and str(location[-1]) in FORMER_DEVICE_KEYS:
            cure = FORMER_PROFILES.get(str(value)) if location[-1] == "profile" else None
            return "; ".join(filter(None, (FORMER_DEVICE_KEYS[str(location[-1])], cure)))
        return f"unknown key{nearest(str(location[-1]), allowed)} Allowed: {', '.join(allowed)}"
    if kind == "missing":
        return f"this key is required and missing; it must be {words(places)}"
    if location and location[-1] == "[key]":
        tables = [named for place in places_at(model, location[:-2]) if (named := keys(place)) is not None]
        return f"got the key {shown(path[-1])}; it must be {words(tables)}"
    if kind in ("value_error", "assertion_error"):
        message = finding["msg"].partition(", ")[2]
        about_a_block = isinstance(value, dict) and any(is_spec(place.annotation) for place in places)
        return message if about_a_block else f"got {shown(value)}; {message}"
    if kind == "union_tag_not_found" and path[-1:] == ("kind",):
        return _renamed(path)
    if kind == "union_tag_not_found" and isinstance(value, dict):
        return f"needs the key 'name' to say which kind it is; got {shown(value)}; {_must(places)}"
    names = _names(places)
    if kind.startswith("union_tag") and path[-1:] == ("name",) and not isinstance(value, str):
        return f"got {shown(value)}; must be one of {', '.join(names)}{_own(places)}"
    if isinstance(value, str) and names:
        return f"got {shown(value)}{nearest(value, names)} Allowed: {', '.join(names)}{_own(places)}"
    return f"got {shown(value)}; {_must(places)}{_cure(places, value)}"


def _renamed(path: tuple[str | int, ...]) -> str:
    """The answer to a key in its old spelling."""
    key = str(path[-1])
    return f"it is called {dotted((*path[:-1], RENAMED[key]))} now; {REWRITTEN.get(key, 'rename it')}"


def _must(places: Sequence[Place]) -> str:
    return f"must be {words(places)}"


def _cure(places: Sequence[Place], value: Any) -> str:
    """What to do where the mistake is a common one."""
    if isinstance(value, bool | int | float) and [place.annotation for place in places if place.annotation is str]:
        return f"; put it in quotes to make it text: '{_plain(value)}'"
    share = any(Means(SHARE_WORDS) in place.metadata for place in places)
    if share and isinstance(value, int | float) and 1 < value <= 100:
        return f"; if percent are meant, write '{_plain(value)} %'"
    return ""


def _names(places: Sequence[Place]) -> list[str]:
    """The words that may stand here, if nothing but words may."""
    found: list[str] = []
    for place in places:
        tag = names_of(place.annotation) if is_spec(place.annotation) else ()
        if tag and len(places) > 1:
            found += tag
        elif get_origin(place.annotation) is Literal:
            found += map(str, get_args(place.annotation))
        elif place.annotation is not type(None):
            return []
    return found + [name for door in doors(places) for name in door.announced()]


def _own(places: Sequence[Place]) -> str:
    """How to name a class of one's own, where one may stand."""
    return "".join(f"; or the file of a {door.what} of your own: ./mine.py:Mine" for door in doors(places))


def nearest(given: str, allowed: Sequence[str]) -> str:
    """`, did you mean X?` if something is near, else the full stop."""
    near = get_close_matches(given[:100].lower(), allowed, n=1, cutoff=0.6)
    return f", did you mean {near[0]!r}?" if near else "."


def shown(value: Any) -> str:
    """A value in at most a few words, as YAML writes it."""
    text = _plain(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value[:60])) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_plain(entry)}" for key, entry in list(value.items())[:60]) + "}"
    if isinstance(value, int) and abs(value) >= 10**60:
        return "a whole number of more than 60 digits"
    return repr(value)


def written(location: Sequence[str | int], data: Any, missing: bool) -> tuple[tuple[str | int, ...], Any]:
    """The part of a location that somebody wrote, and the value there, as it was before conversion.

    `missing`: the last key of the location is not there, which is the finding.
    """
    path: list[str | int] = []
    for position, part in enumerate(location):
        last = missing and position == len(location) - 1
        part = str(part) if isinstance(data, dict) else part  # a table may have numbers as keys
        if isinstance(data, dict) and (part in data or last):
            data = data.get(str(part))
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path.append(part)
    return tuple(path), data
