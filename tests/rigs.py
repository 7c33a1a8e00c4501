"""Small complete rigs for tests: a real learner on digits, a world, a sink in memory, and one way to run them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from wflsim.learning.build import build
from wflsim.learning.data.partition import PartitionSpec
from wflsim.learning.data.sets import DataSpec
from wflsim.learning.learner import Learner
from wflsim.learning.specs import ModelSpec, TrainSpec
from wflsim.records import ClientRow, FinishedRound, Leg, RoundRow, TraceRound
from wflsim.simulation.checkpoint import Checkpoint, load, save
from wflsim.simulation.loop import Instant, drive
from wflsim.simulation.replay import Replay
from wflsim.simulation.training import Training
from wflsim.world.fleet.compute import REFERENCE_FLOPS
from wflsim.world.world import World, WorldSpec

CLIENTS = 6
RADIO = {"snr": "10 dB", "bandwidth": "200 kHz", "power": "100 mW"}
LOSSY = {"radio": {**RADIO, "loss": {"probability": 0.3}}}
UNEVEN = ["10 dB", "0 dB", "5 dB", "10 dB", "0 dB", "5 dB"]
HARSH = {
    "radio": {**RADIO, "loss": {"probability": 0.3}, "snr": UNEVEN},
    "devices": {"cycles_per_sample": 1e6},
    "server": {"deadline": "0.3 s"},
}
"""30 % losses, and a deadline that the clients at 0 dB miss when they send two models."""


class Rows:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.trace: list[TraceRound] = []
        self.rounds: list[RoundRow] = []
        self.clients: list[ClientRow] = []
        self.legs: list[Leg] = []

    def __call__(self, finished: FinishedRound) -> None:
        self.trace.append(finished.trace)
        self.rounds.append(finished.row)
        self.clients += finished.clients
        self.legs += finished.legs


def learner(seed: int = 0, clients: int = CLIENTS, threads: int = 1, model: str = "linear", **train: Any) -> Learner:
    """Digits, unevenly split."""
    return build(
        TypeAdapter(DataSpec).validate_python({"name": "digits"}),
        TypeAdapter(PartitionSpec).validate_python({"name": "zipf_dirichlet", "alpha": 0.3, "sigma": 0.5}),
        TypeAdapter(ModelSpec).validate_python({"name": model}),
        TrainSpec(**{"batch": 16, **train}),
        clients,
        seed,
        threads,
    )


def world(
    spec: dict[str, Any] | None = None, seed: int = 0, clients: int = CLIENTS, flops: float = REFERENCE_FLOPS, kind: type[World] = World
) -> World:
    return kind(WorldSpec.model_validate({"radio": RADIO, **(spec or {})}), clients, seed, flops)


def rounds(count: int) -> Any:
    """A stop rule."""
    return lambda row: "done" if row.round + 1 >= count else None


def rehearse(policy: Any, count: int = 4, seed: int = 0, **kwargs: Any) -> tuple[Rows, Training]:
    rows, training = Rows(), Training(policy, learner(seed, **kwargs), seed)
    drive(training, Instant(CLIENTS), rows, rounds(count), CLIENTS, seed)
    return rows, training


def live(
    policy: Any, spec: dict[str, Any] | None = None, count: int = 4, seed: int = 0, **kwargs: Any
) -> tuple[Rows, Training]:
    rows, training = Rows(), Training(policy, learner(seed, **kwargs), seed)
    drive(training, world(spec, seed), rows, rounds(count), CLIENTS, seed)
    return rows, training


def replay(trace: list[TraceRound], spec: dict[str, Any] | None = None, seed: int = 0) -> Rows:
    rows = Rows()
    drive(Replay(trace), world(spec, seed), rows, rounds(len(trace)), CLIENTS, seed)
    return rows


def resumed(policy: Any, spec: dict[str, Any], count: int, cut: int, folder: Path) -> tuple[Rows, Rows]:
    """An uninterrupted run, and one that was cut after some rounds, saved, loaded and gone on with."""
    whole, _ = live(policy, spec, count)
    first, interrupted = live(policy, spec, cut)
    save(folder / "checkpoint.pt", Checkpoint(cut, {}, interrupted.snapshot()))
    again, rows = Training(policy, learner(), 0), Rows()
    saved = load(folder / "checkpoint.pt")
    assert saved is not None
    again.restore(saved.learning)
    drive(Replay(first.trace, then=again), world(spec), rows, rounds(count), CLIENTS, 0)
    return whole, rows
