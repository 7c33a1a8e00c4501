"""Which mutants are tried: the packages, and a sample of each that is drawn by a committed seed.

First a line is drawn, then a change on that line, so that a table of 40 constants does not outweigh an `if`. Every
mutant's rank is a hash of the seed and of what is changed into what in which function, not of line numbers or file
names: editing one function or moving a module leaves the draw elsewhere as it was.
"""

from __future__ import annotations

import ast
import csv
import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path

from studies.mutants.operators import Mutation, candidates, is_another_program

SEED = 20261118
REASONS = Path(__file__).with_name("reasons.csv")
PACKAGES = {
    "policies": ["policies"],
    "world": ["world"],
    "learning": ["learning"],
    "compress": ["compress"],
    "simulation": ["simulation", "target.py"],
    "scenario": ["scenario", "spec.py", "units.py", "errors.py", "door.py", "imports.py"],
    "results": ["results", "files.py", "records.py", "exchange.py", "wire.py", "rng.py"],
    "analysis": ["analysis"],
    "experiments": ["experiments"],
    "tune": ["tune"],
    "report": ["report"],
    "cli": ["cli"],
    "testing": ["testing"],
}
"""Today's packages, as files and folders below wflsim/; `forgotten` names a file that is in none."""
UNTRIED = {"__init__.py", "__main__.py"}
"""Directly below wflsim/: names that are looked up on first use, and a call of main."""


@dataclass(frozen=True)
class Mutant:
    """One mutation of one file."""

    package: str
    file: str
    """Below the root, with slashes."""
    mutation: Mutation
    ordinal: int
    """Which one of equal changes in the same function."""
    source: bytes = field(repr=False)

    @property
    def key(self) -> str:
        """What is changed into what, and where: stays the same while the rest of the file changes."""
        change = self.mutation
        parts = (change.function, change.operator, change.before, change.after, str(self.ordinal))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def rank(self) -> str:
        return hashlib.sha256(f"{SEED} {self.key}".encode()).hexdigest()

    @property
    def digest(self) -> str:
        """Digest of the changed file as a program: comments and docstrings may be rewritten without a new trial."""
        return program_digest(self.changed)

    @property
    def changed(self) -> bytes:
        return self.mutation.apply(self.source)

    @property
    def last_line(self) -> int:
        return self.mutation.line + self.mutation.before.count("\n")

    def diff(self) -> list[str]:
        """The changed lines, before and after."""
        mutation = self.mutation
        start = self.source.rfind(b"\n", 0, mutation.start) + 1
        end = self.source.find(b"\n", mutation.end)
        before = self.source[start:end].decode()
        after = (
            self.source[start : mutation.start] + mutation.after.encode() + self.source[mutation.end : end]
        ).decode()
        return [f"- {line}" for line in before.splitlines()] + [f"+ {line}" for line in after.splitlines()]


@cache
def program_digest(source: bytes) -> str:
    """Digest of what Python makes of a source file, without comments, docstrings and line numbers."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None), getattr(node, "finalbody", None)):
            if isinstance(body, list):
                body[:] = [each for each in body if not _is_text(each)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def _is_text(statement: ast.AST) -> bool:
    """Whether a statement is a docstring, or a string that describes the field above it."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def files_of(root: Path, package: str) -> list[Path]:
    """Source files of a package, sorted."""
    found: list[Path] = []
    for name in PACKAGES[package]:
        path = root / "wflsim" / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
    return found


def forgotten(root: Path) -> list[str]:
    """Source files that belong to no package of the table."""
    known = {path for package in PACKAGES for path in files_of(root, package)}
    known |= {root / "wflsim" / name for name in UNTRIED}
    return sorted(path.relative_to(root).as_posix() for path in (root / "wflsim").rglob("*.py") if path not in known)


def drawn(root: Path, package: str, number: int) -> list[Mutant]:
    """The first `number` mutants of the package in the order of the seed: one per line."""
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    seen: Counter[tuple[str, str, str, str]] = Counter()
    for path in files_of(root, package):
        source, file = path.read_bytes(), path.relative_to(root).as_posix()
        for mutation in candidates(source):
            same = (mutation.function, mutation.operator, mutation.before, mutation.after)
            mutant = Mutant(package, file, mutation, seen[same], source)
            seen[same] += 1
            by_line[file, mutation.line].append(mutant)
    ranked = [sorted(mutants, key=lambda mutant: mutant.rank) for mutants in by_line.values()]
    found: list[Mutant] = []
    for line in sorted(ranked, key=lambda mutants: mutants[0].rank):
        if len(found) == number:
            break
        found += islice((mutant for mutant in line if is_another_program(mutant.source, mutant.mutation)), 1)
    return found


Change = tuple[str, str, str, str]
"""Function, operator, before, after."""


def reasons(kinds: tuple[str, ...]) -> dict[Change, str]:
    """Committed reasons: why no input can show a change (`equivalent`), or why one survives (`survivor`)."""
    with REASONS.open(encoding="utf-8", newline="") as lines:
        return {
            (row["function"], row["operator"], row["before"], row["after"]): row["reason"]
            for row in csv.DictReader(lines)
            if row["kind"] in kinds
        }


def reason_of(mutant: Mutant, known: dict[Change, str]) -> str | None:
    """What somebody has written about this one."""
    change = mutant.mutation
    return known.get((change.function, change.operator, change.before, change.after))
