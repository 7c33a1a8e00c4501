"""What there is to choose from: read off the specs themselves, so that it cannot go stale."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table

from wflsim.policies.registry import POLICIES
from wflsim.scenario.allowed import specs_in
from wflsim.scenario.schema import Scenario


def policies_table() -> Table:
    """Every server policy with its paper and what it asks of clients and radio."""
    table = Table(title="policies", title_justify="left")
    for column in ("name", "paper", "phases", "down", "up", "needs", "parameters"):
        table.add_column(column, overflow="fold")
    for policy in POLICIES:
        facts = [str(getattr(policy, name, "")) for name in ("paper", "phases", "down", "up", "needs")]
        table.add_row(str(policy.model_fields["name"].default), *map(escape, facts), escape(parameters(policy)))
    return table


def kinds_table(title: str, *keys: str) -> Table:
    """Every spec that may stand under the given top-level keys of a scenario."""
    table = Table(title=title, title_justify="left")
    for column in ("key", "kind", "what it is", "parameters"):
        table.add_column(column, overflow="fold")
    for key in keys:
        for spec in specs_in(Scenario.model_fields[key].annotation):
            table.add_row(key, tag(spec), escape(first_line(spec)), escape(parameters(spec)))
    return table


def tag(spec: type[BaseModel]) -> str:
    """The value of `name` or `kind` that selects a spec."""
    for key in ("name", "kind"):
        if key in spec.model_fields:
            return ", ".join(str(value) for value in get_args(spec.model_fields[key].annotation))
    return ""


def first_line(spec: type[BaseModel]) -> str:
    return (spec.__doc__ or "").strip().partition("\n")[0]


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
    return "none" if value is None else str(value)
