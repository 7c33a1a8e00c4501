"""The paper's figures from our committed results.

    python -m studies.paper.figures    # reports/paper/curves_*.png, tau.png, energy.png

Lines are means over seeds, bands their 95 % intervals, as in the tables; with fewer than FEW seeds, from the least to
the greatest of them, because an interval from two or three would fill the picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from studies.paper import claims, open_page, study, tables

matplotlib.use("Agg")

COLOURS = {"drdm": "#d55e00", "drfa": "#0072b2", "scaffold": "#009e73", "scaffpd": "#cc79a7", "fedavg": "#555555"}
STYLES = {"drdm": "-", "drfa": "--", "scaffold": "-.", "scaffpd": (0, (3, 1, 1, 1, 1, 1)), "fedavg": ":"}
FEW = 5
SHOWN_TAUS = (5, 10, 20, 30)
MEASURES = {"average": "average accuracy", "std": "standard deviation over clients", "worst": "worst client's accuracy"}


def band(ax: Any, runs: pd.DataFrame, measure: str, **how: Any) -> list[tuple[float, float]]:
    """Mean line and band over seeds, in percent; what of it should be in the picture."""
    by_round = 100 * runs.pivot_table(index="round", columns="seed", values=measure)
    rows = [row[~np.isnan(row)] for row in by_round.to_numpy()]
    spans = [(row.mean(), row.min(), row.max()) if len(row) < FEW else tables.interval(row) for row in rows]
    ax.plot(by_round.index, [mean for mean, _, _ in spans], linewidth=1.8, **how)
    ends = [(low, high) for _, low, high in spans]
    low, high = zip(*ends, strict=True) if ends else ((), ())
    ax.fill_between(by_round.index, low, high, color=how["color"], alpha=0.15, linewidth=0)
    # The first evaluations, where everybody is still bad, may leave it: the end is what is compared.
    return [span for number, span in zip(by_round.index, ends, strict=True) if number >= 20]


def finished(entry: study.Entry, runs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Runs that did not diverge, and a label that counts both."""
    ended = runs.loc[runs["ended"].notna(), "seed"].unique() if "ended" in runs else []
    left = runs[~runs["seed"].isin(ended)]
    lost = f", {len(ended)} more diverged" if len(ended) else ""
    return left, f"{study.ALGORITHMS[entry.policy]} ({left['seed'].nunique()}{lost})"


def curves(data: str, alpha: float, sigma: float, path: Path) -> None:
    """Average, standard deviation and worst accuracy against rounds, all algorithms; nothing where nothing was run."""
    found = list(study.read(entry for entry in study.entries(data) if (entry.alpha, entry.sigma) == (alpha, sigma)))
    if not found:
        return
    chart = Figure(figsize=(11, 3.6), layout="constrained")
    for number, (measure, words) in enumerate(MEASURES.items()):
        ax = chart.add_subplot(1, 3, number + 1)
        shown: list[tuple[float, float]] = []
        for entry, runs in found:
            left, label = finished(entry, runs)
            shown += band(ax, left, measure, color=COLOURS[entry.policy], linestyle=STYLES[entry.policy], label=label)
        ax.set(xlabel="communication rounds", ylabel=f"{words} in %", title=f"({'abc'[number]})")
        low, high = min(low for low, _ in shown), max(high for _, high in shown)
        ax.set_ylim((0, 1.65 * high) if measure == "std" else (max(0, low - 1), min(100, high + 1)))
        ax.spines[["top", "right"]].set_visible(False)
    # Where curves fall there is room above them.
    chart.axes[1].legend(frameon=False, fontsize=8, title="algorithm (seeds)", title_fontsize=8, loc="upper right")
    where = f"{study.DATA_SETS[data]}, alpha = {alpha:g}, sigma = {sigma:g}"
    few = any(runs["seed"].nunique() < FEW for _, runs in found)
    chart.suptitle(f"{where}: mean over seeds, band: {'all seeds' if few else 'its 95 % interval'}", fontsize=11)
    chart.savefig(path, dpi=150)


