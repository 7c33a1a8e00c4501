"""What tests of the command line start child processes with."""

from __future__ import annotations

import signal

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
