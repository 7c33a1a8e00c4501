"""A policy outside the repository: from `wflsim new --policy` to a report, edited, broken, in workers, resumed, installed."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.small_scenarios import a_folder_elsewhere
from wflsim.cli.main import app
from wflsim.door import recorded
from wflsim.errors import PolicyError, ScenarioError, StoreError
from wflsim.experiments.compare import compare
from wflsim.experiments.keepers import InFolder
from wflsim.experiments.plan import plan, regimes
from wflsim.experiments.run import run
from wflsim.experiments.sweep import run_sweep
from wflsim.policies.base import About
from wflsim.policies.registry import DOOR, POLICIES
from wflsim.results.digest import learning_digest
from wflsim.results.folders import status
from wflsim.scenario import load
from wflsim.simulation.training import Training
from wflsim.testing import CHECKS, check_policy
from wflsim.testing.quadratics import Rough, problem
from wflsim.testing.quadratics import run as train
from wflsim.tune.setting import with_tau

SCENARIO = {
    "name": "own", "clients": 4, "seeds": 2, "data": {"name": "digits"}, "partition": {"name": "iid"},
    "model": {"name": "linear"}, "train": {"batch": 16},
    "policies": [{"name": "fedavg", "m": 2, "tau": 2}, {"name": "./mine.py:Mine", "m": 2, "tau": 2}],
    "radio": {"snr": "10 dB", "bandwidth": "1 MHz", "power": "100 mW"}, "stop": {"rounds": 3},
}  # fmt: skip
REPOSITORY = Path(__file__).resolve().parents[2]


def shell(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with a scenario and the toy policy, as `wflsim new` wrote it; the working directory is elsewhere."""
    folder = a_folder_elsewhere(tmp_path, monkeypatch)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "store"))
    assert shell("new", "--policy", folder / "mine.py").exit_code == 0
    (folder / "s.yaml").write_text(yaml.safe_dump(SCENARIO))
    return folder


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def rows(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("Mine/*/*.csv"))}


def policies(*given):
    return load({**SCENARIO, "policies": list(given)}).policies


def test_what_new_writes_says_how_to_use_it_and_keeps_the_contract(tmp_path):
    said = shell("new", "--policy", tmp_path / "my_policy.py")
    assert "name: ./my_policy.py:MyPolicy" in said.output
    assert check_policy(f"{tmp_path}/my_policy.py:MyPolicy", m=3) == [rule.__doc__.splitlines()[0] for rule in CHECKS.values()]
    assert shell("new", "--policy", tmp_path / "odd-name.1.py").exit_code == 0
    assert load({**SCENARIO, "policies": [{"name": f"{tmp_path}/odd-name.1.py:OddName1"}]}).labels == ["OddName1"]
    with pytest.raises(ScenarioError, match=r"ends in \.py"):
        shell("new", "--policy", tmp_path / "mine.txt")
    with pytest.raises(ScenarioError, match="exists already"):
        shell("new", "--policy", tmp_path / "my_policy.py")


def test_from_a_new_policy_to_a_report_that_does_not_need_its_file_any_more(project, tmp_path, monkeypatch):
    checked = shell("check", project / "s.yaml")
    assert f"Minewouldberunfrom{project}/mine.py:" in "".join(checked.output.split())
    assert shell("run", project / "s.yaml", "--out", tmp_path / "out", "--workers", 1).exit_code == 0
    first = rows(tmp_path / "out")
    assert len(first) == 6
    monkeypatch.chdir(tmp_path)
    assert load(tmp_path / "out" / "scenario.yaml") == load(project / "s.yaml")
    (tmp_path / "out" / "Mine" / "seed-1" / "status.json").unlink()
    run(tmp_path / "out" / "scenario.yaml", tmp_path / "out", workers=1)
    assert rows(tmp_path / "out") == first, "computed again from the folder's own scenario"
    (project / "mine.py").unlink()
    assert shell("report", tmp_path / "out").exit_code == 0
    assert "Mine" in (tmp_path / "out" / "report.html").read_text()
    assert set(compare([tmp_path / "out"]).lines["policy"]) == {"fedavg", "Mine"}


