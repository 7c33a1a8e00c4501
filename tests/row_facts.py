"""What rows say, by hand: costs to the target, intervals, and numbers read back from what is printed for people."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def facts(folder: Path, policy: str, seed: int) -> dict[str, Any]:
    """Costs up to the first of two evaluations in a row at the target, by hand."""
    table = rows(folder / policy / f"seed-{seed}" / "rounds.csv")
    worst = [float(row["worst"]) for row in table]
    at = next((s for s in range(len(worst) - 1) if worst[s] >= 0.8 <= worst[s + 1]), None)
    to = table if at is None else table[: at + 1]
    return {
        "reached": at is not None,
        "rounds": len(to),
        "energy_j": sum(float(row["energy_j"]) for row in to),
        "paper_energy_j": sum(float(row["paper_energy_j"]) for row in to),
        "time_s": float(to[-1]["end_s"]),
        "up_bits": sum(float(row["up_bits"]) for row in to),
        "down_bits": sum(float(row["down_bits"]) for row in to),
        **{f"final_{name}": float(table[-1][name]) for name in ("average", "worst", "std")},
    }


def interval(values: Any, high: float = np.inf) -> tuple[float, float, float]:
    """Costs: the factor of Cox's interval around the mean; shares (high = 1): Student's t."""
    if high == 1.0:
        return student(values, high=high)
    n, mean = len(values), np.mean(values)
    s = min(np.std(np.log(values), ddof=1), 1.5 * np.std(values, ddof=1) / mean)
    factor = np.exp(stats.t.ppf(0.975, n - 1) * np.sqrt(s**2 / n + s**4 / (2 * (n - 1))))
    return mean, mean / factor, mean * factor


def student(values: Any, low: float = 0.0, high: float = np.inf) -> tuple[float, float, float]:
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return np.mean(values), max(low, np.mean(values) - half), min(high, np.mean(values) + half)


SIZES = {"": 1.0, "G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "u": 1e-6}
UNITS = {"": 1.0, "J": 1.0, "s": 1.0, "bit": 1.0, "%": 0.01, "min": 60.0, "h": 3600.0, "d": 86400.0}
QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?: ?(min|h|d|%|([GMkmu]?)(J|s|bit)))?(?![\w%])")


def numbers(text: str) -> list[float]:
    """The quantities in a text, in SI units; one without a unit has that of the first: 12 kJ [11, 13] are 12000, 11000, 13000."""
    found, usual = [], 1.0
    for number, unit, size, base in QUANTITY.findall(text.replace("\u00a0", " ").replace("\\%", "%")):
        scale = SIZES[size] * UNITS[base] if base else UNITS[unit]
        usual = scale if not found else usual
        found.append(float(number) * (scale if unit else usual))
    return found
