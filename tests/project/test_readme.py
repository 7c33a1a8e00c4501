"""Everything in the README is executed: its sweep block is one, its commands and its Python run as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wflsim.scenario import build
from wflsim.scenario.source import parse

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A clean folder with the scenarios beside, as after a clone."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "scenarios").symlink_to(ROOT / "scenarios")
    return folder


def test_the_first_command_is_the_makefiles():
    assert "$ make run" in README
    assert "\nrun: $(STAMP)\n\t$(BIN)/wflsim run scenarios/quickstart.yaml\n" in (ROOT / "Makefile").read_text()


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


@pytest.mark.slow
@pytest.mark.parametrize("script", blocks("bash"), ids=lambda script: script.splitlines()[0])
def test_commands(place, script):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=place, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[-1][:40])
def test_python(place, code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=place, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_sweep_block_is_one():
    quickstart = (ROOT / "scenarios/quickstart.yaml").read_text()
    assert len(build(parse(quickstart + blocks("yaml")[0], "README.md")).sweep.keys) == 2
