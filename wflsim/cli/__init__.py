"""The command line: `wflsim run | check | list | new`. torch is imported only by commands that train."""

from wflsim.cli.main import app, main

__all__ = ["app", "main"]
