"""Runs and sweeps on a real Ray cluster: two nodes on one machine, the same bytes as local processes, killed workers retried."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path

import pytest
from small_scenarios import BIG
from typer.testing import CliRunner

import wflsim
from wflsim.cli.main import app
from wflsim.experiments import compute as compute_module
from wflsim.experiments.pool import Died, Ray
from wflsim.experiments.sweep import run_sweep
from wflsim.scenario import build
from wflsim.scenario.source import parse

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster():
    """A head and a second node, each a raylet of its own; a missing Ray is a failure here, not a reason to skip."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster

        os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1)
        here = os.pathsep.join(map(str, (Path(__file__).parent, *Path(__file__).parents[1:2])))
        ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": here}})
        yield ray
        ray.shutdown()
        made.shutdown()


def where(job):
    import time

    import ray

    time.sleep(1.0)
    return ray.get_runtime_context().get_node_id()


def dies_once(job):
    number, folder = job
    if number == 1 and not (Path(folder) / "died").exists():
        (Path(folder) / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_both_nodes_work(cluster):
    assert sum(node["Alive"] for node in cluster.nodes()) == 2
    nodes = {answer for _, answer in Ray().run(where, list(range(6)))}
    assert len(nodes) == 2


def test_a_killed_worker_is_an_answer_and_not_the_end(cluster, tmp_path):
    answers = dict(Ray().run(dies_once, [(number, str(tmp_path)) for number in range(3)]))
    assert isinstance(answers[1], Died)
    assert (answers[0], answers[2]) == (0, 2)


SHORT = BIG.replace("train.batch: [4, 8, 16, 32, 64]", "train.batch: [8, 32]").replace("[-10 dB, 0 dB, 10 dB, 20 dB, 30 dB]", "[0 dB, 10 dB]")
KILLER = """
import os, signal
from pathlib import Path
from wflsim.experiments import keepers
original = keepers.costs_of
def costs_of(run, training):
    mark = Path({mark!r})
    if run.regime == 5 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return original(run, training)
keepers.costs_of = costs_of
"""


def test_a_sweep_on_ray_gives_the_bytes_of_a_local_one_though_a_worker_is_killed(cluster, tmp_path, monkeypatch):
    scenario = build(parse(SHORT, "short.yaml"))
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "local-store"))
    run_sweep(scenario, tmp_path / "local", workers=1)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "ray-store"))
    results = run_sweep(scenario, tmp_path / "ray", pool="ray")
    assert set(results.runs["status"]) == {"done"}
    for name in ("runs.csv", "summary.csv"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "killed-store"))
    mark = tmp_path / "killed"
    monkeypatch.setattr(compute_module, "compute_group", deadly(KILLER.format(mark=str(mark))))
    run_sweep(scenario, tmp_path / "killed-out", pool="ray")
    assert mark.exists(), "no worker was killed: the test shows nothing"
    for name in ("runs.csv", "summary.csv"):
        assert (tmp_path / "killed-out" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def rows(folder):
    """Every table and trace of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.suffix in (".csv", ".jsonl")}


KILLER_OF_A_RUN = """
import os, signal
from pathlib import Path
from wflsim.results.rows import Tables
append = Tables.append
def fatal(self, finished):
    mark = Path({mark!r})
    if finished.row.round == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, finished)
Tables.append = fatal
"""


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_a_run_on_ray_gives_the_bytes_of_a_local_one_though_a_worker_is_killed(cluster, tmp_path, monkeypatch, loss):
    """Replayable or live: every policy and seed in a folder of its own, from workers that know only absolute paths."""
    scenario = build(parse(SHORT, "short.yaml"), ["sweep=null", f"radio.loss.probability={loss}"])
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "local-store"))
    wflsim.run(scenario, tmp_path / "local", workers=1)
    monkeypatch.setenv("WFLSIM_STORE", "ray-store")
    monkeypatch.chdir(tmp_path)
    wflsim.run(scenario, "ray", pool="ray")
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
    assert len(list((tmp_path / "ray-store/traces").glob("*"))) == (0 if loss else 2)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "killed-store"))
    monkeypatch.setattr(compute_module, "compute_group", deadly(KILLER_OF_A_RUN.format(mark=str(tmp_path / "mark"))))
    wflsim.run(scenario, tmp_path / "killed", pool="ray")
    assert (tmp_path / "mark").exists(), "no worker was killed: the test shows nothing"
    assert rows(tmp_path / "killed") == rows(tmp_path / "local")


def deadly(code):
    """`compute_group` in a process whose first run of regime 5 kills it."""

    def compute_group(group, wait):
        exec(code, {})
        from wflsim.experiments.compute import compute_group

        return compute_group(group, wait)

    return compute_group


def test_a_policy_of_a_users_own_is_loaded_by_workers_on_ray(cluster, tmp_path, monkeypatch):
    """`wflsim run --pool ray` with a policy file outside the repository, and a helper that it imports beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    CliRunner().invoke(app, ["new", "--policy", str(folder / "mine.py")], catch_exceptions=False)
    text = (folder / "mine.py").read_text().replace("import numpy as np\n", "import numpy as np\nfrom helper import HALF\n")
    (folder / "mine.py").write_text(text.replace("self.beta *", "HALF * self.beta *"))
    (folder / "helper.py").write_text("HALF = 0.5\n")
    (folder / "s.yaml").write_text(SHORT.replace("fedavg", "./mine.py:Mine"))
    for pool in ("local", "ray"):
        monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / f"{pool}-store"))
        arguments = ["run", str(folder / "s.yaml"), "--set", "sweep=null", "--pool", pool, "--out", str(tmp_path / pool)]
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    ours = {name: content for name, content in rows(tmp_path / "ray").items() if name.startswith("Mine")}
    assert len(ours) >= 6
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")
