"""In which round does a noisy curve reach its target? Definitions compared: `python -m studies.hitting_time`.

Every definition looks at the same curves, evaluated every round, every 2nd, 5th and 10th. A good one gives the same
mean round within the resolution, whichever it is, and the round at which the curve without noise crosses the target.
Real curves: FedAvg and DRDM of scenarios/quickstart.yaml, 20 seeds, 300 rounds (trained once, about two minutes, then
in the store). Made-up curves: 0.9 (1 - exp(-s/T)) plus noise, whose crossing is known.
Writes reports/statistics/hitting_time.csv and .md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

import wflsim
from studies import leave
from wflsim.experiments.cached import CachedTraining
from wflsim.experiments.plan import Run
from wflsim.results.store import Store
from wflsim.rng import stream
from wflsim.target import metrics, reached_in

ROOT = Path(__file__).parent.parent
OUT = ROOT / "reports/statistics"
ROUNDS, SEEDS, DRAWS = 300, 20, 400
EVERY = (1, 2, 5, 10)
TARGET = 0.8
Floats = NDArray[np.float64]
Definition = Callable[[Floats, Floats], float | None]
"""From the evaluated rounds (counted from 0) and their accuracies to the round that reached the target."""


def ours(**rule: int) -> Definition:
    """What wflsim does, by the very function of the stop rule."""
    return lambda s, value: reached_in(
        zip(s.astype(int).tolist(), value.tolist(), strict=True), {"accuracy": TARGET, **rule}
    )


def held_for(rounds: int) -> Definition:
    """Every evaluation of so many rounds shows the target; reached at the first of them."""

    def find(s: Floats, value: Floats) -> float | None:
        start = None
        for now, accuracy in zip(s, value, strict=True):
            start = None if accuracy < TARGET else now if start is None else start
            if start is not None and now - start >= rounds - 1:
                return float(start)
        return None

    return find


def window_end(rounds: int) -> Definition:
    """The mean over a window shows the target; reached at the window's end instead of its middle."""

    def find(s: Floats, value: Floats) -> float | None:
        for now in s:
            inside = (s > now - rounds) & (s <= now)
            if value[inside].mean() >= TARGET:
                return float(now)
        return None

    return find


def isotonic(s: Floats, value: Floats) -> float | None:
    """The rising curve nearest to the evaluations crosses the target. Needs the whole curve: useless to a stop rule."""
    above = np.flatnonzero(IsotonicRegression().fit_transform(s, value) >= TARGET)
    return float(s[above[0]]) if len(above) else None


DEFINITIONS: dict[str, Definition] = {
    "one evaluation (hold: 1)": ours(hold=1),
    "three evaluations in a row (hold: 3)": ours(hold=3),
    "all evaluations of 10 rounds": held_for(10),
    "all evaluations of 20 rounds": held_for(20),
    "mean over 10 rounds, its end": window_end(10),
    "mean over 20 rounds, its end": window_end(20),
    "mean over 10 rounds, its middle (window: 10)": ours(window=10),
    "mean over 20 rounds, its middle (window: 20)": ours(window=20),
    "mean over 40 rounds, its middle (window: 40)": ours(window=40),
    "isotonic regression (whole curve)": isotonic,
}


def curves() -> Iterator[tuple[str, float, list[Floats]]]:
    """Name, round of the true crossing (NaN where unknown), and the worst accuracy round by round of each seed."""
    scenario = wflsim.load(ROOT / "scenarios/quickstart.yaml", [f"seeds={SEEDS}", f"stop.rounds={ROUNDS}"])
    for policy, label in enumerate(scenario.labels):
        found = []
        for seed in scenario.seeds:
            curve = CachedTraining(Run(scenario, policy, seed), Store())
            curve.extend(ROUNDS)
            shown = [metrics(entry.evaluation.accuracy)["worst"] for entry in curve.trace if entry.evaluation]
            found.append(np.array(shown, dtype=np.float64))
        yield f"{label}, digits", np.nan, found
    for name, slow, noise, memory in (
        ("fast, quiet", 12.0, 0.02, 0.0),
        ("fast, noisy", 12.0, 0.06, 0.0),
        ("slow, quiet", 40.0, 0.02, 0.0),
        ("slow, noisy", 40.0, 0.06, 0.0),
        ("slow, noise with memory 0.5", 40.0, 0.06, 0.5),
    ):
        yield name, slow * np.log(0.9 / (0.9 - TARGET)), [made_up(slow, noise, memory, i) for i in range(DRAWS)]


