"""The tool that puts errors into the source (studies/mutants): what it changes, what it leaves alone, how it counts."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import binomtest

from studies.mutants import draw, table
from studies.mutants.operators import candidates, is_another_program
from studies.mutants.trial import Copy, run_tests

ROOT = Path(__file__).resolve().parents[2]

SOURCE = '''"""Text: 1 + 1."""
from typing import TYPE_CHECKING, Literal
if TYPE_CHECKING:
    from x import y
__all__ = ["f"]
LIMIT: Literal["a", "b"] = "a"
"""A docstring of 3 words."""


def f(low: float, high: float = 2.0, *, wide: bool = False) -> float:
    """From 5 to 6."""
    if low < high and not wide:  # λ, not ASCII
        return min(low, high) - 1
    log(f"[{low:.1f}, {high:.1f}]")
    return g(low, high)
'''


def mutations(source):
    return [mutation for mutation in candidates(source) if is_another_program(source, mutation)]


def changed(operator):
    return {(m.before, m.after) for m in mutations(SOURCE.encode()) if m.operator == operator}


def test_the_kinds_of_errors():
    assert changed("compare") == {("<", "<="), ("<", ">")}
    assert changed("boolean") == {("and", "or")}
    assert changed("sign dropped") == {("not wide", "(wide)")}
    assert changed("function swapped") == {("min", "max"), ("log", "log10")}
    assert changed("arguments swapped") == {("low, high", "high, low")}
    assert changed("arithmetic") == {("-", "+")}
    assert changed("default") == {('"a"', "'b'")}
    assert changed("values swapped") == {("low:.1f}, {high", "high:.1f}, {low")}
    assert changed("statement removed") >= {('log(f"[{low:.1f}, {high:.1f}]")', "pass")}
    assert ("2.0", "4.0") in changed("constant")
    assert ("False", "True") in changed("constant")
    assert ("g(low, high)", "(g(low, high)) + 1") in changed("returned value")
    assert ("low < high and not wide", "True") in changed("condition")


def test_words_types_and_imports_stay_as_they_are():
    lines = SOURCE.encode().splitlines()
    left_alone = {number for number, line in enumerate(lines, 1) if b'"""' in line or b"import" in line or b"__all__" in line}
    assert not left_alone & {m.line for m in mutations(SOURCE.encode())}
    assert not any("float" in m.before and ":" in m.before for m in mutations(SOURCE.encode()) if m.operator != "condition")


def test_a_change_is_the_only_change_and_still_a_program():
    for path in sorted((ROOT / "wflsim/world").glob("*.py"))[:4]:
        source = path.read_bytes()
        for mutation in candidates(source)[::20]:
            after = mutation.apply(source)
            assert after[: mutation.start] == source[: mutation.start]
            assert after.endswith(source[mutation.end :])
            assert source[mutation.start : mutation.end].decode() == mutation.before
            assert not is_another_program(source, mutation) or ast.dump(ast.parse(after)) != ast.dump(ast.parse(source))


def test_every_source_file_belongs_to_one_package():
    assert draw.forgotten(ROOT) == []
    found = Counter(path for package in draw.PACKAGES for path in draw.files_of(ROOT, package))
    assert max(found.values()) == 1


def test_the_draw_is_the_seeds_one_per_line_and_survives_edits_elsewhere(tmp_path):
    first, again = (draw.drawn(ROOT, "simulation", 60) for _ in range(2))
    assert [mutant.key for mutant in first] == [mutant.key for mutant in again]
    assert len({(mutant.file, mutant.mutation.line) for mutant in first}) == len(first) == 60
    (tmp_path / "wflsim/simulation").mkdir(parents=True)
    for path in draw.files_of(ROOT, "simulation"):
        text = path.read_text(encoding="utf-8").replace("import annotations\n", "import annotations\n\n\n# a line more\n")
        (tmp_path / path.relative_to(ROOT)).write_text(text, encoding="utf-8")
    assert [mutant.key for mutant in draw.drawn(tmp_path, "simulation", 60)] == [mutant.key for mutant in first]