def test_a_second_run_replays_it_and_an_edited_one_trains_anew(project, tmp_path):
    (project / "helper.py").write_text("STEP = 1.0\n")
    edit(project / "mine.py", "import numpy as np\n", "import numpy as np\nfrom helper import STEP\n")
    edit(project / "mine.py", "self.beta *", "STEP * self.beta *")
    words = []
    run(project / "s.yaml", tmp_path / "out", workers=1, say=words.append)
    before = rows(tmp_path / "out")
    run(project / "s.yaml", tmp_path / "other", workers=1)
    assert status(tmp_path / "other" / "Mine" / "seed-0")["mode"].startswith("replay: all 3 rounds")
    assert rows(tmp_path / "other") == before
    assert words == []
    run(project / "s.yaml", tmp_path / "out", workers=1, say=words.append)
    assert words == []
    for file, old, new in (("mine.py", "STEP * self.beta", "STEP * 0.7 * self.beta"), ("helper.py", "1.0", "0.5")):
        edit(project / file, old, new)
        run(project / "s.yaml", tmp_path / "out", workers=1, say=words.append)
        assert [word.split(":")[0] for word in words] == [f"Mine seed {seed} is computed again" for seed in (0, 1)]
        assert status(tmp_path / "out" / "Mine" / "seed-0")["mode"].startswith("live")
        after = rows(tmp_path / "out")
        assert after != before
        before = after
        words.clear()
    told = compare([tmp_path / "out", tmp_path / "other"]).lines["policy"]
    assert len({name for name in told if name.startswith("Mine (code ")}) == 2, "two versions are two policies"


def test_the_digest_knows_what_it_loads_and_not_where_it_lies(project, tmp_path):
    def digest():
        return learning_digest(load(project / "s.yaml"), 1, 0)

    package = project / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from . import deep\n")
    (package / "deep.py").write_text("X = 1\n")
    (project / "unused.py").write_text("X = 1\n")
    edit(project / "mine.py", "import numpy as np\n", "import numpy as np\nimport parts.inner\n")
    seen = [digest()]
    for file in ("mine.py", "parts/__init__.py", "parts/inner.py", "parts/deep.py"):
        (project / file).write_text((project / file).read_text() + "\n# another line\n")
        seen.append(digest())
    assert len(set(seen)) == 5
    (project / "unused.py").write_text("X = 2\n")
    assert digest() == seen[-1]
    moved = project.rename(tmp_path / "moved")
    assert learning_digest(load(moved / "s.yaml"), 1, 0) == seen[-1]
    assert learning_digest(load(moved / "s.yaml"), 1, 1) != seen[-1]


def test_two_alike_need_a_label_and_it_is_swept_tuned_and_set_like_a_built_in_one(project, tmp_path):
    own = {"name": str(project / "mine.py") + ":Mine", "m": 2, "tau": 2}
    with pytest.raises(ScenarioError, match="two policies are called 'Mine'; give each a label"):
        load({**SCENARIO, "policies": [own, own]})
    assert load({**SCENARIO, "policies": [own, {**own, "label": "other"}]}).labels == ["Mine", "other"]
    assert load(project / "s.yaml", ["policies.Mine.beta=0.5"]).policies[1].beta == 0.5
    scenario = load({**SCENARIO, "seeds": 1, "policies": [own], "sweep": {"grid": {"policies.0.beta": [0.5, 1]}}})
    swept = run_sweep(scenario, tmp_path / "swept", workers=1)
    assert list(swept.runs["status"]) == ["done", "done"]
    assert swept.runs["final_average"].nunique() == 2
    assert with_tau(load({**SCENARIO, "policies": [own]}), 0, 7).policies[0].tau == 7
    with pytest.raises(ScenarioError, match="unknown key, did you mean 'beta'"):
        load({**SCENARIO, "policies": [{**own, "bta": 1}]})
    with pytest.raises(ScenarioError, match=r"beta: got -1; must be a number, greater than 0 and at most 1000"):
        load({**SCENARIO, "policies": [{**own, "beta": -1}]})


@pytest.mark.slow
def test_worker_processes_compute_what_one_process_does(project, tmp_path):
    scenario = load(project / "s.yaml")
    run(scenario, tmp_path / "two", workers=2)
    run(scenario, tmp_path / "one", workers=1)
    assert rows(tmp_path / "two") == rows(tmp_path / "one")


