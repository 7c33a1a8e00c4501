"""Regimes of sweeps and tuning maps: their names, their order, maps over two of their keys, and the entries of tau*.

The terminal, the picture in the results folder, the report page and the figures for papers all draw the map of tau*
from `grid` and `tau_text`: they differ in how they draw it, never in what it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

NUMBER = re.compile(r"^\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z%/]*)\s*$")
PREFIXES = {"G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "u": 1e-6, "": 1.0}
UNITS = ("dBm", "dBi", "dB", "Hz", "bps", "bit", "min", "W", "J", "s", "m", "h", "B")
HOLLOW = "○"
"""Beside a tau that stop.rounds cut off and that could still win, or a tau* that such a tau could still beat."""
MARKS = {
    "*": "the first or last candidate: a better one may lie beyond",
    "!": "missed the target on some seed",
    HOLLOW: "a tau that stop.rounds cut off could still win",
}
"""What stands behind a tau* in every map of it, and what it means."""


class Grid(NamedTuple):
    """A table of regimes over two keys, for a map."""

    xs: list[str]
    """Values of the key that goes across, as they are written in the scenario, by size."""
    ys: list[str]
    """Values of the key that goes up or down, likewise."""
    values: NDArray[np.float64]
    """[y, x] numbers; NaN where there is no regime, or the number is not known."""
    texts: list[list[str]]
    """[y][x] what is written into the entry; empty where there is no regime."""

    @property
    def whole(self) -> bool:
        """Whether every combination of the two keys is a regime."""
        return all(text for row in self.texts for text in row)


def grid(rows: pd.DataFrame, across: str, along: str, value: str, texts: Sequence[str]) -> Grid:
    """One row per regime as a table over two keys: numbers of the column `value`, and a text for each row."""
    xs, ys = ordered(rows[across].tolist()), ordered(rows[along].tolist())
    values, words = np.full((len(ys), len(xs)), np.nan), [["" for _ in xs] for _ in ys]
    for x, y, number, text in zip(rows[across], rows[along], rows[value], texts, strict=True):
        i, j = ys.index(y), xs.index(x)
        values[i, j], words[i][j] = number, text
    return Grid(xs, ys, values, words)


def tau_text(row: Mapping[str, Any]) -> str:
    """tau* of one row of map.csv with its MARKS, for example "5*" or "20!○"; "none" if no tau reaches the target."""
    found = pd.notna(row["tau_star"])
    text = f"{row['tau_star']:.0f}" if found else "none"
    text += "*" if row["edge"] else ""
    text += "!" if found and 0 < row["p_reach"] < 1 else ""
    return text + (HOLLOW if row["could_win"] else "")


def marks_in(texts: Sequence[str]) -> str:
    """The meaning of those marks that occur in the texts, in one line; empty if there are none."""
    return "; ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items() if any(mark in text for text in texts))


def nearest(costs: pd.DataFrame) -> pd.Series | None:
    """The row of costs.csv whose candidate came nearest to the target; None if the accuracies are not known."""
    if "attained" not in costs or not costs["attained"].notna().any():
        return None
    return costs.iloc[int(np.nanargmax(costs["attained"].to_numpy(float)))]


def varying(rows: pd.DataFrame, keys: Sequence[str]) -> list[str]:
    """Those of the keys in which the regimes differ."""
    return [key for key in keys if rows[key].nunique() > 1]


def ordered(values: Sequence[str]) -> list[str]:
    """Distinct values by size if all are quantities of one unit, else in the order given."""
    distinct = list(dict.fromkeys(values))
    sizes = [_size(value) for value in distinct]
    if any(size is None for size in sizes) or len({size[1] for size in sizes if size}) > 1:
        return distinct
    return [value for _, value in sorted(zip(sizes, distinct, strict=True), key=lambda pair: pair[0] or (0.0, ""))]


def name_of(row: Any, keys: Sequence[str]) -> str:
    """A regime by the values of its keys, for example "10 dB, 1 MHz"; "as given" if the scenario has no sweep."""
    return ", ".join(str(row[key]) for key in keys) or "as given"


def short_key(key: str) -> str:
    """The last part of a scenario key in words: radio.snr becomes snr."""
    return key.rsplit(".", 1)[-1].replace("_", " ")


def _size(text: str) -> tuple[float, str] | None:
    """Number in the base unit, and that unit: "180 kHz" is (180000, "Hz"); None if it is no quantity."""
    match = NUMBER.match(text)
    if not match:
        return None
    value, unit = float(match[1]), match[2]
    for base in UNITS:
        if unit.endswith(base) and unit[: -len(base)] in PREFIXES:
            return value * PREFIXES[unit[: -len(base)]], base
    return value, unit
