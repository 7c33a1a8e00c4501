"""The command line as a user meets it: real processes, real files, real signals."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from alone import environment, run_alone
from commands import NO_TORCH, hears_ctrl_c, interrupt
from rich.console import Console

import wflsim
from wflsim.analysis.tables import hit
from wflsim.cli.show import summary_table
from wflsim.errors import StoreError
from wflsim.experiments.run import planned
from wflsim.files import locked

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "scenarios/quickstart.yaml"
SMALL = ["--set", "stop.rounds=6", "--set", "model.hidden=[8]", "--set", "stop.target.accuracy=0.3"]


def wfl(*arguments, cwd, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "wflsim", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300, **kwargs
    )


def tables(folder):
    """Every result file's bytes; wall times live apart and are left out."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*.csv"))}


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("small")
    done = wfl("run", QUICKSTART, "--seeds", 2, "--workers", 1, *SMALL, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd, done


def test_run_prints_where_table_and_answer_and_leaves_a_folder_that_explains_itself(small_run):
    cwd, done = small_run
    assert "results: runs/quickstart" in done.stdout
    assert "30 % worst-case accuracy" in " ".join(done.stdout.split())
    folder = cwd / "runs/quickstart"
    about = json.loads((folder / "run.json").read_text())
    assert about["status"] == "done"
    assert {"python", "torch", "simpy", "wflsim"} <= set(about["versions"])
    assert wflsim.load(folder / "scenario.yaml").stop.rounds == 6
    cell = folder / "drdm/seed-1"
    assert {path.name for path in cell.iterdir()} >= {"rounds.csv", "clients.csv", "legs.csv", "trace.jsonl", "status.json"}
    assert not (cell / "checkpoint.pt").exists()
    header = (cell / "legs.csv").read_text().splitlines()[0].split(",")
    assert {"start_s", "end_s", "rate_bps", "energy_j", "radiated_j", "paper_j"} <= set(header)


def test_two_workers_give_the_same_bytes(small_run, tmp_path):
    done = wfl("run", QUICKSTART, "--seeds", 2, "--workers", 2, *SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert tables(tmp_path / "runs") == tables(small_run[0] / "runs")


def test_running_again_trains_nothing_and_more_seeds_only_the_new_ones(small_run):
    cwd, _ = small_run
    stamp = (cwd / "runs/quickstart/drdm/seed-0/rounds.csv").stat().st_mtime_ns
    done = wfl("run", QUICKSTART, "--seeds", 3, *SMALL, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [row["seeds"] for row in summary["summary"]] == [3, 3]
    assert (cwd / "runs/quickstart/drdm/seed-0/rounds.csv").stat().st_mtime_ns == stamp


def tiny(*overrides):
    return wflsim.load(QUICKSTART, ["stop.rounds=2", "seeds=1", "model.hidden=[8]", "stop.target=null", *overrides])


def test_another_scenario_in_the_same_folder_is_refused_until_fresh(tmp_path):
    wflsim.run(tiny(), tmp_path, workers=1)
    with pytest.raises(StoreError, match="another version of this scenario"):
        wflsim.run(tiny("radio.snr=0 dB"), tmp_path, workers=1)
    results = wflsim.run(tiny("radio.snr=0 dB"), tmp_path, workers=1, fresh=True)
    assert results.legs["snr_db"].dropna().unique() == pytest.approx(0)


def test_a_fresh_run_never_deletes_a_folder_that_is_not_ours(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    wflsim.run(tiny(), tmp_path, workers=1, fresh=True)
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize("command", ["run", "tune"])
def test_the_former_name_of_the_pool_is_answered_with_the_new_one(command, tmp_path):
    done = wfl(command, QUICKSTART, "--engine", "ray", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "wflsim: --engine: it is called --pool now; write --pool ray\n")
    done = wfl(command, QUICKSTART, "--pool", "rays", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "wflsim: --pool: got 'rays'. Allowed: local, ray\n")


def test_two_processes_cannot_run_into_one_folder(tmp_path):
    with locked(tmp_path), pytest.raises(StoreError, match="in use by another wflsim run"):
        wflsim.run(tiny(), tmp_path, workers=1)


KILLED = """
import sys, wflsim
from pathlib import Path
from alone import run_alone
scenario = wflsim.load(sys.argv[1], ["stop.rounds=40", "stop.target=null", "radio.loss.probability=0.2"])
print("ready", flush=True)
run_alone(scenario, 1, 3, sys.argv[2], checkpoint_every_s=0.0)
"""


def test_killed_at_any_instant_a_run_ends_bit_identical(tmp_path):
    """SIGKILL five times while it trains and writes a checkpoint after every round."""
    scenario = wflsim.load(QUICKSTART, ["stop.rounds=40", "stop.target=null", "radio.loss.probability=0.2"])
    run_alone(scenario, 1, 3, tmp_path / "whole")
    rng, kills = random.Random(5), 0
    while kills < 5:
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(QUICKSTART), str(tmp_path / "cut")], stdout=subprocess.PIPE, env=environment())
        process.stdout.readline()
        rows, started = tmp_path / "cut/rounds.csv", time.monotonic()
        size = rows.stat().st_size if rows.exists() else 0
        # wait until this process has written something of its own, then strike within the next few rounds
        while process.poll() is None and time.monotonic() - started < 60 and (not rows.exists() or rows.stat().st_size <= size):
            time.sleep(0.002)
        time.sleep(rng.random() * 0.05)
        process.kill()
        process.wait()
        process.stdout.close()
        kills += 1
    held = (tmp_path / "cut/status.json").read_text()
    assert '"running"' in held, "the run was over before it was killed five times: the test shows nothing"
    run_alone(scenario, 1, 3, tmp_path / "cut")
    assert tables(tmp_path / "cut") == tables(tmp_path / "whole")
    assert (tmp_path / "cut/trace.jsonl").read_bytes() == (tmp_path / "whole/trace.jsonl").read_bytes()


@pytest.mark.slow
def test_quickstart_killed_five_times_ends_with_the_same_bytes(tmp_path, monkeypatch):
    undisturbed = wfl("run", QUICKSTART, "--out", tmp_path / "whole", "--workers", 1, cwd=tmp_path)
    assert undisturbed.returncode == 0, undisturbed.stderr
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path / "other"))  # or the second run would only replay the first
    rng, struck = random.Random(11), 0
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-m", "wflsim", "run", str(QUICKSTART), "--out", str(tmp_path / "cut"), "--workers", "2"],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        time.sleep(1.5 + 3 * rng.random())
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            struck += 1
        process.wait()
    assert struck >= 2, "the run was over before it could be killed: the test shows nothing"
    assert wfl("run", QUICKSTART, "--out", tmp_path / "cut", "--workers", 2, cwd=tmp_path).returncode == 0
    assert tables(tmp_path / "cut") == tables(tmp_path / "whole")


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_leaves_a_valid_folder_and_130(tmp_path, workers):
    command = [sys.executable, "-m", "wflsim", "run", str(QUICKSTART), "--workers", str(workers), "--set", "stop.target=null"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hears_ctrl_c
    )
    folder = tmp_path / "runs/quickstart"
    started = time.monotonic()
    while not list(folder.glob("*/*/rounds.csv")) and time.monotonic() - started < 60:
        time.sleep(0.05)
    interrupt(process, folder)
    for table in folder.glob("*/*/rounds.csv"):
        pd.read_csv(table)


