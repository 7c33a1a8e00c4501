"""One setting of the knobs: the local steps tau and the values of other scenario keys, and the scenario that has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError

from wflsim.errors import ScenarioError
from wflsim.experiments.plan import written
from wflsim.policies.registry import PolicySpec
from wflsim.scenario import Scenario, assign, build
from wflsim.scenario.source import Source

Knobs = tuple[tuple[str, str], ...]
"""Keys besides tau, each with its value as JSON, so that settings can be compared, sorted and looked up."""
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"))
UNITS = {"power": "W", "radiated_power": "W", "frequency": "Hz", "bandwidth": "Hz"}
"""Unit of a key by its last part; others are plain numbers."""
WRITABLE = {"W": ("k", "", "m", "u"), "Hz": ("G", "M", "k", "")}
"""Prefixes of each unit that a scenario may write."""
DIGITS = 4
"""Significant digits of a value that was searched in a range."""


class Setting(NamedTuple):
    """A candidate before it is looked at in a regime: what its training depends on."""

    tau: int
    knobs: Knobs = ()

    def __str__(self) -> str:
        return in_words(self.tau, self.knobs)


def in_words(tau: int, knobs: Knobs) -> str:
    """A setting as --set takes it: "tau=10, m=5, radio.power=31.62 mW"."""
    return ", ".join([f"tau={tau}", *(f"{key}={text}" for key, text in texts(knobs).items())])


def texts(knobs: Knobs) -> dict[str, str]:
    """Value of every knob as people write it, by key."""
    return {key: written(json.loads(value)) for key, value in knobs}


def encoded(value: Any) -> str:
    """A value as JSON, as `Knobs` hold it."""
    return json.dumps(value, sort_keys=True)


def quantity(key: str, value: float) -> Any:
    """A number as a scenario writes it, with few digits: 31.62 mW of a power; of a key without a unit, the number."""
    unit = UNITS.get(key.rsplit(".", 1)[-1])
    if unit is None:
        return float(f"{value:.{DIGITS}g}")
    known = [(size, prefix) for size, prefix in PREFIXES if prefix in WRITABLE[unit]]
    size, prefix = next((one for one in known if abs(value) >= one[0] * 0.99995), known[-1])
    return f"{value / size:.{DIGITS}g} {prefix}{unit}"


def with_tau(scenario: Scenario, policy: int, tau: int) -> Scenario:
    """The scenario with one policy's tau changed, as valid as if it were written so."""
    given = scenario.policies[policy].model_dump(mode="json")
    try:
        changed = TypeAdapter(PolicySpec).validate_python({**given, "tau": tau})
    except ValidationError as error:
        words = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ScenarioError(f"tune: {scenario.labels[policy]} cannot have tau={tau}: {words}") from None
    policies = (*scenario.policies[:policy], changed, *scenario.policies[policy + 1 :])
    return scenario.model_copy(update={"policies": policies, "sweep": None, "tune": None})


def with_setting(scenario: Scenario, policy: int, setting: Setting) -> Scenario:
    """The scenario with this setting of its knobs, as valid as if it were written so."""
    changed = with_tau(scenario, policy, setting.tau)
    return with_knobs(changed, policy, setting.knobs) if setting.knobs else changed


def with_knobs(scenario: Scenario, policy: int, knobs: Knobs) -> Scenario:
    """The scenario with other values of these keys; those without a dot are keys of the policy."""
    data = scenario.model_copy(update={"sweep": None, "tune": None}).model_dump(mode="json")
    said = f"tune.knobs ({', '.join(f'{key}={text}' for key, text in texts(knobs).items())})"
    for key, value in knobs:
        if "." in key:
            assign(data, key, deepcopy(json.loads(value)), said)
        elif key not in data["policies"][policy]:
            raise ScenarioError(f"tune.knobs: {scenario.labels[policy]} has no key {key}; tune it in a scenario alone")
        else:
            data["policies"][policy][key] = json.loads(value)
    return build(Source(said, data))


def value_at(scenario: Scenario, policy: int, key: str) -> Any:
    """The value that a scenario has at a knob's key, in SI; a list of one item stands for that item."""
    node: Any = scenario if "." in key else scenario.policies[policy]
    for part in key.split("."):
        if isinstance(node, list | tuple) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
            continue
        node = _only(node) if isinstance(node, list | tuple) else node
        if not isinstance(node, BaseModel) or part not in type(node).model_fields:
            raise ScenarioError(f"tune.knobs: there is no key {key} in this scenario")
        node = getattr(node, part)
    return _only(node) if isinstance(node, list | tuple) else node


def _only(values: Sequence[Any]) -> Any:
    """The item of a list of one; the list where there are more."""
    return values[0] if len(values) == 1 else list(values)