def made_up(slow: float, noise: float, memory: float, number: int) -> Floats:
    """0.9 (1 - exp(-s/slow)) after s = 1, 2, ... rounds, plus noise that remembers a share of itself."""
    fresh = stream(0, "hitting time", number).normal(0, noise * np.sqrt(1 - memory**2), ROUNDS)
    kept = np.zeros(ROUNDS)
    for s in range(ROUNDS):
        kept[s] = fresh[s] + (memory * kept[s - 1] if s else 0.0)
    return 0.9 * (1 - np.exp(-np.arange(1, ROUNDS + 1) / slow)) + kept


def table() -> pd.DataFrame:
    """A line per curve, definition and number of rounds between evaluations; a miss counts as all rounds."""
    rows = []
    for curve, crossing, found in curves():
        for name, definition in DEFINITIONS.items():
            for every in EVERY:
                s = np.arange(every - 1, ROUNDS, every, dtype=np.float64)
                hits = [definition(s, values[s.astype(int)]) for values in found]
                after = np.array([ROUNDS if at is None else at + 1 for at in hits], dtype=np.float64)
                rows.append({
                    "curve": curve, "definition": name, "every": every, "rounds": after.mean(),
                    "standard_error": after.std(ddof=1) / np.sqrt(len(after)), "missed": sum(at is None for at in hits),
                    "crossing": crossing,
                })  # fmt: skip
    return pd.DataFrame(rows)


def words(found: pd.DataFrame) -> str:
    """The table in Markdown: rounds at every 1, 2, 5 and 10, and for made-up curves the true crossing."""
    lines = [
        "# When is a noisy target reached?", "",
        f"Mean round in which {TARGET:.0%} is reached, when every round, every 2nd, 5th and 10th is evaluated; "
        "`max - min` is what the choice of `evaluate_every` alone does (up to 9 is its resolution). Made by "
        "`python -m studies.hitting_time`; standard errors are in [hitting_time.csv](hitting_time.csv).", "",
        "**What follows.** A single evaluation, or `hold`, makes a noisy policy reach the target the earlier, the more "
        "often it is looked at; asking that all evaluations of some rounds show it does the opposite. The mean over a "
        "window, credited to the round in its middle, does neither, and is nearest to the crossing of the curve "
        "without noise. Twenty rounds are enough for noise of several percentage points on a slow curve; on a fast one "
        "they cost two rounds of bias. Hence `stop.target.window`, in rounds. Its default is 1 (one evaluation): a "
        "window of 20 means nothing for runs of a few rounds, and committed results were made so. wflsim warns where "
        "policies of unequal noise are compared without one.", "",
    ]  # fmt: skip
    for curve, own in found.groupby("curve", sort=False):
        crossing = own["crossing"].iloc[0]
        lines += [f"## {curve}" + (f" (crosses after {crossing:.1f} rounds)" if np.isfinite(crossing) else ""), ""]
        lines += ["| definition | every 1 | 2 | 5 | 10 | max - min |", "|---|---|---|---|---|---|"]
        for name, mine in own.groupby("definition", sort=False):
            pairs = zip(mine["rounds"], mine["missed"], strict=True)
            cells = [f"{rounds:.1f}" + (f" ({missed} missed)" if missed else "") for rounds, missed in pairs]
            lines.append(f"| {name} | {' | '.join(cells)} | {np.ptp(mine['rounds']):.1f} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    found = table().round(4)
    leave(found, words(found), OUT / "hitting_time")


if __name__ == "__main__":
    main()
