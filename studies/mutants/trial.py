"""Tries one mutant: a forked child runs tests in a copy of the repository in which one file is changed.

The parent has imported torch and everything else that is slow, but not wflsim, so a child costs the import of wflsim
and of the test files and then the tests themselves. The working tree is never touched.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SLOW_IMPORTS = (
    "torch", "numpy", "scipy.stats", "scipy.special", "scipy.optimize", "pandas", "pydantic", "simpy", "yaml",
    "rich.console", "matplotlib.pyplot", "plotly.graph_objects", "sklearn.datasets", "jinja2", "typer",
    "joblib", "hypothesis", "pytest",
)  # fmt: skip
IMPORTED_BEFORE = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
BROKEN = 70
"""Exit code of a child in which not the tests failed but this module."""


@dataclass(frozen=True)
class Ending:
    """How a run of tests ended."""

    verdict: str
    """passed, failed, timeout, crashed (the tests could not even be collected, or the process died)."""
    test: str
    """The first that failed."""
    message: str


class Copy:
    """A copy of the repository's files in which one source file at a time is changed."""

    def __init__(self, root: Path) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="wflsim-mutants-"))
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=True,
        )
        for name in listed.stdout.decode().split("\0"):
            if name and (root / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, self.root / name)

    def put(self, file: str, content: bytes) -> None:
        """Write the file, and forget its bytecode: two versions within a second look alike to Python."""
        path = self.root / file
        path.write_bytes(content)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def import_what_is_slow() -> None:
    """Once, in the parent."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["MPLBACKEND"] = "Agg"
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    assert not any(name.split(".")[0] == "wflsim" for name in sys.modules)


def run_tests(copy: Copy, tests: Sequence[str], without: Sequence[str], limit_s: float) -> Ending:
    """Run these tests in this order up to the first failure; an empty list: all fast ones but `without`."""
    result = copy.root / "ending.json"
    result.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_child(copy.root, list(tests), set(without), result)
    end, parent = time.monotonic() + limit_s, os.getppid()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if os.getppid() != parent:  # whoever started us is gone: leave nothing behind
            _kill(child)
            sys.exit(1)
        if time.monotonic() > end:
            _kill(child)
            os.waitpid(child, 0)
            return Ending("timeout", "", f"not finished after {limit_s:.0f} s")
        time.sleep(0.02)
    _kill(child)  # what the tests have left behind: the child leads a process group of its own
    if os.waitstatus_to_exitcode(status) == BROKEN:
        log = (copy.root / "pytest.log").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"pytest could not be run in {copy.root}: {log[-2000:]}")
    if not result.exists():
        return Ending("crashed", "", f"the process ended with status {status}")
    return Ending(**json.loads(result.read_text(encoding="utf-8")))


def _kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


class _Chosen:
    """A pytest plugin: keeps the wanted tests, in the wanted order, and remembers the first failure."""

    def __init__(self, tests: list[str], without: set[str]) -> None:
        self._rank = {test: number for number, test in enumerate(tests)}
        self._without = without
        self.collected = 0
        self.failed = ("", "")

    def pytest_collection_modifyitems(self, items: list) -> None:  # type: ignore[type-arg]
        if self._rank:
            items[:] = sorted(
                (item for item in items if item.nodeid in self._rank), key=lambda item: self._rank[item.nodeid]
            )
        else:
            items[:] = [item for item in items if item.nodeid not in self._without]
        self.collected = len(items)

    def pytest_runtest_logreport(self, report) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        if report.failed and not self.failed[0]:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed = (report.nodeid, crash.message if crash else report.longreprtext[-300:])

    def pytest_collectreport(self, report) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
        if report.failed and not self.failed[0]:
            self.failed = (report.nodeid, report.longreprtext[-300:])


def _be_child(root: Path, tests: list[str], without: set[str], result: Path) -> None:
    """Never returns."""
    code = BROKEN
    try:
        os.setsid()
        os.chdir(root)
        log = os.open(root / "pytest.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.path.insert(0, str(root))
        os.environ["PYTHONPATH"] = str(root)
        os.environ["CI"] = "true"  # Hypothesis draws the same examples every time
        import pytest

        chosen = _Chosen(tests, without)
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))
        options = ["-x", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", IMPORTED_BEFORE]
        status = pytest.main([*options, *files], plugins=[chosen])
        test, message = chosen.failed
        verdict = ("failed" if "::" in test else "crashed") if test else "passed" if status in (0, 5) else "crashed"
        result.write_text(json.dumps({"verdict": verdict, "test": test, "message": message[:500]}), encoding="utf-8")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
