"""
5. Read the results in pandas
=============================

A result folder is CSV files; ``wflsim.Results`` reads them as frames. This page answers five questions from them. What
every column means is in :doc:`/reference/tables`.
"""

# %%
# A fleet of unlike devices, with a deadline, so that something goes wrong:

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt

import wflsim

folder = Path(mkdtemp()) / "fleet"
wflsim.run(
    {
        "name": "fleet",
        "clients": 8,
        "seeds": 2,
        "data": {"name": "digits"},
        "partition": {"alpha": 0.3},
        "model": {"name": "linear"},
        "policies": [{"name": "fedavg", "m": 5, "tau": 5, "eta": 0.1}],
        "radio": {"snr": ["0 dB", "5 dB", "10 dB", "15 dB"], "bandwidth": "100 kHz"},
        "devices": {"spread": 0.6},
        "server": {"deadline": "4 s"},
        "stop": {"rounds": 25},
    },
    folder,
)
results = wflsim.Results(folder)  # as a colleague would, who got the folder
results.status[["policy", "seed", "status", "mode"]]

# %%
# **How does the accuracy grow, in simulated time?**

figure, axes = plt.subplots(figsize=(6.5, 3), layout="constrained")
for seed, rows in results.rounds.groupby("seed"):
    axes.plot(rows["end_s"], rows["average"], label=f"seed {seed}, mean of clients")
    axes.plot(rows["end_s"], rows["worst"], linestyle=":", label=f"seed {seed}, worst client")
axes.set(xlabel="simulated seconds", ylabel="accuracy")
_ = axes.legend()

# %%
# **Where did the joules go?**

results.legs.pivot_table(index="client", columns="activity", values="energy_j", aggfunc="sum").round(2)

# %%
# **What was in vain?** Outcomes of the legs that are not ok:

in_vain = results.legs[results.legs["outcome"] != "ok"]
in_vain.groupby(["activity", "outcome"])["energy_j"].agg(["size", "sum"]).round(2)

# %%
# **Who keeps everybody waiting?**

results.world[["seed", "straggler", "straggler_share", "failed_orders", "failures"]]

# %%
# **Who is left behind?** Accuracy of each client in the last round, beside what it sends:

last = results.clients[results.clients["round"] == results.clients["round"].max()]
delivered = results.legs[(results.legs["activity"] == "transmit") & (results.legs["outcome"] == "ok")]
last.groupby("client")[["accuracy"]].mean().join(delivered.groupby("client").size().rename("uploads")).round(3)

# %%
# Every total is a sum of rows. The energy of a round is that of its legs, to the last bits of a float:

summed = results.legs.groupby(["policy", "seed", "round"])["energy_j"].sum()
assert (results.rounds.set_index(["policy", "seed", "round"])["energy_j"] - summed).abs().max() < 1e-9
