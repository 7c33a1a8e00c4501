"""What a scenario's spec allows at a key, in words: read off the annotations, so that no message can go stale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from wflsim.door import Door
from wflsim.spec import Means

NUMBERS = {int: "a whole number", float: "a number"}
MANY = (list, tuple, dict)


class Place(NamedTuple):
    """A type that may stand at a key, with the limits that its annotation sets."""

    annotation: Any
    metadata: tuple[Any, ...] = ()


def of_field(field: FieldInfo) -> Place:
    """The type of one key of a spec."""
    return plain(Place(field.annotation, tuple(field.metadata)))


def plain(place: Place) -> Place:
    """Without the `Annotated` around it: what that says is among the metadata."""
    annotation, metadata = place
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        inner = [limit for item in more for limit in (item.metadata if isinstance(item, FieldInfo) else [item])]
        metadata = (*inner, *metadata)
    return Place(annotation, metadata)


def alternatives(place: Place) -> list[Place]:
    """The members of a union; of anything else, itself."""
    place = plain(place)
    if get_origin(place.annotation) in (Union, UnionType):
        return [part for member in get_args(place.annotation) for part in alternatives(Place(member, place.metadata))]
    return [place]


def items(place: Place) -> Place | None:
    """The type of the items of a list, a tuple or of the values of a table; None of anything else."""
    if get_origin(place.annotation) not in MANY:
        return None
    inner = [argument for argument in get_args(place.annotation) if argument is not Ellipsis]
    return plain(Place(inner[-1]))


def keys(place: Place) -> Place | None:
    """The type of the keys of a table; None of anything else."""
    return plain(Place(get_args(place.annotation)[0])) if get_origin(place.annotation) is dict else None


def is_spec(annotation: Any) -> bool:
    """Whether a type is a block of a scenario."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def specs_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every spec class mentioned in an annotation."""
    for place in alternatives(Place(annotation)):
        inner = items(place)
        if inner is not None:
            yield from specs_in(inner.annotation)
        elif is_spec(place.annotation):
            yield place.annotation


def names_of(spec: type[BaseModel]) -> tuple[str, ...]:
    """The values of the key `name` that choose this spec among its alternatives; empty if there is nothing to choose.

    `name` is the one key that chooses a variant, in every block of a scenario.
    """
    field = spec.model_fields.get("name")
    if field is None or get_origin(field.annotation) is not Literal:
        return ()
    return tuple(map(str, get_args(field.annotation)))


def places_at(model: type[BaseModel], location: Sequence[str | int]) -> list[Place]:
    """The types that may stand at pydantic's location of an error, following keys, items and union tags.

    Parts of the location that nobody wrote (the tags of unions, the names of validators) are passed over.
    """
    return _follow(model, location)[0]


def without_tags(model: type[BaseModel], location: Sequence[str | int]) -> list[str | int]:
    """pydantic's location of an error without the union tags in it, which nobody wrote."""
    return _follow(model, location)[1]


def _follow(model: type[BaseModel], location: Sequence[str | int]) -> tuple[list[Place], list[str | int]]:
    places, kept = [Place(model)], list[str | int]()
    for part in location:
        blocks = [place for place in places if is_spec(place.annotation)]
        tagged = [place for place in blocks if str(part) in names_of(place.annotation)]
        if tagged and len(blocks) > 1:  # a tag may have the name of a key: `module` of a model has both
            places = tagged
            continue
        if brought := _brought(blocks, part):
            places = [Place(brought)]
            continue
        kept.append(part)
        places = [step for place in places for step in _steps(place, part)] or places
    return places, kept


def doors(places: Sequence[Place]) -> list[Door]:
    """The doors by which users' classes may come to these places."""
    return list(dict.fromkeys(item for place in places for item in place.metadata if isinstance(item, Door)))


def _brought(blocks: Sequence[Place], part: str | int) -> type[BaseModel] | None:
    """The user's class that is chosen by this name at the places."""
    found = (door.known(part) for door in doors(blocks) if isinstance(part, str) and len(blocks) > 1)
    return next((spec for spec in found if spec is not None), None)


