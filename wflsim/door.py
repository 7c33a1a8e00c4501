"""The door by which users' classes come in: where a scenario chooses a spec by its `name`, theirs may stand too.

A name without a colon is built in, or announced by an installed package as an entry point. Others say where the class
is: `./mine.py:Mine` (a file, relative to the scenario) or `my_lab.policies:Mine` (a module beside the scenario, or one
that Python can import). A name is settled when the scenario is read: a file's becomes its absolute path, so that worker
processes and a resumed run find the same file.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from wflsim.errors import StoreError
from wflsim.imports import (
    Place,
    content,
    file_below,
    import_fresh,
    importable,
    installed,
    line_of,
    package_of,
    place_of,
    said,
    sources,
    where,
)
from wflsim.spec import BASE

_RECORDED: ContextVar[bool] = ContextVar("_RECORDED", default=False)
"""Whether users' classes are only to be shown, not to be run."""


class Origin(NamedTuple):
    """Where a user's class comes from."""

    file: Path
    line: int
    """Line of the class in its file."""
    files: tuple[Path, ...]
    """Its file and all that it loads from outside the installed packages."""
    package: str
    """Name and version of the installed package; empty for a file of the user's own."""
    digest: str
    """Of the content of all its files, and of the package's name and version."""


class Brought:
    """Mixed into every class that came in by a door."""

    origin: ClassVar[Origin]
    door: ClassVar[Door]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels to other processes as its keys; the class is loaded there from the same files."""
        assert isinstance(self, BaseModel)
        return _arrive, (self.door, self.model_dump(mode="json"), self.origin.digest)


def _arrive(door: Door, keys: dict[str, Any], digest: str) -> Any:
    """A user's spec in another process; refused if its files are not those from which it was made."""
    made = door.find(keys["name"])
    if made.origin.digest != digest:
        changed = f"{made.origin.file} or a file that it loads has changed since the command began"
        raise StoreError(f"{changed}; call it again")
    return made.model_validate(keys)


def origin_of(spec: object) -> Origin | None:
    """Where a user's class or instance comes from; None for what is built in."""
    kind = spec if isinstance(spec, type) else type(spec)
    return kind.origin if issubclass(kind, Brought) else None


@contextmanager
def recorded() -> Iterator[None]:
    """Read the scenario of a result folder to show it: users' classes are not imported, and may be gone by now."""
    token = _RECORDED.set(True)
    try:
        yield
    finally:
        _RECORDED.reset(token)


@dataclass(frozen=True)
class Door:
    """Annotation of a union of specs, discriminated by `name`, that lets users' classes in."""

    what: str
    """What comes in, in a word: policy."""
    group: str
    """Group of the entry points by which installed packages announce theirs."""
    base: type[BaseModel]
    """Class that all of them derive from."""
    builtin: tuple[str, ...]
    """Names that are built in; no other may take them."""
    wrong: Callable[[type[Any]], str | None]
    """What is wrong with a class, as a sentence; None if nothing is."""

    def announced(self) -> dict[str, EntryPoint]:
        """Entry points of installed packages by their names, without those that are built in."""
        found: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self.group):
            if (other := found.get(entry.name)) is not None and other.value != entry.value:
                raise ValueError(
                    f"two installed packages announce the {self.what} {entry.name}, {_owner(other)} and "
                    f"{_owner(entry)}; write {other.value} or {entry.value}"
                )
            found[entry.name] = entry
        return {name: entry for name, entry in sorted(found.items()) if name not in self.builtin}

    def find(self, name: str) -> type[Any]:
        """The class of this name, loaded from its files as they are now; ValueError with a sentence if it cannot be."""
        if ":" not in name:
            entry = self.announced().get(name)
            if entry is None:
                raise ValueError(f"no installed package announces the {self.what} {name!r}")
            return _load(self, name, importable(entry.value), entry.value.rpartition(":")[2], _owner(entry))
        settled, place = _settle(name)
        return _load(self, settled, place, name.rpartition(":")[2], package_of(place))

    def known(self, name: str) -> type[BaseModel] | None:
        """The class that a scenario names so, for messages about its keys; None if it is not a user's."""
        try:
            return self.find(name) if ":" in name or name in self.announced() else None
        except ValueError:
            return None

    def _validate(self, given: Any, builtin: Callable[[Any], Any]) -> Any:
        if isinstance(given, Brought):
            return given
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or name in self.builtin:
            return builtin(given)
        if _RECORDED.get():
            return _recorded_class(self.base).model_validate(given)
        if ":" not in name and name not in self.announced():
            return builtin(given)  # which says what is allowed
        made = self.find(name)
        try:
            return made.model_validate({**given, "name": made.model_fields["name"].default})
        except ValidationError as error:
            raise ValidationError.from_exception_data(error.title, _tagged(error, name)) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        as_it_is = core_schema.wrap_serializer_function_ser_schema(
            lambda value, serialize: serialize(value), schema=core_schema.any_schema()
        )
        return core_schema.no_info_wrap_validator_function(self._validate, handler(source), serialization=as_it_is)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        name = {"type": "string", "pattern": ":", "description": f"Class of a {self.what} of your own: ./mine.py:Mine."}
        own = {"type": "object", "properties": {"name": name}, "required": ["name"]}
        return {"anyOf": [handler(core), {**own, "description": f"A {self.what} of your own, with its own keys."}]}


