"""What came out, in reports/proof.

mutants.csv has a line per mutant, mutants.md the rates and every survivor with its change.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

KILLED = ("killed", "timeout")


@dataclass(frozen=True)
class Verdict:
    """One mutant's fate; a line of the CSV."""

    package: str
    file: str
    line: int
    function: str
    operator: str
    before: str
    after: str
    fate: str
    """killed, timeout (counts as killed), survived, equivalent."""
    by: str
    """The test that failed; for an equivalent one, why no input can show it."""
    key: str


def interval(hits: int, tries: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson: the rates that would not make this count surprising on either side."""
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, tries - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, tries - hits)) if hits < tries else 1.0
    return low, high


def write(folder: Path, verdicts: Sequence[Verdict], diffs: dict[str, list[str]], seed: int) -> None:
    """Both files."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "mutants.csv").open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=list(Verdict.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(verdict) for verdict in verdicts)
    (folder / "mutants.md").write_text(page(verdicts, diffs, seed), encoding="utf-8")


def read(path: Path) -> list[Verdict]:
    """The CSV as it was written."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return [Verdict(**{**row, "line": int(row["line"])}) for row in csv.DictReader(lines)]  # type: ignore[arg-type]


def rates(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    """Per package and for all together: how many, how many killed, the rate without equivalent ones, its interval."""
    rows: list[dict[str, object]] = []
    packages = list(dict.fromkeys(verdict.package for verdict in verdicts))
    for package in [*packages, "all"]:
        own = [verdict for verdict in verdicts if package in (verdict.package, "all")]
        same = sum(verdict.fate == "equivalent" for verdict in own)
        killed, tried = sum(verdict.fate in KILLED for verdict in own), len(own) - same
        low, high = interval(killed, tried)
        rate = killed / tried if tried else float("nan")
        rows.append({"package": package, "drawn": len(own), "equivalent": same, "killed": killed,
                     "survived": tried - killed, "rate": rate, "low": low, "high": high})  # fmt: skip
    return rows


def page(verdicts: Sequence[Verdict], diffs: dict[str, list[str]], seed: int) -> str:
    """The Markdown page."""
    lines = [
        "# Errors put into the source, and whether a test noticed",
        "",
        f"Made by `make mutants` (studies/mutants, seed {seed}): a measurement, repeated when source or tests",
        "change. One small error at a time, first on the tests that touch its line, then, if none fails, on all fast",
        "tests; slow tests are not asked. The rate leaves out changes that no input can show (each with its reason in",
        "studies/mutants/reasons.csv); its interval is Clopper-Pearson, 95 %.",
        "",
        "| package | drawn | equivalent | killed | survived | rate | interval |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rates(verdicts):
        lines.append(
            f"| {row['package']} | {row['drawn']} | {row['equivalent']} | {row['killed']} | {row['survived']} "
            f"| {row['rate']:.1%} | {row['low']:.1%} to {row['high']:.1%} |"
        )
    for title, fate in (("Survivors", "survived"), ("Equivalent", "equivalent")):
        lines += ["", f"## {title}", ""]
        chosen = [verdict for verdict in verdicts if verdict.fate == fate]
        if not chosen:
            lines.append("None.")
        for verdict in chosen:
            lines += [
                f"**{verdict.package}**, `{verdict.file}:{verdict.line}` {verdict.function} "
                f"({verdict.operator}): {verdict.by or 'open'}",
                "", "```diff", *diffs.get(verdict.key, []), "```", "",
            ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"
