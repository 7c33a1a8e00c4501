"""Make scenarios/walk.csv: SNR of eight pedestrians over five minutes, as a drive test or a ray tracer would export it.

Run: python -m studies.walking_trace. Any tool that writes these columns will do; this one uses our own channel.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wflsim.world.channel.placement import Placement, PlacementSpec
from wflsim.world.channel.radio import Radio, RadioSpec

CLIENTS, SECONDS = 8, 300


def main() -> None:
    """UMi at 3.5 GHz, 23 dBm, walking at 5 km/h within 250 m of the base station; one sample a second on 1 MHz."""
    spec = RadioSpec.model_validate({"path_loss": "umi", "carrier": "3.5 GHz", "power": "23 dBm"})
    up = Radio(spec, Placement(PlacementSpec(radius=250, speed=5 / 3.6), seed=2026), seed=2026).up
    times_s = np.arange(SECONDS, dtype=float)
    columns = [10 * np.log10(up.channel.snr(client, times_s)) for client in range(CLIENTS)]
    lines = ["time_s," + ",".join(f"client_{client}_snr_db" for client in range(CLIENTS))]
    lines += [",".join([f"{t:g}"] + [f"{column[i]:.1f}" for column in columns]) for i, t in enumerate(times_s)]
    Path("scenarios/walk.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
