"""pydantic's findings as sentences: file, line, key path, value given, what is allowed, the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from wflsim.errors import ScenarioError
from wflsim.scenario.source import Source, dotted

MAX_SHOWN = 20


class Inconsistent(ValueError):
    """Values that are fine each by itself but not together: (key path, what is wrong) of every finding."""

    def __init__(self, findings: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(f"{dotted(path)}: {words}" for path, words in findings))
        self.findings = findings


def explain(error: ValidationError, source: Source, model: type[BaseModel]) -> ScenarioError:
    """One error with a line for each finding, in the order of the file."""
    findings: list[tuple[tuple[str | int, ...], str]] = []
    for finding in error.errors():
        cause = finding.get("ctx", {}).get("error")
        if isinstance(cause, Inconsistent):
            findings += cause.findings
        else:
            path, given = written(finding["loc"], source.data, missing=finding["type"] == "missing")
            findings.append((path, sentence(finding, given, model)))
    lines = list(dict.fromkeys(f"{source.where(path)}: {dotted(path)}: {words}" for path, words in findings))
    rest = [f"... and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
    return ScenarioError("\n".join(lines[:MAX_SHOWN] + rest))


def sentence(finding: Mapping[str, Any], value: Any, model: type[BaseModel]) -> str:
    """What is wrong with the value, and what would be right."""
    kind, context = finding["type"], finding.get("ctx", {})
    if kind == "extra_forbidden":
        key = str(finding["loc"][-1])
        allowed = sorted({name for spec in specs_at(model, finding["loc"][:-1]) for name in spec.model_fields})
        return f"unknown key{nearest(key, allowed)} Allowed: {', '.join(allowed) or 'none'}"
    if kind == "missing":
        return "this key is required and missing"
    given = f"got {shown(value)}"
    if kind == "union_tag_not_found":
        return f"needs the key {context['discriminator']} to say which kind it is; {given}"
    if kind in ("literal_error", "union_tag_invalid"):
        expected = context.get("expected") or context["expected_tags"]
        allowed = re.findall(r"'([^']*)'", expected)
        tag = context.get("tag", value)
        return f"got {shown(tag)}{nearest(str(tag), allowed)} Allowed: {', '.join(allowed)}"
    message = finding["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return message if isinstance(value, dict) else f"{given}; {message}"


def nearest(given: str, allowed: Sequence[str]) -> str:
    """`, did you mean X?` if something is near, else the full stop."""
    near = get_close_matches(given.lower(), allowed, n=1, cutoff=0.6)
    return f", did you mean {near[0]!r}?" if near else "."


def shown(value: Any) -> str:
    """A value in at most a few words."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def written(location: Sequence[str | int], data: Any, missing: bool) -> tuple[tuple[str | int, ...], Any]:
    """pydantic's location without the union tags that nobody wrote, and the value there, as it was before conversion.

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


def specs_at(model: type[BaseModel], location: Sequence[str | int]) -> list[type[BaseModel]]:
    """The specs that may stand at a location, following keys, list items and union tags."""
    specs: list[type[BaseModel]] = [model]
    for part in location:
        tagged = [spec for spec in specs if part in tags(spec)]
        fields = [spec.model_fields[str(part)] for spec in specs if part in spec.model_fields]
        inner = [spec for field in fields for spec in specs_in(field.annotation)]
        specs = inner or tagged or specs
    return specs


def specs_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every spec class mentioned in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, UnionType, list, tuple, dict, Annotated):
        for argument in get_args(annotation):
            if argument is not NoneType:
                yield from specs_in(argument)


def tags(spec: type[BaseModel]) -> set[str]:
    """The values by which a union tells this spec from its siblings."""
    literals = [field.annotation for field in spec.model_fields.values() if get_origin(field.annotation) is Literal]
    return {str(value) for literal in literals for value in get_args(literal)}
