"""Does a search over a range of tau find a planted optimum? Noisy rounds to target, some runs cut off, 100 trials.

    python -m studies.open_tau        writes reports/tune/open_tau.csv and open_tau.md

Every case plants S(tau), the mean rounds to target, and the ratio rho of what a round's upload costs to what a local
step costs: a round of tau steps costs tau + rho. Each (tau, seed) needs S(tau) rounds times lognormal noise with a
coefficient of variation of 0.2, half of its variance common to all taus of a seed, rounded up; five seeds. A run that
needs more rounds than the horizon is cut off there. The search starts from tau=10 and may ask for 60 trainings.
The optimum is that of the true mean cost over every whole number up to 2,000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from studies.known_answer import MAP
from wflsim.files import write
from wflsim.rng import stream
from wflsim.scenario.blocks import TauRange
from wflsim.tune.candidate import Choice
from wflsim.tune.choice import choose_from
from wflsim.tune.growth import explore, ladder
from wflsim.tune.search import Progress, runs_of

REPORT = Path(__file__).resolve().parents[1] / "reports" / "tune"
BEYOND = ("levels off, upload is all", "sharp knee at 24")
"""Cases whose optimum five seeds of this noise cannot show; the page says what happens to them."""
SEEDS, VARIATION, TRIALS, TRAININGS, START, MOST = 5, 0.2, 100, 60, 10, 2000
Floats = NDArray[np.float64]


class Case(NamedTuple):
    """A planted problem."""

    name: str
    rounds: Callable[[Floats], Floats]
    """Mean rounds to target S(tau)."""
    rhos: tuple[float, ...]
    """Cost of a round's upload in local steps, one regime each."""
    horizon: int
    """Rounds after which a run is cut off."""


def power(tau: Floats) -> Floats:
    """S of the published table."""
    return np.asarray(88.60708 * tau**-0.3557551, dtype=np.float64)


def levelling(tau: Floats) -> Floats:
    """S that levels off: 20 rounds however many local steps."""
    return np.asarray(20 + 400 / tau, dtype=np.float64)


def knee(tau: Floats) -> Floats:
    """S that falls like 1/tau up to 24 local steps and then no more."""
    return np.asarray(1200 / np.minimum(tau, 24.0), dtype=np.float64)


def drift(tau: Floats) -> Floats:
    """S that rises again, because clients drift apart: least at 40."""
    return np.asarray(30 * np.exp(0.25 * np.log(tau / 40) ** 2), dtype=np.float64)


CASES = (
    Case("power law, tau* 20", power, (36.0,), 120),
    Case("power law, tau* 20, half of tau=3 cut off", power, (36.0,), 60),
    Case("power law, tau* 1", power, (0.5,), 200),
    Case("power law, tau* 204", power, (MAP[5],), 120),
    Case("power law, the paper's 35 regimes", power, MAP, 120),
    Case("levels off, 20 + 400/tau, tau* 28", levelling, (40.0,), 400),
    Case("levels off, upload is all", levelling, (1e6,), 400),
    Case("sharp knee at 24", knee, (10.0,), 400),
    Case("rises again beyond 40", drift, (30.0,), 300),
    Case("rises again beyond 40, five regimes", drift, (1.0, 10.0, 50.0, 300.0, 3000.0), 300),
)


