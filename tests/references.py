"""What a numpy reference of a policy needs: the run it is held against, who took part in each round, and the minibatches.

A reference shares nothing with the policy but these. Clients are those of `quadratics.py`, everything is float64.
"""

from __future__ import annotations

import numpy as np
import torch
from quadratics import Rough, code, models, problem, run

from wflsim.learning.samples import Batches
from wflsim.rng import stream


class Journey:
    """A run of a policy with one phase a round, in a world that loses a part of all uploads."""

    def __init__(self, policy, loss, rounds, batch=10_000, p=None, coded=False):
        self.p = problem() if p is None else p
        self.carrier = Rough(self.p.N, loss)
        self.batch, self.coded = batch, coded
        learner = self.p.learner(batch)
        if coded:
            code(learner, _multiples)
        self.training, self.kept = run(policy, learner, rounds, self.carrier)

    def Q(self, v):
        """A vector as it arrives at the other end: rounded to multiples of 1/64 if payloads are coded."""
        return np.round(v * 64) / 64 if self.coded else v

    def rounds(self):
        """(s, computed, R) of every round: who finished computing, and who was heard."""
        for s, ((_, heard), computed) in enumerate(zip(self.carrier.gathered, self.carrier.computed, strict=True)):
            yield s, computed, heard

    def samples(self, i, s):
        """An endless series of (A, b): the minibatches that client i draws in round s."""
        batches = Batches(stream(0, "batches", i, s, 0), self.p.d[i], self.batch, replacement=False)
        while True:
            rows = batches.next()
            yield self.p.A[i][rows], self.p.b[i][rows]

    def personal(self, name, start):
        """[N, ...]: what each client keeps for itself, `start` where it never kept anything."""
        held = self.training.learner.rows("personal", name)
        return np.stack([held[i].numpy() if i in held else start for i in range(self.p.N)])

    def check(self, **expected):
        """Fields of the server's state."""
        for name, value in expected.items():
            same(getattr(self.training.state, name), value)

    def check_models(self, rows):
        """What each client is evaluated with."""
        same(models(self.training), rows)


def _multiples(rows, rngs):
    """An encoder without luck."""
    return torch.round(rows * 64) / 64, 8 * rows.shape[1]


def same(one, other):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=0, atol=1e-10)


def slope(w, A, b):
    """Gradient of mean (A w - b)^2 / 2."""
    return A.T @ (A @ w - b) / len(b)
