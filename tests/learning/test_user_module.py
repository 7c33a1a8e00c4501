"""A user's module is found beside the scenario file, in every process, when resumed, and by the digest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.small_scenarios import a_folder_elsewhere
from wflsim.errors import DataError
from wflsim.experiments.run import run
from wflsim.learning.build import build
from wflsim.learning.data.sets import DigitsSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.specs import ModuleSpec, TrainSpec
from wflsim.results.digest import learning_digest, learning_key
from wflsim.scenario import dump, load

NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, width={width}):
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 10))
"""
SCENARIO = {
    "name": "own",
    "clients": 4,
    "seeds": 2,
    "data": {"name": "digits"},
    "partition": {"name": "iid"},
    "model": {"name": "module", "module": "own_net:Net"},
    "train": {"batch": 16},
    "policies": [{"name": "fedavg", "m": 2, "tau": 2}],
    "radio": {"snr": "10 dB", "bandwidth": "1 MHz", "power": "100 mW"},
    "stop": {"rounds": 2},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a scenario and its module; the working directory is elsewhere."""
    folder = a_folder_elsewhere(tmp_path, monkeypatch)
    (folder / "own_net.py").write_text(NET.format(width=7))
    write(folder)
    return folder


def write(project, **model):
    document = {**SCENARIO, "model": {**SCENARIO["model"], **model}}
    (project / "s.yaml").write_text(yaml.safe_dump(document))


def parameters(spec):
    return build(DigitsSpec(name="digits"), ZipfDirichletSpec(), spec, TrainSpec(), 4, 0).parameters


def of_width(width):
    return 64 * width + width + 10 * width + 10


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_it_is_found_beside_the_scenario_in_workers_and_on_resuming_from_another_folder(
    project, tmp_path, monkeypatch, workers
):
    scenario = load(project / "s.yaml")
    assert scenario.model.folder == str(project)
    run(scenario, tmp_path / "out", workers=workers)
    first = {path: path.read_bytes() for path in sorted((tmp_path / "out").rglob("rounds.csv"))}
    assert len(first) == 2
    monkeypatch.chdir(tmp_path)
    resumed = load(tmp_path / "out" / "scenario.yaml")
    assert resumed == scenario
    (tmp_path / "out" / "fedavg" / "seed-1" / "status.json").unlink()
    run(resumed, tmp_path / "out", workers=workers)
    assert {path: path.read_bytes() for path in first} == first


@pytest.mark.slow
def test_a_fresh_process_in_any_folder_finds_it(project, tmp_path):
    code = f"from wflsim.scenario import load; from wflsim.experiments.run import run; run(load({str(project / 's.yaml')!r}), 'out', workers=1)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert len(list((tmp_path / "out").rglob("rounds.csv"))) == 2


def test_the_scenarios_own_comes_before_that_of_the_working_directory(project, monkeypatch):
    Path("own_net.py").write_text(NET.format(width=3))
    assert parameters(load(project / "s.yaml").model) == of_width(7)
    (project / "own_net.py").unlink()
    there = load(project / "s.yaml").model
    assert there.folder == os.getcwd()
    assert parameters(there) == of_width(3)


def test_two_scenarios_of_one_process_each_have_their_own_and_an_edited_file_is_read_again(tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for width, folder in zip((3, 5), folders, strict=True):
        folder.mkdir()
        (folder / "own_net.py").write_text(NET.format(width=width))
        write(folder)
    assert [parameters(load(folder / "s.yaml").model) for folder in folders] == [of_width(3), of_width(5)]
    (folders[0] / "own_net.py").write_text(NET.format(width=4))
    assert parameters(load(folders[0] / "s.yaml").model) == of_width(4)
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_file_called_like_a_module_of_pythons_does_not_replace_it(tmp_path):
    import colorsys

    (tmp_path / "colorsys.py").write_text(NET.format(width=3))
    spec = ModuleSpec(name="module", module="colorsys:Net", folder=str(tmp_path))
    assert parameters(spec) == of_width(3)
    assert sys.modules["colorsys"] is colorsys
    assert str(tmp_path) not in sys.path


def test_packages_are_found_with_what_they_import_from_themselves(tmp_path):
    package = tmp_path / "mylab" / "nets"
    package.mkdir(parents=True)
    (tmp_path / "mylab" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("WIDTH = 6\n")
    (package / "small.py").write_text("from .sizes import WIDTH\n" + NET.replace("{width}", "WIDTH"))
    spec = ModuleSpec(name="module", module="mylab.nets.small:Net", folder=str(tmp_path))
    assert spec.file() == package / "small.py"
    assert parameters(spec) == of_width(6)


def test_the_digest_knows_the_content_and_not_the_place(project, tmp_path):
    def digest(folder):
        return learning_digest(load(folder / "s.yaml"), 0, 0)

    assert ".model.module" in learning_key(load(project / "s.yaml"), 0, 0)["files"]
    before = digest(project)
    moved = project.rename(tmp_path / "moved")
    assert digest(moved) == before
    (moved / "own_net.py").write_text(NET.format(width=9))
    assert digest(moved) != before


def test_a_folder_may_be_named_relative_to_the_scenario_and_reads_back(project):
    (project / "nets").mkdir()
    (project / "own_net.py").rename(project / "nets" / "own_net.py")
    write(project, folder="nets")
    scenario = load(project / "s.yaml")
    assert scenario.model.folder == str(project / "nets")
    (project / "held.yaml").write_text(dump(scenario))
    assert load(project / "held.yaml") == scenario


def test_what_is_nowhere_says_where_it_was_looked_for(project):
    (project / "own_net.py").unlink()
    with pytest.raises(DataError, match=r"cannot import own_net:Net \(looked for in .*elsewhere and the installed packages\): Mod"):
        parameters(load(project / "s.yaml").model)
