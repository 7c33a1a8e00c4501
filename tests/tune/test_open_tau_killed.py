"""A search over an open tau that is killed anywhere: the same command goes on and ends with the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_scenarios import SMALL

OPEN = SMALL.replace("  - {name: fedavg, m: 4, tau: 3, eta: 0.1}\n", "").replace("stop: {rounds: 4}", "") + """
seeds: 3
stop: {rounds: 60, target: {accuracy: 0.7, hold: 3}}
sweep: {grid: {radio.snr: [-10 dB, 20 dB]}}
tune: {knobs: {tau: auto}, trainings: 40}
"""


def command(folder, *more):
    return [sys.executable, "-m", "wflsim", "tune", "open.yaml", "--out", str(folder), *map(str, more)]


def started(tmp_path, store, folder, *more):
    """The command in a session and with a store of its own."""
    return subprocess.Popen(
        command(folder, *more), cwd=tmp_path, env={**os.environ, "WFLSIM_STORE": str(tmp_path / store)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finished(process):
    _, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors


def results(folder):
    """Bytes of every table and of the answer."""
    kept = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.suffix in (".csv", ".txt", ".md")}
    assert any(name.endswith(".csv") for name in kept)
    return kept


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of one undisturbed search on one worker."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "open.yaml").write_text(OPEN)
    finished(started(folder, "store", "out", "--workers", 1))
    return results(folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_anywhere_the_same_command_ends_with_the_same_bytes(tmp_path, whole, workers):
    (tmp_path / "open.yaml").write_text(OPEN)
    rng, struck, store = random.Random(workers), 0, tmp_path / "store"
    while struck < 3:
        process = started(tmp_path, "store", "out", "--workers", workers)
        before, began_s = len(list(store.rglob("*"))), time.monotonic()
        # until it has left something of its own in the store; then at some instant of the next second
        while process.poll() is None and len(list(store.rglob("*"))) <= before and time.monotonic() - began_s < 60:
            time.sleep(0.02)
        time.sleep(rng.random())
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        struck += 1
    assert struck >= 2, "the search was over before it could be killed: the test shows nothing"
    finished(started(tmp_path, "store", "out", "--workers", workers))
    assert results(tmp_path / "out") == whole
