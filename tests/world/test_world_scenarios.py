"""The shipped worlds: each runs with its policies, survives SIGKILL bit for bit, and shows its troubles in its rows.

All cells run in children forked from one process that has imported torch and done nothing with it: a child that kills
itself in the middle of a round costs milliseconds, a new interpreter seconds.
"""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from alone import environment

ROOT = Path(__file__).resolve().parents[2]
WORLDS = {
    "paper_regime": set(),
    "rural_lte": {"late", "outage"},
    "indoor_wifi": set(),
    "narrow_band": set(),
    "mixed_fleet": {"late"},
    "dying_sensors": {"dead"},
    "lossy_harq": {"lost"},
    "walking_trace": set(),
    "peers": {"lost"},
    "fedcs": set(),
    "oort": set(),
    "solar_fleet": set(),
}
CHANGES = {"dying_sensors": ["devices.battery=0.12 J"]}

RUN_ALL = """
import os, signal, sys, traceback
from pathlib import Path
import sklearn.datasets, torch._dynamo
import wflsim.learning.build, wflsim.experiments.keepers as keepers
from alone import run_alone
from wflsim.simulation import checkpoint, loop, stop, training
from wflsim.scenario import load
from wflsim.world.world import World

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def killed_in(kill_round, run):
    append = keepers.Tables.append
    def fatal(self, finished):
        if finished.row.round == kill_round:
            os.kill(os.getpid(), signal.SIGKILL)
        append(self, finished)
    keepers.Tables.append = fatal
    run(checkpoint_every_s=0.0)

out = Path(sys.argv[1])
for world in sys.argv[2:]:
    name, *changes = world.split(";")
    scenario = load(f"scenarios/{name}.yaml", ["stop.rounds=8", *changes])
    for policy, label in enumerate(scenario.labels):
        def run(kind, **how):
            run_alone(scenario, policy, 0, out / name / kind / label, **how)
        assert in_child(lambda: run("whole")) == 0, (name, label, "whole")
        assert in_child(lambda: killed_in(4, lambda **how: run("cut", **how))) == -signal.SIGKILL, (name, label, "was not killed")
        assert in_child(lambda: run("cut")) == 0, (name, label, "resumed")
"""


def test_shipped_worlds_run_resume_bit_for_bit_and_show_their_troubles(tmp_path):
    worlds = [";".join([name, *CHANGES.get(name, [])]) for name in WORLDS]
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, str(tmp_path), *worlds], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**environment(), "WFLSIM_STORE": str(tmp_path / "store")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    for world, troubles in WORLDS.items():
        found = set()
        for whole in sorted((tmp_path / world / "whole").iterdir()):
            found |= outcomes_of(whole, tmp_path / world / "cut" / whole.name) - {"ok"}
        assert found >= troubles, world
        assert bool(found) == bool(troubles), world


def outcomes_of(whole, cut):
    """How legs of the undisturbed run ended, after checking it against its killed and resumed twin."""
    assert json.loads((whole / "status.json").read_text())["status"] == "done", whole
    for table in ("rounds.csv", "clients.csv", "legs.csv"):
        assert (cut / table).read_bytes() == (whole / table).read_bytes(), cut / table
    rounds, legs = pd.read_csv(whole / "rounds.csv"), pd.read_csv(whole / "legs.csv")
    assert rounds["energy_j"].sum() == pytest.approx(legs["energy_j"].sum(), rel=1e-12), whole
    assert (rounds["end_s"] >= rounds["start_s"]).all(), whole
    outcomes = set(legs["outcome"])
    assert (rounds["delivered"].sum() < rounds["asked"].sum()) == (outcomes != {"ok"}), whole
    return outcomes
