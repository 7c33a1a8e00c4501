"""`wflsim compare`: folders that share a world meet in one regime, and differences are paired on common seeds."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from test_shell import NO_TORCH
from test_store import SMALL

import wflsim
from wflsim.compare import compare
from wflsim.errors import StoreError
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.tables import Interval

TARGET = "stop.target={accuracy: 0.2}"


def small(*overrides):
    return build(parse(SMALL, "small.yaml"), overrides)


@pytest.fixture
def folders(tmp_path):
    """FedAvg with seeds 0-2 in one folder, DRDM with seeds 1-3 in another, and a third in another world."""
    runs = {
        "averaging": ["policies=[{name: fedavg, m: 4, tau: 3, eta: 0.1}]", "seeds=[0, 1, 2]", "name=averaging"],
        "robust": ["policies=[{name: drdm, m: 4, tau: 3, eta: 0.1}]", "seeds=[1, 2, 3]"],
        "elsewhere": ["policies=[{name: drdm, m: 4, tau: 3, eta: 0.1}]", "seeds=[0]", "radio.snr=0 dB", "name=elsewhere"],
    }
    for name, overrides in runs.items():
        wflsim.run(small(TARGET, *overrides), tmp_path / name, workers=1)
    return tmp_path


def test_policies_of_two_folders_meet_and_are_paired_on_common_seeds(folders):
    found = compare([folders / "averaging", folders / "robust"])
    assert list(found.lines["policy"]) == ["fedavg", "drdm"]
    assert set(found.lines["regime"]) == {""}
    (pair,) = found.pairs.to_dict("records")
    assert pair["common_seeds"] == 2
    one, two = (wflsim.Results(folders / name).runs.set_index("seed") for name in ("averaging", "robust"))
    best, other = (two, one) if pair["against"] == "drdm" else (one, two)
    gaps = [other.loc[seed, "energy_j"] - best.loc[seed, "energy_j"] for seed in (1, 2)]
    assert pair["energy_j_more"] == pytest.approx(np.mean(gaps))
    assert pair["energy_j_more_low"] == pytest.approx(Interval.of(gaps).low)


def test_another_world_is_another_regime(folders):
    found = compare([folders / "averaging", folders / "robust", folders / "elsewhere"])
    assert list(found.lines["regime"]) == ["averaging", "averaging", "elsewhere"]
    assert len(found.pairs) == 1, "nothing to compare with in the other world"


def test_the_command_prints_both_tables_or_json_and_does_not_import_torch(folders):
    done = subprocess.run([sys.executable, "-m", "wflsim", "compare", "averaging", "robust"], cwd=folders, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "paired on common seeds" in done.stdout
    command = [sys.executable, "-c", NO_TORCH, "compare", "averaging", "robust", "--json"]
    done = subprocess.run(command, cwd=folders, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "LIGHT 0", done.stderr
    assert {"lines", "pairs"} <= json.loads(done.stdout.splitlines()[0]).keys()


def test_what_is_not_a_result_folder_is_refused(folders):
    with pytest.raises(StoreError, match="is not a result folder of wflsim"):
        compare([folders])
    (folders / "robust/run.json").write_text(json.dumps({"kind": "tune"}))
    with pytest.raises(StoreError, match="holds a tune; compare joins the folders of `wflsim run`, sweeps included"):
        compare([folders / "robust"])
