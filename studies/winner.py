"""Is the winner of a tuning as cheap, and as surely the best, as `wflsim tune` says? Studies with known truth.

    python -m studies.winner        writes reports/statistics/winner.csv and winner.md

A study is a table of costs, one per (tau, seed): lognormal with a given coefficient of variation, a part of the
variance common to all taus of a seed (they share data, batches and channel). In the first table all taus are equally
good, the worst case for a choice; in the second they differ; in the third every tau is a learning curve and early
stopping is on.
What `choose` claimed before (the best share of 2,000 resamples of the seeds with replacement) stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from wflsim.files import write
from wflsim.rng import stream
from wflsim.tune.candidate import Choice
from wflsim.tune.choice import choose
from wflsim.tune.search import Progress, search

Floats = NDArray[np.float64]
REPORT = Path(__file__).resolve().parents[1] / "reports" / "statistics"
STUDIES = 2000
RESAMPLES = 1000
SURE = 0.95
WRONGLY = ("wrongly_sure_before", "wrongly_sure_now")


class Setting(NamedTuple):
    """What the simulated studies of one line have in common."""

    taus: int
    seeds: int
    variation: float
    """Standard deviation of a tau's cost over seeds, as a share of its mean."""
    common: float
    """Share of the (log) variance that all taus of a seed have in common."""
    step: float = 0.0
    """How much more each tau costs than its neighbour nearer to the best, which is the second; 0: all are equal."""


def truth(setting: Setting) -> Floats:
    """True mean cost of every tau."""
    return 1.0 + setting.step * np.abs(np.arange(setting.taus) - 1.0)


def costs(setting: Setting, study: int) -> Floats:
    """[tau, seed] costs of one study."""
    sigma = float(np.sqrt(np.log(1 + setting.variation**2)))
    draw = stream(study, "winner", *(repr(field) for field in setting))
    shared = np.sqrt(setting.common) * draw.normal(size=(1, setting.seeds))
    own = np.sqrt(1 - setting.common) * draw.normal(size=(setting.taus, setting.seeds))
    noise = np.asarray(np.exp(sigma * (shared + own) - sigma**2 / 2), dtype=np.float64)
    return truth(setting)[:, None] * noise


def bootstrap(cost: Floats) -> float:
    """The largest probability of being best by the earlier rule: seeds drawn again, all taus on the same ones."""
    seeds = cost.shape[1]
    draws = stream(0, "tune", "bootstrap").integers(0, seeds, (RESAMPLES, seeds))
    winners = np.argmin(cost[:, draws].mean(axis=2), axis=0)
    return float(np.bincount(winners, minlength=len(cost)).max() / RESAMPLES)


def chosen(cost: Floats) -> Choice:
    return choose(list(range(1, len(cost) + 1)), cost, np.ones(cost.shape, dtype=np.bool_))


def line(setting: Setting, studies: int = STUDIES) -> dict[str, Any]:
    """All studies of one setting: bias and coverage of the winner's cost, and how often somebody is called sure."""
    means = truth(setting)
    rows = []
    for study in range(studies):
        cost = costs(setting, study)
        found = chosen(cost)
        true = means[found.nearest.tau - 1]
        own, unseen = found.nearest.cost, found.unseen
        right = found.nearest.tau - 1 == int(np.argmin(means))
        sure = max(one.p_best for one in found.candidates) >= SURE
        before = bootstrap(cost) >= SURE
        rows.append(
            (own.mean / true - 1, own.low <= true <= own.high, unseen.mean / true - 1,
             unseen.low <= true <= unseen.high, before, sure, before and not right, sure and not right)
        )  # fmt: skip
    names = ("own_bias", "own_covers", "unseen_bias", "unseen_covers", "sure_before", "sure_now", *WRONGLY)
    shares = np.array(rows, dtype=np.float64).mean(axis=0)
    return {**setting._asdict(), "studies": studies, **dict(zip(names, map(float, shares), strict=True))}


class Curves:
    """`search.Candidates` in which every round costs 1, and each run needs a number of rounds drawn beforehand."""

    def __init__(self, rounds: Floats) -> None:
        self.rounds = rounds
        self.upto = np.zeros(len(rounds))

    def progress(self, tau: int) -> Progress:
        need = self.rounds[tau - 1]
        reached = (need <= self.upto[tau - 1])[None, :]
        return Progress(np.minimum(need, self.upto[tau - 1])[None, :], reached, bool(reached.all()))

    def extend(self, taus: Any) -> None:
        for tau in taus:
            self.upto[tau - 1] += 2


