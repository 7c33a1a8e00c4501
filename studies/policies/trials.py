"""Step sizes for the side-by-side study: six for every policy, tried on seeds that its table does not use.

    python -m studies.policies.trials    # about 5 minutes on two cores; writes reports/policies/trials.{csv,md}

Each policy of scenarios/policies.yaml is run with each of ETAS as the step of its local training (`eta`, `eta_l` or
`eta_w`), everything else as in that file, on SEEDS, until it reaches the target or the time is over. The step that the
most seeds reach the target with is chosen; of these the one with the fewest joules to it; and where no seed reached it
with any, the one with the best worst accuracy at the end. scenarios/policies.yaml holds what was chosen (a test
compares them). Interrupted, the same command goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

import wflsim

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios" / "policies.yaml"
ETAS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
SEEDS = (100, 101)
STEPS = ("eta", "eta_l", "eta_w")
"""What policies call the step of their local training."""
LATE_S = 180.0
"""Length of the end of a run over which accuracies are averaged, in simulated seconds."""


def late(rounds: pd.DataFrame, metric: str) -> float:
    """Mean of a metric over the last LATE_S seconds of one run.

    A single evaluation will not do: from one round to the next the worst client moves by ten points and more.
    """
    return float(rounds.loc[rounds["end_s"] >= rounds["end_s"].max() - LATE_S, metric].mean())


def step_key(policy: dict[str, Any]) -> str:
    """The key of a policy's block that holds the step of its local training."""
    return next(key for key in STEPS if key in policy)


def scenario_with(eta: float) -> dict[str, Any]:
    """The study's scenario on the seeds of the trials, with this step for every policy, ended at the target."""
    scenario: dict[str, Any] = yaml.safe_load(SCENARIO.read_text())
    policies = [{**policy, step_key(policy): eta} for policy in scenario["policies"]]
    stop = {**scenario["stop"], "at_target": True}
    return {**scenario, "name": f"policies-{eta:g}", "seeds": list(SEEDS), "policies": policies, "stop": stop}


def rows(results: Any, eta: float) -> pd.DataFrame:
    """A line per policy and seed."""
    ends = {key: late(one, "worst") for key, one in results.rounds.groupby(["policy", "seed"])}
    runs: pd.DataFrame = results.runs
    return runs[["policy"]].assign(
        eta=eta,
        seed=runs["seed"],
        reached=runs["reached"].fillna(0).astype(int),
        energy_j=runs["energy_j"],
        time_s=runs["time_s"],
        rounds=runs["rounds"],
        late_worst=[ends[key] for key in zip(runs["policy"], runs["seed"], strict=True)],
        status=runs["status"],
    )


def chosen(trials: pd.DataFrame) -> dict[str, float]:
    """The step of each policy by the rule above."""
    steps = {}
    for policy, own in trials.groupby("policy", sort=False):
        tried = []
        for eta in ETAS:
            runs = own[own["eta"] == eta]
            reached = int(runs["reached"].sum())
            cost = float(runs["energy_j"].mean()) if reached else 0.0
            tried.append((-reached, cost, -float(runs["late_worst"].fillna(0.0).mean()), eta))
        steps[str(policy)] = min(tried)[-1]
    return steps


def page(trials: pd.DataFrame) -> str:
    """The report: how many seeds reached the target, and for how many joules."""
    steps = chosen(trials)
    lines = [
        "# Step sizes tried for the side-by-side study",
        "",
        f"`python -m studies.policies.trials`: six steps of local training for each policy on seeds {SEEDS[0]} and "
        f"{SEEDS[1]}, which the table of [side_by_side.md](side_by_side.md) does not use. An entry is the mean energy "
        "to the target in J where both seeds reached it; (1: J) where one of them did, the other counting with all it "
        "spent; else the worst accuracy at the end. Chosen (bold): the step that the most seeds reach the target with, "
        "of these the one with the fewest joules; if none does, the one with the best worst accuracy.",
        "",
        "| policy | " + " | ".join(f"{eta:g}" for eta in ETAS) + " |",
        "|---|" + "---|" * len(ETAS),
    ]
    for policy, own in trials.groupby("policy", sort=False):
        entries = []
        for eta in ETAS:
            runs = own[own["eta"] == eta]
            reached = int(runs["reached"].sum())
            joules, worst = f"{runs['energy_j'].mean():.0f} J", f"{runs['late_worst'].mean():.0%}"
            text = joules if reached == len(SEEDS) else f"(1: {joules})" if reached else worst
            entries.append(f"**{text}**" if steps[str(policy)] == eta else text)
        lines.append(f"| {policy} | " + " | ".join(entries) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "policies-trials")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "policies")
    args = parser.parse_args()
    found = [rows(wflsim.run(scenario_with(eta), args.runs / f"eta-{eta:g}"), eta) for eta in ETAS]
    pd.concat(found).to_csv(args.out / "trials.csv", index=False, float_format="%.6g")
    trials = pd.read_csv(args.out / "trials.csv")
    (args.out / "trials.md").write_text(page(trials))
    print(page(trials), chosen(trials))


if __name__ == "__main__":
    main()
