"""Tables for the page, for CSV and for LaTeX: the same entries, shown three ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from wflsim.analysis.answer import noise_floor
from wflsim.analysis.formats import Show, bits, cost_text, count, duration, is_bound, joules, percent
from wflsim.analysis.joining import Comparison, saving
from wflsim.analysis.ranking import records_of
from wflsim.analysis.regimes import short_key
from wflsim.analysis.tables import COSTS as TO_TARGET
from wflsim.report.series import Series
from wflsim.report.sweep import Sweep
from wflsim.report.tuning import Tune

TEX_SYMBOLS = str.maketrans({"τ": r"$\tau$", "λ": r"$\lambda$", "≥": r"$\geq$", "·": r"$\cdot$"})
"""Characters that LaTeX fonts may not have."""
# Columns as (name, heading, format). What is asked first stands first: a wide table is cut off at the right.
COSTS: tuple[tuple[str, str, Show], ...] = (
    ("p_reach", "P(reach)", percent),
    ("energy_j", "energy", joules),
    ("time_s", "simulated time", duration),
    ("rounds", "rounds", count),
)
FINALS: tuple[tuple[str, str, Show], ...] = (
    ("final_worst", "worst accuracy", percent),
    ("worst_by_chance", "worst by chance", percent),
    ("final_average", "average accuracy", percent),
    ("final_std", "std over clients", percent),
)
DETAILS: tuple[tuple[str, str, Show], ...] = (
    ("paper_energy_j", "energy, paper's formula", joules),
    ("up_bits", "sent up", bits),
    ("down_bits", "received", bits),
    ("latency_p50_s", "round p50", duration),
    ("latency_p95_s", "round p95", duration),
)


@dataclass(frozen=True)
class Entry:
    """One entry of a table."""

    text: str
    """Text of the entry as a reader sees it."""
    value: float | str
    """What is sorted by, and what a CSV file holds."""
    range: str = ""
    """The interval in brackets; empty if there is none."""
    low: float = np.nan
    high: float = np.nan


@dataclass(frozen=True)
class Table:
    """A table as the page, a CSV file and LaTeX show it."""

    id: str
    """Name of the element on the page, and of the files."""
    title: str
    note: str
    """What to know about its columns, in sentences."""
    names: list[str]
    """Columns of the CSV file."""
    heads: list[str]
    """Headings on the page and in LaTeX."""
    spread: list[bool]
    """Per column, whether it holds means with intervals: then the CSV file has two more columns, _low and _high."""
    rows: list[list[Entry]]

    def csv(self) -> str:
        """Every number in full precision; empty where it is not known."""
        columns: dict[str, list[float | str]] = {}
        for number, (name, wide) in enumerate(zip(self.names, self.spread, strict=True)):
            entries = [row[number] for row in self.rows]
            columns[name] = [entry.value for entry in entries]
            if wide:
                columns[f"{name}_low"] = [entry.low for entry in entries]
                columns[f"{name}_high"] = [entry.high for entry in entries]
        return pd.DataFrame(columns).replace([np.inf, -np.inf], np.nan).to_csv(index=False)

    def latex(self) -> str:
        """A booktabs table with the interval in brackets behind the mean."""
        texts = [[f"{entry.text} {entry.range}".strip() for entry in row] for row in self.rows]
        align = "".join("r" if wide else "l" for wide in self.spread)
        body = pd.DataFrame(texts, columns=self.heads).to_latex(index=False, escape=True, column_format=align)
        note = self.note.replace("%", r"\%")
        return f"% needs \\usepackage{{booktabs}}; {note}\n{body}".translate(TEX_SYMBOLS)


def comparison(series: Sequence[Series]) -> Table:
    """The policies of one folder or several side by side: one row each."""
    rows = [{**each.row, **_floor(each)} for each in series]
    columns = [entry for entry in (*COSTS, *FINALS, *DETAILS) if any(entry[0] in row for row in rows)]
    body = [
        [
            _word(each.label),
            Entry(str(row["seeds"]), int(row["seeds"])),
            *(_spread(row, name, show) for name, _, show in columns),
        ]
        for each, row in zip(series, rows, strict=True)
    ]
    bound = "≥ where a run missed it: that counts with all it spent, and the mean is a lower bound"
    costs = f"to the target; {bound}" if "p_reach" in rows[0] else "of the whole run"
    note = (
        f"Mean over seeds and its 95 % interval. Costs are those {costs}. Accuracies are those of the last evaluation."
    )
    if any("worst_by_chance" in row for row in rows):
        note += " Worst by chance: what the worst of equally good clients would show with as many test samples."
    return _table("comparison", "Comparison", note, ["policy", "seeds"], columns, body)


def pairs(joined: Comparison) -> Table:
    """What the best policy of each regime saves against every other one, as `wflsim compare` prints it."""
    body = [
        [*(_word(str(row[key])) for key in joined.keys), _word(str(row["against"])), _word(str(row["policy"])),
         Entry(str(row["common_seeds"]), int(row["common_seeds"])), Entry(saving(row), float(row["saved"])),
         _word("yes" if row["told_apart"] else "no")]
        for row in records_of(joined.pairs)
    ]  # fmt: skip
    note = (
        "Energy that the best policy of a regime saves (geometric mean over common seeds and its 95 % interval). Told "
        "apart: the interval excludes 0. Folders share a regime when their scenarios differ in nothing but name, seeds "
        "and policies."
    )
    names = [*joined.keys, "best", "against", "common_seeds", "saved", "told_apart"]
    heads = [*joined.keys, "best", "against", "common seeds", "saves", "told apart"]
    return Table("pairs", "Paired differences", note, names, heads, [False] * len(names), body)


def _floor(series: Series) -> dict[str, float]:
    floor = noise_floor(series.folder, series.row["final_average"])
    return {} if floor is None else {"worst_by_chance": floor}


def sweep_table(sweep: Sweep, prefix: str) -> Table:
    """One row per regime and policy of a sweep."""
    columns = [entry for entry in (*COSTS, *FINALS, *DETAILS) if entry[0] in sweep.summary]
    body = [
        [*(_word(str(row[key])) for key in sweep.keys), _word(str(row["policy"])),
         Entry(str(row["seeds"]), int(row["seeds"])),
         *(_spread(row, name, show) for name, _, show in columns)]
        for row in sweep.summary.to_dict("records")
    ]  # fmt: skip
    note = (
        "Mean over seeds and its 95 % interval. Costs are those to the target; ≥ where a run missed it: that counts "
        "with all it spent, and the mean is a lower bound."
    )
    return _table(f"{prefix}regimes", "All regimes", note, [*sweep.keys, "policy", "seeds"], columns, body)


def tune_table(tune: Tune, prefix: str) -> Table:
    """One row per policy and regime of a tuning map: tau* and what it costs."""
    body = []
    for row in tune.map.to_dict("records"):
        unit = str(row.get("unit", ""))
        within = "" if row.get("within5") != row.get("within5") else str(row.get("within5", ""))
        edge = "at the edge" if row["edge"] else ""
        body.append(
            [*(_word(str(row[key])) for key in tune.keys), _word(str(row["policy"])),
             Entry(count(row["tau_star"]) if np.isfinite(row["tau_star"]) else "none", row["tau_star"]),
             *(_word(str(row[column])) for column in tune.knobs),
             _word(within), _word(edge), _spread(row, "cost", partial(cost_text, unit=unit)),
             _spread(row, "cost_unseen", partial(cost_text, unit=unit)),
             Entry(percent(row["p_reach"]), row["p_reach"]), _word(row["could_win"])]
        )  # fmt: skip
    names = [*tune.keys, "policy", "tau_star", *tune.knobs, "within5", "edge", "cost", "cost_unseen", "p_reach",
             "could_win"]  # fmt: skip
    heads = [*map(short_key, tune.keys), "policy", "τ*", *map(short_key, tune.knobs), "τ within 5 %", "edge",
             "cost", "cost on unseen seeds", "P(reach)", "could still win"]  # fmt: skip
    spread = [name.startswith("cost") for name in names]
    note = (
        "Cost and its 95 % interval: on the seeds that chose τ*, where a winner looks cheaper than it is, and on seeds "
        "that did not choose it. “Could still win”: cut off by stop.rounds while cheaper or surer."
    )
    return Table(f"{prefix}map", "τ* in every regime", note, names, heads, spread, body)


def _table(
    id: str, title: str, note: str, fixed: list[str], columns: Sequence[tuple[str, str, Show]], rows: list[list[Entry]]
) -> Table:
    names = [*fixed, *(name for name, _, _ in columns)]
    heads = [*map(short_key, fixed), *(head for _, head, _ in columns)]
    return Table(id, title, note, names, heads, [False] * len(fixed) + [True] * len(columns), rows)


def _spread(row: dict[Any, Any], name: str, show: Show) -> Entry:
    value, low, high = (float(row.get(column, np.nan)) for column in (name, f"{name}_low", f"{name}_high"))
    bounds = _bounds(show(value), show(low), show(high)) if np.isfinite(low) else ""
    text = f"≥ {show(value)}" if name in TO_TARGET and is_bound(row) else show(value)
    return Entry(text, value, bounds, low, high)


def _bounds(mean: str, low: str, high: str) -> str:
    """The unit once, where mean and bounds share it: 11.9 J [8.55, 15.2]."""
    if len({text.partition(" ")[2] for text in (mean, low, high)}) == 1:
        low, high = low.partition(" ")[0], high.partition(" ")[0]
    return f"[{low}, {high}]"


def _word(text: str) -> Entry:
    return Entry(text, text)
