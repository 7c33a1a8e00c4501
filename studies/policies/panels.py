"""The two figures of the side-by-side study: costs with their intervals, and accuracy over energy by families."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Families = Mapping[str, tuple[str, ...]]
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
"""Okabe and Ito's colours, which people who see few colours tell apart."""
STYLES = ("-", "--", "-.", ":", (0, (1, 1)))


def pyplot() -> Any:
    """Matplotlib without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def costs_figure(
    summary: pd.DataFrame, worst: Mapping[str, tuple[float, float]], families: Families, path: Path
) -> None:
    """A line per policy, families one below the other: energy and time to the target, and the late worst accuracy."""
    plt = pyplot()
    rows = {row["policy"]: row for row in summary.to_dict("records")}
    chart, axes = plt.subplots(1, 3, figsize=(12, 9), sharey=True, layout="constrained")
    at, ticks, heights = 0.0, [], []
    for colour, (family, names) in zip(COLOURS, families.items(), strict=True):
        left = axes[0].get_yaxis_transform()
        axes[0].text(0.02, at, family, transform=left, color=colour, fontsize=9, weight="bold", va="center")
        for name in names:
            at += 1
            row = rows[name]
            for ax, cost in zip(axes, ("energy_j", "time_s"), strict=False):
                if row["p_reach"] == 1:
                    ax.plot([row[f"{cost}_low"], row[f"{cost}_high"]], [at, at], color=colour, linewidth=2)
                    ax.plot(row[cost], at, "o", color=colour)
                else:
                    count = f"{round(row['p_reach'] * row['seeds'])}/{row['seeds']}"
                    ax.plot(row[cost], at, ">", color=colour, markerfacecolor="white")
                    ax.annotate(count, (row[cost], at), (7, 0), textcoords="offset points", fontsize=8, va="center")
            value, half = worst[name]
            axes[2].plot([value - half, value + half], [at, at], color=colour, linewidth=2)
            axes[2].plot(value, at, "o", color=colour)
            ticks.append(name)
            heights.append(at)
        at += 1.2
    axes[0].set_yticks(heights, ticks)
    axes[0].invert_yaxis()
    for ax, words in zip(axes, ("energy to the target in J", "time to the target in s", "worst accuracy"), strict=True):
        ax.set_xlabel(words)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[:2]:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.set_xticks(shown := [tick for tick in (20, 50, 100, 200, 500, 1000) if low < tick < high], map(str, shown))
        ax.minorticks_off()
    axes[2].axvline(0.8, color="0.5", linewidth=0.8, linestyle=":")
    chart.suptitle(
        "Means over five seeds with 95 % intervals. Hollow: so many seeds reached it, others count all they spent",
        fontsize=10,
    )
    chart.savefig(path, dpi=100)
    plt.close(chart)


def curves(rounds: pd.DataFrame, policy: str, grid: Any) -> Any:
    """[seeds, grid] worst accuracy of the last evaluation that so many joules had bought."""
    rows = []
    for _, one in rounds[rounds["policy"] == policy].groupby("seed"):
        spent, seen = one["energy_j"].cumsum(), one["worst"].notna()
        at = np.searchsorted(spent[seen].to_numpy(), grid, side="right") - 1
        rows.append(np.where(at >= 0, one["worst"][seen].to_numpy()[np.maximum(at, 0)], np.nan))
        rows[-1][grid > spent.iloc[-1]] = np.nan
    return np.array(rows)


def smooth(path: Any, window: int = 9) -> Any:
    """Running median: single evaluations of the worst of ten clients jump by several points."""
    return pd.Series(path).rolling(window, center=True, min_periods=1).median().to_numpy()


def curves_figure(rounds: pd.DataFrame, families: Families, reference: str, target: float, path: Path) -> None:
    """A panel per family: worst accuracy over energy, the mean over seeds, with the reference in grey."""
    plt = pyplot()
    most = max(one["energy_j"].sum() for _, one in rounds.groupby(["policy", "seed"]))
    grid = np.geomspace(2, most, 150)
    behind = smooth(np.mean(curves(rounds, reference, grid), axis=0))
    chart, axes = plt.subplots(2, 4, figsize=(14, 6.5), sharex=True, sharey=True, layout="constrained")
    for ax, (family, names) in zip(axes.flat, families.items(), strict=True):
        if reference not in names:
            ax.plot(grid, behind, color="0.65", linewidth=1.2, label=reference)
        for name, colour, style in zip(names, COLOURS, STYLES, strict=False):
            mean = smooth(np.mean(curves(rounds, name, grid), axis=0))
            ax.plot(grid, mean, color=colour, linestyle=style, label=name)
        ax.axhline(target, color="0.5", linewidth=0.7, linestyle=":")
        ax.set(xscale="log", ylim=(0, 1))
        ax.set_xticks([5, 20, 100, 500], ["5", "20", "100", "500"])
        ax.minorticks_off()
        ax.set_title(family, fontsize=10)
        ax.legend(fontsize=8, frameon=False, loc="upper left")
    for ax in axes[-1]:
        ax.set_xlabel("energy of all clients in J")
    for ax in axes[:, 0]:
        ax.set_ylabel("worst accuracy over clients")
    chart.suptitle("Worst client accuracy over energy: mean over five seeds, running median", fontsize=11)
    chart.savefig(path, dpi=100)
    plt.close(chart)
