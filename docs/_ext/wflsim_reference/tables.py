"""Page of every column of every table that wflsim writes."""

from __future__ import annotations

from wflsim.records import WRITTEN
from wflsim.results.columns import DERIVED, written_tables
from wflsim_reference.markdown import code, docstring, prose, table

ABOUT = {
    "runs.csv": "A line per policy and seed; in a sweep per regime, policy and seed. `Results.runs` in Python.",
    "summary.csv": "A line per policy, in a sweep per regime and policy; means over seeds. Every mean has two "
    "columns more, `_low` and `_high`: its 95 % interval, empty where there is none. `Results.summary` in Python.",
    "world.csv": "A line per policy and seed about time and radio. `Results.world` in Python.",
    "partition-seed-N.csv": "Who holds how many samples of which class, a line per client and class.",
    "map.csv": "From `wflsim tune`: the choice in every regime. Costs have `_low` and `_high` beside them. Here and in "
    "the next three tables, every knob besides tau has a column, named `knobs.` and its key.",
    "costs.csv": "From `wflsim tune`: every candidate in every regime. Costs have `_low` and `_high` beside them.",
    "curves.csv": "From `wflsim tune`: how many rounds each training took.",
    "front.csv": "From `wflsim tune` with the objective pareto: the settings that no other beats in energy and time, "
    "the fastest first.",
}


def pages() -> dict[str, str]:
    """One page for all tables."""
    parts = [
        "# Tables and their columns\n",
        "All tables are CSV with one header line. Quantities are SI: `_s` seconds, `_j` joules, `_bits` bits, "
        "`_bps` bit/s, `_db` decibels. An empty field means that there is no such value. `Results` has them as pandas "
        "frames, with the columns `policy` and `seed` in front of those that every run writes.\n",
    ]
    for name, columns in written_tables().items():
        frame = f" `Results.{name.removesuffix('.csv')}` in Python."
        parts += [f"## {name}\n", docstring(WRITTEN[name].__doc__ or "").strip() + frame + "\n", _table(columns)]
    for name, columns in DERIVED.items():
        parts += [f"## {name}\n", ABOUT[name] + "\n", _table(columns)]
    return {"tables.md": "\n".join(parts)}


def _table(columns: dict[str, str]) -> str:
    return table(["column", "meaning"], [[code(name), prose(words)] for name, words in columns.items()])


def undescribed() -> list[str]:
    """Columns without a meaning."""
    return [
        f"{name}: {column}"
        for name, columns in {**written_tables(), **DERIVED}.items()
        for column, words in columns.items()
        if not words
    ]
