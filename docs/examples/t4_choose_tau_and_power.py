"""
4. Choose tau, and the power
============================

More local steps per round save uploads and cost computing. Which number tau is cheapest depends on the radio. ``wflsim
tune`` answers it for every regime, and says how sure the answer is.
"""

# %%
# Candidates for tau, and two radios: a poor one, in which uploads are dear, and a good one.

import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import pandas as pd
import yaml

import wflsim

place = Path(mkdtemp())
scenario = {
    "name": "tau",
    "clients": 8,
    "seeds": 3,
    "data": {"name": "digits"},
    "partition": {"alpha": 0.3},
    "model": {"name": "linear"},
    "policies": [{"name": "fedavg", "m": 4, "eta": 0.1}],
    "devices": {"frequency": "1 GHz", "cycles_per_sample": 5e5},
    "stop": {"rounds": 80, "target": {"metric": "average", "accuracy": 0.88, "window": 5}},
    "sweep": {"grid": {"radio.snr": ["-10 dB", "20 dB"]}},
}
(place / "tau.yaml").write_text(yaml.safe_dump(scenario))
command = ["tune", "tau.yaml", "--tau", "2,5,10,20", "--objective", "energy", "--out", "answer"]
_ = subprocess.run([sys.executable, "-m", "wflsim", *command], cwd=place, check=True, capture_output=True)
print((place / "answer/answer.txt").read_text())

# %%
# The map has a line per regime. ``within5`` are the values of tau that cost at most 5 % more than the best: optima are
# flat. ``cost_unseen`` is judged on seeds that did not choose the winner.

choices = pd.read_csv(place / "answer/map.csv")
choices[["radio.snr", "tau_star", "cost", "cost_low", "cost_high", "p_best", "within5", "cost_unseen"]]

# %%
# All candidates in the first regime:

costs = pd.read_csv(place / "answer/costs.csv")
costs[costs["regime"] == 0][["tau", "cost", "cost_low", "cost_high", "p_reach", "p_best"]]

# %%
# **The power.** The radiated power is a key like any other: sweep it. With a path loss it decides the SNR, so every bit
# per second has a price in watts. Nothing is trained again for that: the traces are there.

power = wflsim.load(scenario, [
    "sweep={grid: {radio.power: [1 mW, 10 mW, 100 mW, 1 W]}}",
    "radio.path_loss=log_distance",
    "policies.0.tau=5",
])  # fmt: skip
summary = wflsim.run_sweep(power, place / "power").summary
summary[["radio.power", "p_reach", "energy_j", "time_s"]]

# %%
# Whether more power saves energy depends on what the rest of the device draws meanwhile (``devices.circuit_power`` and
# its neighbours in :doc:`/reference/scenario/devices`). The answer is also a page: ``answer/report.html``.
