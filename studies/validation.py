"""How closely wflsim meets what its tests compare it with: reports/proof/validation.csv, for the page of validation.

    python -m studies.validation [--workers 2]

Runs the fast tests of the rooms that hold the science, and notes every comparison with a tolerance that they make
(`pytest.approx`, `numpy.testing.assert_allclose`, `numpy.allclose`, `torch.testing.assert_close`, `torch.allclose`):
how many numbers a test compares, and the pair that lies furthest apart. A deviation is relative to the expected number,
or absolute where that is 0. Tests that fail are left out, and said.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "reports/proof/validation.csv"
ROOMS = ("world", "policies", "learning", "simulation", "analysis", "tune")
PLACE = "WFLSIM_VALIDATION"
"""Environment variable with the folder that the test processes write their comparisons into."""
COLUMNS = ["test", "compared", "found", "expected", "deviation", "relative"]

_seen: list[tuple[float, float]] = []
"""Pairs (found, expected) that the present test compared."""


def deviation(found: float, expected: float) -> tuple[float, bool]:
    """How far the two are apart, and whether that is relative to the expected number."""
    if found == expected:
        return 0.0, expected != 0
    return (abs(found / expected - 1), True) if expected else (abs(found), False)


def note(found: Any, expected: Any) -> None:
    """Note the comparison of two numbers or arrays, if they are finite numbers of one shape."""
    try:
        left, right = np.broadcast_arrays(np.asarray(found, dtype=float), np.asarray(expected, dtype=float))
    except (TypeError, ValueError, RuntimeError):
        return
    both = np.isfinite(left) & np.isfinite(right)
    _seen.extend(zip(left[both].tolist(), right[both].tolist(), strict=True))


def pytest_configure() -> None:
    """Let every comparison with a tolerance be noted before it is made."""
    if PLACE not in os.environ:
        return
    import torch

    scalar: Any = type(pytest.approx(1.0))
    plain = scalar.__eq__

    def compare(self: Any, actual: object) -> bool:
        if isinstance(self.expected, int | float | np.number):
            note(actual, self.expected)
        return bool(plain(self, actual))

    scalar.__eq__ = compare
    for home, name in (
        (np.testing, "assert_allclose"), (np, "allclose"), (torch.testing, "assert_close"), (torch, "allclose")
    ):  # fmt: skip
        setattr(home, name, _noting(getattr(home, name)))


def _noting(compare: Callable[..., Any]) -> Callable[..., Any]:
    def compared(actual: Any, expected: Any, *more: Any, **named: Any) -> Any:
        note(actual, expected)
        return compare(actual, expected, *more, **named)

    return compared


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """After a test: write down what it compared."""
    report = yield
    if PLACE in os.environ and call.when == "call":
        name = item.nodeid.split("[")[0]
        with (Path(os.environ[PLACE]) / f"{os.getpid()}.jsonl").open("a") as file:
            worst = max(_seen, key=lambda pair: deviation(*pair)[0], default=None)
            file.write(json.dumps([name, report.outcome, len(_seen), worst]) + "\n")  # type: ignore[attr-defined]
        _seen.clear()
    return report


def collect(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """One row per test function that compares numbers, its cases together; and the tests that failed."""
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    failed = {name for name, outcome, _, _ in lines if outcome == "failed"}
    rows: dict[str, list[Any]] = {}
    for name, _, count, worst in sorted(lines, key=str):
        if worst is None or name in failed:
            continue
        far, relative = deviation(*worst)
        known = rows.setdefault(name, [name, 0, *worst, far, relative])
        known[1] += count
        if far > known[4]:
            known[2:] = [*worst, far, relative]
    table = pd.DataFrame([rows[name] for name in sorted(rows)], columns=COLUMNS)
    for column, digits in (("found", 10), ("expected", 10), ("deviation", 2)):
        table[column] = [float(f"{value:.{digits}g}") for value in table[column]]
    return table, sorted(failed)


def main() -> None:
    """Run the tests and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "studies.validation", "-n", str(asked.workers)]
        places = [f"tests/{room}" for room in ROOMS if (ROOT / "tests" / room).exists()]
        subprocess.run([*command, *places], cwd=ROOT, env={**os.environ, PLACE: folder}, check=False)
        table, failed = collect(Path(folder))
    if failed:
        print(f"{len(failed)} tests failed and are left out: {', '.join(failed)}")
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(TABLE, index=False)
    print(f"{len(table)} tests compare {table['compared'].sum()} numbers: {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
