"""Energy saved at equal round time by devices.dvfs just_in_time: one round of DRDM with the paper's CNN, 30 clients.

    python -m studies.just_in_time

No training: the round is rehearsed for its bits and its work, and replayed in each world with both ways to choose the
clock. Lowest clocks are those at which the cores of such devices can run, as far as is known [M].
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from wflsim.records import FinishedRound
from wflsim.scenario import Scenario, build
from wflsim.scenario.source import parse
from wflsim.simulation.loop import drive
from wflsim.simulation.replay import Replay
from wflsim.tune.dry import DryRound, dry_round
from wflsim.world.world import World, WorldSpec

OUT = Path(__file__).resolve().parents[1] / "reports" / "world" / "just_in_time.csv"
LEARNING = """
name: just in time
clients: 30
data: {name: kmnist}
partition: {alpha: 0.1, sigma: 0.3}
model: {name: cnn}
policies: [{name: drdm, m: 20, tau: 10}]
stop: {rounds: 1}
"""
DEVICES: dict[str, dict[str, Any]] = {
    "generic, ideal modem": {"min_frequency": "0.1 GHz"},
    "phone_flagship, wifi_phone": {"compute": "phone_flagship", "modem": "wifi_phone", "min_frequency": "0.5 GHz"},
    "raspberry_pi_4, wifi_nic": {"compute": "raspberry_pi_4", "modem": "wifi_nic", "min_frequency": "0.6 GHz"},
    "jetson_nano, wifi_nic": {"compute": "jetson_nano", "modem": "wifi_nic", "min_frequency": "0.08 GHz"},
}
SNR_DB = [0, 5, 10, 15, 20]
WORLDS: dict[str, tuple[list[str], float]] = {
    "all alike": (["10 dB"], 0.0),
    "SNR 0 to 20 dB": ([f"{snr} dB" for snr in SNR_DB], 0.0),
    "speeds spread by 0.5": (["10 dB"], 0.5),
    "both": ([f"{snr} dB" for snr in SNR_DB], 0.5),
}


def scenario() -> Scenario:
    """What is learnt."""
    return build(parse(LEARNING, "just in time"))


def world(name: str, device: str, dvfs: str) -> WorldSpec:
    """One world of the table."""
    snr, spread = WORLDS[name]
    kind = DEVICES[device] | {"spread": spread, "dvfs": dvfs}
    return WorldSpec.model_validate({"radio": {"snr": snr, "bandwidth": "20 MHz"}, "devices": kind})


def replayed(dry: DryRound, spec: WorldSpec, clients: int) -> FinishedRound:
    """The round in this world."""
    rounds: list[FinishedRound] = []
    carrier = World(spec, clients, 0, dry.flops_per_sample)
    drive(Replay(dry.trace), carrier, rounds.append, lambda row: "one", clients, 0)
    return rounds[0]


def table() -> pd.DataFrame:
    """One row for each world and device."""
    asked = scenario()
    dry = dry_round(asked, asked.policies[0], 0)
    found = []
    for name in WORLDS:
        for device in DEVICES:
            fixed, slowed = (
                replayed(dry, world(name, device, dvfs), asked.clients) for dvfs in ("fixed", "just_in_time")
            )
            saved_j = fixed.row.energy_j - slowed.row.energy_j
            found.append({
                "world": name, "devices": device, "round_s": fixed.row.end_s, "round_just_in_time_s": slowed.row.end_s,
                "energy_j": fixed.row.energy_j, "energy_just_in_time_j": slowed.row.energy_j,
                "saved_percent": 100 * saved_j / fixed.row.energy_j,
                "planned_to_save_j": sum(leg.saved_j or 0.0 for leg in slowed.legs),
            })  # fmt: skip
    return pd.DataFrame(found)


def main() -> None:
    made = table()
    made.to_csv(OUT, index=False, float_format="%.6g")
    print(made.to_string(index=False))


if __name__ == "__main__":
    main()
