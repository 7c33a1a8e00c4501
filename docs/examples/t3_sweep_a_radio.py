"""
3. Sweep a radio
================

How do energy and time depend on the signal and the band? A ``sweep`` block varies any keys. One training per policy and
seed serves all radios, because here the radio cannot change what is learnt: its trace is replayed in every regime.
"""

# %%
# Nine radios, one policy, two seeds: eighteen runs, two trainings.

import time
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt

import wflsim

scenario = wflsim.load({
    "name": "radios",
    "clients": 8,
    "seeds": 2,
    "data": {"name": "digits"},
    "partition": {"alpha": 0.3},
    "model": {"name": "linear"},
    "policies": [{"name": "fedavg", "m": 4, "tau": 10, "eta": 0.1}],
    "stop": {"rounds": 30},
    "sweep": {"grid": {"radio.snr": ["-5 dB", "5 dB", "15 dB"], "radio.bandwidth": ["50 kHz", "200 kHz", "1 MHz"]}},
})  # fmt: skip
begun = time.perf_counter()
sweep = wflsim.run_sweep(scenario, Path(mkdtemp()) / "radios")
print(f"{len(sweep.runs)} runs in {time.perf_counter() - begun:.0f} s of wall time, {len(sweep.failures)} failed")

# %%
# A line per regime and policy, the swept keys as columns:

sweep.summary[["radio.snr", "radio.bandwidth", "energy_j", "time_s", "final_worst"]]

# %%
# The learning is the same in all nine regimes, to the last bit:

assert sweep.runs.groupby("seed")["final_worst"].nunique().eq(1).all()

# %%
# Energy over the radios:

figure, axes = plt.subplots(figsize=(6.5, 3), layout="constrained")
for band, rows in sweep.summary.groupby("radio.bandwidth", sort=False):
    axes.plot(rows["radio.snr"], rows["energy_j"], marker="o", label=band)
axes.set(yscale="log", xlabel="SNR", ylabel="energy of all devices in J")
_ = axes.legend(title="band per client")

# %%
# With losses, deadlines or batteries the world does change the learning. Then every regime is trained in its own
# world, and wflsim says which key is the reason:

from wflsim.experiments.plan import why_live

lossy = wflsim.load(scenario, ["radio.loss.probability=0.2"])
print(why_live(scenario.world, scenario.policies[0]))
print(why_live(lossy.world, lossy.policies[0]))

# %%
# What is exact about it stands in :doc:`/explanation/replay`; the keys in :doc:`/reference/scenario/radio`.
