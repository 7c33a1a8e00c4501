"""A physical knob by the vectorised replay beside SimPy's: 50 rounds of DRDM, 30 clients, 20 per round.

    python benchmarks/vectorised.py reports/benchmarks/vectorised.csv

In each world, radio.power takes EVALUATIONS values, each a world of its own, validated as a user's value is; some of
them are replayed by SimPy as well. CPU seconds of this process, so that a busy machine counts less; and the largest
relative difference of any round's joules or seconds. Asked: 1,000 evaluations in at most 5 s.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run
from wflsim.records import RoundRow, TraceRound
from wflsim.results.store import Store
from wflsim.scenario import build
from wflsim.scenario.source import parse
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.world.trace_arrays import TraceArrays
from wflsim.world.vectorised import vectorised
from wflsim.world.world import World, WorldSpec

CLIENTS, ROUNDS, EVALUATIONS, BY_EVENTS = 30, 50, 1000, 20
LEARNING = f"""
name: digits
clients: {CLIENTS}
data: {{name: digits}}
partition: {{alpha: 0.3, sigma: 0.3}}
model: {{name: linear}}
policies: [{{name: drdm, m: 20, tau: 10}}]
stop: {{rounds: {ROUNDS}}}
"""
RADIO = {"snr": ["0 dB", "10 dB", "20 dB"]}
PHONE = {"compute": "phone_flagship", "modem": "lte"}
WORLDS: dict[str, dict[str, Any]] = {
    "ideal modems": {"radio": RADIO},
    "LTE phones, which wake and have tails": {"radio": RADIO, "devices": PHONE},
    "LTE phones, all idle time counted": {"radio": RADIO, "devices": PHONE, "server": {"idle": "all"}},
    "path loss (UMa), LTE phones": {"radio": {"path_loss": "uma"}, "devices": PHONE},
}


def world(spec: dict[str, Any], power_w: float) -> WorldSpec:
    """The world at one value of the knob."""
    return WorldSpec.model_validate({**spec, "radio": {**spec["radio"], "power": power_w}})


def by_events(trace: list[TraceRound], spec: WorldSpec, flops_per_sample: float) -> list[RoundRow]:
    """The rounds of a trace as SimPy replays them."""
    rows: list[RoundRow] = []
    carrier = World(spec, CLIENTS, 0, flops_per_sample)
    drive(
        Replay(trace), carrier, lambda finished: rows.append(finished.row),
        lambda row: "end" if row.round + 1 == len(trace) else None, CLIENTS, 0,
    )  # fmt: skip
    return rows


def seconds(what: Callable[[float], Any], powers_w: list[float]) -> float:
    """CPU seconds of one evaluation, over all these powers."""
    what(powers_w[0])
    began_s = process_time()
    for power_w in powers_w:
        what(power_w)
    return (process_time() - began_s) / len(powers_w)


def measured(name: str, trace: list[TraceRound], flops_per_sample: float) -> dict[str, Any]:
    """One row of the table."""
    spec, arrays = WORLDS[name], TraceArrays.of(trace)
    powers_w = np.geomspace(1e-3, 0.2, EVALUATIONS).tolist()
    few_w = powers_w[:: EVALUATIONS // BY_EVENTS]
    arrays_s = seconds(lambda w: vectorised(arrays, world(spec, w), CLIENTS, 0, flops_per_sample), powers_w)
    events_s = seconds(lambda w: by_events(trace, world(spec, w), flops_per_sample), few_w)
    apart = 0.0
    for power_w in few_w:
        costs = vectorised(arrays, world(spec, power_w), CLIENTS, 0, flops_per_sample)
        rows = by_events(trace, world(spec, power_w), flops_per_sample)
        for fast, column in ((costs.end_s, "end_s"), (costs.energy_j, "energy_j"), (costs.paper_j, "paper_energy_j")):
            slow = np.array([getattr(row, column) for row in rows])
            apart = max(apart, float(np.max(np.abs(fast - slow) / slow)))
    return {
        "world": name, "rounds": ROUNDS, "orders": len(arrays.phase),
        "thousand_vectorised_s": round(1000 * arrays_s, 3), "one_vectorised_ms": round(1e3 * arrays_s, 3),
        "one_by_simpy_ms": round(1e3 * events_s, 2), "ratio": round(events_s / arrays_s, 1),
        "largest_relative_difference": f"{apart:.1e}",
    }  # fmt: skip


def main(out: Path) -> None:
    training = CachedTraining(Run(build(parse(LEARNING, "digits")), 0, 0), Store())
    training.extend(ROUNDS)
    table = pd.DataFrame([measured(name, list(training.trace), training.flops_per_sample) for name in WORLDS])
    table.to_csv(out, index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