def tau_curves(path: Path) -> None:
    """DRDM's worst accuracy against rounds, a line per tau, and a dot where each seed first has 85 %."""
    found = [(entry, runs) for entry, runs in study.read(study.entries(study.TAU_STUDY)) if entry.tau in SHOWN_TAUS]
    if not found:
        return
    chart = Figure(figsize=(5.6, 3.9), layout="constrained")
    ax = chart.add_subplot()
    colours = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.85, len(found)))
    first = claims.rounds_to(0.85)
    for (entry, runs), colour in zip(found, colours, strict=True):
        shortest = runs.groupby("seed")["round"].max().min()  # a mean over fewer seeds would jump
        label = f"tau = {entry.tau} ({runs['seed'].nunique()} seeds)"
        band(ax, runs[runs["round"] <= shortest], "worst", color=colour, label=label)
        reached = first.loc[entry.tau].dropna()
        ax.plot(reached, [85] * len(reached), "o", color=colour, markersize=5, markeredgecolor="white")
    ax.axhline(85, color="0.4", linewidth=0.8, linestyle=":", zorder=0)
    ax.annotate("85 %", (0, 85), xytext=(2, 3), textcoords="offset points", fontsize=8, color="0.3")
    ax.set(xlabel="communication rounds", ylabel="worst client's accuracy in %", ylim=(0, 100), xlim=(0, None))
    ax.set_title("DRDM on KMNIST (CNN), alpha = 0.1, sigma = 0; dots: first at 85 %", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    chart.savefig(path, dpi=150)


def headline(path: Path) -> None:
    """The README's picture: what the policies reach in the worst client, and which tau costs the least energy."""
    found = list(study.read(entry for entry in study.entries("kmnist") if (entry.alpha, entry.sigma) == (0.1, 0.0)))
    if not found:
        return
    chart = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = chart.subplots(1, 2, width_ratios=(1, 1.1))
    for entry, runs in found:
        runs_left, label = finished(entry, runs)
        band(left, runs_left, "worst", color=COLOURS[entry.policy], linestyle=STYLES[entry.policy], label=label)
    left.set(xlabel="communication rounds", ylabel="worst client's accuracy in %", ylim=(0, 100))
    left.set_title("30 clients with unlike data: who is left behind?", fontsize=10)
    left.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8, loc="lower right", title="policy (seeds)", title_fontsize=8)
    left.set_xlim(0, None)
    image = energy_map(right, "full")
    right.set_title("DRDM: the cheapest tau for 80 % in every client", fontsize=10)
    chart.colorbar(image, ax=right, label="local steps tau*")
    chart.savefig(path, dpi=150)


def energy_maps(path: Path) -> None:
    """tau* under both accountings."""
    chart = Figure(figsize=(11, 4.8), layout="constrained")
    titles = {
        "paper": "the paper's formula: local steps, uploads",
        "full": "whole device: every bit, phase, idle second",
    }
    for number, name in enumerate(study.MAPS):
        ax = chart.add_subplot(1, 2, number + 1)
        image = energy_map(ax, name)
        ax.set_title(titles[name], fontsize=10)
    chart.colorbar(image, ax=chart.axes, label="tau*")
    chart.suptitle(
        "tau* that brings every client to 80 % for the least energy {all taus within 5 % of it}; * from two seeds",
        fontsize=11,
    )
    chart.savefig(path, dpi=150)


def energy_map(ax: Any, accounting: str) -> Any:
    """tau* at every SNR and bandwidth, below it all taus within 5 % of the least energy; a star where two seeds chose
    it, an arrow where a larger or smaller tau was not trained."""
    whole = open_page.read()
    table = whole[whole["accounting"] == accounting]
    rows, columns = (list(dict.fromkeys(table[key])) for key in ("radio.snr", "radio.bandwidth"))
    best = table.pivot(index="radio.snr", columns="radio.bandwidth", values="tau_star").loc[rows, columns]
    scale = LogNorm(whole["tau_star"].min(), whole["tau_star"].max())
    image = ax.imshow(best, cmap="cividis", norm=scale, aspect="auto")
    arrows = {"no larger tau was trained yet": "\u2191", "no smaller tau was trained yet": "\u2193"}
    for regime in table.to_dict("records"):
        at = columns.index(regime["radio.bandwidth"]), rows.index(regime["radio.snr"])
        colour = "white" if scale(regime["tau_star"]) < 0.55 else "black"
        near = str(regime["within5"]).replace(" ", ", ")
        mark = ("*" if regime["seeds"] < FEW else "") + arrows.get(regime["end"], "")
        ax.text(*at, f"{regime['tau_star']}{mark}", ha="center", va="bottom", fontsize=9, color=colour)
        ax.text(*at, f"{{{near}}}", ha="center", va="top", fontsize=6.5, color=colour)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.set(xlabel="bandwidth per client", ylabel="SNR")
    return image


def main() -> None:
    for data in study.DATA_SETS:
        for alpha, sigma in ((0.1, 0.0), (0.1, 0.3)):
            curves(data, alpha, sigma, study.REPORT / f"curves_{data}_sigma{sigma:g}.png")
    tau_curves(study.REPORT / "tau.png")
    energy_maps(study.REPORT / "energy.png")
    headline(study.REPORT / "headline.png")


if __name__ == "__main__":
    main()
