"""The generated reference: every key, policy, column, command and error is described, and the pages can be made."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

import wflsim
from wflsim.cli.main import app
from wflsim.results.columns import DERIVED, meaning, written_tables
from wflsim.scenario.schema import Scenario

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs/_ext"))

import wflsim_reference  # noqa: E402
from wflsim_reference import commands, policies, scenario, tables  # noqa: E402
from wflsim_reference.dead_links import dead_links  # noqa: E402


@pytest.mark.parametrize("room", [scenario, policies, tables, commands], ids=lambda room: room.__name__.split(".")[-1])
def test_nothing_is_left_without_a_description(room):
    assert room.undescribed() == []


def test_a_key_without_a_docstring_is_found(monkeypatch):
    monkeypatch.setattr(scenario, "description", lambda spec, key: "" if key == "clients" else "words")
    assert scenario.undescribed() == ["clients"]


def test_every_key_policy_column_and_command_stands_on_a_page():
    pages = wflsim_reference.pages()
    for key in Scenario.model_fields:
        assert f"`{key}`" in pages["scenario.md"]
    for path, spec in [block for found in scenario.top_blocks().values() for block in found]:
        for key in spec.model_fields:
            assert f"`{key}`" in pages[f"scenario/{path.split('.')[0]}.md"], (path, key)
    assert "raspberry_pi_4" in pages["devices.md"]
    for policy in policies.POLICIES:
        assert f"policies/{policies.name_of(policy)}.md" in pages
    for name in commands.commands():
        assert f"## wflsim {name}\n" in pages["command_line.md"]
    for kind in commands.error_classes():
        assert f"`{kind.__name__}`" in pages["errors.md"]


def test_links_of_generated_pages_lead_to_generated_or_written_pages():
    pages = wflsim_reference.pages()
    for name, text in pages.items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"(?<!\\)\]\((?!http|#)([^)#]+)", prose):
            path = Path(os.path.normpath(Path("docs/reference") / Path(name).parent / target))
            inside = str(path.relative_to("docs/reference")) if path.is_relative_to("docs/reference") else ""
            assert inside in pages or (ROOT / path).exists(), (name, target)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run, a sweep and a tuning, small."""
    place = tmp_path_factory.mktemp("columns")
    text = (ROOT / "scenarios/quickstart.yaml").read_text()
    small = {**yaml.safe_load(text), "seeds": 2, "clients": 4, "model": {"name": "linear"},
             "policies": [{"name": "drdm", "m": 2, "tau": 2}],
             "stop": {"rounds": 4, "target": {"metric": "average", "accuracy": 0.3}}}  # fmt: skip
    before = os.environ.get("WFLSIM_STORE")
    os.environ["WFLSIM_STORE"] = str(place / "store")
    wflsim.run(small, place / "run", workers=1)
    swept = {**small, "sweep": {"grid": {"radio.snr": ["0 dB", "10 dB"]}}}
    wflsim.run_sweep(swept, place / "sweep", workers=1)
    (place / "swept.yaml").write_text(yaml.safe_dump(swept))
    app(["tune", str(place / "swept.yaml"), "--tau", "1,2", "--objective", "pareto", "--out", str(place / "tune"), "--workers", "1"], standalone_mode=False)
    if before is None:
        del os.environ["WFLSIM_STORE"]
    else:
        os.environ["WFLSIM_STORE"] = before
    return place


def test_every_column_that_is_written_has_a_meaning(folders):
    known = {**written_tables(), **DERIVED}
    seen = set()
    for path in folders.rglob("*.csv"):
        name = re.sub(r"seed-\d+\.csv", "seed-N.csv", path.name)
        assert name in known, f"{path.name} has no entry in wflsim/results/columns.py"
        seen.add(name)
        for column in pd.read_csv(path, nrows=0).columns:
            assert column == "radio.snr" or meaning(known[name], column), f"{name}: {column} has no meaning"
    assert seen == set(known)


def test_no_meaning_is_of_a_column_that_is_not_written(folders):
    written = {}
    for path in folders.rglob("*.csv"):
        written.setdefault(re.sub(r"seed-\d+\.csv", "seed-N.csv", path.name), set()).update(pd.read_csv(path, nrows=0).columns)
    idle = {("world.csv", "tail_j"), ("world.csv", "idle_j")}  # only where somebody waits, or a radio stays awake
    for name, columns in DERIVED.items():
        assert {(name, column) for column in columns} - {(name, column) for column in written[name]} <= idle


def test_a_dead_link_of_the_site_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top"></h1><a href="b.html#here">b</a><a href="#top">t</a><a href="https://x.org/y">x</a>')
    (tmp_path / "b.html").write_text('<p id="here"></p><a href="a.html#nowhere">a</a><img src="c.png"><a href="d/">d</a>')
    assert dead_links(tmp_path) == ["b.html -> a.html#nowhere", "b.html -> c.png", "b.html -> d/"]
