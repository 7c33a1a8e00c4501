"""What there is to choose from in a scenario: read off the specs themselves, so that it cannot go stale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from inspect import cleandoc
from typing import Any, NamedTuple

from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table

from wflsim.errors import ScenarioError
from wflsim.policies.registry import POLICIES
from wflsim.scenario.allowed import of_field, specs_in, tag_of
from wflsim.scenario.explain import nearest
from wflsim.scenario.schema import Scenario
from wflsim.units import Choices

TOGETHER = {"models": ("model", "train"), "datasets": ("data", "partition"), "radios": ("radio", "cell"),
            "devices": ("devices", "server")}  # fmt: skip
"""Words for several top-level keys at once."""


class Entry(NamedTuple):
    """One choice: its name, a line that says what it is, and the keys that it takes."""

    name: str
    what: str
    parameters: str


class Group(NamedTuple):
    """The choices at one key of a scenario; without `entries`, the key is a block that is always of the same kind."""

    key: str
    example: str
    entries: list[Entry]


def groups() -> list[Group]:
    """Every key with a choice, and every block, in the order of the scenario; each kind once."""
    once: dict[tuple[Entry, ...], Group] = {}
    for group in _walk(Scenario, "", str):
        # a decaying step is of the same kind under every name that policies give it
        once.setdefault(tuple(entry._replace(name="") for entry in group.entries), group)
    return list(once.values())


def tables(what: str = "all") -> list[Table]:
    """The tables that a word asks for: a key of the scenario, the last part of one, or several keys at once."""
    found = groups()
    starts = TOGETHER.get(what, (what,))
    chosen = [
        group for group in found
        if what == "all" or group.key.split(".")[0] in starts or group.key.split(".")[-1] == what or group.key == what
    ]  # fmt: skip
    if not chosen:
        names = sorted({group.key.split(".")[-1] for group in found} | set(TOGETHER))
        raise ScenarioError(f"list: got {what!r}{nearest(what, names)} Allowed: {', '.join(names)}, store")
    return [_policies_table() if group.key == "policies" else _table(group) for group in chosen]


def _walk(spec: type[BaseModel], path: str, around: Callable[[str], str]) -> Iterator[Group]:
    """Groups below a spec; `around` puts keys of the spec where they stand in a scenario."""
    for key, field in spec.model_fields.items():
        here = f"{path}.{key}" if path else key
        specs = list(specs_in(field.annotation))
        block = partial(_within, around, "{}: [{{{}}}]" if here == "policies" else "{}: {{{}}}", key)
        described = next((item for item in of_field(field).metadata if isinstance(item, Choices)), None)
        if described is not None:
            entries = [Entry(name, what, "") for name, what in described.lines]
            yield Group(here, around(f"{key}: {entries[0].name}"), entries)
        elif specs and (tag := tag_of(specs[0])):
            entries = [Entry(", ".join((tag_of(one) or tag)[1]), first_line(one), parameters(one)) for one in specs]
            yield Group(here, block(f"{tag[0]}: {tag[1][0]}"), entries)
        elif specs:
            yield Group(here, block("..."), [Entry(key, first_line(specs[0]), parameters(specs[0]))])
        for one in specs:
            tag = tag_of(one)
            named = "" if tag is None else f"{tag[0]}: {tag[1][0]}, "
            yield from _walk(one, here, partial(_within, block, "{}{}", named))


def _within(around: Callable[[str], str], form: str, before: str, keys: str) -> str:
    return around(form.format(before, keys))


def _table(group: Group) -> Table:
    table = Table(title=f"{group.key}, written {escape(group.example)}", title_justify="left")
    shown = 3 if any(entry.parameters for entry in group.entries) else 2
    for column in ("choice", "what it is", "keys it takes, with their defaults")[:shown]:
        table.add_column(column, overflow="fold")
    for entry in group.entries:
        table.add_row(*map(escape, entry[:shown]))
    return table


def _policies_table() -> Table:
    """Every server policy with its paper and what it asks of clients and radio."""
    table = Table(title=escape("policies, written policies: [{name: fedavg, ...}, ...]"), title_justify="left")
    facts_of = ("paper", "phases", "down", "up", "needs")
    for column in ("name", "what it is", *facts_of, "keys it takes, with their defaults"):
        table.add_column(column, overflow="fold")
    for policy in POLICIES:
        facts = [str(getattr(policy, name, "")) for name in facts_of]
        name = str(policy.model_fields["name"].default)
        table.add_row(name, *map(escape, (first_line(policy), *facts, parameters(policy))))
    return table


def first_line(spec: type[BaseModel]) -> str:
    """The first paragraph of a spec's own docstring, on one line."""
    return " ".join(cleandoc(spec.__doc__ or "").partition("\n\n")[0].split())


def parameters(spec: type[BaseModel]) -> str:
    """`tau=10, eta=0.05, m`: names with defaults, required ones bare."""
    return ", ".join(
        name if field.is_required() else f"{name}={_short(field.get_default(call_default_factory=True))}"
        for name, field in spec.model_fields.items()
        if name not in ("name", "kind", "label")
    )


def _short(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "{...}"
    if isinstance(value, list) and any(isinstance(item, BaseModel) for item in value):
        return "[...]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)
