"""The command line: `wflsim run | tune | compare | check | list | new`. Only commands that train import torch."""

from wflsim.cli.main import app, main

__all__ = ["app", "main"]
