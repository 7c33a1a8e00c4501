"""What the pages of docs/ show is executed: files are written, commands and Python run, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import wflsim

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("howto/*.md"))
WRITTEN = sorted(path for place in ("*.md", "howto/*.md", "explanation/*.md") for path in (ROOT / "docs").glob(place))
"""Pages written by hand: `make docs` makes those of the reference and the tutorials, which it executes."""
BLOCK = re.compile(r"^( *)```(python|yaml|bash)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\S+\.(?:py|yaml))\n")


def blocks(page):
    """Language and text of every block of a page that is to be executed, in order."""
    return [(language, dedent(indent + text)) for indent, language, text in BLOCK.findall(page.read_text())]


def follow(page, folder):
    """Do what the page says, in the folder."""
    for part in ("scenarios", "studies"):
        (folder / part).symlink_to(ROOT / part)
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "WFLSIM_STORE": str(folder / "store")
    }  # fmt: skip
    for language, text in blocks(page):
        if named := FILE.match(text):
            (folder / named[1]).write_text(text)
            continue
        command = ["bash", "-euo", "pipefail", "-c", text] if language == "bash" else [sys.executable, "-W", "error", "-c", text]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_a_file_or_is_run(page):
    for language, text in blocks(page):
        assert language != "yaml" or FILE.match(text), f"the first line of a yaml block names its file: {text[:60]!r}"


def test_no_page_shows_commands_in_a_way_that_nobody_executes():
    """Of console and sh blocks only those of README (its make targets) and CONTRIBUTING, which have tests of their own."""
    shown = [page.name for page in WRITTEN if re.search(r"^ *```(console|sh|shell)\b", page.read_text(), re.MULTILINE)]
    assert shown == []
    elsewhere = [page.name for page in WRITTEN if page not in PAGES and blocks(page)]
    assert elsewhere == [], "blocks outside of howto/ are not followed by the test below"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_scenarios_that_need_no_other_file_are_read(page, tmp_path):
    files = {FILE.match(text)[1]: text for _, text in blocks(page) if FILE.match(text)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    made = any(name.startswith("make_") for name in files) or "wflsim new --policy" in page.read_text()
    for name in [] if made else [name for name in files if name.endswith(".yaml")]:
        assert wflsim.load(tmp_path / name).clients


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_a_page_can_be_followed(page, tmp_path):
    follow(page, tmp_path)
