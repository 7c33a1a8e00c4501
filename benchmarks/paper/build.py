"""Everything in reports/paper/ that follows from the committed results: tables, figures, and one page of conclusions.

    make paper    # or: python benchmarks/paper/build.py; trains nothing
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import claims
import figures
import pandas as pd
import search
import study
import tables
import theory

WORDS = Path(__file__).with_name("words.md")
"""What the numbers mean, written by hand; the numbers themselves come from the code below."""


def verdicts(table: pd.DataFrame) -> Iterator[str]:
    found = [
        claims.best_worst(table),
        claims.most_even(table),
        claims.fedavg_last(table),
        claims.rounds_fall(),
        *claims.energy_claims(),
    ]
    yield "| the paper says | here | our numbers |"
    yield "|---|---|---|"
    for claim in found:
        yield f"| {claim.says} | **{claim.verdict}** | {claim.because} |"


def distances(table: pd.DataFrame) -> Iterator[str]:
    yield "| table | mean distance, average | mean distance, worst | DRDM best worst: paper | ours | seeds |"
    yield "|---|---|---|---|---|---|"
    for row in tables.differences(table).itertuples():
        gaps = [f"{value:.1f}" if value == value else "" for value in (row.gap_average, row.gap_worst)]
        seeds = f"{row.least_seeds}" if row.least_seeds == row.most_seeds else f"{row.least_seeds} to {row.most_seeds}"
        counts = f"{row.drdm_best_worst_paper} of {row.settings} | {row.drdm_best_worst_ours} of {row.settings}"
        yield f"| {row.data}, {str(row.table).removeprefix('table:')} | {' | '.join(gaps)} | {counts} | {seeds} |"


def frozen() -> Iterator[str]:
    """What the search found, as the scenarios have it."""
    yield "| data set | " + " | ".join(study.ALGORITHMS.values()) + " |"
    yield "|---|" + "---|" * len(study.ALGORITHMS)
    for data, name in study.DATA_SETS.items():
        cells = []
        for policy in study.ALGORITHMS:
            trials = search.score(data, policy)
            chosen = json.loads(str(trials.index[0]))
            words = ", ".join(f"{key} {value}" for key, value in chosen.items() if key != "loss")
            cells.append(f"{words} ({100 * trials.iloc[0]:.1f} %, {len(trials)} trials)")
        yield f"| {name} | " + " | ".join(cells) + " |"


def page(table: pd.DataFrame) -> str:
    """words.md with its placeholders filled."""
    parts = {"VERDICTS": verdicts(table), "DISTANCES": distances(table), "FROZEN": frozen()}
    text = WORDS.read_text()
    for name, lines in parts.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    return text


def main() -> None:
    tables.main()
    figures.main()
    theory.draw()
    (study.REPORT / "README.md").write_text(page(tables.beside()))
    print(f"built {study.REPORT.relative_to(study.ROOT)}/README.md, tables.md, cells.csv and the figures")


if __name__ == "__main__":
    main()
