"""The tables of `wflsim list`: what there is to choose from in a scenario, read off the specs themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table

from wflsim.errors import ScenarioError
from wflsim.policies.registry import BUILTIN, DOOR
from wflsim.scenario.allowed import names_of, of_field, specs_in
from wflsim.scenario.explain import nearest
from wflsim.scenario.schema import Scenario
from wflsim.spec import Choices, first_paragraph

TOGETHER = {"models": ("model", "train"), "datasets": ("data", "partition"), "radios": ("radio", "cell"),
            "devices": ("devices", "server")}  # fmt: skip
"""Words of `wflsim list` that stand for several top-level keys."""


class Entry(NamedTuple):
    """One thing to choose in a scenario: its name, and a line about it."""

    name: str
    what: str
    """What the choice means, in one line."""
    parameters: str
    """The keys that it takes, with their defaults."""


class Group(NamedTuple):
    """The choices at one key of a scenario; a block without variants has one."""

    key: str
    """Dotted key of the scenario, such as radio.path_loss."""
    example: str
    """The first choice as it is written in a scenario."""
    entries: list[Entry]


def groups() -> list[Group]:
    """Every key with choices and every block, in the order of the scenario; equal choices are listed once."""
    once: dict[tuple[Entry, ...], Group] = {}
    for group in _walk(Scenario, "", str):
        # A decaying step is the same block under every key that policies give it.
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
    """The groups below a spec; `around` puts a key of the spec where it stands in a scenario, for the example."""
    for key, field in spec.model_fields.items():
        here = f"{path}.{key}" if path else key
        inside = partial(_within, around, "{}{}", _beside(spec, key))
        specs = list(specs_in(field.annotation))
        block = partial(_within, inside, "{}: [{{{}}}]" if here == "policies" else "{}: {{{}}}", key)
        described = next((item for item in of_field(field).metadata if isinstance(item, Choices)), None)
        if described is not None:
            entries = [Entry(name, what, "") for name, what in described.lines]
            yield Group(here, inside(f"{key}: {entries[0].name}"), entries)
        elif specs and names_of(specs[0]):
            entries = [Entry(", ".join(names_of(one)), first_paragraph(one), parameters(one)) for one in specs]
            yield Group(here, block(_beside(specs[0], "").removesuffix(", ")), entries)
        elif specs:
            yield Group(here, block("..."), [Entry(key, first_paragraph(specs[0]), parameters(specs[0]))])
        for one in specs:
            yield from _walk(one, here, block)


def _beside(spec: type[BaseModel], key: str) -> str:
    """What must stand before a key in a block that is chosen by name: the name, and required keys to be filled in."""
    required = [
        other for other, field in spec.model_fields.items() if field.is_required() and other not in ("name", key)
    ]
    return "".join(f"name: {name}, " + "".join(f"{other}: ..., " for other in required) for name in names_of(spec)[:1])


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
    """Table of all server policies with their papers and what they ask of clients and radio."""
    table = Table(title=escape("policies, written policies: [{name: fedavg, ...}, ...]"), title_justify="left")
    facts_of = ("paper", "phases", "down", "up", "needs")
    for column in ("name", "what it is", *facts_of, "keys it takes, with their defaults"):
        table.add_column(column, overflow="fold")
    for name, policy in BUILTIN.items():
        facts = [str(getattr(policy.about, fact)) for fact in facts_of]
        table.add_row(name, *map(escape, (first_paragraph(policy), *facts, parameters(policy))))
    for name, entry in DOOR.announced().items():
        table.add_row(escape(name), *map(escape, _announced(name, entry.value, facts_of)))
    table.caption = escape("one of your own: policies: [{name: ./mine.py:Mine, ...}]; `wflsim new --policy mine.py`")
    return table


def _announced(name: str, value: str, facts_of: Sequence[str]) -> list[str]:
    """What an installed package's policy is, or why it cannot be used."""
    try:
        policy = DOOR.find(name)
    except ValueError as error:
        return [f"cannot be used: {error}"]
    facts = [str(getattr(policy.about, fact)) for fact in facts_of]
    origin = f"{first_paragraph(policy)} ({policy.origin.package}, {value})"
    return [origin, *facts, parameters(policy)]


def parameters(spec: type[BaseModel]) -> str:
    """The keys of a spec with their defaults, required ones bare: `tau=10, eta=0.05, m`."""
    return ", ".join(
        name if field.is_required() else f"{name}={_short(field.get_default(call_default_factory=True))}"
        for name, field in spec.model_fields.items()
        if name not in ("name", "label")
    )


def _short(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "{...}"
    if isinstance(value, list) and any(isinstance(item, BaseModel) for item in value):
        return "[...]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)
