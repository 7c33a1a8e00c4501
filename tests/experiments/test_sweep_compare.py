"""`wflsim compare`: folders that share a world meet in one regime, and differences are paired on common seeds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from commands import NO_TORCH
from small_scenarios import SMALL

import wflsim
from wflsim.analysis.joining import saving
from wflsim.analysis.tables import Interval
from wflsim.errors import StoreError
from wflsim.experiments.compare import compare
from wflsim.experiments.sweep import run_sweep
from wflsim.files import read_sealed, write_sealed
from wflsim.report.compose import compose, gather
from wflsim.scenario import build
from wflsim.scenario.differences import differences
from wflsim.scenario.source import parse

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
    assert list(found.lines["regime"]) == ["radio.snr 10 dB", "radio.snr 10 dB", "radio.snr 0 dB"]
    assert list(found.lines["radio.snr"]) == ["10 dB", "10 dB", "0 dB"]
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


def test_worlds_that_share_a_name_are_told_apart_by_what_differs(tmp_path):
    """README's own example: two folders of one scenario, one with --set radio.snr='0 dB'. Their energies are not one mean."""
    for name, more in (("near", []), ("far", ["radio.snr=0 dB"]), ("whole", ["train.dtype=float64"])):
        wflsim.run(small(TARGET, "seeds=[0, 1]", *more), tmp_path / name, workers=1)
    found = compare([tmp_path / "near", tmp_path / "far", tmp_path / "whole"])
    assert found.keys == ["radio.snr", "train.dtype"]
    policies = found.lines["policy"].nunique()
    assert found.lines[found.keys].drop_duplicates().to_numpy().tolist() == [["10 dB", "float32"], ["0 dB", "float32"], ["10 dB", "float64"]]
    assert list(found.lines["seeds"]) == [2] * 3 * policies, "never four seeds of two worlds"
    for i, name in enumerate(("near", "far", "whole")):
        own = wflsim.Results(tmp_path / name).summary
        assert found.lines["energy_j"].tolist()[i * policies : (i + 1) * policies] == own["energy_j"].tolist()


def test_the_page_of_the_same_folders_says_the_same(tmp_path):
    both = "policies=[{name: fedavg, m: 4, tau: 3, eta: 0.1}, {name: drdm, m: 4, tau: 3, eta: 0.1}]"
    for name, more in (("near", []), ("far", ["radio.snr=0 dB"])):
        wflsim.run(small(TARGET, both, "seeds=[0, 1, 2]", *more), tmp_path / name, workers=1)
    found = compare([tmp_path / "near", tmp_path / "far"])
    page = compose(gather([tmp_path / "near", tmp_path / "far"]))
    (table,) = (table for table in page.tables if table.id == "pairs")
    held = [dict(zip(table.names, (cell.text for cell in row), strict=True)) for row in table.rows]
    assert [row["radio.snr"] for row in held] == ["10 dB", "0 dB"]
    for row, line, opening in zip(held, found.pairs.to_dict("records"), page.openings, strict=True):
        assert (row["best"], row["against"]) == (line["against"], line["policy"])
        assert row["saved"] == saving(line)
        assert row["told_apart"] == ("yes" if line["told_apart"] else "no")
        assert ("is told apart" in opening.sure) == line["told_apart"]


def test_the_same_policy_in_two_folders_is_one_with_more_seeds_and_another_tau_is_another(tmp_path):
    for name, tau, seeds in (("a", 3, "[0, 1]"), ("b", 3, "[1, 2]"), ("c", 5, "[0, 1]")):
        wflsim.run(small(TARGET, f"policies=[{{name: drdm, m: 4, tau: {tau}, eta: 0.1}}]", f"seeds={seeds}"), tmp_path / name, workers=1)
    found = compare([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert dict(zip(found.lines["policy"], found.lines["seeds"], strict=True)) == {"drdm (tau 3)": 3, "drdm (tau 5)": 2}
    assert list(found.lines["regime"]) == ["", ""]
    together = compare([tmp_path / "a", tmp_path / "b"])
    assert dict(zip(together.lines["policy"], together.lines["seeds"], strict=True)) == {"drdm": 3}


def test_an_interrupted_folder_is_answered_with_a_sentence(folders):
    """What a kill leaves: a folder without any finished run, runs without tables, a sweep without cells."""
    runs = sorted((folders / "robust").glob("drdm/seed-*"))
    (runs[0] / "status.json").write_text(json.dumps({"status": "running", "reason": "", "mode": ""}))
    (runs[0] / "rounds.csv").unlink()
    found = compare([folders / "robust", folders / "averaging"])
    assert dict(zip(found.lines["policy"], found.lines["seeds"], strict=True)) == {"drdm": 2, "fedavg": 3}
    assert found.notes == [f"{folders / 'robust'}: 1 of 3 runs have not ended and are left out"]
    for path in runs:
        (path / "status.json").unlink()
    with pytest.raises(StoreError, match="no run of it has ended yet; run it again, it goes on where it stopped"):
        compare([folders / "robust"])
    for path in sorted((folders / "averaging").glob("fedavg/seed-*")):
        (path / "rounds.csv").unlink()
    with pytest.raises(StoreError, match=r"rounds.csv is not there any more; call the same wflsim command again"):
        compare([folders / "averaging"])
    done = subprocess.run([sys.executable, "-m", "wflsim", "compare", "robust"], cwd=folders, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_a_sweep_folder_from_before_runs_csv_is_read_and_renewed(tmp_path):
    """Its table was called cells.csv, and run.json vouched for that name."""
    swept = small(TARGET, "sweep={grid: {radio.snr: [0 dB, 10 dB]}}")
    now, old = tmp_path / "now", tmp_path / "old"
    run_sweep(swept, now, workers=1)
    shutil.copytree(now, old)
    (old / "runs.csv").rename(old / "cells.csv")
    content, marks = read_sealed(old / "run.json")
    marks["cells.csv"] = marks.pop("runs.csv")
    (old / "run.json").write_text(write_sealed(content, marks))
    assert compare([old]).lines.equals(compare([now]).lines)
    assert "nothing to show" not in str(gather([old]).missing)
    body = (old / "cells.csv").read_text()
    (old / "cells.csv").write_text(body.replace("0 dB", "1 dB", 1))
    with pytest.raises(StoreError, match=r"cells.csv is damaged"):
        compare([old])
    run_sweep(swept, old, workers=1)
    assert (old / "runs.csv").read_bytes() == (now / "runs.csv").read_bytes()
    assert not (old / "cells.csv").exists()


def test_values_are_written_as_people_write_them():
    one = small("radio.bandwidth=180 kHz", "radio.power=100 mW", "devices.frequency=600 MHz", "radio.snr=-5 dB").model_dump(mode="json")
    two = small("radio.bandwidth=1 MHz", "radio.power=20 dBm", "devices.frequency=1 GHz", "radio.snr=[10 dB, 0 dB]", "model={name: mlp, hidden: [8]}",
                "radio.patience=30 s").model_dump(mode="json")  # fmt: skip
    first, second = differences([one, two])
    assert first == {"radio.snr": "-5 dB", "radio.bandwidth": "180 kHz", "radio.patience": "10 s", "devices.frequency": "600 MHz", "model.name": "linear", "model.hidden": "-"}
    assert second == {"radio.snr": "[10 dB, 0 dB]", "radio.bandwidth": "1 MHz", "radio.patience": "30 s", "devices.frequency": "1 GHz", "model.name": "mlp", "model.hidden": "8"}
    near = differences([{"a": 0.1}, {"a": 0.1 + 1e-12}])
    assert near[0] != near[1], "what differs is never shown as the same"
