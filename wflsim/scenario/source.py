"""YAML text -> plain values that remember their line.

A strict subset of YAML, because a scenario is a document, not a program: string keys only, no duplicates, no tags, a
bound on size, depth and aliases (YAML bombs), `1e6` is a number, `on`/`no`/dates are text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel

from wflsim.errors import ScenarioError

MAX_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 30
SCALARS = ("str", "int", "float", "bool", "null")

Path_ = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (yaml's own design)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
    list("-+0123456789."),
)


@dataclass
class Source:
    """A parsed document: `data`, and the line of every key path in it."""

    name: str
    data: dict[str, Any]
    lines: dict[Path_, int] = field(default_factory=dict)
    overridden: set[Path_] = field(default_factory=set)
    """Key paths that the command line has set."""
    folder: Path | None = None
    """Folder in which files that the document names are looked for; None: that of `name`."""

    def where(self, path: Path_) -> str:
        """`file:line` of the longest part of the path that was written there, or `--set`."""
        if any(path[: len(key)] == key for key in self.overridden):
            return "--set"
        while path and path not in self.lines:
            path = path[:-1]
        line = self.lines.get(path)
        return self.name if line is None else f"{self.name}:{line}"


def read(path: Path) -> Source:
    """The document in a file; every failure is a ScenarioError that says what to do."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ScenarioError(f"{path}: larger than {MAX_BYTES} bytes; a scenario is a page or two of YAML")
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file; `wflsim new {path}` writes a starter scenario") from None
    except IsADirectoryError:
        raise ScenarioError(f"{path}: is a directory; name the scenario file in it") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Source:
    """Read YAML text into plain values; `name` is what error messages call it."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        hint = "; indent with spaces, not tabs" if "\\t" in str(error) else ""
        raise ScenarioError(f"{name}:{line}: not valid YAML: {error.problem or error.context}{hint}") from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{name}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise ScenarioError(f"{name}: nested too deeply (at most {MAX_DEPTH} levels)") from None
    source = Source(name, {})
    if root is None:
        raise ScenarioError(f"{name}: the file is empty; `wflsim new FILE` writes a starter scenario")
    data = _Walk(source).value(root, (), 0)
    if not isinstance(data, dict):
        what = {list: "a list", type(None): "nothing"}.get(type(data), "a single value")
        raise ScenarioError(
            f"{name}:1: a scenario is a mapping of keys such as `clients: 10`, got {what}; "
            "`wflsim new FILE` writes a starter scenario"
        )
    source.data = data
    return source


def from_mapping(given: Mapping[Any, Any], name: str) -> Source:
    """The document in a mapping, as Python code builds it; its values are copied, as plain YAML has them."""
    return Source(name, _copied(given, name, (), 0))


def _copied(given: Any, name: str, path: Path_, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ScenarioError(f"{name}: {dotted(path[:3])}...: nested too deeply (at most {MAX_DEPTH} levels)")
    if isinstance(given, BaseModel):
        given = given.model_dump(mode="json")
    if isinstance(given, Mapping):
        for key in given:
            if not isinstance(key, str) and (isinstance(key, bool) or not isinstance(key, int)):
                raise ScenarioError(f"{name}: {dotted(path)}: keys are words, got {str(key)[:40]!r}")
        if len({str(key) for key in given}) < len(given):
            raise ScenarioError(f"{name}: {dotted(path)}: a key is given twice, as a number and as a word; keep one")
        return {str(key): _copied(value, name, (*path, str(key)), depth + 1) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_copied(value, name, (*path, i), depth + 1) for i, value in enumerate(given)]
    if isinstance(given, np.generic):
        given = given.item()
    if given is None or isinstance(given, str | bool | int | float):
        return given
    if isinstance(given, os.PathLike):
        return str(given)
    raise ScenarioError(
        f"{name}: {dotted(path)}: a Python object of type {type(given).__name__} cannot stand in a scenario; "
        "write text, a number, true, false, a list or a mapping"
    )


class _Walk:
    """Turns nodes into values, counting as it goes: an alias is expanded, so a bomb is noticed by its size."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.nodes = 0
        self.constructor = yaml.constructor.SafeConstructor()

    def value(self, node: yaml.Node, path: Path_, depth: int) -> Any:
        """The value of a node, whose line is noted under its path."""
        line = node.start_mark.line + 1
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            limit = f"{MAX_NODES} values" if self.nodes > MAX_NODES else f"{MAX_DEPTH} levels"
            raise ScenarioError(f"{self.source.name}:{line}: too large after expanding aliases (at most {limit})")
        self.source.lines.setdefault(path, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, (*path, i), depth + 1) for i, child in enumerate(node.value)]
        if node.tag.removeprefix("tag:yaml.org,2002:") not in SCALARS:
            raise ScenarioError(f"{self.source.name}:{line}: {dotted(path)}: tags such as {node.tag!r} are not allowed")
        try:
            return self.constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError):
            raise ScenarioError(
                f"{self.source.name}:{line}: {dotted(path)}: cannot read {str(node.value)[:40]!r} as {node.tag[18:]}"
            ) from None

    def _mapping(self, node: yaml.MappingNode, path: Path_, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, child in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            at = f"{self.source.name}:{line}: {dotted(path)}" if path else f"{self.source.name}:{line}"
            # Inside blocks a key may be a whole number (a table by tau), and is kept as it is written.
            tags = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:int")[: 2 if path else 1]
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in tags:
                raise ScenarioError(f"{at}: keys are words, got {str(key)[:40]!r}")
            if key in values:
                first = self.source.lines[(*path, key)]
                raise ScenarioError(f"{at}: key {key!r} is given twice (first on line {first}); keep one")
            self.source.lines[(*path, key)] = line
            values[key] = self.value(child, (*path, key), depth + 1)
        return values


def dotted(path: Sequence[str | int]) -> str:
    """policies.0.mu; the document itself is `(top level)`."""
    return ".".join(str(part) for part in path) or "(top level)"
