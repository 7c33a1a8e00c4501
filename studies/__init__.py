"""Science about the paper, the policies and the program itself; no part of the program, and no measurement of speed.

Each file is one study and says on top which question it answers, by which command (`python -m studies.winner`, in the
root of the repository) and which files below reports/ it writes. `paper/` reproduces the DRDM paper, `policies/`
compares the policies, `mutants/` tests the tests. Measurements of speed are in benchmarks/.
"""

from pathlib import Path

import pandas as pd


def leave(found: pd.DataFrame, page: str, place: Path) -> None:
    """Write what a study found as a table (.csv) and as a page (.md), and print the page."""
    place.parent.mkdir(parents=True, exist_ok=True)
    found.to_csv(place.with_suffix(".csv"), index=False)
    place.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)