def test_a_full_disk_is_said_plainly_and_loses_no_earlier_row(tmp_path):
    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = wfl("run", QUICKSTART, "--seeds", 1, "--workers", 1, "--set", "stop.target=null", cwd=tmp_path, preexec_fn=small_disk)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert "rounds before" in done.stderr
    assert "Traceback" not in done.stderr
    rounds = pd.read_csv(tmp_path / "runs/quickstart/fedavg/seed-0/rounds.csv")
    assert len(rounds) > 3
    again = wfl("run", QUICKSTART, "--seeds", 1, "--workers", 1, "--set", "stop.target=null", cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def test_an_unwritable_place_is_said_plainly(tmp_path):
    (tmp_path / "file").write_text("x")
    done = wfl("run", QUICKSTART, "--out", "file/inside", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot write in file/inside: Not a directory; choose another with --out" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_diverging_policy_is_named_with_its_cure_and_the_others_go_on(tmp_path):
    done = wfl("run", QUICKSTART, "--seeds", 2, *SMALL, "--workers", 1, "--set", "policies.drdm.eta=40", "--set", "stop.rounds=80", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "diverged: drdm seed 1: policy drdm:" in text
    assert "usual cure: a smaller eta" in text
    rows = {seed: pd.read_csv(tmp_path / f"runs/quickstart/drdm/seed-{seed}/rounds.csv") for seed in (0, 1)}
    assert all(len(frame) > 0 for frame in rows.values())
    assert len(pd.read_csv(tmp_path / "runs/quickstart/fedavg/seed-1/rounds.csv")) > 0


@pytest.mark.parametrize("name", ["../../../evil", "/etc/evil", "..", "<script>alert(1)</script>", "a/b\\c:d", "[bold]x[/bold]"])
def test_names_cannot_leave_the_output_directory(tmp_path, monkeypatch, name):
    inside = tmp_path / "deep/inside"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    results = wflsim.run(tiny(f"name={json.dumps(name)}", f"policies.drdm.label={json.dumps(name)}"), workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in inside.iterdir()] == ["runs"]
    (folder,) = (inside / "runs").iterdir()
    assert results.folder.resolve() == folder.resolve()
    assert len(results.run_folders) == 2
    Console(file=io.StringIO()).print(summary_table(results))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["run", "--help"], 0),
        (["list"], 0),
        (["list", "policies"], 0),
        (["check", "bad.yaml"], 2),
        (["check", "--schema"], 0),
        (["new", "fresh.yaml"], 0),
        (["run", "bad.yaml"], 2),
    ],
    ids=str,
)
def test_commands_that_do_not_train_do_not_import_torch(tmp_path, arguments, code):
    (tmp_path / "bad.yaml").write_text("name: x\nclients: -1\n")
    done = subprocess.run([sys.executable, "-c", NO_TORCH, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == f"LIGHT {code}", done.stdout[-300:] + done.stderr


def test_schema_is_a_json_schema(tmp_path):
    schema = json.loads(wfl("check", "--schema", cwd=tmp_path).stdout)
    assert {"policies", "radio", "stop", "data"} <= set(schema["properties"])


def test_a_strangers_path(tmp_path):
    """new, edit three values, check, run, read the table."""
    assert wfl("new", "mine.yaml", cwd=tmp_path).returncode == 0
    assert wfl("new", "mine.yaml", cwd=tmp_path).returncode == 2
    text = (tmp_path / "mine.yaml").read_text()
    for old, new in [("bandwidth: 1 MHz", "bandwidth: 200 kHz"), ("alpha: 0.3", "alpha: 1"), ("seeds: 3", "seeds: 2")]:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "mine.yaml").write_text(text)
    check = wfl("check", "mine.yaml", cwd=tmp_path)
    assert check.returncode == 0, check.stderr
    assert "mine.yaml: ok" in check.stdout
    assert "650 parameters" in " ".join(check.stdout.split())
    run = wfl("run", "mine.yaml", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "energy to 80 % worst" in " ".join(run.stdout.split())
    assert (tmp_path / "runs/mine/summary.csv").exists()


def test_the_python_api_gives_frames(tmp_path):
    scenario = wflsim.load(QUICKSTART, ["stop.rounds=4", "seeds=2", "model.hidden=[8]"])
    results = wflsim.run(scenario, out=tmp_path / "api", workers=1)
    assert set(results.rounds["policy"]) == {"fedavg", "drdm"}
    assert len(results.rounds) == 2 * 2 * 4
    assert len(results.clients) == 2 * 2 * 4 * 10
    assert results.legs["energy_j"].sum() == pytest.approx(results.rounds["energy_j"].sum(), rel=1e-12)
    assert list(results.summary["policy"]) == ["fedavg", "drdm"]
    assert "<table" in results._repr_html_()
    assert "fedavg" in repr(results)
    assert len(planned(scenario)) == 4


def test_the_hitting_time_is_the_first_of_the_held_evaluations():
    rows = pd.DataFrame({"round": range(9), "worst": [0.1, None, 0.9, None, 0.2, 0.9, None, 0.95, 0.99]})
    assert hit(rows, {"metric": "worst", "accuracy": 0.8, "hold": 1}) == 2
    assert hit(rows, {"metric": "worst", "accuracy": 0.8, "hold": 2}) == 5
    assert hit(rows, {"metric": "worst", "accuracy": 0.8, "hold": 3}) == 5
    assert hit(rows, {"metric": "worst", "accuracy": 0.8, "hold": 4}) is None
