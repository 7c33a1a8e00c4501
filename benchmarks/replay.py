"""What a replay costs beside the training it stands in for: the paper's CNN, 30 clients, 50 rounds.

    WFLSIM_DATA=... python benchmarks/replay.py > reports/tune/replay.md

First one regime: 50 rounds of DRDM trained, then replayed in each of the map's 35 regimes, facts included. Then the
map: every tau of 5 ... 30 trained for a few rounds and replayed in all regimes; what the replays add to the training.
All ratios come from one run on one machine.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import perf_counter

from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.keepers import costs_of
from wflsim.experiments.plan import Run, plan, regimes
from wflsim.results.store import Store
from wflsim.scenario import Scenario, build
from wflsim.scenario.source import parse

PAPER = """
name: the paper's CNN
clients: 30
data: {name: kmnist}
partition: {alpha: 0.1, sigma: 0.3}
model: {name: cnn}
train: {batch: 32}
evaluate_every: 5
policies: [{name: drdm, m: 20, tau: 10}]
radio: {power: 100 mW}
stop: {rounds: 50}
sweep:
  grid:
    radio.snr: [-10 dB, -5 dB, 0 dB, 5 dB, 10 dB, 15 dB, 20 dB]
    radio.bandwidth: [1 MHz, 2 MHz, 5 MHz, 10 MHz, 20 MHz]
"""
TAUS = (5, 10, 15, 20, 25, 30)
FEW = 5


def paper(tau: int, rounds: int) -> Scenario:
    return build(parse(PAPER, "paper"), [f"policies.drdm.tau={tau}", f"stop.rounds={rounds}"])


def trained_and_replayed(tau: int, rounds: int) -> tuple[float, float, int]:
    """Wall seconds of the training, wall seconds of all replays, how many regimes."""
    scenario = paper(tau, rounds)
    runs = plan(regimes(scenario))
    training = CachedTraining(Run(scenario, 0, 0), Store(), threads=os.cpu_count() or 1)
    assert training.flops_per_sample > 0  # loads the data: not part of the training
    began_s = perf_counter()
    training.extend(rounds)
    trained_s = perf_counter() - began_s
    return trained_s, _replays(runs, CachedTraining(Run(scenario, 0, 0), Store())), len(runs)


def _replays(runs: list[Run], training: CachedTraining) -> float:
    costs_of(runs[0], training)  # once before the clock starts: imports
    began_s = perf_counter()
    for run in runs:
        costs_of(run, training)
    return perf_counter() - began_s


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WFLSIM_STORE"] = str(Path(folder) / "store")
        trained_s, replayed_s, count = trained_and_replayed(10, 50)
        print("# Replay beside training\n\nMade by `python benchmarks/replay.py`: the paper's CNN on Kuzushiji-MNIST, "
              f"30 clients, DRDM with m=20; {os.cpu_count()} cores.\n")
        print("| | training | one replay, with its facts | ratio |\n|---|---|---|---|")
        one_s = replayed_s / count
        print(f"| one regime, tau=10, 50 rounds | {trained_s:.1f} s | {1e3 * one_s:.1f} ms "
              f"| {trained_s / one_s:.0f} |\n", flush=True)
        print(f"| tau ({FEW} rounds each) | training | {count} replays | added |\n|---|---|---|---|")
        sums = [0.0, 0.0]
        for tau in TAUS:
            # a store of its own: tau=10 is known already
            os.environ["WFLSIM_STORE"] = str(Path(folder) / f"store-{tau}")
            trained_s, replayed_s, count = trained_and_replayed(tau, FEW)
            sums = [sums[0] + trained_s, sums[1] + replayed_s]
            print(f"| {tau} | {trained_s:.2f} s | {replayed_s:.3f} s | {replayed_s / trained_s:.2%} |", flush=True)
        print(f"| the map | {sums[0]:.2f} s | {sums[1]:.3f} s | {sums[1] / sums[0]:.2%} |")


if __name__ == "__main__":
    main()
