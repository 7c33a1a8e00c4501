"""Tables for the page, for CSV and for LaTeX: the same cells, shown three ways."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from wflsim.answer import duration, is_bound, noise_floor, percent, si
from wflsim.joining import Comparison, saving
from wflsim.report.regimes import Sweep, Tune, short_key
from wflsim.report.series import Series
from wflsim.report.wording import cost_text
from wflsim.tables import COSTS as TO_TARGET

Show = Callable[[float], str]


def joules(value: float) -> str:
    return si(value, "J")


def bits(value: float) -> str:
    return si(value, "bit")


def count(value: float) -> str:
    return "-" if not np.isfinite(value) else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


# what is asked first stands first: a wide table is cut off at the right
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
class Cell:
    """What is read, what is sorted by, and the interval."""

    text: str
    value: float | str
    range: str = ""
    low: float = np.nan
    high: float = np.nan


@dataclass(frozen=True)
class Table:
    """`names` are the CSV columns; a column with `spread` true has two more, _low and _high."""

    id: str
    title: str
    note: str
    names: list[str]
    heads: list[str]
    spread: list[bool]
    rows: list[list[Cell]]

    def csv(self) -> str:
        """Full precision."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([n for name, wide in zip(self.names, self.spread, strict=True) for n in _columns(name, wide)])
        for row in self.rows:
            writer.writerow([v for cell, wide in zip(row, self.spread, strict=True) for v in _values(cell, wide)])
        return out.getvalue()

    def latex(self) -> str:
        """booktabs; the interval in brackets behind the mean."""
        align = "".join("r" if wide else "l" for wide in self.spread)
        lines = [rf"% needs \usepackage{{booktabs}}; {_tex(self.note)}", rf"\begin{{tabular}}{{{align}}}", r"\toprule"]
        lines += [" & ".join(map(_tex, self.heads)) + r" \\", r"\midrule"]
        for row in self.rows:
            lines.append(" & ".join(_tex(f"{cell.text} {cell.range}".strip()) for cell in row) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def comparison(series: Sequence[Series]) -> Table:
    """Policies (of one folder or several) side by side."""
    rows = [{**each.row, **_floor(each)} for each in series]
    columns = [entry for entry in (*COSTS, *FINALS, *DETAILS) if any(entry[0] in row for row in rows)]
    body = [
        [
            _word(each.label),
            Cell(str(row["seeds"]), int(row["seeds"])),
            *(_cell(row, name, show) for name, _, show in columns),
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
    """What the best policy of each regime saves against every other one: the table of `wflsim compare`."""
    body = [
        [*(_word(str(row[key])) for key in joined.keys), _word(str(row["against"])), _word(str(row["policy"])),
         Cell(str(row["common_seeds"]), int(row["common_seeds"])), Cell(saving(row), float(row["saved"])),
         _word("yes" if row["told_apart"] else "no")]
        for row in cast("list[dict[str, Any]]", joined.pairs.to_dict("records"))
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
    """Every regime of every policy."""
    columns = [entry for entry in (*COSTS, *FINALS, *DETAILS) if entry[0] in sweep.summary]
    body = [
        [*(_word(str(row[key])) for key in sweep.keys), _word(str(row["policy"])),
         Cell(str(row["seeds"]), int(row["seeds"])),
         *(_cell(row, name, show) for name, _, show in columns)]
        for row in sweep.summary.to_dict("records")
    ]  # fmt: skip
    note = (
        "Mean over seeds and its 95 % interval. Costs are those to the target; ≥ where a run missed it: that counts "
        "with all it spent, and the mean is a lower bound."
    )
    return _table(f"{prefix}regimes", "All regimes", note, [*sweep.keys, "policy", "seeds"], columns, body)


def tune_table(tune: Tune, prefix: str) -> Table:
    """tau* of every policy in every regime."""
    body = []
    for row in tune.map.to_dict("records"):
        unit = str(row.get("unit", ""))
        within = "" if row.get("within5") != row.get("within5") else str(row.get("within5", ""))
        edge = "at the edge" if row["edge"] else ""
        body.append(
            [*(_word(str(row[key])) for key in tune.keys), _word(str(row["policy"])),
             Cell(count(row["tau_star"]) if np.isfinite(row["tau_star"]) else "none", row["tau_star"]),
             _word(within), _word(edge), _cell(row, "cost", partial(cost_text, unit=unit)),
             _cell(row, "cost_unseen", partial(cost_text, unit=unit)),
             Cell(percent(row["p_reach"]), row["p_reach"]), _word(row["could_win"])]
        )  # fmt: skip
    names = [*tune.keys, "policy", "tau_star", "within5", "edge", "cost", "cost_unseen", "p_reach", "could_win"]
    heads = [*map(short_key, tune.keys), "policy", "τ*", "τ within 5 %", "edge", "cost", "cost on unseen seeds",
             "P(reach)", "could still win"]  # fmt: skip
    spread = [name.startswith("cost") for name in names]
    note = (
        "Cost and its 95 % interval: on the seeds that chose τ*, where a winner looks cheaper than it is, and on seeds "
        "that did not choose it. “Could still win”: cut off by stop.rounds while cheaper or surer."
    )
    return Table(f"{prefix}map", "τ* in every regime", note, names, heads, spread, body)


def _table(
    id: str, title: str, note: str, fixed: list[str], columns: Sequence[tuple[str, str, Show]], rows: list[list[Cell]]
) -> Table:
    names = [*fixed, *(name for name, _, _ in columns)]
    heads = [*map(short_key, fixed), *(head for _, head, _ in columns)]
    return Table(id, title, note, names, heads, [False] * len(fixed) + [True] * len(columns), rows)


def _cell(row: dict[Any, Any], name: str, show: Show) -> Cell:
    value, low, high = (float(row.get(column, np.nan)) for column in (name, f"{name}_low", f"{name}_high"))
    bounds = _bounds(show(value), show(low), show(high)) if np.isfinite(low) else ""
    text = f"≥ {show(value)}" if name in TO_TARGET and is_bound(row) else show(value)
    return Cell(text, value, bounds, low, high)


def _bounds(mean: str, low: str, high: str) -> str:
    """The unit once, where mean and bounds share it: 11.9 J [8.55, 15.2]."""
    if len({text.partition(" ")[2] for text in (mean, low, high)}) == 1:
        low, high = low.partition(" ")[0], high.partition(" ")[0]
    return f"[{low}, {high}]"


def _word(text: str) -> Cell:
    return Cell(text, text)


def _columns(name: str, wide: bool) -> list[str]:
    return [name, f"{name}_low", f"{name}_high"] if wide else [name]


def _values(cell: Cell, wide: bool) -> list[Any]:
    values = [cell.value, cell.low, cell.high] if wide else [cell.value]
    return ["" if isinstance(value, float) and not np.isfinite(value) else value for value in values]


def _tex(text: str) -> str:
    escapes = {
        "\\": r"\textbackslash{}",
        "τ": r"$\tau$",
        "λ": r"$\lambda$",
        "≥": r"$\geq$",
        "·": r"$\cdot$",
        "^": r"\^{}",
        "~": r"\~{}",
    }
    return "".join(escapes.get(c, rf"\{c}" if c in "&%$#_{}" else c) for c in text)
