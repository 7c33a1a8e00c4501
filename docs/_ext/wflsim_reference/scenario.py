"""Pages of the scenario's keys, walked from the specs: type, unit, default and meaning of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from wflsim.scenario.allowed import Place, alternatives, items, names_of, of_field, specs_in, words
from wflsim.scenario.schema import Scenario
from wflsim.spec import Choices, Means, Spec, first_paragraph
from wflsim.units import ratio_to_db
from wflsim_reference.markdown import code, docstring, prose, table

ELSEWHERE = ("policies",)
"""Keys whose blocks have pages of their own."""


class Block(NamedTuple):
    """One spec where it stands in a scenario."""

    path: str
    """Dotted key of the block."""
    spec: type[BaseModel]


def description(spec: type[BaseModel], key: str) -> str:
    """What a key means: its docstring, that of a base class, or of the variant that `name` chooses; else empty."""
    if issubclass(spec, Spec):
        found = spec.model_json_schema()
        holder = found if "properties" in found else found.get("$defs", {}).get(spec.__name__, {})
        return str(holder.get("properties", {}).get(key, {}).get("description", ""))
    return spec.model_fields[key].description or ""


def unit(field: FieldInfo) -> str:
    """The unit of a quantity; empty for everything else."""
    return next((said for place in _deep(of_field(field)) for said in _units(place)), "")


def _deep(place: Place) -> Iterator[Place]:
    for part in alternatives(place):
        yield part
        inner = items(part)
        if inner is not None:
            yield from _deep(inner)


def _units(place: Place) -> Iterator[str]:
    found = [item.unit for item in place.metadata if isinstance(item, Means) and item.unit]
    yield from ("dB, or linear" if one == "linear" else one for one in found)


def default(field: FieldInfo) -> str:
    """The default as a scenario would write it."""
    if field.is_required():
        return "required"
    return code(_written(field.get_default(call_default_factory=True), unit(field)))


def _written(value: Any, unit: str = "") -> str:
    if isinstance(value, float) and unit:
        return f"{ratio_to_db(value):.6g} dB" if unit.startswith("dB") else f"{value:.6g} {unit}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel):
        name = getattr(value, "name", None)
        return f"{{name: {name}}}" if isinstance(name, str) and name in names_of(type(value)) else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(item, unit) for item in value) + "]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if value != "" else "''"


def kinds(field: FieldInfo) -> str:
    """What may stand at the key, as error messages say it; long lists of blocks are shortened."""
    places = alternatives(of_field(field))
    blocks = [place for place in places if list(specs_in(place.annotation))]
    if not blocks:
        return words(places)
    names = [name for place in blocks for spec in specs_in(place.annotation) for name in names_of(spec)]
    form = "a list of blocks" if any(items(place) is not None for place in blocks) else "a block"
    text = form + (f", name: {', '.join(names)}" if names and len(names) < 30 else "")
    return text + (", or null" if any(place.annotation is type(None) for place in places) else "")


def keys_table(spec: type[BaseModel], leave_out: tuple[str, ...] = ()) -> str:
    """The keys of a block as a table."""
    rows = []
    for key, field in spec.model_fields.items():
        if key not in leave_out:
            meaning = prose(description(spec, key)) + _choices(field)
            rows.append([code(key), prose(kinds(field)), unit(field), default(field), meaning])
    return table(["key", "what may stand there", "unit", "default", "meaning"], rows) if rows else "It takes no keys.\n"


def _choices(field: FieldInfo) -> str:
    found = next((item for item in of_field(field).metadata if isinstance(item, Choices)), None)
    return "" if found is None else " " + "; ".join(f"`{name}`: {prose(what)}" for name, what in found.lines) + "."


def blocks(spec: type[BaseModel], path: str) -> Iterator[Block]:
    """A spec and every block below it, in the order of the keys."""
    yield Block(path, spec)
    for key, field in spec.model_fields.items():
        for inner in specs_in(field.annotation):
            yield from blocks(inner, f"{path}.{key}")


def top_blocks() -> dict[str, list[Block]]:
    """By top-level key of a scenario, every block at and below it."""
    found = {}
    for key, field in Scenario.model_fields.items():
        specs = list(specs_in(field.annotation))
        if specs and key not in ELSEWHERE:
            found[key] = [block for spec in specs for block in blocks(spec, key)]
    return found


def pages() -> dict[str, str]:
    """A page with the top-level keys, and one for every block among them."""
    inner = {f"scenario/{key}.md": _page(key, found) for key, found in top_blocks().items()}
    toc = "\n".join(path.removesuffix(".md") for path in inner)
    text = (
        "# Scenario keys\n\nA scenario is a YAML file with the keys below. Quantities carry units (`10 MHz`, `20 dBm`, "
        "`30 min`) or are plain numbers in the unit of the table; a ratio such as an SNR must say `dB` or `linear`. "
        "Unknown keys are refused. `wflsim check FILE` reads a scenario without running it.\n\n"
        + keys_table(Scenario)
        + "\nThe blocks among them have pages of their own; [policies](policies.md) have one each.\n\n"
        + f"```{{toctree}}\n:maxdepth: 1\n\n{toc}\n```\n"
    )
    return {"scenario.md": text, **inner}


def _page(key: str, found: list[Block]) -> str:
    about = description(Scenario, key)
    parts = [f"# {key}\n\n{prose(about)}\n"]
    seen: set[tuple[str, type[BaseModel]]] = set()
    for block in found:
        if (block.path, block.spec) in seen:
            continue
        seen.add((block.path, block.spec))
        names = names_of(block.spec)
        several = sum(other.path == block.path for other in found) > 1
        title = f"`{block.path}`" + (f", `name: {' | '.join(names)}`" if names and several else "")
        text = docstring(block.spec.__doc__ or "")
        parts.append(f"## {title}\n\n{text}\n{keys_table(block.spec)}")
    return "\n".join(parts)


def undescribed() -> list[str]:
    """Keys of a scenario, and choices, that have no description."""
    specs = {spec: path for found in top_blocks().values() for path, spec in found}
    policies = dict.fromkeys(specs_in(Scenario.model_fields["policies"].annotation), "policies")
    return [
        f"{path}.{key}".lstrip(".")
        for spec, path in {Scenario: "", **specs, **policies}.items()
        for key in spec.model_fields
        if not description(spec, key) or not first_paragraph(spec)
    ]


__all__ = ["Block", "keys_table", "pages", "undescribed"]