def test_other_processes_load_it_and_refuse_it_once_it_has_changed(project):
    scenario = load(project / "s.yaml")
    again = pickle.loads(pickle.dumps(scenario))
    assert again == scenario
    sent = pickle.dumps(scenario)
    edit(project / "mine.py", "self.beta *", "0.5 * self.beta *")
    with pytest.raises(StoreError, match=r"mine.py or a file that it loads has changed since the command began"):
        pickle.loads(sent)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("edited", [False, True])
def test_killed_and_resumed_it_comes_to_the_same_bytes_and_edited_it_begins_anew(project, tmp_path, monkeypatch, edited):
    scenario = load(project / "s.yaml").model_copy(update={"seeds": (0,)})
    run(scenario, tmp_path / "whole", workers=1)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "other store"))
    round_of, seen = Training.round, []

    def dies(self, s):
        seen.append((self.policy.name, s))
        if s == 2 and self.policy.name.endswith("Mine") and len(seen) < 100:
            raise Killed
        return round_of(self, s)

    monkeypatch.setattr("wflsim.simulation.checkpoint.INTERVAL_S", 0.0)
    monkeypatch.setattr("wflsim.experiments.cached.checkpoint.INTERVAL_S", 0.0)
    monkeypatch.setattr(Training, "round", dies)
    with pytest.raises(Killed):
        run(scenario, tmp_path / "out", workers=1)
    monkeypatch.setattr(Training, "round", round_of)
    assert (tmp_path / "out" / "Mine" / "seed-0" / "checkpoint.pt").exists()
    if edited:
        edit(project / "mine.py", "self.beta *", "0.5 * self.beta *")
    run(load(project / "s.yaml").model_copy(update={"seeds": (0,)}), tmp_path / "out", workers=1)
    assert (rows(tmp_path / "out") == rows(tmp_path / "whole")) == (not edited)
    told = status(tmp_path / "out" / "Mine" / "seed-0")["mode"]
    assert ("begun anew: the code of your own has changed" in told) == edited
    if edited:
        run(scenario := load(project / "s.yaml").model_copy(update={"seeds": (0,)}), tmp_path / "edited", workers=1)
        assert rows(tmp_path / "out") == rows(tmp_path / "edited")
        assert InFolder(tmp_path / "edited", tmp_path).record(plan(regimes(scenario))[1]) is not None


def test_a_class_that_says_its_facts_one_by_one_is_still_read(project):
    """As policies were written before `About`."""
    one_by_one = """paper: ClassVar[str] = "my own"
    down: ClassVar[str] = "1v"
    up: ClassVar[str] = "1v+1s"
    needs: ClassVar[str] = "nothing\""""
    edit(project / "mine.py", 'about = About("my own", down="1v", up="1v+1s")', one_by_one)
    edit(project / "mine.py", "from dataclasses import dataclass", "from dataclasses import dataclass\nfrom typing import ClassVar")
    policy = load(project / "s.yaml").policies[1]
    assert policy.about == About("my own", down="1v", up="1v+1s", needs="nothing")


