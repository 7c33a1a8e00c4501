"""What tests of the command line start child processes with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

NO_TORCH = """
import sys
from wflsim.cli import main
sys.argv = ["wflsim", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    code = end.code
print("TORCH" if "torch" in sys.modules else "LIGHT", code)
"""
"""A program that runs wflsim's command line and says whether torch was imported on the way."""


def hears_ctrl_c() -> None:
    """Before a child starts: jobs of a background shell, CI's among them, ignore SIGINT, and so would the child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt(process: subprocess.Popen[str], folder: Path) -> None:
    """Send Ctrl-C to a wflsim that was started in a session of its own; it must end with 130 and a folder that says so."""
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "the same command goes on" in stderr
    assert "Traceback" not in stderr
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
