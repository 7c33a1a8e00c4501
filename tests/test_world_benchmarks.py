"""The benchmarks state limits; here they are held. Minutes, so `make slow`."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("script", ["world_sharing.py", "world_live_share.py"])
def test_limits_hold(script):
    path = Path(__file__).parents[1] / "benchmarks" / script
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