BROKEN_WHEN_READ = {
    "syntax": ("def start(self", "def start(self((", r"mine.py:\d+: cannot be imported: SyntaxError: "),
    "import": ("import numpy as np", "import numpyy as np", r"mine.py:\d+: cannot be imported: ModuleNotFoundError: No module named 'numpyy'"),
    "raises": ("@dataclass(frozen=True)", "raise SystemExit(3)", r"mine.py:\d+: cannot be imported: SystemExit: 3"),
    "no policy": ("class Mine(Policy)", "class Mine(dict)", r"mine.py:\d+: Mine is not a policy: it must be a class derived from wflsim.policies.base.Policy"),
    "no class": ("class Mine(Policy)", "class Other(Policy)", r"mine.py: defines no 'Mine'; it has State, Other"),
    "silent": (', up="1v+1s"', "", r"mine.py:\d+: Mine does not say its up"),
    "no paper": ('"my own", ', "", r"mine.py:\d+: Mine does not say its paper"),
    "gibberish": ('down="1v"', 'down="a lot"', r"mine.py:\d+: Mine sends 'a lot'; write the model vectors"),
    "no round": ("    def round(self", "    def rund(self", r"mine.py:\d+: Mine has no method round, which every policy needs"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN_WHEN_READ)
def test_a_broken_file_gets_one_message_with_its_own_line(project, kind):
    old, new, message = BROKEN_WHEN_READ[kind]
    edit(project / "mine.py", old, new)
    with pytest.raises(ScenarioError, match=message) as error:
        load(project / "s.yaml")
    assert len(str(error.value).splitlines()) == 1
    assert str(error.value).startswith(f"{project}/s.yaml:")
    assert "mine" not in sys.modules
    assert not list(project.rglob("__pycache__"))


BROKEN_WHEN_RUN = {
    "wrong shape sent": ('return {"y": me.sent(y, near=w), ', 'return {"y": y[:1], ', r"mine.py:(?P<line>\d+): in round 0: ValueError: payload 'y' has 1 rows for 3 clients", "def local_steps"),
    "wrong shape kept": ("return State(w + self.beta * (mean - w), lam)", "return State(w[:2], lam)", r"mine.py:(?P<line>\d+): round returned w of shape \(2,\); the model's is \(4,\)", "def round"),
    "shapes that do not add": ("w + self.beta * (mean - w)", "w[:2] + mean", r"mine.py:(?P<line>\d+): in round 0: RuntimeError: The size of tensor a \(2\)", "return State(w[:2]"),
    "nothing sent": ('        return {"y"', '        {"y"', r"mine.py:(?P<line>\d+): in round 0: ValueError: a client's work returns NoneType", "def local_steps"),
    "no row": ('"loss": me.f(y)}', '"loss": 1.0}', r"mine.py:(?P<line>\d+): in round 0: ValueError: payload 'loss' is a float", "def local_steps"),
    "NaN": ("self.beta * (mean - w)", "self.beta * (mean - w) / 0.0 * 0.0", r"mine.py:(?P<line>\d+): policy Mine: w is no longer finite in round 0", "class Mine"),
    "for ever": ("        if not got:", "        while True:\n            yield Draw(1)\n        if not got:", r"mine.py:(?P<line>\d+): the round does not end: 1000 requests so far", "yield Draw(1)"),
    "never asks": ("yield Gather([Ask(D, self.local_steps, shared={\"w\": x.w}, models_up=1)])", "[]", r"mine.py:(?P<line>\d+): round 0 ended without asking any client", "def round"),
    "no yield": ("        D, a = yield Draw(self.m or len(x.lam), by=x.lam)\n        got = yield Gather([Ask(D, self.local_steps, shared={\"w\": x.w}, models_up=1)])\n", "        return x\n", r"mine.py:(?P<line>\d+): round asks nobody: it has no `yield`", "def round"),
    "no request": ("yield Gather([Ask(D, self.local_steps, shared={\"w\": x.w}, models_up=1)])", "yield Ask(D, self.local_steps)", r"mine.py:(?P<line>\d+): round yields Ask, which is no request; yield Draw, Gather", "yield Ask"),
    "no state": ("return State(w, np.ones(len(d)))", "return {'w': w}", r"mine.py:(?P<line>\d+): start returned dict; the state is a dataclass", "def start"),
    "forgets the state": ("        return State(w + ", "        State(w + ", r"mine.py:(?P<line>\d+): round returned NoneType; the state is a dataclass", "def round"),
    "state that cannot be saved": ("return State(w, np.ones(len(d)))", "return State(w, {1, 2})", r"mine.py:(?P<line>\d+): lam of the state is of type set, which a checkpoint cannot hold", "def start"),
    "stranger": ("Ask(D, ", "Ask([99], ", r"mine.py:(?P<line>\d+): in round 0: ValueError: asks client 99; there are clients 0 to 5", "Ask([99]"),
    "typo": ("mean = average_models(w", "mean = average_models(v", r"mine.py:(?P<line>\d+): in round 0: NameError: name 'v' is not defined", "average_models(v"),
    "typo in the client half": ("me.descend(y, self.eta)", "me.descend(y, self.etaa)", r"mine.py:(?P<line>\d+): in round 0: AttributeError: 'Mine' object has no attribute 'etaa'", "self.etaa"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN_WHEN_RUN)
def test_a_policy_that_fails_at_work_gets_one_message_with_its_own_line(project, kind):
    old, new, message, at = BROKEN_WHEN_RUN[kind]
    edit(project / "mine.py", old, new)
    policy = policies({"name": str(project / "mine.py") + ":Mine", "m": 3})[0]
    error = PolicyError if kind != "NaN" else Exception
    with pytest.raises(error, match=message) as raised:
        train(policy, problem(6, 4).learner(), 2, Rough(6))
    assert len(str(raised.value).splitlines()) == 1
    line = int(re.search(message, str(raised.value))["line"])
    assert at in (project / "mine.py").read_text().splitlines()[line - 1]


def test_a_round_that_computes_for_ever_is_interrupted_where_it_stands(project, monkeypatch):
    monkeypatch.setattr("wflsim.simulation.blame.PATIENCE_S", 0.3)
    edit(project / "mine.py", "        if not got:", "        n = 0\n        while True:\n            n += 1\n        if not got:")
    policy = policies({"name": str(project / "mine.py") + ":Mine", "m": 3})[0]
    with pytest.raises(PolicyError, match=r"mine.py:(?P<line>\d+): in round 0: NeverEnds: the server half has computed for 0.3 s") as raised:
        train(policy, problem(6, 4).learner(), 2, Rough(6))
    line = int(re.search(r"mine.py:(\d+)", str(raised.value))[1])
    assert (project / "mine.py").read_text().splitlines()[line - 1].strip() in ("while True:", "n += 1")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wrong shape sent", "never asks"])
def test_the_command_line_says_it_without_a_traceback(project, kind):
    edit(project / "mine.py", *BROKEN_WHEN_RUN[kind][:2])
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-m", "wflsim", "check", str(project / "s.yaml")], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"{project}/mine.py:" in done.stderr


def test_a_file_or_module_that_is_not_there_is_said_with_where_it_was_looked_for(project):
    for name, message in {
        "./their.py:Mine": r"no such file: .*their.py; names are relative to the scenario file",
        "nobodys_lab.policies:Mine": r"no module 'nobodys_lab' can be imported",
        "mine.py:": r"write it as ./file.py:Class, or package.module:Class",
        "a b:Mine": r"write it as ./file.py:Class, or package.module:Class",
        "wflsim.policies.fedavg:FedAvg": r"FedAvg is built in; write name: fedavg",
        "fedavgg": r"did you mean 'fedavg'\? Allowed: .*; or the file of a policy of your own: ./mine.py:Mine",
        "": r"Allowed: .*; or the file of a policy of your own",
    }.items():  # fmt: skip
        with pytest.raises(ScenarioError, match=message):
            policies({"name": name})


def test_a_module_in_a_package_beside_the_scenario_is_found_with_its_relative_imports(project):
    package = project / "my_lab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "steps.py").write_text("STEP = 0.5\n")
    (project / "mine.py").rename(package / "policies.py")
    edit(package / "policies.py", "import numpy as np\n", "import numpy as np\nfrom .steps import STEP\n")
    edit(project / "s.yaml", "./mine.py:Mine", "my_lab.policies:Mine")
    scenario = load(project / "s.yaml")
    assert scenario.policies[1].name == f"{package}/policies.py:Mine"
    assert {file.name for file in type(scenario.policies[1]).origin.files} == {"__init__.py", "policies.py", "steps.py"}
    edit(project / "s.yaml", "my_lab.policies:Mine", "./my_lab/policies.py:Mine")
    assert load(project / "s.yaml") == scenario


@pytest.fixture
def laboratory(project, tmp_path):
    """A tiny package, really installed: its folder of installed packages is on the path of other processes."""
    source, target = tmp_path / "source", tmp_path / "installed"
    (source / "tiny_lab").mkdir(parents=True)
    (project / "mine.py").rename(source / "tiny_lab" / "policies.py")
    (source / "tiny_lab" / "__init__.py").write_text("")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "tiny-lab"\nversion = "1.2"\n'
        '[project.entry-points."wflsim.policies"]\ntiny = "tiny_lab.policies:Mine"\nlost = "tiny_lab.policies:Lost"\n'
    )
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, capture_output=True)
    return target