def _tagged(error: ValidationError, name: str) -> list[InitErrorDetails]:
    """The findings of a user's class, below its name, as pydantic has it for the members of a union."""
    found: list[InitErrorDetails] = []
    for one in error.errors(include_url=False):
        place: InitErrorDetails = {
            "type": one["type"], "loc": (name, *one["loc"]), "input": one["input"], "ctx": one.get("ctx", {})
        }  # fmt: skip
        try:
            ValidationError.from_exception_data("", [place])
        except (KeyError, ValueError, TypeError):  # a kind of error that its author invented
            place["type"] = PydanticCustomError("value_error", "{words}", {"words": f"Value error, {one['msg']}"})
        found.append(place)
    return found


@cache
def _recorded_class(base: type[BaseModel]) -> type[BaseModel]:
    """A class for specs of users that are only shown: it takes any keys."""
    kind: Any = type(base)
    made: type[BaseModel] = kind("Recorded", (base,), {"model_config": ConfigDict(extra="allow")})
    return made


def _settle(name: str) -> tuple[str, Place]:
    """The name with its path made absolute, and the file that it means."""
    path, _, attribute = name.rpartition(":")
    if not attribute.isidentifier() or "\0" in name:
        raise ValueError(f"got {name[:200]!r}; write it as ./file.py:Class, or package.module:Class")
    if path.endswith(".py"):
        try:
            file = (BASE.get() / Path(path).expanduser()).resolve()
            found = file.is_file()
        except (OSError, RuntimeError):  # a name longer than the system allows; a home that is not there
            found = False
        if not found:
            raise ValueError(f"no such file: {str(BASE.get() / path)[:200]}; names are relative to the scenario file")
        return f"{file}:{attribute}", place_of(file)
    if not all(part.isidentifier() for part in path.split(".")):
        raise ValueError(f"got {name[:200]!r}; write it as ./file.py:Class, or package.module:Class")
    if (beside := file_below(BASE.get(), path)) is not None and path.split(".")[0] != "wflsim":
        return f"{beside.resolve()}:{attribute}", place_of(beside.resolve())
    return name, importable(name)


def _owner(entry: EntryPoint) -> str:
    """Name and version of the package that announces an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


_LOADED: dict[tuple[Door, str, str], type[Any]] = {}
"""Classes that were loaded before, by door, settled name and digest of their files."""
_FILES: dict[Place, tuple[dict[str, Path], dict[str, str]]] = {}
"""Files that belong to a place, and the digests of their content when they were last looked for."""


def _load(door: Door, name: str, place: Place, attribute: str, package: str) -> type[Any]:
    """The user's class, prepared to be chosen by this name; the same one again as long as its files do not change."""
    files, digests = _FILES.get(place, ({}, {}))
    try:
        if not files or content(files) != digests:
            files = sources(place)
            digests = content(files)
    except OSError:  # one of them is gone
        files = sources(place)
        digests = content(files)
    _FILES[place] = files, digests
    causes = json.dumps([digests, package], sort_keys=True)
    digest = blake2b(causes.encode(), digest_size=16).hexdigest()
    if (door, name, digest) not in _LOADED:
        found = _imported(door, place, attribute, files)
        line = line_of(place.file, attribute)
        if (wrong := door.wrong(found)) is not None:
            raise ValueError(f"{place.file}:{line}: {attribute} {wrong}")
        origin = Origin(place.file, line, tuple(files.values()), package, digest)
        chosen_by: Any = {"name": (Literal[name], name)}
        _LOADED[door, name, digest] = create_model(
            found.__name__, __base__=(Brought, found), __module__=found.__module__, __doc__=found.__doc__, **chosen_by
        )
        _LOADED[door, name, digest].origin, _LOADED[door, name, digest].door = origin, door
    return _LOADED[door, name, digest]


def _imported(door: Door, place: Place, attribute: str, files: dict[str, Path]) -> type[Any]:
    """The class as its file defines it."""
    try:
        module = importlib.import_module(place.module) if installed(place.file) else import_fresh(place)
    except (Exception, SystemExit) as error:  # a stranger's file may raise anything, from a syntax error on
        raise ValueError(f"{where(error, files.values()) or place.file}: cannot be imported: {said(error)}") from None
    found = getattr(module, attribute, None)
    if found is None:
        defined = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == place.module]
        there = f"it has {', '.join(kind.__name__ for kind in defined)}" if defined else "it has no class"
        raise ValueError(f"{place.file}: defines no {attribute!r}; {there}")
    if not isinstance(found, type) or not issubclass(found, door.base):
        raise ValueError(
            f"{place.file}:{line_of(place.file, attribute)}: {attribute} is not a {door.what}: it must be a class "
            f"derived from {door.base.__module__}.{door.base.__name__}"
        )
    return found
