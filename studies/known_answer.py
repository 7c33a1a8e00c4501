"""Does the tuner find what is known? Synthetic rounds to target with noise, 200 trials, on the paper-like curve.

    python -m studies.known_answer > reports/tune/known_answer.md

S(tau) = 88.60708 tau^-0.3557551 with 10 % lognormal noise per (tau, seed), half of its variance common to a seed's taus
(common random numbers leave them correlated), rounded up to whole rounds; a round of tau costs (tau + rho) E_p in a
regime of rho = E_t/E_p. Ten seeds. True means come from the law, not from the trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple

import numpy as np
from scipy import stats

from wflsim.rng import stream
from wflsim.tune.choice import choose
from wflsim.tune.search import Progress, search

SEEDS, NOISE, HORIZON, TRIALS = 10, 0.10, 120, 200
GRID = (5, 10, 15, 20, 25, 30)
EVERY = tuple(range(5, 31))
E_P = 34.656e-3
E_T = 0.1 * 2 * 25.41792e6


def rho(snr_db: float, bandwidth_hz: float) -> float:
    """E_t/E_p of the calibration in the paper's figure."""
    return E_T / (bandwidth_hz * log2(1 + 10 ** (snr_db / 10))) / E_P


MAP = tuple(rho(snr, 1e6 * mhz) for snr in (-10, -5, 0, 5, 10, 15, 20) for mhz in (1, 2, 5, 10, 20))
ONE = (rho(20, 10e6),)


def law(tau: int) -> float:
    return float(88.60708 * tau**-0.3557551)


def true_rounds(tau: int) -> float:
    """E[ceil X], X lognormal with median S(tau): the sum of P(X > k)."""
    return float(stats.lognorm.sf(np.arange(400), NOISE, scale=law(tau)).sum())


class Synthetic:
    """`search.Candidates` whose rounds to target are drawn beforehand."""

    def __init__(self, taus: Sequence[int], rhos: Sequence[float], trial: int, block: int) -> None:
        self.rounds = {}
        half = NOISE / 2**0.5
        common = stream(trial, "known answer", "common").normal(0, half, SEEDS)
        for tau in taus:
            noise = common + stream(trial, "known answer", tau).normal(0, half, SEEDS)
            self.rounds[tau] = np.ceil(law(tau) * np.exp(noise))
        self._per_round = {tau: np.array([tau + r for r in rhos]) for tau in taus}
        self._upto = dict.fromkeys(taus, 0)
        self._block = block

    def progress(self, tau: int) -> Progress:
        done = np.minimum(self.rounds[tau], self._upto[tau])
        reached = np.broadcast_to(self.rounds[tau] <= self._upto[tau], (len(self._per_round[tau]), SEEDS))
        over = bool(reached.all()) or self._upto[tau] >= HORIZON
        return Progress(np.outer(self._per_round[tau], done), reached, over)

    def extend(self, taus: Sequence[int]) -> None:
        for tau in taus:
            self._upto[tau] = min(HORIZON, self._upto[tau] + self._block)

    @property
    def trained(self) -> float:
        """Rounds that were run: each seed stops at its target."""
        return float(sum(np.minimum(self.rounds[tau], upto).sum() for tau, upto in self._upto.items()))


class Outcome(NamedTuple):
    """Shares over trials and regimes."""

    regret_ok: float
    right: float
    coverage: float
    coverage_at_star: float
    same: float
    saved: float


def outcome(taus: Sequence[int], rhos: Sequence[float], trials: int = TRIALS, block: int = 1) -> Outcome:
    """All trials: regret of the chosen tau, coverage of the intervals, and what early stopping saved and changed."""
    truth = np.array([[true_rounds(tau) * (tau + r) for tau in taus] for r in rhos])
    good: list[bool] = []
    right: list[bool] = []
    covered: list[bool] = []
    covered_at_star: list[bool] = []
    same: list[bool] = []
    trained = whole = 0.0
    for trial in range(trials):
        curves = Synthetic(taus, rhos, trial, block)
        given_up = search(taus, curves)
        stopped = [tau in given_up for tau in taus]
        seen = [curves.progress(tau) for tau in taus]
        everything = np.array([curves.rounds[tau] for tau in taus])
        trained += curves.trained
        whole += float(everything.sum())
        for row, r in enumerate(rhos):
            full_cost = everything * (np.array(taus) + r)[:, None]
            full = choose(taus, full_cost, np.ones_like(full_cost, dtype=np.bool_))
            cost, reached = (np.array([getattr(p, name)[row] for p in seen]) for name in ("cost", "reached"))
            early = choose(taus, cost, reached, stopped)
            same.append(early.best.tau == full.best.tau and early.within5 == full.within5)
            star = taus.index(early.best.tau)
            good.append(bool(truth[row, star] <= 1.05 * truth[row].min()))
            right.append(bool(truth[row].argmin() == star))
            covered += [one.cost.low <= truth[row, i] <= one.cost.high for i, one in enumerate(full.candidates)]
            covered_at_star.append(full.best.cost.low <= truth[row, star] <= full.best.cost.high)
    shares = [float(np.mean(values)) for values in (good, right, covered, covered_at_star, same)]
    return Outcome(*shares, 1 - trained / whole)


def main() -> None:
    print("# Known answers: 200 trials, 10 seeds, 10 % noise\n\nMade by `python -m studies.known_answer`.\n")
    print("| candidates | regimes | regret <= 5 % | exactly the best tau | intervals cover (all tau) | (at tau*) "
          "| early stopping agrees | rounds saved |")
    print("|---|---|---|---|---|---|---|---|")
    cases = (("5, 10, ..., 30", GRID, "20 dB, 10 MHz", ONE), ("5, 6, ..., 30", EVERY, "20 dB, 10 MHz", ONE),
             ("5, 10, ..., 30", GRID, "the map, 35", MAP))  # fmt: skip
    for name, taus, where, rhos in cases:
        o = outcome(taus, rhos)
        print(f"| {name} | {where} | {o.regret_ok:.1%} | {o.right:.1%} | {o.coverage:.1%} | {o.coverage_at_star:.1%} "
              f"| {o.same:.1%} | {o.saved:.1%} |", flush=True)


if __name__ == "__main__":
    main()