@pytest.mark.slow
def test_an_installed_package_announces_its_policies(project, laboratory, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(laboratory)]), "COLUMNS": "400"}

    def wflsim(*arguments):
        command = [sys.executable, "-m", "wflsim", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)

    listed = wflsim("list", "policies").stdout
    assert "tiny-lab 1.2, tiny_lab.policies:Mine" in listed
    assert re.search(r"lost +│ cannot be", listed), "and one that is not there is listed as such"
    edit(project / "s.yaml", "./mine.py:Mine", "tiny")
    checked = wflsim("check", project / "s.yaml")
    assert f"tiny would be run from {laboratory}/tiny_lab/policies.py:" in checked.stdout.replace("\n", "")
    assert "tiny-lab 1.2" in checked.stdout
    assert wflsim("run", project / "s.yaml", "--out", "out", "--workers", 2).returncode == 0
    assert (tmp_path / "out" / "tiny" / "seed-1" / "rounds.csv").exists()
    edit(project / "s.yaml", "tiny", "tinny")
    assert "did you mean 'tiny'" in wflsim("check", project / "s.yaml").stderr
    edit(project / "s.yaml", "tinny", "tiny_lab.policies:Mine")
    assert "Mine would be run from" in wflsim("check", project / "s.yaml").stdout.replace("\n", "")


