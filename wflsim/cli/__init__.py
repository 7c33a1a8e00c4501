"""The command line, one file per command: `wflsim run | tune | compare | report | check | list | new`.

A command parses, calls one function of a lower room and prints. Commands import what they need when they are called, so
that only those that train import torch. Import `app` and `main`. Open `main.py` first.
"""

from wflsim.cli.main import app, main

__all__ = ["app", "main"]