def _steps(place: Place, part: str | int) -> list[Place]:
    if is_spec(place.annotation):
        field = place.annotation.model_fields.get(str(part))
        return [] if field is None else alternatives(of_field(field))
    inner = items(place)
    if inner is None or (isinstance(part, str) and get_origin(place.annotation) is not dict):
        return []
    return alternatives(inner)


def words(places: Sequence[Place]) -> str:
    """What may stand there, finishing the sentence `must be ...`."""
    said = list(dict.fromkeys(_blocks(places) + [_one(place) for place in places if not is_spec(place.annotation)]))
    return ", or ".join(text for text in said if text)


def _blocks(places: Sequence[Place]) -> list[str]:
    """All blocks of a union in one phrase."""
    specs = [place.annotation for place in places if is_spec(place.annotation)]
    names = [name for spec in specs for name in names_of(spec)]
    if names and len(specs) > 1:
        return [f"a block with the key name, one of {', '.join(names)}"]
    return [f"a block with keys out of {', '.join(spec.model_fields)}" for spec in specs]


def _one(place: Place) -> str:
    annotation, metadata = plain(place)
    kind = get_origin(annotation) or annotation
    inner = items(place)
    if annotation in (None, NoneType):
        return "null"
    if kind is Literal:
        values = ", ".join(map(str, get_args(annotation)))
        return f"one of {values}" if len(get_args(annotation)) > 1 else values
    said = next((item for item in reversed(metadata) if isinstance(item, Means)), Means(""))
    means = said.words
    if inner is not None and means:
        return means
    if inner is not None and kind is dict:
        names = words(alternatives(keys(place) or inner))
        return f"a table whose keys are each {names}, and its values each {words(alternatives(inner))}"
    if inner is not None and any(isinstance(item, BeforeValidator) for item in metadata):
        return f"{words(alternatives(inner))}, or a list of such values"
    if inner is not None:
        return f"a list of {_number_of_items(annotation, metadata)}, each {words(alternatives(inner))}"
    if annotation is bool:
        return "true or false"
    if annotation is str:
        return means or _text(metadata)
    if annotation is Any:
        return "anything"
    return (means or NUMBERS.get(annotation, "a value of another kind")) + _range(metadata, said.unit)


def _limits(metadata: Sequence[Any], name: str) -> list[Any]:
    return [limit for item in metadata if (limit := getattr(item, name, None)) is not None]


def _range(metadata: Sequence[Any], unit: str) -> str:
    """`, at least 0 and less than 1`: all bounds together, in the unit of the quantity; 0 needs none."""
    least, above = (max(_limits(metadata, name), default=None) for name in ("ge", "gt"))
    most, below = (min(_limits(metadata, name), default=None) for name in ("le", "lt"))
    if above is not None and (least is None or above >= least):
        low = f"greater than {_number(above, unit)}"
    else:
        low = "" if least is None else f"at least {_number(least, unit)}"
    if below is not None and (most is None or below <= most):
        high = f"less than {_number(below, unit)}"
    else:
        high = "" if most is None else f"at most {_number(most, unit)}"
    return "".join(f", {bound}" for bound in (" and ".join(filter(None, (low, high))),) if bound)


def _number(value: Any, unit: str) -> str:
    text = f"{value:g}" if isinstance(value, float) or abs(value) >= 10**9 else str(value)
    return f"{text} {unit}" if unit and value else text


def _text(metadata: Sequence[Any]) -> str:
    least, most = _limits(metadata, "min_length"), _limits(metadata, "max_length")
    if most:
        return f"text of {max(least, default=0)} to {min(most)} characters"
    return "text" + (" that is not empty" if least else "")


def _number_of_items(annotation: Any, metadata: Sequence[Any]) -> str:
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple and Ellipsis not in arguments:
        return f"{len(arguments)} items"
    least, most = _limits(metadata, "min_length"), _limits(metadata, "max_length")
    if most:
        return f"{max(least, default=0)} to {min(most)} items"
    return "at least one item" if least else "items"
