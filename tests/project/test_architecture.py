"""docs/architecture.md describes the tree as it is: every module is in its table, and every name on the page exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `wflsim/([\w/]*?)/?` \|[^|]*\| (.*) \|$", PAGE, flags=re.MULTILINE))
ROOMS = sorted({str(path.parent.relative_to(ROOT / "wflsim")).removeprefix(".") for path in (ROOT / "wflsim").rglob("*.py")})


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_of_rooms_lists_every_module(room):
    there = {path.name for path in (ROOT / "wflsim" / room).glob("*.py")} - {"__init__.py", "__main__.py"}
    listed = re.findall(r"`(\w+\.py)`", ROWS.get(room, ""))
    assert listed == sorted(there), f"put the files of wflsim/{room} into the table of docs/architecture.md, in order of name"


def test_there_is_no_row_without_a_room():
    assert sorted(ROWS) == ROOMS


def resolves(name: str) -> bool:
    """Whether `room.module.Class.method` leads to something in wflsim."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["wflsim", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_every_dotted_name_on_the_page_exists():
    names = {name for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGE) if not name.endswith((".py", ".md", ".json", ".yaml", ".toml", ".csv"))}
    rooms = ("cli", "scenario", "world", "experiments", "results", "analysis", "report", "simulation", "target", "files", "exchange")
    full = {name for name in names if name.split(".")[0] in rooms}
    assert len(full) > 25
    assert {name for name in full if not resolves(name)} == set()


@pytest.mark.parametrize("word", ["policy", "leg", "phase", "run", "regime", "trace", "learner", "pool", "channel", "candidate"])
def test_the_glossary_has_the_word(word):
    assert re.search(rf"^\| (\w+, )*{word}(, \w+)* \| \S", PAGE, flags=re.MULTILINE)


def test_every_path_in_the_page_exists():
    for room, file in re.findall(r"`(\w+(?:/\w+)*)/(\w+\.py)`", PAGE):
        assert (ROOT / "wflsim" / room / file).is_file() or (ROOT / room / file).is_file(), f"{room}/{file}"
