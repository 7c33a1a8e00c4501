"""Reports from run folders: one HTML page, figures for papers, tables. Needs neither torch nor SimPy."""

from wflsim.report.build import build

__all__ = ["build"]
