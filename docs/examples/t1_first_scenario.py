"""
1. A first scenario
===================

Ten clients with unlike handwriting learn together over a narrow radio link. Which of two server policies brings *every*
client to 80 % for less energy? This page writes the scenario, checks it, runs it and reads the answer.

In a shell the same is ``wflsim new mine.yaml``, ``wflsim check mine.yaml`` and ``wflsim run mine.yaml``.
"""

# %%
# A scenario is a YAML file or, in Python, a mapping with the same keys. Quantities carry their units.

from pathlib import Path
from tempfile import mkdtemp

import wflsim
from wflsim.analysis.answer import answer

folder = Path(mkdtemp())  # results go here; `wflsim run` writes to runs/NAME

scenario = wflsim.load({
    "name": "first",
    "clients": 10,
    "seeds": 3,                                     # Monte-Carlo runs: own data split, batches and channel each
    "data": {"name": "digits"},
    "partition": {"alpha": 0.1, "sigma": 0.3},      # unlike class mixes, unlike amounts
    "model": {"name": "mlp", "hidden": [32]},
    "train": {"batch": 32},
    "policies": [
        {"name": "fedavg", "m": 6, "tau": 10, "eta": 0.1},
        {"name": "drdm", "m": 6, "tau": 10, "eta": 0.1, "mu": 0.5, "gamma": 5e-4},
    ],
    "radio": {"snr": "10 dB", "bandwidth": "180 kHz", "power": "100 mW"},
    "devices": {"frequency": "1 GHz", "cycles_per_sample": 1e6},
    "stop": {"rounds": 120, "target": {"metric": "worst", "accuracy": 0.8, "window": 20}},
})  # fmt: skip

# %%
# ``run`` computes what is not there yet, one process per core, and returns the tables.

results = wflsim.run(scenario, folder / "first")
print(answer(results))

# %%
# The summary has a line per policy: means over seeds with 95 % intervals.

results.summary[["policy", "seeds", "p_reach", "rounds", "energy_j", "energy_j_low", "energy_j_high", "time_s"]]

# %%
# The accuracy of the worst client, round by round, averaged over seeds:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for policy, rows in results.rounds.groupby("policy"):
    rows.groupby("round")["worst"].mean().rolling(20).mean().plot(ax=axes, label=policy)
axes.axhline(0.8, color="grey", linewidth=0.8)
axes.set(xlabel="round", ylabel="worst accuracy, mean over 20 rounds")
_ = axes.legend()

# %%
# Where did the joules go? Every reception, computation and transmission is a row of ``legs``.

by_cause = results.legs.groupby(["policy", "activity"])["energy_j"].sum().unstack()
by_cause.round(2)

# %%
# A mistake is answered with the key, the value and what is allowed:

try:
    wflsim.load(scenario, ["radio.bandwidth=180 kHZ"])
except wflsim.errors.ScenarioError as error:
    print(error)
