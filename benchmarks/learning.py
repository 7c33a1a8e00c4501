"""One FedAvg round against a plain torch loop, and DRDM against FedAvg: N=30, m=20, tau=10, batch 32.

    python benchmarks/learning.py [--repeats 9] [--threads 2] [--out reports/benchmarks/learning.csv]

The plain loop is what one writes first: an nn.Module, torch.optim.SGD, one client after another, default threads.
Machines are noisy, so the contenders take turns within one run, ratios are taken within a turn and the median turn
counts (`_25`, `_75`: the quartiles). Turns that other processes disturbed are left out. In a turn of the small models
each runs ten rounds on end, as in a simulation: one round is no longer than the system's clock tick, and its start,
after a pause, would be spent on filling caches. Images are random: no time depends on what they show.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from wflsim.exchange import Draw
from wflsim.learning.build import build
from wflsim.learning.data.sets import NpzSpec
from wflsim.learning.data.zipf import ZipfDirichletSpec
from wflsim.learning.specs import CnnSpec, LinearSpec, ModelSpec, TrainSpec
from wflsim.policies.drdm import DRDM
from wflsim.policies.fedavg import FedAvg
from wflsim.simulation.loop import Instant, carry, select
from wflsim.simulation.training import Training

N, M, TAU, BATCH, ETA, SEED = 30, 20, 10, 32, 0.05, 1
IMAGE, FEATURES = (28, 28), (512,)
ROUNDS_PER_TURN = {"cnn": 1, "linear": 10, "last_layer": 10}
Contender = Callable[[int], object]


def plain_module(name: str) -> nn.Module:
    if name == "cnn":
        first, second, pool = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1), nn.MaxPool2d(2)
        dense = (nn.Flatten(), nn.Linear(1568, 500), nn.ReLU(), nn.Linear(500, 10))
        return nn.Sequential(first, pool, second, pool, *dense)
    return nn.Sequential(nn.Flatten(), nn.Linear(784 if name == "linear" else 512, 10))


@contextmanager
def plain_loop(name: str, file: Path) -> Iterator[Contender]:
    """FedAvg as one writes it first, in a process of its own: it must not profit from what wflsim sets."""
    context = get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=_plain_process, args=(name, file, there), daemon=True).start()
    there.close()

    def one_round(s: int) -> None:
        here.send(s)
        here.recv()

    yield one_round
    here.send(None)


def _plain_process(name: str, file: Path, pipe: Any) -> None:
    data = np.load(file)
    x, y = torch.from_numpy(data["x_train"]), torch.from_numpy(data["y_train"])
    x = x.unsqueeze(1) if x.ndim == 3 else x
    model, loss = plain_module(name), nn.CrossEntropyLoss()
    shared = {key: value.clone() for key, value in model.state_dict().items()}
    owned = torch.arange(len(y)).chunk(N)
    while pipe.recv() is not None:
        trained = []
        for client in range(M):
            model.load_state_dict(shared)
            optimiser = torch.optim.SGD(model.parameters(), lr=ETA)
            for _ in range(TAU):
                take = owned[client][torch.randint(len(owned[client]), (BATCH,))]
                optimiser.zero_grad()
                loss(model(x[take]), y[take]).backward()
                optimiser.step()
            trained.append({key: value.clone() for key, value in model.state_dict().items()})
        shared = {key: torch.stack([state[key] for state in trained]).mean(dim=0) for key in shared}
        pipe.send("done")


def ours(spec: ModelSpec, policy: Any, file: Path, threads: int) -> tuple[Contender, float]:
    """One round of a policy through the whole contract, and forward operations per sample."""
    data, partition = NpzSpec(name="npz", path=str(file)), ZipfDirichletSpec(alpha=1.0)
    learner = build(data, partition, spec, TrainSpec(batch=BATCH), N, SEED, threads)
    training, carrier = Training(policy, learner, SEED, evaluate_every=10**9), Instant(N)

    def one_round(s: int) -> None:
        flow, answer, draws = training.round(s), None, 0
        while True:
            try:
                demand = flow.send(answer)
            except StopIteration:
                return
            if isinstance(demand, Draw):
                answer, draws = select(demand, carrier, N, SEED, s, draws), draws + 1
            else:
                answer = carry(demand, carrier)

    return one_round, learner.flops_per_sample


def matrix_products(threads: int) -> Contender:
    """2 x 1024^3 operations in every thread, eight times: what this machine can do at best just now."""
    a = torch.rand(1024, 1024)
    pool = ThreadPoolExecutor(threads)
    return lambda s: list(pool.map(lambda _: a @ a, range(8 * threads)))


class Strangers:
    """How much of the machine other processes use (Linux), so that turns they spoil can be left out."""

    def __init__(self) -> None:
        self._tick = os.sysconf("SC_CLK_TCK")

    def cpu_s(self) -> float:
        """CPU seconds so far of everybody but this process and its children."""
        user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
        own = 0
        for process in (os.getpid(), *(child.pid for child in active_children())):
            own += sum(map(int, Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        return (user + nice + system - own) / self._tick

    def wait(self, patience_s: float) -> None:
        """Until they have been nearly idle for a moment."""
        end = time.perf_counter() + patience_s
        while time.perf_counter() < end:
            before = self.cpu_s()
            time.sleep(0.4)
            if self.cpu_s() - before < 0.05:
                return


def measure(contenders: dict[str, Contender], repeats: int, rounds: int, patience_s: float) -> list[dict[str, float]]:
    """Seconds per round of each, turn by turn, without the first (a warm-up) and those of which strangers took 5 %."""
    turns: list[dict[str, float]] = []
    strangers = Strangers()
    for turn in range(repeats + 1):
        strangers.wait(patience_s)
        foreign, seconds = strangers.cpu_s(), {}
        for name, one_round in contenders.items():
            start = time.perf_counter()
            for s in range(turn * rounds, (turn + 1) * rounds):
                one_round(s)
            seconds[name] = (time.perf_counter() - start) / rounds
        if turn and strangers.cpu_s() - foreign < 0.02 + 0.05 * rounds * sum(seconds.values()):
            turns.append(seconds)
    return turns


def random_set(shape: tuple[int, ...], file: Path) -> None:
    rng = np.random.default_rng(SEED)
    x, y = rng.random((60_000, *shape), dtype=np.float32), rng.integers(0, 10, 60_000)
    np.savez(file, x_train=x, y_train=y, x_test=x[:100], y_test=y[:100])


def quartiles(name: str, ratios: list[float]) -> dict[str, float]:
    low, middle, high = np.percentile(ratios, (25, 50, 75)).round(2).tolist()
    return {name: middle, f"{name}_25": low, f"{name}_75": high}


def benchmark(name: str, repeats: int, threads: int, patience_s: float, folder: Path) -> dict[str, float | str]:
    spec: ModelSpec = CnnSpec(name="cnn") if name == "cnn" else LinearSpec(name="linear")
    file = folder / f"{name}.npz"
    random_set(FEATURES if name == "last_layer" else IMAGE, file)
    fedavg, flops = ours(spec, FedAvg(m=M, tau=TAU, eta=ETA), file, threads)
    drdm, _ = ours(spec, DRDM(m=M, tau=TAU, eta=ETA), file, threads)
    with plain_loop(name, file) as plain:
        contenders = {"plain": plain, "fedavg": fedavg, "drdm": drdm, "peak": matrix_products(threads)}
        turns = measure(contenders, repeats, ROUNDS_PER_TURN[name], patience_s)
    if not turns:
        raise SystemExit(f"{name}: the machine was never quiet for long enough; raise --repeats or --patience")
    took = {contender: median(turn[contender] for turn in turns) for contender in contenders}
    speedups = [turn["plain"] / turn["fedavg"] for turn in turns]
    overheads = [turn["drdm"] / turn["fedavg"] for turn in turns]
    return {
        "model": name,
        "plain_ms": round(1e3 * took["plain"], 1),
        "fedavg_ms": round(1e3 * took["fedavg"], 1),
        "drdm_ms": round(1e3 * took["drdm"], 1),
        **quartiles("speedup", speedups),
        **quartiles("drdm_over_fedavg", overheads),
        # A backward pass costs about two forward passes.
        "fedavg_gflops": round(3 * flops * M * TAU * BATCH / took["fedavg"] / 1e9, 1),
        "peak_gflops": round(8 * threads * 2 * 1024**3 / took["peak"] / 1e9, 1),
        "quiet_turns": len(turns),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["cnn", "linear", "last_layer"])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for quiet before a turn")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for name in options.models:
            rows.append(benchmark(name, options.repeats, options.threads, options.patience, Path(folder)))
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.out:
        with options.out.open("w", newline="") as file:
            file.write(f"# python benchmarks/learning.py --repeats {options.repeats} --threads {options.threads}")
            file.write(f" --patience {options.patience:g}")
            file.write(f" --out {options.out}  (torch {torch.__version__}, {os.cpu_count()} cores)\n")
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
