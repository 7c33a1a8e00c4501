"""The package as users get it: sdist and wheel, installed with their dependencies into an empty environment, run there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import setuptools.build_meta as b, sys; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


def call(command, folder, **more):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, **more})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The files that git knows, without the environment and what was built before."""
    folder = tmp_path_factory.mktemp("source")
    names = call(["git", "ls-files", "-z", "wflsim", "README.md", "LICENSE", "pyproject.toml"], ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.mark.slow
def test_the_package_builds_installs_elsewhere_and_runs(source, tmp_path):
    for kind in ("sdist", "wheel"):
        call([sys.executable, "-c", BUILD, kind, str(tmp_path)], source)
    (archive,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(archive) as packed, zipfile.ZipFile(wheel) as zipped:
        held, files = packed.getnames(), zipped.namelist()
    for wanted in ("wflsim/py.typed", "wflsim/testing/toy.py", "wflsim/report/assets/page.html.j2"):
        assert wanted in files
        assert any(name.endswith(wanted) for name in held), wanted
    home = tmp_path / "empty"
    venv.create(home, with_pip=True)
    python = home / "bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    call([*pip, "torch"], tmp_path, PYTHONPATH="")  # first and alone, as the Makefile does
    call([*pip, str(wheel)], tmp_path, PYTHONPATH="")
    work = tmp_path / "work"
    work.mkdir()
    where = call([python, "-c", "import wflsim; print(wflsim.__file__)"], work, PYTHONPATH="")
    assert Path(where.strip()).is_relative_to(home)
    run = [python, "-m", "wflsim"]
    call([*run, "new", "mine.yaml"], work, PYTHONPATH="")
    call([*run, "run", "mine.yaml", "--seeds", "1", "--workers", "1", "--set", "stop.rounds=20", "--out", "results"], work, PYTHONPATH="")
    call([*run, "report", "results", "--out", "page.html"], work, PYTHONPATH="")
    assert "mine" in (work / "page.html").read_text()


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (cited["version"], cited["title"].split(":")[0]) == (project["version"], project["name"])


def test_the_changelog_has_what_is_unreleased_on_top():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_workflow_calls_targets_of_the_makefile():
    steps = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())["jobs"]["check"]["steps"]
    (targets,) = [step["run"].split()[1:] for step in steps if step.get("run", "").startswith("make ")]
    makefile = (ROOT / "Makefile").read_text()
    assert targets == ["check", "test", "docs"]
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)
