"""Candidates of a tuning whose costs are written down instead of computed."""

from __future__ import annotations

import numpy as np

from wflsim.tune.search import Progress


class Scripted:
    """Candidates with given costs per round and rounds to target; one that never reaches has none."""

    def __init__(self, rounds, per_round, horizon):
        self.rounds, self.per_round, self.horizon = rounds, per_round, horizon
        self.upto = dict.fromkeys(rounds, 0)

    def progress(self, tau):
        need = self.rounds[tau] or self.horizon
        spent = min(need, self.upto[tau])
        reached = np.full((len(self.per_round[tau]), 1), self.rounds[tau] is not None and self.upto[tau] >= need)
        return Progress(np.array(self.per_round[tau])[:, None] * float(spent), reached, self.upto[tau] >= need)

    def extend(self, taus):
        for tau in taus:
            self.upto[tau] += 1
