"""How much of a live run's wall time is the world? A CNN of the paper's size, m = 20, tau = 10, batch 32.

Run: .venv/bin/python benchmarks/world_live_share.py. Images are noise: what they show does not matter for the time. The
world is a demanding one: path loss, block fading, equal shares of one band, HARQ by blocks and a deadline.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from wflsim.records import FinishedRound
from wflsim.scenario import load
from wflsim.simulation.loop import drive
from wflsim.simulation.training import Training
from wflsim.world.world import World

SCENARIO = """
name: live_share
clients: 30
seeds: 1
data: {{name: npz, path: {data}}}
partition: {{alpha: 0.5, sigma: 0.3}}
model: {{name: cnn}}
train: {{batch: 32}}
policies:
  - {{name: drdm, m: 20, tau: 10, eta: 0.05, mu: 0.5, gamma: 5e-4}}
radio:
  path_loss: umi
  bandwidth: 20 MHz
  fading: {{name: rayleigh, block: 100 ms}}
  loss: {{probability: 0.05, attempts: 4, block: 100 kbit}}
cell: {{access: {access}, radius: 200 m}}
server: {{deadline: 10 min}}
stop: {{rounds: 3}}
"""


class Timed:
    """A world with a stop watch on every call."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.world, name)
        if not callable(found):
            return found

        def call(*args: Any) -> Any:
            start = time.perf_counter()
            try:
                return found(*args)
            finally:
                self.seconds += time.perf_counter() - start

        return call


class Count:
    """A sink that only counts legs."""

    legs = 0

    def __call__(self, finished: FinishedRound) -> None:
        self.legs += len(finished.legs)


def measure(folder: Path, access: str) -> bool:
    """One live run of three rounds; prints the world's share."""
    from wflsim.learning.build import build

    file = folder / f"{access}.yaml"
    file.write_text(SCENARIO.format(data=folder / "noise.npz", access=access), encoding="utf-8")
    scenario = load(file)
    learner = build(scenario.data, scenario.partition, scenario.model, scenario.train, scenario.clients, 0, 1)
    world, sink = Timed(World(scenario.world, scenario.clients, 0, learner.flops_per_sample)), Count()
    training = Training(scenario.policies[0], learner, 0, evaluate_every=5)
    start = time.perf_counter()
    drive(training, world, sink, lambda row: "done" if row.round == 2 else None, scenario.clients, 0)  # type: ignore[arg-type]
    wall_s = time.perf_counter() - start
    share = world.seconds / wall_s
    print(
        "ok  " if share < 0.05 else "MISS",
        f"{access}: {sink.legs} legs, {world.seconds:.3f} of {wall_s:.2f} s are the world's, {share:.1%} (under 5 %)",
    )
    return share < 0.05


def main() -> int:
    """Bands of their own, and equal shares with an event per fading block."""
    rng = np.random.Generator(np.random.Philox(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = {
            f"x_{half}": rng.random((n, 1, 28, 28), dtype=np.float32) for half, n in (("train", 6000), ("test", 600))
        }
        labels = {f"y_{half}": rng.integers(0, 10, n) for half, n in (("train", 6000), ("test", 600))}
        np.savez(folder / "noise.npz", **images, **labels)
        shares = [measure(folder, access) for access in ("dedicated", "ofdma")]
        return 0 if all(shares) else 1


if __name__ == "__main__":
    sys.exit(main())
