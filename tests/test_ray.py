"""Sweeps on a real Ray cluster: two nodes on one machine, the same bytes as local processes, killed workers retried."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path

import pytest
from test_sweep import BIG

from wflsim.engines import Died, Ray
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.sweep.run import run_sweep

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
        here = str(Path(__file__).parent)
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
from wflsim.sweep import cells
original = cells.play
def play(cell, curve):
    mark = Path({mark!r})
    if cell.regime == 5 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return original(cell, curve)
cells.play = play
"""


def test_a_sweep_on_ray_gives_the_bytes_of_a_local_one_though_a_worker_is_killed(cluster, tmp_path, monkeypatch):
    scenario = build(parse(SHORT, "short.yaml"))
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "local-store"))
    run_sweep(scenario, tmp_path / "local", workers=1)
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "ray-store"))
    results = run_sweep(scenario, tmp_path / "ray", engine_name="ray")
    assert set(results.cells["status"]) == {"done"}
    for name in ("cells.csv", "summary.csv"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "killed-store"))
    mark = tmp_path / "killed"
    from wflsim.sweep import run as run_module

    monkeypatch.setattr(run_module, "work", deadly(KILLER.format(mark=str(mark))))
    run_sweep(scenario, tmp_path / "killed-out", engine_name="ray")
    assert mark.exists(), "no worker was killed: the test shows nothing"
    for name in ("cells.csv", "summary.csv"):
        assert (tmp_path / "killed-out" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def deadly(code):
    """`work` in a process whose first cell of regime 5 kills it."""

    def work(task):
        exec(code, {})
        from wflsim.sweep.cells import work

        return work(task)

    return work
