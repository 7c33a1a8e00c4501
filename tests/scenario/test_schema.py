"""The JSON Schema of scenarios, which editors show: every key has a description that stands on its own."""

import json
import re
import subprocess
import sys
from typing import Literal

import pytest

from wflsim.scenario import Scenario
from wflsim.spec import Spec
from wflsim.units import UNITS, Hertz, Ratio

FRAGMENT = re.compile(r"(Of|On|Instead|While|That|There|By|Between|From|At|Per|Likewise|Which)\b")
"""Beginnings of sentences that lean on something else."""


def keys(schema):
    """(block.key, its schema) of every key of every block."""
    for name, block in {"Scenario": schema, **schema["$defs"]}.items():
        for key, about in block.get("properties", {}).items():
            yield f"{name}.{key}", about


def undescribed(schema):
    """Keys without a description, or with one that is no sentence of its own."""
    found = [(key, about.get("description", "")) for key, about in keys(schema)]
    return [(key, text) for key, text in found if not text.endswith(".") or len(text.split()) < 2 or FRAGMENT.match(text)]


def test_every_key_has_a_description():
    schema = Scenario.model_json_schema()
    assert len(list(keys(schema))) > 200
    assert undescribed(schema) == []


def test_every_block_has_a_description():
    schema = Scenario.model_json_schema()
    assert [name for name, block in schema["$defs"].items() if not block.get("description", "").endswith(".")] == []


def test_a_key_without_a_docstring_is_found():
    class Silent(Spec):
        """A block."""

        spoken: int = 1
        """Said plainly."""
        unspoken: int = 2
        leaning: int = 3
        """Of the other."""

    assert undescribed({**Silent.model_json_schema(), "$defs": {}}) == [("Scenario.unspoken", ""), ("Scenario.leaning", "Of the other.")]


def test_descriptions_are_inherited_and_a_variant_describes_its_name():
    class Base(Spec):
        name: str
        width: int = 1
        """Width of
        the thing."""

    class Variant(Base):
        """A variant that is chosen by name.

        The rest is for readers of the source.
        """

        name: Literal["variant"]
        width: int = 2

    properties = Variant.model_json_schema()["properties"]
    assert properties["width"]["description"] == "Width of the thing."
    assert properties["name"]["description"] == "A variant that is chosen by name."


@pytest.mark.parametrize(("kind", "unit"), [(Hertz, "Hz"), (Ratio, "dB")])
def test_a_quantity_names_its_units_beside_the_description_of_its_key(kind, unit):
    class Block(Spec):
        """A block."""

        value: kind
        """Value of something."""

    about = Block.model_json_schema()["properties"]["value"]
    assert about["description"] == "Value of something."
    assert about["unit"] == unit
    text = next(branch for branch in about["anyOf"] if branch["type"] == "string")
    assert all(name in text["description"] for name in UNITS[unit])


def test_the_shell_prints_it():
    done = subprocess.run([sys.executable, "-m", "wflsim", "check", "--schema"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == Scenario.model_json_schema()
