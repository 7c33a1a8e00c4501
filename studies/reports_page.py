"""Writes reports/README.md, the front page of all evidence: claims with their figures, then where each file comes from.

    python -m studies.reports_page

A result is `derived` (a test builds it again from committed inputs), `measured` (a computation or a timing that took
long or depends on the machine: the command and the day stand beside it), `copied` from a publication, or `written`.
The claims are in `studies.evidence`, the list of files in reports/provenance.csv.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from studies import evidence

REPORTS = Path(__file__).resolve().parents[1] / "reports"
FRONT = """# Evidence

For each claim that a reader may doubt one line: the figure (from the committed results, when this page is made), the
test that holds what is behind it, and the command that makes it again.

"""
HEAD = """

## Where each committed result comes from

Made from [provenance.csv](provenance.csv) by `python -m studies.reports_page`. *Derived*: the test named builds it
again from committed inputs. *Measured*: computed on the day given by the command given; timings depend on the machine.
*Copied*: from a publication. *Written*: by hand, from the tables beside it.

| files | | made by | on | held by |
|---|---|---|---|---|
"""


def page() -> str:
    """The text of reports/README.md."""
    table = pd.read_csv(REPORTS / "provenance.csv", dtype=str, keep_default_na=False)
    lines = []
    for row in table.to_dict("records"):
        test = f"`{row['held_by'].split('::')[-1]}`" if row["held_by"] else ""
        lines.append(f"| `{row['files']}` | {row['kind']} | {row['made_by']} | {row['on']} | {test} |")
    return FRONT + "\n".join(evidence.lines()) + HEAD + "\n".join(lines) + "\n"


def main() -> None:
    (REPORTS / "README.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
