"""
6. Write a policy
=================

A policy of your own is one Python file beside the scenario. This page writes one, tests it against the contract that
all policies keep, and runs it against FedAvg. ``wflsim new --policy mine.py`` writes a commented policy to start from.
"""

# %%
# A policy says what the server wants (``Draw``, ``Gather``) and what a client does (``local_steps``); it knows no clock
# and no radio. This one is FedAvg whose server moves by a step ``beta`` towards the mean.

from pathlib import Path
from tempfile import mkdtemp

import wflsim

place = Path(mkdtemp())
source = '''
from dataclasses import dataclass, replace
from typing import Any

from wflsim.exchange import Ask, Draw, Gather
from wflsim.policies.base import About, Policy, Step, average_models, received


@dataclass(frozen=True)
class State:
    w: Any          # the model, a flat vector
    clients: int


class Damped(Policy):
    """FedAvg whose server moves by beta towards the mean of the clients' models."""

    about = About("this tutorial", down="1v", up="1v")

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
# The scenario names the file relative to itself:

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
radio: {snr: 8 dB, bandwidth: 100 kHz}
stop: {rounds: 25}
"""
_ = (place / "mine.yaml").write_text(text)
results = wflsim.run(place / "mine.yaml", place / "results")
results.summary[["policy", "final_average", "final_worst", "energy_j", "time_s"]]

# %%
# Where the two policies differ from round to round, averaged over seeds: the damped one is slower and steadier.

rounds = results.rounds.groupby(["policy", "round"])["average"].mean().unstack("policy")
rounds.iloc[[0, 4, 9, 14, 19, 24]].round(3)

# %%
# Edited, the policy trains anew: its source is part of what names a stored training. From here:
# :doc:`/howto/own_policy`, :doc:`/write_a_policy` for all that a policy may ask, and the built-in policies with their
# sources in :doc:`/reference/policies`.