def test_a_verdict_outlives_new_words_but_no_new_code():
    before = draw.program_digest(b'"""One."""\nx = 1  # why\n"""About x."""\ndef f():\n    """Two."""\n    return "a"\n')
    assert draw.program_digest(b'"""Other."""\n\nx = 1\ndef f():\n    return "a"\n') == before
    for other in (b"x = 2\ndef f():\n    return 'a'\n", b"x = 1\ndef f():\n    return 'b'\n", b"x = 1\ndef f():\n    'b'\n"):
        assert draw.program_digest(other) != before


@pytest.mark.parametrize(("hits", "tries"), [(0, 60), (54, 60), (60, 60), (57, 60), (1, 2)])
def test_the_interval_is_clopper_pearsons(hits, tries):
    exact = binomtest(hits, tries).proportion_ci(0.95, method="exact")
    assert table.interval(hits, tries) == pytest.approx((exact.low, exact.high), abs=1e-12)


def verdict(package, fate, key):
    return table.Verdict(package, "f.py", 1, "f", "constant", "1", "2", fate, "", key)


def test_rates_leave_out_equivalent_ones_and_count_a_timeout_as_killed(tmp_path):
    verdicts = [verdict("a", fate, str(i)) for i, fate in enumerate(("killed", "timeout", "survived", "equivalent"))]
    verdicts.append(verdict("b", "killed", "9"))
    a, b, both = table.rates(verdicts)
    assert (a["drawn"], a["killed"], a["survived"], a["equivalent"], a["rate"]) == (4, 2, 1, 1, 2 / 3)
    assert (b["rate"], both["rate"], both["drawn"]) == (1.0, 3 / 4, 5)
    table.write(tmp_path, verdicts, {"2": ["- old", "+ new"]}, 1)
    assert table.read(tmp_path / "mutants.csv") == verdicts
    assert "**a**, `f.py:1` f (constant): open\n\n```diff\n- old\n+ new\n```" in (tmp_path / "mutants.md").read_text()


def test_every_reason_belongs_to_a_change_of_the_source():
    known = {*draw.reasons(("equivalent",)), *draw.reasons(("survivor",))}
    there = {(m.function, m.operator, m.before, m.after) for path in (ROOT / "wflsim").rglob("*.py") for m in candidates(path.read_bytes())} if known else set()
    assert known <= there
    assert all(reason for reason in draw.reasons(("equivalent", "survivor")).values())


@pytest.mark.slow
def test_a_wrong_constant_fails_a_test_a_hang_times_out_and_the_tree_stays_untouched():
    """In a process of its own: a trial forks, and must not inherit modules of wflsim that other tests have imported."""
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/project")])
    code = "import test_mutants; test_mutants.try_wrong_sources()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def try_wrong_sources():
    before = (ROOT / "wflsim/world/channel/rates.py").read_bytes()
    copy = Copy(ROOT)
    try:
        wrong = before.replace(b"3.9023", b"3.8023")
        assert wrong != before
        test = "tests/world/test_proof_world.py::test_every_cqi_has_the_standards_efficiency_from_its_threshold_on"
        tests = [f"{test}[{n}-{bits}-{rate}-{db}]" for n, bits, rate, db in ((1, 2, 78, -6.7), (12, 6, 666, 16.3))]
        assert run_tests(copy, tests, (), 120).verdict == "passed"
        copy.put("wflsim/world/channel/rates.py", wrong)
        ending = run_tests(copy, tests, (), 120)
        assert (ending.verdict, ending.test) == ("failed", tests[1])
        copy.put("wflsim/world/channel/rates.py", b"while True: pass\n")
        assert run_tests(copy, tests, (), 3).verdict == "timeout"
        copy.put("wflsim/world/channel/rates.py", b"raise ImportError\n")
        assert run_tests(copy, tests, (), 120).verdict == "crashed"
    finally:
        copy.remove()
    assert (ROOT / "wflsim/world/channel/rates.py").read_bytes() == before