def early(rounds: Floats) -> tuple[Choice, Choice, float]:
    """One study with early stopping, the same with every tau trained to its end, and the share of rounds saved."""
    taus = list(range(1, len(rounds) + 1))
    curves = Curves(rounds)
    given_up = search(taus, curves)
    seen = [curves.progress(tau) for tau in taus]
    stopped = choose(
        taus, np.array([state.cost[0] for state in seen]), np.array([state.reached[0] for state in seen]),
        [tau in given_up for tau in taus],
    )  # fmt: skip
    trained = np.minimum(rounds, curves.upto[:, None]).sum()
    return stopped, chosen(rounds), float(1 - trained / rounds.sum())


def stopping(setting: Setting, studies: int) -> dict[str, Any]:
    """What early stopping changes: it must not change the winner nor its costs, and not raise its chance."""
    same, raised, lowered, saved = [], [], [], []
    for study in range(studies):
        stopped, full, share = early(np.ceil(40 * costs(setting, study)))
        same.append(
            stopped.nearest.tau == full.nearest.tau and stopped.within5 == full.within5
            and stopped.unseen == full.unseen and stopped.nearest.cost == full.nearest.cost
        )  # fmt: skip
        raised.append(stopped.nearest.p_best > full.nearest.p_best)
        lowered.append(full.nearest.p_best - stopped.nearest.p_best)
        saved.append(share)
    return {
        **setting._asdict(), "studies": studies, "same_winner_and_costs": float(np.mean(same)),
        "chance_raised": float(np.mean(raised)), "chance_lowered_by": float(np.mean(lowered)),
        "rounds_saved": float(np.mean(saved)),
    }  # fmt: skip


EQUAL = [Setting(*each) for each in product((2, 6), (3, 5, 10), (0.1, 0.3, 0.8), (0.0, 0.5))]
UNEQUAL = [Setting(6, seeds, 0.2, 0.5, step) for seeds in (3, 5, 10) for step in (0.05, 0.2)]
STOPPED = [Setting(6, seeds, 0.4, 0.5, step) for seeds in (3, 5, 10) for step in (0.0, 0.2)]


HEAD = """# The winner of a tuning: its cost, and how sure it is the best

Made by `python -m studies.winner` from the numbers in `winner.csv`. Costs are lognormal with coefficient of variation
CV; `common` is the share of variance that the taus of a seed share. `own`: the winner's cost on the seeds that chose
it, its bias and how often its 95 % interval holds the truth. `unseen`: on seeds that did not choose it. `sure`: some
tau has a probability of being best of at least 95 %, `before` by resampling seeds with replacement, `now` by subsets of
seeds; `wrongly sure`: and that tau is not the best.
"""
TITLES = {
    "equal": "All taus equally good",
    "unequal": "The second tau is the best, every further one costs `step` more",
    "early stopping": "Early stopping against training every tau to its end",
}


def page() -> str:
    """The text of winner.md, from winner.csv."""
    whole = pd.read_csv(REPORT / "winner.csv")
    text = HEAD
    for name, title in TITLES.items():
        frame = whole[whole["table"] == name].drop(columns="table").dropna(axis=1)
        text += f"\n## {title}\n\n" + "\n".join(_lines(frame)) + "\n"
    return text


def _lines(frame: pd.DataFrame) -> Iterator[str]:
    yield "| " + " | ".join("CV" if name == "variation" else name.replace("_", " ") for name in frame) + " |"
    yield "|" + "---|" * frame.shape[1]
    plain = (*Setting._fields, "studies")
    for row in frame.to_dict("records"):
        yield "| " + " | ".join(f"{v:g}" if k in plain else f"{100 * v:.1f} %" for k, v in row.items()) + " |"


def main() -> None:
    tables = {
        "equal": pd.DataFrame([line(setting) for setting in EQUAL]).drop(columns=list(WRONGLY)),
        "unequal": pd.DataFrame([line(setting) for setting in UNEQUAL]),
        "early stopping": pd.DataFrame([stopping(setting, 500) for setting in STOPPED]),
    }
    whole = pd.concat([frame.assign(table=name) for name, frame in tables.items()], ignore_index=True)
    write(REPORT / "winner.csv", whole.to_csv(index=False, float_format="%.4f"))
    write(REPORT / "winner.md", page())


if __name__ == "__main__":
    main()
