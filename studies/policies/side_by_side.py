"""All policies on the digits scenario: one table, one figure.

    python -m studies.policies.side_by_side    # runs scenarios/policies.yaml (about 8 minutes on two cores) and
                                                  # writes reports/policies/side_by_side.{md,csv,png}

Interrupted, the same command goes on; finished, it only draws again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import wflsim

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {
    "averaging": ("fedavg", "local_sgd", "fedprox"),
    "against drift": ("scaffold", "feddyn"),
    "against the worst case": ("afl", "drfa", "scaffpd"),
    "against both": ("drdm", "lambda_drdm"),
    "asynchronous": ("fedasync", "fedbuff"),
}
LATE_S = 180.0
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77")


def curves(rounds: pd.DataFrame, policy: str, grid: Any, cost: str) -> Any:
    """[seeds, grid] worst accuracy of the last evaluation that a given cost had bought."""
    rows = []
    for _, one in rounds[rounds["policy"] == policy].groupby("seed"):
        spent = one["end_s"] if cost == "time_s" else one["energy_j"].cumsum()
        seen = one["worst"].notna()
        at = np.searchsorted(spent[seen].to_numpy(), grid, side="right") - 1
        rows.append(np.where(at >= 0, one["worst"][seen].to_numpy()[np.maximum(at, 0)], np.nan))
        rows[-1][grid > spent.iloc[-1]] = np.nan
    return np.array(rows)


def smooth(path: Any, window: int = 9) -> Any:
    """Running median: single evaluations of the worst of ten clients jump by several points."""
    return pd.Series(path).rolling(window, center=True, min_periods=1).median().to_numpy()


def figure(results: Any, target: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rounds = results.rounds
    chart, axes = plt.subplots(2, len(GROUPS), figsize=(15, 6), sharey=True, sharex="row", layout="constrained")
    energy = [one["energy_j"].sum() for _, one in rounds.groupby(["policy", "seed"])]
    grids = {"time_s": np.linspace(0, rounds["end_s"].max(), 150), "energy_j": np.linspace(0, max(energy), 150)}
    for row, (cost, words) in zip(
        axes, {"time_s": "simulated time in min", "energy_j": "energy of all clients in J"}.items(), strict=True
    ):
        grid = grids[cost]
        shown = grid / 60 if cost == "time_s" else grid
        reference = smooth(np.mean(curves(rounds, "fedavg", grid, cost), axis=0))
        for ax, (title, names) in zip(row, GROUPS.items(), strict=True):
            if "fedavg" not in names:
                ax.plot(shown, reference, color="0.7", linewidth=1.2, label="fedavg")
            for name, colour in zip(names, COLOURS, strict=False):
                each = curves(rounds, name, grid, cost)
                ax.plot(shown, smooth(np.mean(each, axis=0)), color=colour, linewidth=1.6, label=name)
                low, high = smooth(np.min(each, axis=0)), smooth(np.max(each, axis=0))
                ax.fill_between(shown, low, high, color=colour, alpha=0.15, linewidth=0)
            ax.axhline(target, color="0.5", linewidth=0.7, linestyle=":")
            ax.set(xlabel=words, ylim=(0, 1))
            if cost == "time_s":
                ax.set_title(title, fontsize=10)
            ax.legend(fontsize=8, frameon=False, loc="lower right")
        row[0].set_ylabel("worst accuracy over clients")
    chart.suptitle("Worst client accuracy: mean over seeds (band: least and greatest), running median", fontsize=11)
    chart.savefig(path, dpi=100)
    plt.close(chart)


def late(rounds: pd.DataFrame, policy: str, metric: str) -> tuple[float, float]:
    """(mean, half of the 95 % t interval) over seeds of a metric's mean over each run's last LATE_S seconds.

    A single evaluation will not do: from one round to the next the worst client moves by ten points and more.
    """
    runs = [one for _, one in rounds[rounds["policy"] == policy].groupby("seed")]
    means = [one.loc[one["end_s"] >= one["end_s"].max() - LATE_S, metric].mean() for one in runs]
    half = stats.t.ppf(0.975, len(means) - 1) * stats.sem(means)
    return float(np.mean(means)), float(half)


def table(results: Any, scenario: Any) -> str:
    goal, minutes = scenario.stop.target, scenario.stop.time / 60
    lines = [
        "# All policies side by side",
        "",
        "`python -m studies.policies.side_by_side`, that is `scenarios/policies.yaml`: "
        f"{scenario.clients} clients on digits, {len(scenario.seeds)} seeds, {minutes:.0f} simulated minutes each, the "
        "same step sizes for all and none of them tuned. Costs are those to a worst accuracy of "
        f"{goal.accuracy:.0%} held for {goal.hold} evaluations; `>` where a seed missed it and counts with all it "
        f"spent, so that it has no interval. Accuracies are means over the last {LATE_S / 60:.0f} minutes. Means over "
        "seeds with 95 % intervals: from low to high for costs, whose interval is not symmetric, and +- half of it for "
        "accuracies.",
        "",
        "| policy | reached | rounds | energy in J | time in s | Mbit up | worst accuracy | average | client std |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results.summary.to_dict("records"):
        missed = ">" if row["p_reach"] < 1 else ""
        worst, average, std = (late(results.rounds, row["policy"], name) for name in ("worst", "average", "std"))
        costs = [
            f"{missed}{row[name]:.0f}" + ("" if missed else f" [{row[f'{name}_low']:.0f}, {row[f'{name}_high']:.0f}]")
            for name in ("energy_j", "time_s")
        ]
        lines.append(
            f"| {row['policy']} | {round(row['p_reach'] * row['seeds'])}/{row['seeds']} | {missed}{row['rounds']:.0f} "
            f"| {costs[0]} | {costs[1]} | {missed}{row['up_bits'] / 1e6:.0f} | {worst[0]:.1%} +- {worst[1]:.1%} "
            f"| {average[0]:.1%} +- {average[1]:.1%} | {std[0]:.1%} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "policies")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "policies")
    args = parser.parse_args()
    scenario = wflsim.load(ROOT / "scenarios" / "policies.yaml")
    results = wflsim.run(scenario, args.runs)
    args.out.mkdir(parents=True, exist_ok=True)
    text = table(results, scenario)
    (args.out / "side_by_side.md").write_text(text)
    results.runs.to_csv(args.out / "side_by_side.csv", index=False, float_format="%.6g")
    figure(results, scenario.stop.target.accuracy if scenario.stop.target else np.nan, args.out / "side_by_side.png")
    print(text)


if __name__ == "__main__":
    main()
