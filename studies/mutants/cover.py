"""Which tests touch which line.

The fast tests are run once under `coverage`, and what they touched is kept as one JSON file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.mutants.watch import SHARED

RC = """[run]
branch = false
parallel = true
data_file = {folder}/lines
source = {root}/wflsim
context = ${{PYTEST_CURRENT_TEST-}}
disable_warnings = dynamic-conflict, no-data-collected, module-not-measured
"""
BATCH = 8
"""Test files that are measured before the map is written again."""
EMPTY: dict[str, Any] = {"files": {}, "seconds": {}, "by_line": {}, "at_import": {}, "failed": []}


@dataclass(frozen=True)
class Touched:
    """Tests by line, and their seconds."""

    seconds: dict[str, float]
    """Of every fast test that passes on the unchanged code."""
    by_line: dict[str, dict[int, list[str]]]
    """File below the root, line, tests."""
    at_import: dict[str, list[int]]
    """Lines that run when the file is imported: any test may depend on them."""
    failed: list[str]
    """Tests that fail on the unchanged code, and can therefore kill nothing."""
    stale: frozenset[str]
    """Files whose lines have changed since they were measured."""

    def tests_of(self, file: str, line: int, last: int) -> list[str]:
        """Tests that run one of these lines.

        For a line that runs at import, or is of a changed file: tests that run anything of the file.
        """
        lines = self.by_line.get(file, {})
        found = {test for number in range(line, last + 1) for test in lines.get(number, ())}
        if not found or file in self.stale or line in self.at_import.get(file, ()):
            found |= {test for tests in lines.values() for test in tests}
        return sorted(found & self.seconds.keys())


def touched(root: Path, folder: Path, workers: int, again: bool = False) -> Touched:
    """Read the map of tests and lines, after measuring the test files that are new or have changed since.

    It is written after every few test files, so that a killed measurement goes on where it was. `again`: measure all.
    """
    kept = folder / "touched.json"
    files = {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for below in ("wflsim", "tests")
        for path in sorted((root / below).rglob("*.py"))
    }
    read: dict[str, Any] = EMPTY | {"files": {name: digest for name, digest in files.items() if _is_source(name)}}
    if kept.exists() and not again:
        read = json.loads(kept.read_text(encoding="utf-8"))
        gone = sorted({test.split("::")[0] for test in read["seconds"]} - files.keys())
        read = _merged(read, EMPTY, gone)
    tests = [
        name
        for name, digest in files.items()
        if Path(name).name.startswith("test_") and read["files"].get(name) != digest
    ]
    for first in range(0, len(tests), BATCH):
        batch = tests[first : first + BATCH]
        print(f"test files {first + 1} to {first + len(batch)} of {len(tests)} under coverage", flush=True)
        read = _merged(read, _measure(root, folder / "cover", batch, workers), batch)
        read["files"].update({name: files[name] for name in batch})
        kept.write_text(json.dumps(read), encoding="utf-8")
    by_line = {file: {int(line): tests for line, tests in lines.items()} for file, lines in read["by_line"].items()}
    stale = frozenset(name for name, digest in files.items() if _is_source(name) and read["files"].get(name) != digest)
    return Touched(read["seconds"], by_line, read["at_import"], read["failed"], stale)


def _is_source(name: str) -> bool:
    return name.startswith("wflsim/")


def _merged(old: dict[str, Any], new: dict[str, Any], tests: list[str]) -> dict[str, Any]:
    """The old map with everything about these test files replaced."""

    def other(test: str) -> bool:
        return test.split("::")[0] not in tests

    by_line: dict[str, dict[str, list[str]]] = {}
    for file in {*old["by_line"], *new["by_line"]}:
        before, after = (
            old["by_line"].get(file, {}),
            {str(line): ids for line, ids in new["by_line"].get(file, {}).items()},
        )
        by_line[file] = {
            line: sorted({*filter(other, before.get(line, [])), *after.get(line, [])}) for line in {*before, *after}
        }
    return {
        "files": old["files"],
        "seconds": {**{test: s for test, s in old["seconds"].items() if other(test)}, **new["seconds"]},
        "by_line": by_line,
        "at_import": {file: sorted({*old["at_import"].get(file, []), *new["at_import"].get(file, [])})
                      for file in {*old["at_import"], *new["at_import"]}},
        "failed": sorted({*filter(other, old["failed"]), *new["failed"]}),
    }  # fmt: skip


def _measure(root: Path, folder: Path, tests: list[str], workers: int) -> dict[str, Any]:
    """Run test files under coverage, every n-th in the n-th of some processes."""
    groups = [tests[first::workers] for first in range(workers) if tests[first::workers]]
    places = [folder / str(number) for number in range(len(groups))]
    processes = [_watch(root, place, group) for place, group in zip(places, groups, strict=True)]
    for code in [process.wait() for process in processes]:
        if code not in (0, 1, 5):  # 1: some tests fail, which is said; 5: all are slow; else: they did not run
            sys.exit(f"the tests cannot be collected on the unchanged code (pytest's exit code {code})")
    found = EMPTY
    for place, group in zip(places, groups, strict=True):
        found = _merged(found, _collect(root, place), group)
    return found


def _watch(root: Path, folder: Path, tests: list[str]) -> subprocess.Popen[bytes]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = folder / "coveragerc"
    config.write_text(RC.format(folder=folder, root=root), encoding="utf-8")
    # A child that is started by a test finds `sitecustomize` in the folder, and measures itself.
    (folder / "sitecustomize.py").write_text("import coverage\ncoverage.process_startup()\n", encoding="utf-8")
    paths = [str(folder), str(root), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "COVERAGE_PROCESS_START": str(config),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "CI": "true",
    }
    command = [sys.executable, "-m", "studies.mutants.watch", str(folder), *tests]
    return subprocess.Popen(command, cwd=root, env=environment, stdout=sys.stderr)


def _collect(root: Path, folder: Path) -> dict[str, Any]:
    from coverage import CoverageData, CoverageException

    tests = json.loads((folder / "tests.json").read_text(encoding="utf-8"))
    users: dict[str, list[str]] = defaultdict(list)
    for test, fixtures in tests["fixtures"].items():
        for fixture in fixtures:
            users[fixture].append(test)
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    at_import: dict[str, set[int]] = defaultdict(set)
    for path in folder.glob("lines.*"):
        data = CoverageData(basename=str(path))
        try:
            data.read()
        except CoverageException:  # of a child that its test has killed
            continue
        for file in data.measured_files():
            name = Path(file).relative_to(root).as_posix()
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    test = context.rsplit(" (", 1)[0].split("|")[0]
                    if not context:
                        at_import[name].add(line)
                    elif context.startswith(SHARED):
                        lines[name][line].update(users[context])
                    elif test in tests["seconds"]:
                        lines[name][line].add(test)
    failed = sorted(set(tests["failed"]))
    return {
        "seconds": {test: second for test, second in tests["seconds"].items() if test not in failed},
        "by_line": {name: {line: sorted(found) for line, found in sorted(by.items())} for name, by in lines.items()},
        "at_import": {name: sorted(found) for name, found in at_import.items()},
        "failed": failed,
    }
