"""Page of what the physics, the learning and the statistics are checked against, read off the tests themselves."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wflsim_reference.markdown import docstring, prose, table

ROOT = Path(__file__).resolve().parents[3]
ROOMS = {
    "world": "Radio, time and energy",
    "policies": "Policies",
    "learning": "Data, models and gradients",
    "simulation": "The loop, and replay",
    "analysis": "Intervals, targets and answers",
    "tune": "Choosing tau",
    "peers": "Other simulators and libraries",
}
"""Folders of tests that hold the science, with their headings; one that does not exist is left out."""
HEADS = ["what is held", "tolerance", "compared", "furthest apart"]
TOLERANCES = ("rel", "abs", "rtol", "atol")
STUDIES = """
Some questions have no closed form, and were measured instead. The tables are committed, with the command that makes
each; a test derives every page from its table.

| question | table |
|---|---|
| How often do the intervals cover the truth? | [interval_coverage](../../reports/statistics/interval_coverage.md) |
| How much too early is a target called reached? | [hitting_time](../../reports/statistics/hitting_time.md) |
| What is the chosen tau worth on seeds that did not choose it? | [winner](../../reports/statistics/winner.md) |
| Does tuning find a known optimum under noise? | [known_answer](../../reports/tune/known_answer.md) |
| Is a replay the co-simulation, and how much faster? | [replay](../../reports/tune/replay.md) |
| Does each policy reach the optimum that its fixed point promises? | [minimax](../../reports/policies/minimax.md) |
| How far are the named devices from what others measured? | [measured](../../reports/world/measured.md) |
| Do the paper's 330 table entries come out? | [reports/paper](../../reports/paper/README.md) |
"""


MEASURED = ROOT / "reports/proof/validation.csv"
"""What the tests compared when `python -m studies.validation` was run last."""


class Check(NamedTuple):
    """One test."""

    name: str
    says: str
    """Its docstring on one line; empty if it has none."""
    tolerance: str
    """Relative and absolute tolerances in it, as written; `exact` where it has none."""


def checks(path: Path) -> Iterator[Check]:
    """The tests of a file, in its order."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Check(node.name, " ".join((ast.get_docstring(node) or "").split()), _tolerance(node))


def _tolerance(test: ast.FunctionDef) -> str:
    calls = [node for node in ast.walk(test) if isinstance(node, ast.Call)]
    found = {
        f"{word.arg} {ast.unparse(word.value)}"
        for call in calls
        for word in call.keywords
        if word.arg in TOLERANCES and isinstance(word.value, ast.Constant)
    }
    near = any(ast.unparse(call.func).endswith(("approx", "allclose", "assert_close", "isclose")) for call in calls)
    return ", ".join(sorted(found)) or ("rel 1e-06" if near else "exact")


def measured() -> dict[str, dict[str, str]]:
    """What each test compared, by the name of its file and its own; nothing before it was measured."""
    if not MEASURED.exists():
        return {}
    with MEASURED.open(encoding="utf-8", newline="") as file:
        return {row["test"]: row for row in csv.DictReader(file)}


def _numbers(row: dict[str, str] | None) -> list[str]:
    """How many numbers a test compared, the pair furthest apart, and how far that is."""
    if row is None:
        return ["", ""]
    found, expected = (f"{float(row[side]):.7g}" for side in ("found", "expected"))
    far = float(row["deviation"])
    absolute = "" if row["relative"] == "True" else " absolute"
    return [row["compared"], f"{found} for {expected}: {far:.1e}{absolute}" if far else f"{found}: equal"]


def pages() -> dict[str, str]:
    """One page with every check, by room and file."""
    known = measured()
    parts = [
        "# Validation: what it was checked against\n",
        "Every closed form, oracle, identity and hand count that the tests hold, read off the tests when this page was "
        "built. *Tolerance* is what the test allows between wflsim and the other side; *exact* means equal, or a "
        "comparison without tolerance. Where a test compares numbers within a tolerance: how many, the pair that lies "
        "furthest apart (what was found for what was expected), and how far that is, relative to the expected number. "
        "They were noted while the tests ran (`python -m studies.validation`, reports/proof/validation.csv). A test of "
        "a random quantity has a deviation of chance.\n",
        "## Measured\n" + STUDIES,
    ]
    for room, heading in ROOMS.items():
        files = sorted((ROOT / "tests" / room).glob("test_*.py"))
        if files:
            parts.append(f"## {heading}\n")
        for path in files:
            home = path.relative_to(ROOT).as_posix()
            rows = [
                [_words(check), check.tolerance, *_numbers(known.get(f"{home}::{check.name}"))]
                for check in checks(path)
            ]
            module = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            parts += [f"### {path.stem}\n", docstring(module), table(HEADS, rows)]
    return {"validation.md": "\n".join(parts)}


def _words(check: Check) -> str:
    name = re.sub(r"^test_", "", check.name).replace("_", " ")
    sentence = name[:1].upper() + name[1:]
    return prose(f"{sentence}. {check.says}" if check.says else sentence + ".")
