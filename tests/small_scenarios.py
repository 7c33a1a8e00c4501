"""Scenarios that run in a second, as text and as objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from wflsim.scenario import Scenario, build
from wflsim.scenario.source import parse

SMALL = """
name: small
clients: 6
data: {name: digits}
partition: {alpha: 0.3, sigma: 0.3}
model: {name: linear}
train: {batch: 16}
policies:
  - {name: fedavg, m: 4, tau: 3, eta: 0.1}
  - {name: drdm, m: 4, tau: 3, eta: 0.1}
radio: {snr: 10 dB, bandwidth: 180 kHz, power: 100 mW}
stop: {rounds: 4}
"""
"""Two policies, four rounds, six clients on the 8x8 digits, one regime."""

BIG = """
name: big
clients: 5
seeds: 2
data: {name: digits}
partition: {alpha: 1}
model: {name: linear}
policies: [{name: fedavg, m: 3, tau: 2, eta: 0.1}]
stop: {rounds: 5}
sweep:
  grid:
    train.batch: [4, 8, 16, 32, 64]
    radio.snr: [-10 dB, 0 dB, 10 dB, 20 dB, 30 dB]
    radio.bandwidth: [100 kHz, 200 kHz, 400 kHz, 1 MHz]
"""
"""One policy, two seeds, a hundred regimes."""

PAPERS_CNN = "devices.cycles_per_sample=1.083e7"
"""Override: computing costs as much as for the paper's CNN, so that a local step counts beside the radio."""
TUNED = ("stop.rounds=30", "stop.target={accuracy: 0.5, hold: 3}", "seeds=3", "tune.knobs.tau=[1, 3, 8]", PAPERS_CNN)
REGIMES = "sweep={grid: {radio.snr: [-10 dB, 20 dB], radio.bandwidth: [20 kHz, 1 MHz]}}"
"""Overrides of SMALL for tuning tau, and for four regimes."""


def small(*overrides: str) -> Scenario:
    """SMALL, with overrides."""
    return build(parse(SMALL, "small.yaml"), overrides)


def small_drdm(*overrides: str) -> Scenario:
    """SMALL with DRDM alone, with overrides."""
    return small("policies=[{name: drdm, m: 4, tau: 3, eta: 0.1}]", *overrides)


def a_folder_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for a project, while the working directory is another one."""
    folder, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return folder
