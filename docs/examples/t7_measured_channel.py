"""
7. Use a measured channel
=========================

A measured channel is a table of SNR over time, from a drive test or a ray tracer. This page makes such a file, runs a
scenario over it, and shows what the clients met. All keys are in :doc:`/reference/scenario/radio`.
"""

# %%
# One row per second, one column per client, in dB. Here eight clients pass a base station one after the other; your
# file comes from your measurement.

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np

import wflsim
from wflsim.errors import ScenarioError

place = Path(mkdtemp())
times_s = np.arange(0.0, 40.0, 1.0)
snr_db = 8 + 8 * np.sin(2 * np.pi * (times_s[:, None] / 40 + np.arange(8) / 8))
np.savetxt(
    place / "drive.csv", np.column_stack([times_s, snr_db]), delimiter=",", fmt="%.2f", comments="",
    header="time_s," + ",".join(f"client_{i}_snr_db" for i in range(8)),
)  # fmt: skip

# %%
# The scenario names the file relative to itself. It is run twice: the server asks anybody, or those who have the best
# channel at that moment.

text = """
name: drive
clients: 8
seeds: 2
data: {name: digits}
partition: {alpha: 0.3}
model: {name: linear}
policies: [{name: fedavg, m: 4, tau: 5, eta: 0.1}]
radio:
  trace: {file: drive.csv}
  bandwidth: 100 kHz
stop: {rounds: 25}
"""
_ = (place / "drive.yaml").write_text(text)
anybody = wflsim.run(place / "drive.yaml", place / "anybody")
best = wflsim.run(wflsim.load(place / "drive.yaml", ["server.selector=best_channel"]), place / "best")
for name, results in (("anybody", anybody), ("the best channels", best)):
    row = results.summary.iloc[0]
    print(f"asking {name}: {row['energy_j']:.2f} J, {row['time_s']:.1f} s, worst client {row['final_worst']:.0%}")

# %%
# The best channels cost less than half of the energy and of the time, and leave a client behind: the run lasts a few
# seconds, in which some clients never come near. The SNR that uploads met, as it was recorded:

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, results in (("anybody", anybody), ("the best channels", best)):
    sent = results.legs[results.legs["activity"] == "transmit"]
    axes.hist(sent["snr_db"], bins=np.arange(-1, 18, 1), histtype="step", linewidth=2, label=name)
axes.set(xlabel="SNR of an upload in dB", ylabel="uploads")
_ = axes.legend()

# %%
# What a file may not be is refused with its line: here a file of rates instead of decibels.

_ = (place / "drive.csv").write_text("time_s,client_0_mbps\n0,12\n1,15\n")
try:
    wflsim.run(place / "drive.yaml", place / "refused")
except ScenarioError as error:
    print(error)

# %%
# From here: :doc:`/howto/own_channel` for other layouts and what happens at the end of the file.
