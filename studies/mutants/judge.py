"""Decides one mutant's fate: its last killer first, then the tests that touch its line, then all fast tests."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from studies.mutants.cover import Touched
from studies.mutants.draw import Mutant
from studies.mutants.trial import Copy, Ending, run_tests

START_S = 60.0
"""Seconds allowed for imports and collection, on a busy machine."""
SLOWER = 6.0
"""A mutant that needs this many times the seconds of the unchanged code hangs."""
FIRST_FILES = 3
"""Test files in the first go: to collect a few is quick, and most mutants die there."""
SUSPECT_S = 2.0
"""Tests that take longer than this start processes and wait; their failure is looked at twice."""


@dataclass
class Judge:
    """Knows the map and what has killed before."""

    copy: Copy
    touched: Touched
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(source file, test file): how often."""
    look_s: float = math.inf
    """A first look: so many seconds of the tests that touch the line, and not all tests after them."""
    unreliable: set[str] = field(default_factory=set)
    """Tests that failed on the unchanged code when looked at again."""

    def fate(self, mutant: Mutant, hint: str) -> tuple[str, str, str]:
        """(killed, timeout or survived; the test that failed; its message). `hint`: the test that killed it before."""
        self.copy.put(mutant.file, mutant.changed)
        try:
            touching = self.touched.tests_of(mutant.file, mutant.mutation.line, mutant.last_line)
            ordered = self._ordered(mutant.file, touching)
            spent_s = list(accumulate(self.touched.seconds[test] for test in ordered))
            ordered = ordered[: bisect_right(spent_s, self.look_s)]
            files = list(dict.fromkeys(test.split("::")[0] for test in ordered))
            first = [test for test in ordered if test.split("::")[0] in files[:FIRST_FILES]]
            rest = [test for test in ordered if test.split("::")[0] not in files[:FIRST_FILES]]
            for tests in ([hint] if hint else [], first, rest):
                if tests and (found := self._killed(mutant, tests, ())):
                    return found
            if self.look_s == math.inf and (found := self._killed(mutant, [], ordered)):
                return found
            return "survived", "", ""
        finally:
            self.copy.put(mutant.file, mutant.source)

    def _killed(self, mutant: Mutant, tests: Sequence[str], without: Sequence[str]) -> tuple[str, str, str] | None:
        """The killing, or None if all pass; a failure that the unchanged code shows as well does not count."""
        seconds = self.touched.seconds
        while True:
            tried = [test for test in tests if test not in self.unreliable]
            spared = [*without, *self.touched.failed, *self.unreliable]
            if tests and not tried:
                return None
            expected_s = sum(seconds.get(test, 5.0) for test in tried) if tests else sum(seconds.values())
            ending = run_tests(self.copy, tried, spared, START_S + SLOWER * expected_s)
            if ending.verdict == "passed":
                return None
            if ending.verdict == "failed" and self._is_suspect(ending, tests) and not self._holds(mutant, ending.test):
                self.unreliable.add(ending.test)
                continue
            if ending.verdict == "failed":
                self.kills[mutant.file, ending.test.split("::")[0]] += 1
            return ("timeout" if ending.verdict == "timeout" else "killed"), ending.test, ending.message

    def _is_suspect(self, ending: Ending, tests: Sequence[str]) -> bool:
        """A test that does not touch the line, or one that starts processes."""
        return not tests or self.touched.seconds.get(ending.test, 0.0) > SUSPECT_S

    def _holds(self, mutant: Mutant, test: str) -> bool:
        """Whether the test passes on the unchanged code, here and now."""
        self.copy.put(mutant.file, mutant.source)
        ending = run_tests(self.copy, [test], (), START_S + SLOWER * self.touched.seconds.get(test, 5.0))
        self.copy.put(mutant.file, mutant.changed)
        return ending.verdict == "passed"

    def _ordered(self, file: str, tests: Sequence[str]) -> list[str]:
        """File by file, because fixtures are shared within one: those that killed before first, then the quickest."""
        total_s: Counter[str] = Counter()
        for test in tests:
            total_s[test.split("::")[0]] += self.touched.seconds[test]  # type: ignore[assignment]

        def order(test: str) -> tuple[float, float, str, float]:
            home = test.split("::")[0]
            return -self.kills[file, home], total_s[home], home, self.touched.seconds[test]

        return sorted(tests, key=order)