class Planted:
    """`search.Candidates` whose rounds to target are drawn when a tau is asked about."""

    def __init__(self, case: Case, trial: int) -> None:
        self._case, self._trial = case, trial
        self._half = float(np.sqrt(np.log(1 + VARIATION**2) / 2))
        self._common = stream(trial, "open tau", case.name, "common").normal(0, self._half, SEEDS)
        self.upto: dict[int, int] = {}

    def needed(self, tau: int) -> Floats:
        """Rounds to target of every seed."""
        own = stream(self._trial, "open tau", self._case.name, tau).normal(0, self._half, SEEDS)
        mean = float(self._case.rounds(np.array(float(tau))))
        return np.asarray(np.ceil(mean * np.exp(self._common + own - self._half**2)), dtype=np.float64)

    def progress(self, tau: int) -> Progress:
        needed, upto = self.needed(tau), self.upto.get(tau, 0)
        rounds = np.broadcast_to(np.minimum(needed, upto), (len(self._case.rhos), SEEDS))
        reached = np.broadcast_to(needed <= upto, rounds.shape)
        over = bool(reached.all()) or upto >= self._case.horizon
        per_round = np.array([[tau + rho] for rho in self._case.rhos])
        return Progress(per_round * rounds, reached, over, rounds=rounds)

    def extend(self, taus: Sequence[int]) -> None:
        for tau in taus:
            self.upto[tau] = min(self._case.horizon, self.upto.get(tau, 0) + max(1, self._case.horizon // 40))

    @property
    def trained(self) -> float:
        """Rounds that were run: each seed stops at its target."""
        return float(sum(np.minimum(self.needed(tau), upto).sum() for tau, upto in self.upto.items()))


def answers(case: Case, trial: int) -> tuple[list[Choice], Planted]:
    """The choice of every regime in one trial, and the candidates with what was trained of them."""
    planted = Planted(case, trial)
    tried = explore(TauRange(most=MOST), START, planted, TRAININGS // SEEDS)
    states = [planted.progress(tau) for tau in tried.taus]
    stopped = [tau in tried.given_up for tau in tried.taus]
    return [choose_from(tried.taus, runs_of(states, stopped, row)) for row in range(len(case.rhos))], planted


def row(case: Case, trials: int = TRIALS) -> dict[str, Any]:
    """All trials of one case: how often the chosen tau is in the true 5 % set, and what the search took."""
    taus = np.arange(1.0, MOST + 1)
    truth = np.array([case.rounds(taus) * (taus + rho) for rho in case.rhos])
    good, inside, trainings, rounds, sure, wrong, lost = [], [], [], [], [], [], []
    for trial in range(trials):
        choices, planted = answers(case, trial)
        regret = [truth[r, choice.nearest.tau - 1] / truth[r].min() - 1 for r, choice in enumerate(choices)]
        named = [{choice.nearest.tau, *choice.within5} for choice in choices]
        lost.append(np.mean(regret))
        good.append(np.mean([one <= 0.05 for one in regret]))
        inside.append(np.mean([any(truth[r, t - 1] <= 1.05 * truth[r].min() for t in n) for r, n in enumerate(named)]))
        tried = [min(truth[r, one.tau - 1] for one in choice.candidates) for r, choice in enumerate(choices)]
        behind = [truth[r, choice.nearest.tau - 1] > 1.05 * tried[r] for r, choice in enumerate(choices)]
        sure.append(np.mean([choice.nearest.p_best >= 0.95 for choice in choices]))
        wrong.append(np.mean([c.nearest.p_best >= 0.95 and one for c, one in zip(choices, behind, strict=True)]))
        trainings.append(len(planted.upto) * SEEDS)
        rounds.append(planted.trained)
    grid = ladder(TauRange(most=MOST))
    whole = float(np.minimum(case.rounds(np.array(grid, dtype=np.float64)), case.horizon).sum() * SEEDS)
    return {
        "case": case.name, "regimes": len(case.rhos), "trials": trials, "chosen_within_5": float(np.mean(good)),
        "set_holds_one": float(np.mean(inside)),
        "mean_regret": float(np.mean(lost)), "trainings": float(np.mean(trainings)),
        "grid_trainings": MOST * SEEDS, "ladder_trainings": len(grid) * SEEDS,
        "rounds_against_ladder": float(np.mean(rounds)) / whole, "sure": float(np.mean(sure)),
        "sure_and_wrong": float(np.mean(wrong)),
    }  # fmt: skip


def page(found: pd.DataFrame) -> str:
    """The text of open_tau.md, from the rows of open_tau.csv."""
    head = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2]
    heads = (
        "problem", "regimes", "chosen tau within 5 % of the optimum", "5 % set holds such a tau", "mean regret",
        "trainings", "of the ladder 1, 2, 3, 5, ..., 2,000", "of every whole number", "called sure (P >= 95 %)",
        "sure, and not within 5 % of the best tried",
    )  # fmt: skip
    lines = ["# A search over a range of tau against planted optima", "", "Made by `python -m studies.open_tau`.", ""]
    lines += [head.strip(), "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    shares = ("chosen_within_5", "set_holds_one", "mean_regret", "sure", "sure_and_wrong")
    for one in found.to_dict("records"):
        within, holds, regret, sure, wrong = (f"{one[name]:.1%}" for name in shares)
        counts = f"{one['trainings']:.1f} | {one['ladder_trainings']} | {one['grid_trainings']}"
        found_out = f"{within} | {holds} | {regret} | {counts} | {sure} | {wrong}"
        lines.append(f"| {one['case']} | {one['regimes']} | {found_out} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    found = pd.DataFrame([row(case) for case in CASES])
    write(REPORT / "open_tau.csv", found.to_csv(index=False, float_format="%.4f"))
    write(REPORT / "open_tau.md", page(pd.read_csv(REPORT / "open_tau.csv")))


if __name__ == "__main__":
    main()
