"""All policies with a server on the digits scenario: one table, two figures.

    python -m studies.policies.trials          # which step each policy uses, on other seeds
    python -m studies.policies.side_by_side    # runs scenarios/policies.yaml (about 4 minutes on two cores) and
                                               # writes reports/policies/side_by_side.* and side_by_side_curves.png

Interrupted, the same command goes on; finished, it only draws again. Decentralised policies have no server, so that
this world of uplinks and downlinks cannot carry them: they have a study of their own.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from scipy import stats

import wflsim
from studies.policies.panels import costs_figure, curves_figure
from studies.policies.trials import ETAS, LATE_S, ROOT, SCENARIO, SEEDS, late, step_key

REFERENCE = "fedavg"
FAMILIES = {
    "averaging": ("fedavg", "local_sgd", "fedprox", "fednova"),
    "optimiser on the server": ("fedavgm", "fedadagrad", "fedadam", "fedyogi"),
    "against drift": ("scaffold", "feddyn", "scallion", "scafcom"),
    "against drift and the worst case": ("drdm", "lambda_drdm"),
    "against the worst case": ("afl", "drfa", "scaffpd", "q_fedavg", "q_fedsgd"),
    "against changed inputs": ("fedrobust",),
    "several models": ("ditto", "clustered", "ifca", "ifca_sgd"),
    "asynchronous": ("fedasync", "fedbuff"),
}


class Mean(NamedTuple):
    """A mean over seeds and half of its 95 % t interval."""

    value: float
    half: float

    @classmethod
    def of(cls, values: Any) -> Mean:
        return cls(float(np.mean(values)), float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)))

    def __format__(self, form: str) -> str:
        return f"{self.value:{form}} +- {self.half:{form}}"


def late_means(rounds: pd.DataFrame, policy: str, metric: str) -> Mean:
    """Mean over seeds of a metric's mean over the end of each run."""
    return Mean.of([late(one, metric) for _, one in rounds[rounds["policy"] == policy].groupby("seed")])


def ratio(runs: pd.DataFrame, policy: str) -> tuple[float, float, float] | None:
    """Energy to the target relative to the reference's with the same seed: geometric mean and its 95 % t interval.

    None for the reference itself, and where a run of either missed the target.
    """
    own, other = (runs[runs["policy"] == name].sort_values("seed") for name in (policy, REFERENCE))
    if policy == REFERENCE or not (own["reached"].all() and other["reached"].all()):
        return None
    log = Mean.of(np.log(own["energy_j"].to_numpy() / other["energy_j"].to_numpy()))
    return float(np.exp(log.value)), float(np.exp(log.value - log.half)), float(np.exp(log.value + log.half))


def steps() -> dict[str, str]:
    """The local step of each policy; marked where the best of those tried was the smallest or the largest."""
    found = {policy["name"]: policy[step_key(policy)] for policy in yaml.safe_load(SCENARIO.read_text())["policies"]}
    return {name: f"{eta:g}" + ("*" if eta in (ETAS[0], ETAS[-1]) else "") for name, eta in found.items()}


def table(results: Any, scenario: Any) -> str:
    """The report."""
    goal, minutes = scenario.stop.target, scenario.stop.time / 60
    lines = [
        "# All policies side by side",
        "",
        "`python -m studies.policies.side_by_side`, that is `scenarios/policies.yaml`: "
        f"{scenario.clients} clients on digits, {len(scenario.seeds)} seeds, {minutes:.0f} simulated minutes each. The "
        f"local step of each policy was chosen among {len(ETAS)} on seeds {SEEDS[0]} and {SEEDS[1]} "
        "([trials.md](trials.md); `*`: the best was the smallest or the largest one tried); nothing else was tuned. "
        f"Costs are those to a worst accuracy of {goal.accuracy:.0%} held for {goal.hold} evaluations; `>` where a "
        "seed missed it and counts with all it spent, so that it has no interval. Accuracies are means over the last "
        f"{LATE_S / 60:.0f} minutes; Ditto is judged by its personal models, clustered FL and IFCA by each client's "
        "own cluster. Means over seeds with 95 % intervals: from low to high for costs, whose interval is not "
        "symmetric, and +- half of it for accuracies. The ratio to FedAvg's energy is taken seed by seed "
        "(geometric mean). With so many policies about one interval in twenty misses its mean by chance.",
        "",
        "| family | policy | step | reached | rounds | energy in J | / FedAvg's | time in s | Mbit up | worst accuracy "
        "| average | client std |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    summary = {row["policy"]: row for row in results.summary.to_dict("records")}
    chosen = steps()
    for family, names in FAMILIES.items():
        for name in names:
            row = summary[name]
            missed = ">" if row["p_reach"] < 1 else ""
            worst, average, std = (late_means(results.rounds, name, metric) for metric in ("worst", "average", "std"))
            energy, time = (
                f"{missed}{row[cost]:.0f}"
                + ("" if missed else f" [{row[f'{cost}_low']:.0f}, {row[f'{cost}_high']:.0f}]")
                for cost in ("energy_j", "time_s")
            )
            relative = ratio(results.runs, name)
            times = f"{relative[0]:.2f} [{relative[1]:.2f}, {relative[2]:.2f}]" if relative else ""
            lines.append(
                f"| {family} | {name} | {chosen[name]} | {round(row['p_reach'] * row['seeds'])}/{row['seeds']} "
                f"| {missed}{row['rounds']:.0f} | {energy} | {times} | {time} | {missed}{row['up_bits'] / 1e6:.1f} "
                f"| {worst:.1%} | {average:.1%} | {std.value:.1%} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "policies")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "policies")
    args = parser.parse_args()
    scenario = wflsim.load(SCENARIO)
    results = wflsim.run(scenario, args.runs)
    args.out.mkdir(parents=True, exist_ok=True)
    text = table(results, scenario)
    (args.out / "side_by_side.md").write_text(text)
    results.runs.to_csv(args.out / "side_by_side.csv", index=False, float_format="%.6g")
    worst = {name: late_means(results.rounds, name, "worst") for names in FAMILIES.values() for name in names}
    costs_figure(results.summary, worst, FAMILIES, args.out / "side_by_side.png")
    target = scenario.stop.target.accuracy if scenario.stop.target else np.nan
    curves_figure(results.rounds, FAMILIES, REFERENCE, target, args.out / "side_by_side_curves.png")
    print(text)


if __name__ == "__main__":
    main()
