"""Equal-share uploads from 1,000 to 100,000 concurrent clients: does the cell scale?

Run: .venv/bin/python benchmarks/world_sharing.py. All figures are of one process, in CPU seconds. Each client is one
order (a process of its own): it computes for a time of its own, then sends over the shared band among all others. The
yardstick is a bare SimPy loop with as many processes and as many events.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc

import simpy

from wflsim.exchange import Order
from wflsim.world.world import World, WorldSpec

SPEC = WorldSpec.model_validate(
    {
        "radio": {"snr": [f"{snr_db} dB" for snr_db in range(0, 20)], "bandwidth": "20 MHz"},
        "cell": {"access": "ofdma"},
        "devices": {"cycles_per_sample": 1e6, "spread": 0.6},
    }
)


def world_and_orders(clients: int) -> tuple[World, list[Order]]:
    """Uploads of different lengths that begin at different times and overlap."""
    orders = [Order(c, 0, 0, 0, 0, 0, 10_000 + 37 * (c % 1009), 100, 100, 0) for c in range(clients)]
    return World(SPEC, clients, seed=0), orders


def uploads(clients: int) -> tuple[float, int]:
    """CPU seconds of one phase, and the events in it."""
    world, orders = world_and_orders(clients)
    gc.collect()
    start = time.process_time()
    outcomes = world.gather(orders, None)
    seconds = time.process_time() - start
    assert all(outcome.fate == "delivered" for outcome in outcomes)
    return seconds, next(world._env._eid)


def memory(clients: int) -> int:
    """Peak bytes of world, orders, flows and rows together, over what the interpreter needs anyway."""
    gc.collect()
    tracemalloc.start()
    world, orders = world_and_orders(clients)
    world.gather(orders, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def bare(processes: int, events: int) -> float:
    """CPU seconds of a SimPy loop with as many processes and events that does nothing else."""
    env = simpy.Environment()
    timeouts = max(1, round(events / processes) - 2)  # two events are the start and the end of the process

    def idler(delay_s: float) -> simpy.events.ProcessGenerator:
        for _ in range(timeouts):
            yield env.timeout(delay_s)

    gc.collect()
    start = time.process_time()
    for number in range(processes):
        env.process(idler(1 + number % 1009 / 1009))
    env.run()
    return (time.process_time() - start) / next(env._eid)


def main() -> int:
    """Print the figures and say whether they hold."""
    uploads(100)
    few, many = 1_000, 100_000
    few_s = min(uploads(few)[0] for _ in range(5))
    many_s, events = uploads(many)
    bare_s_per_event = bare(many, events)
    few_bytes, many_bytes = memory(few), memory(many)
    rate, bare_rate = events / many_s, 1 / bare_s_per_event
    findings = [
        (f"time: {few_s:.4f} s -> {many_s:.2f} s, {many_s / few_s:.0f}-fold (at most 350)", many_s / few_s <= 350),
        (
            f"memory: {few_bytes / 1e6:.1f} MB -> {many_bytes / 1e6:.0f} MB, {many_bytes / few_bytes:.0f}-fold "
            "(at most 120)",
            many_bytes / few_bytes <= 120,
        ),
        (
            f"events: {events} at {rate / 1e3:.0f} k/s, a bare loop of as many processes {bare_rate / 1e3:.0f} k/s: "
            f"{rate / bare_rate:.2f} of it (at least 0.25)",
            rate / bare_rate >= 0.25,
        ),
    ]
    for sentence, holds in findings:
        print("ok  " if holds else "MISS", sentence)
    return 0 if all(holds for _, holds in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
