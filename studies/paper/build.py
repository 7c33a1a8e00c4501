"""Builds everything in reports/paper/ that follows from committed runs: tables, figures, one page of conclusions.

    make paper    # or: python -m studies.paper.build; trains nothing
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from studies.paper import claims, figures, open_page, search, study, tables, theory

WORDS = Path(__file__).with_name("words.md")
"""What the numbers mean, written by hand; the numbers themselves come from the code below."""


def verdicts(table: pd.DataFrame) -> Iterator[str]:
    found = [
        claims.best_worst(table),
        claims.most_even(table),
        claims.fedavg_last(table),
        claims.rounds_fall(0.8, {}),
        claims.rounds_fall(0.85, claims.PUBLISHED_ROUNDS),
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
        counts = f"{row.drdm_best_worst_paper} of {row.settings} | {row.drdm_best_worst_ours} of {row.settings_run} run"
        yield f"| {row.data}, {str(row.table).removeprefix('table:')} | {' | '.join(gaps)} | {counts} | {seeds} |"


def frozen() -> Iterator[str]:
    """What the search found, as the scenarios have it."""
    yield "| data set | " + " | ".join(study.ALGORITHMS.values()) + " |"
    yield "|---|" + "---|" * len(study.ALGORITHMS)
    for data, name in study.DATA_SETS.items():
        found = []
        for policy in study.ALGORITHMS:
            trials, best = search.score(data, policy), search.winner(data, policy)
            words = ", ".join(f"{key} {value}" for key, value in json.loads(best).items() if key != "loss")
            found.append(f"{words} ({100 * trials[best]:.1f} %, {len(trials)} trials)")
        yield f"| {name} | " + " | ".join(found) + " |"


def longer(table: pd.DataFrame) -> Iterator[str]:
    """When the long runs pass what the paper has, and where they end."""
    yield f"| | the paper | our first evaluated round with as much | ours at the end ({study.LONG_ROUNDS} rounds) |"
    yield "|---|---|---|---|"
    for one in claims.passings(table):
        rounds = ", ".join("never" if first != first else f"{first:.0f}" for first in one.rounds)
        last = ", ".join(
            f"{percent:.1f}" + (f" (diverged in round {ended:.0f})" if ended == ended else "")
            for percent, ended in zip(one.last, one.diverged, strict=True)
        )
        what = f"{study.ALGORITHMS[one.policy]}, {tables.TITLES[one.measure]}"
        yield f"| {what} | {one.published} | {rounds} | {last} |"


def page(table: pd.DataFrame) -> str:
    """words.md with its placeholders filled."""
    parts = {
        "VERDICTS": verdicts(table), "DISTANCES": distances(table), "FROZEN": frozen(), "LONGER": longer(table),
        "OPEN": open_page.lines(),
    }  # fmt: skip
    text = WORDS.read_text()
    for name, lines in parts.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    return text


def headline(table: pd.DataFrame) -> str:
    """The README's sentence."""
    entries = [study.Entry("kmnist", 0.1, 0.0, policy) for policy in ("drdm", "fedavg")]
    rows = {entry.policy: tables.of(table, entry).loc["worst"] for entry in entries}
    parts = []
    for policy, row in rows.items():
        parts.append(f"{row['ours']:.1f} % [{row['low']:.1f}, {row['high']:.1f}] with {study.ALGORITHMS[policy]}")
    best = open_page.read().query("accounting == 'full'")
    ends = [best.iloc[0], best.iloc[-1]]
    places = [f"{open_page.shown(one)} at {one['radio.snr']} and {one['radio.bandwidth']}" for one in ends]
    return (
        f"Thirty clients with unlike Kuzushiji-MNIST images train a CNN: after 60 rounds the worst of them has "
        f"{' and '.join(parts)} ({rows['drdm']['seeds']} seeds, 95 % intervals). The tau that brings every "
        f"client to 80 % for the least energy falls from {' to '.join(places)}."
    )


def fill_readme(table: pd.DataFrame) -> None:
    """Between its markers."""
    file = study.ROOT / "README.md"
    quote = textwrap.fill(headline(table), 116, initial_indent="> ", subsequent_indent="> ", break_on_hyphens=False)
    pattern = r"(?<=<!-- headline -->\n)(.*?)(?=\n<!-- /headline -->)"
    file.write_text(re.sub(pattern, lambda _: quote, file.read_text(), flags=re.DOTALL))


def main() -> None:
    tables.main()
    figures.main()
    theory.draw()
    table = tables.beside()
    (study.REPORT / "README.md").write_text(page(table))
    fill_readme(table)
    print(f"built {study.REPORT.relative_to(study.ROOT)}: page, tables, figures; and the README's headline")


if __name__ == "__main__":
    main()
