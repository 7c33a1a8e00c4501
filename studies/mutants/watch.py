"""A pytest plugin that writes down, per test, which lines of wflsim it ran and how long it took.

Contexts of `coverage` are test ids; a fixture that several tests share has a context of its own, because its lines run
once but decide for all of them. Child processes inherit PYTEST_CURRENT_TEST, and `cover.RC` makes it their context.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

SHARED = "shared fixture "


class Watch:
    """Switches coverage's context with every test and shared fixture."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}
        self.fixtures: dict[str, list[str]] = {}
        self.failed: list[str] = []
        self._test = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._switch(item.nodeid)
        self.fixtures[item.nodeid] = [f"{SHARED}{definition}" for definition in self._shared(item)]
        result = yield
        self._switch("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
        before = self._test
        if fixturedef.scope != "function":
            self._switch(f"{SHARED}{fixturedef.baseid}::{fixturedef.argname}")
        try:
            return (yield)
        finally:
            self._switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def _switch(self, context: str) -> None:
        self._test = context
        self._measured.switch_context(context)

    def _shared(self, item: pytest.Item) -> list[str]:
        found = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
        return [f"{last[-1].baseid}::{name}" for name, last in found.items() if last[-1].scope != "function"]


def main(folder: Path, arguments: list[str]) -> int:
    """Run pytest under coverage; leaves `tests.json` and coverage's data files in the folder."""
    measured = coverage.Coverage(config_file=os.environ["COVERAGE_PROCESS_START"])
    measured.start()
    watch = Watch(measured)
    code = pytest.main(["-p", "no:cacheprovider", *arguments], plugins=[watch])
    measured.stop()
    measured.save()
    kept = {"seconds": watch.seconds, "fixtures": watch.fixtures, "failed": watch.failed}
    (folder / "tests.json").write_text(json.dumps(kept, indent=0), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