def test_an_entry_point_is_found_and_no_built_in_name_can_be_taken(project, tmp_path, monkeypatch):
    site = tmp_path / "site"
    (site / "lab-0.3.dist-info").mkdir(parents=True)
    (project / "mine.py").rename(site / "lab.py")
    (site / "lab-0.3.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 0.3\n")
    (site / "lab-0.3.dist-info" / "entry_points.txt").write_text("[wflsim.policies]\nown = lab:Mine\nfedavg = lab:Mine\n")
    monkeypatch.syspath_prepend(str(site))
    assert list(DOOR.announced()) == ["own"]
    own, plain = policies({"name": "own", "m": 2, "beta": 0.5}, {"name": "fedavg"})
    assert (own.name, own.beta, type(own).origin.package, type(own).origin.file) == ("own", 0.5, "lab 0.3", site / "lab.py")
    assert type(plain) in POLICIES
    assert load({**SCENARIO, "policies": [{"name": "own"}]}).labels == ["own"]
    first = type(own).origin.digest
    (site / "lab-0.3.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 0.4\n")
    assert type(policies({"name": "own"})[0]).origin.digest != first, "another version is another policy"
    with pytest.raises(ScenarioError, match=r"policies\.0\.m: got 'x'; must be a whole number"):
        policies({"name": "own", "m": "x"})


def test_a_recorded_scenario_is_read_without_running_anybodys_code(project):
    (project / "mine.py").write_text("raise SystemExit\n")
    with recorded():
        scenario = load(project / "s.yaml")
    assert scenario.labels == ["fedavg", "Mine"]
    assert scenario.model_dump(mode="json")["policies"][1]["tau"] == 2


class TestTheContractFindsWhatIsBroken:
    @pytest.mark.parametrize(
        ("old", "new", "sentence"),
        [
            ("lam = x.lam.copy()", "lam = x.lam", "changes lam of an old state in place"),
            ("            return x  # nothing", "            return State(x.w, x.lam + 1)  # nothing", "changes lam although no reply arrived"),
            ('"loss": me.f(y)}', '"loss": me.f(y), "more": y}', "Mine sends 160 up, but says '1v+1s'"),
            ("me.copies_of(w)", "me.copies_of(w) + len(me.clients)", "computes otherwise when clients are computed one by one"),
            ("float(reply[\"loss\"])", "float(np.random.default_rng().uniform())", "gave two runs with one seed"),
            ('shared={"w": x.w}', 'shared={"w": x.w, "t": s}', "bits down, but says '1v'"),
        ],
    )  # fmt: skip
    def test_it(self, project, old, new, sentence):
        edit(project / "mine.py", old, new)
        if '"t": s' in new:
            edit(project / "mine.py", "def local_steps(self, me: Me, w: Tensor)", "def local_steps(self, me: Me, w: Tensor, t: int)")
        if '"more"' in new:
            edit(project / "mine.py", '"more": y}', '"more": y.clone()}')
        sentence = sentence.replace("160", "288")
        with pytest.raises(AssertionError, match=re.escape(sentence)):
            check_policy(f"{project}/mine.py:Mine", m=3)
