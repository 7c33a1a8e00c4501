"""
2. Compare policies fairly
==========================

Two policies are compared on the same clients, the same minibatches and the same channel, seed by seed. This page shows
what that buys, and what to do when a run misses the target.
"""

# %%
# Four policies with the same number of clients per round and the same local steps. Labels tell variants apart.

from pathlib import Path
from tempfile import mkdtemp

import wflsim
from wflsim.analysis.answer import answer
from wflsim.analysis.ranking import against_best, ranked, records_of

common = {"m": 6, "tau": 10, "eta": 0.1}
results = wflsim.run(
    {
        "name": "fair",
        "clients": 10,
        "seeds": 3,
        "data": {"name": "digits"},
        "partition": {"alpha": 0.1, "sigma": 0.3},
        "model": {"name": "linear"},
        "policies": [
            {"name": "fedavg", **common},
            {"name": "fedprox", "mu": 0.1, **common},
            {"name": "scaffold", "m": 6, "tau": 10, "eta_l": 0.1},
            {"name": "drdm", "mu": 0.5, **common},
        ],
        "radio": {"snr": "10 dB", "bandwidth": "180 kHz"},
        "stop": {"rounds": 60, "target": {"metric": "worst", "accuracy": 0.75, "window": 10}},
    },
    Path(mkdtemp()) / "fair",
)
print(answer(results))

# %%
# One rule decides who comes first: the *surest* policy (the largest share of seeds that reach the target), then the
# cheapest. A run that missed has a cost, but only as a lower bound, so it cannot win by being short.

rows = records_of(results.summary)
for row in ranked(rows):
    cost = f"{row['energy_j']:6.1f} J, {row['rounds']:.0f} rounds"
    print(f"{row['policy']:10s} {row['p_reach']:4.0%} of seeds reach it: {cost}")

# %%
# Differences are taken seed by seed. ``saved`` is the share of the other's energy that the best one saves; if its
# interval excludes zero, the two are told apart.

for pair in against_best(rows, results.runs, has_target=True):
    if pair.best_missed or pair.other_missed:
        print(f"{pair.best} against {pair.other}, which missed on {pair.other_missed} of {pair.common} seeds")
    else:
        apart = "told apart" if pair.told_apart else "not told apart"
        saved = f"{pair.saved.mean:.0%} [{pair.saved.low:.0%}, {pair.saved.high:.0%}]"
        print(f"{pair.best} saves {saved} against {pair.other}: {apart}")

# %%
# Why pairing matters: the seeds differ more than the policies do. Each line is a seed.

results.runs.pivot(index="seed", columns="policy", values="energy_j").round(1)

# %%
# Fairness is not free of bits: what a policy sends decides much of its energy. SCAFFOLD and DRDM send two models up.

results.runs.assign(mbit_per_round=results.runs["up_bits"] / results.runs["rounds"] / 1e6).groupby("policy")[
    ["mbit_per_round", "rounds", "final_worst"]
].mean().round(3)

# %%
# The equations and pitfalls of every policy are in :doc:`/policies`, how the intervals are made in
# :doc:`/explanation/intervals`. In a shell: ``wflsim run FILE``, then ``wflsim compare DIR DIR`` for several folders.
