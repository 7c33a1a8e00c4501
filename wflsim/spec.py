"""`Spec`, the pydantic model from which every block of a scenario derives, and words about its keys.

A docstring below a key is its description in the JSON Schema, which editors show. `Means` and `Choices` are metadata of
annotations, for error messages and `wflsim list`. `InputFile` is a file that a scenario names, relative to itself.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True)
class Means:
    """What a value of an annotated type is, in the words that error messages use."""

    words: str
    """Words that finish the sentence `must be ...`."""
    unit: str = ""
    """Unit of the bounds that the annotation sets; empty if they have none."""


@dataclass(frozen=True)
class Choices:
    """The values of a Literal, each with a line that describes it, for `wflsim list`."""

    lines: tuple[tuple[str, str], ...]


def choices(**lines: str) -> Choices:
    """Describe the values of a Literal: each is a keyword, its line the argument."""
    return Choices(tuple(lines.items()))


class Spec(BaseModel):
    """Base of every block of a scenario: frozen, no unknown keys, no NaN, and true is not the number 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_truth_for_numbers(cls, given: Any) -> Any:
        """Make words of true and false where a number is expected, which pydantic would read as 1 and 0.

        Nobody who writes `clients: true` means one client; as a word it is refused like any other.
        """
        if not isinstance(given, dict):
            return given
        numbers = _number_keys(cls)
        wrong = {key: _as_words(value) for key, value in given.items() if key in numbers and _holds_truth(value)}
        return {**given, **wrong} if wrong else given


    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema of the block, in which every key has a description.

        A key that is declared again without a docstring keeps that of its base. The key `name`, which chooses among
        variants, is described by the variant that it chooses.
        """
        schema = handler(core)
        for key, about in handler.resolve_ref_schema(schema).get("properties", {}).items():
            found = about.get("description") or _inherited_description(cls, key)
            if found is None and key == "name" and ("const" in about or "enum" in about):
                found = first_paragraph(cls)
            if found is not None:
                about["description"] = " ".join(found.split())
        return schema


def first_paragraph(spec: type[BaseModel]) -> str:
    """The first paragraph of a spec's own docstring, on one line: what the block is."""
    return " ".join(cleandoc(spec.__doc__ or "").partition("\n\n")[0].split())


def _inherited_description(spec: type[BaseModel], key: str) -> str | None:
    """The docstring of a key in the nearest base that has one."""
    bases = [base for base in spec.__mro__[1:] if issubclass(base, BaseModel) and key in base.model_fields]
    return next((text for base in bases if (text := base.model_fields[key].description)), None)


def _holds_truth(given: Any) -> bool:
    return any(map(_holds_truth, given)) if isinstance(given, list) else isinstance(given, bool)


def _as_words(given: Any) -> Any:
    if isinstance(given, list):
        return [_as_words(item) for item in given]
    return ("true" if given else "false") if isinstance(given, bool) else given


@cache
def _number_keys(spec: type[BaseModel]) -> frozenset[str]:
    """Keys whose values are numbers and cannot be true or false."""
    parts = {key: _parts(field.annotation) for key, field in spec.model_fields.items()}
    return frozenset(key for key, found in parts.items() if found & {int, float} and not found & {bool, Any})


def _parts(annotation: Any) -> set[Any]:
    """The plain types that an annotation mentions."""
    if isinstance(annotation, type):
        return {annotation}
    return {Any} if annotation is Any else set().union(*(_parts(part) for part in get_args(annotation)))


BASE: ContextVar[Path] = ContextVar("BASE", default=Path())
"""Folder of the scenario that is being read: files that it names are looked for there."""


def _input_file(given: Any) -> str:
    """The absolute path of a file that exists, from its name in a scenario."""
    if not isinstance(given, str | Path) or not str(given).strip() or "\0" in str(given):
        raise ValueError("must be the name of a file")
    path = BASE.get() / given
    try:
        found = path.is_file()
    except OSError:  # a name longer than the system allows
        found = False
    if not found:
        raise ValueError(f"no such file: {str(path)[:200]}; names are relative to the scenario file")
    return str(path.resolve())


InputFile = Annotated[str, BeforeValidator(_input_file), Means("the name of a file beside the scenario file")]
