"""
6. Write a policy, and use a measured channel
=============================================

A policy of your own is one Python file beside the scenario; a measured channel is one CSV file. This page makes both
and runs them against FedAvg. ``wflsim new --policy mine.py`` writes a commented policy to start from.
"""

# %%
# A policy says what the server wants (``Draw``, ``Gather``) and what a client does (``local_steps``); it knows no clock
# and no radio. This one is FedAvg whose server moves by a step ``beta`` towards the mean.

from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import wflsim

place = Path(mkdtemp())
source = '''
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from wflsim.exchange import Ask, Draw, Gather
from wflsim.policies.base import Policy, Step, average_models, received


@dataclass(frozen=True)
class State:
    w: Any          # the model, a flat vector
    clients: int


class Damped(Policy):
    """FedAvg whose server moves by beta towards the mean of the clients' models."""

    paper: ClassVar[str] = "this tutorial"
    down: ClassVar[str] = "1v"
    up: ClassVar[str] = "1v"

    eta: Step = 0.05
    """Learning rate of the clients."""
    beta: Step = 0.5
    """Step size of the server."""

    def start(self, w, d):
        return State(w, len(d))

    def round(self, x, s, rng):
        D, a = yield Draw(self.m or x.clients)
        got = yield Gather([Ask(D, self.local_steps, shared={"w": x.w}, models_up=1)])
        if not got:
            return x
        w = received(got, "w")
        return replace(x, w=w + self.beta * (average_models(w, got, "y", a) - w))

    def local_steps(self, me, w):
        y = me.copies_of(w)
        for _ in me.steps(self.tau, y):
            me.descend(y, self.eta)
        return {"y": y}
'''
_ = (place / "damped.py").write_text(source)

# %%
# The contract that all policies keep, as a test: replies may be lost, bits are counted, randomness is named.

from wflsim.testing import check_policy

print(check_policy(f"{place}/damped.py:Damped", m=3))

# %%
# The channel: SNR in dB of every client over time, as a drive test or a ray tracer gives it.

times_s = np.arange(0.0, 40.0, 1.0)
snr_db = 8 + 8 * np.sin(2 * np.pi * (times_s[:, None] / 40 + np.arange(8) / 8))
np.savetxt(
    place / "drive.csv", np.column_stack([times_s, snr_db]), delimiter=",", fmt="%.2f", comments="",
    header="time_s," + ",".join(f"client_{i}" for i in range(8)),
)  # fmt: skip

# %%
# The scenario names both files relative to itself:

text = """
name: mine
clients: 8
seeds: 2
data: {name: digits}
partition: {alpha: 0.3}
model: {name: linear}
policies:
  - {name: fedavg, m: 4, tau: 5, eta: 0.1}
  - {name: ./damped.py:Damped, label: damped, m: 4, tau: 5, eta: 0.1, beta: 0.7}
radio:
  trace: {file: drive.csv}
  bandwidth: 100 kHz
stop: {rounds: 25}
"""
_ = (place / "mine.yaml").write_text(text)
results = wflsim.run(place / "mine.yaml", place / "results")
results.summary[["policy", "final_average", "final_worst", "energy_j", "time_s"]]

# %%
# The SNR that each upload met, as it was recorded:

sent = results.legs[results.legs["activity"] == "transmit"]
sent.groupby("client")["snr_db"].agg(["min", "mean", "max"]).round(1)

# %%
# From here: :doc:`/howto/own_policy`, the keys of channel traces in :doc:`/reference/scenario/radio`, and the built-in
# policies with their sources in :doc:`/reference/policies`.
