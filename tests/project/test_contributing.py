"""The examples of CONTRIBUTING.md do what the page says: each is applied to a copy of the package, which is then run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n# (?P<file>\S+?)(?:, (?P<how>above|in place of) `(?P<text>[^\n]+)`|(?P<end>, at the end))?\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^```sh\n(?P<line>wflsim .*?)\n```", re.MULTILINE)


def apply(block: re.Match[str], copy: Path) -> None:
    """Do to the copy what the first line of an example says."""
    path, code = copy / block["file"], block["code"]
    if block["end"]:
        path.write_text(path.read_text() + code)
    elif block["how"] is None:
        assert not path.exists(), f"{block['file']} is to be a new file"
        path.write_text(code)
    else:
        text, anchor = path.read_text(), block["text"]
        assert text.count(anchor) == 1, f"{block['file']} must hold {anchor!r} once"
        path.write_text(text.replace(anchor, code.removesuffix("\n") if block["how"] == "in place of" else code + anchor))


def wflsim(copy: Path, *arguments: str) -> str:
    """Run the copy's command line, and return what it says."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "WFLSIM_STORE": str(copy / "store")}
    done = subprocess.run(
        [sys.executable, "-m", "wflsim", *arguments], cwd=copy, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_works(tmp_path):
    for folder in ("wflsim", "scenarios"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = list(BLOCK.finditer(PAGE))
    touched = {block["file"] for block in blocks}
    assert len(blocks) == PAGE.count("```python") == 10
    assert len(touched) == 7
    for block in blocks:
        apply(block, tmp_path)
    commands = [shlex.split(found["line"])[1:] for found in COMMAND.finditer(PAGE)]
    runs = [words for words in commands if words[0] == "run"]
    assert len(commands) == 5
    assert [words[:2] for words in runs] == [["run", "scenarios/quickstart.yaml"]] * 4
    loss, data, model, policy = (words[2:] for words in runs)
    small = ["--seeds", "1", "--workers", "1", "--set", "stop.rounds=3", "--set", "stop.target=null"]
    for settings, out in (([*loss, *data], "one"), ([*model, *policy], "two")):
        wflsim(tmp_path, "run", "scenarios/quickstart.yaml", *settings, *small, "--out", out)
        assert "Energy per round" in (tmp_path / out / "report.html").read_text()
    one, two = (yaml.safe_load((tmp_path / out / "scenario.yaml").read_text()) for out in ("one", "two"))
    assert (one["radio"]["path_loss"]["name"], one["data"]["name"]) == ("free_space", "rings")
    assert (two["model"]["module"], two["policies"][0]["name"]) == ("my_models:Net", "half_way")
