"""With --no-skips, which CI uses, a test that does not run is a failure that says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPING = """
import pytest
def test_runs(): pass
@pytest.mark.skipif(True, reason="no browser here")
def test_marked(): pass
@pytest.fixture
def cluster(): pytest.skip("no cluster here")
def test_by_fixture(cluster): pass
@pytest.mark.xfail(reason="known")
def test_known(): assert False
"""
WHOLE_FILE = "import pytest\npytest.skip('no data here', allow_module_level=True)\n"


@pytest.mark.parametrize("strict", [True, False])
def test_skips_of_every_kind(tmp_path, strict):
    (tmp_path / "test_some.py").write_text(SKIPPING)
    (tmp_path / "test_whole.py").write_text(WHOLE_FILE)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-rs", "-q", *["--no-skips"] * strict]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run([*command, "--continue-on-collection-errors"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = [reason for reason in ("no browser here", "no cluster here", "no data here") if reason in done.stdout]
    assert len(said) == 3, done.stdout
    assert (done.returncode, "that is a failure" in done.stdout) == ((1, True) if strict else (0, False)), done.stdout
    assert ("1 passed, 1 xfailed, 3 errors" if strict else "1 passed, 3 skipped, 1 xfailed") in done.stdout, done.stdout
