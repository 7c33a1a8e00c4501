"""wflsim: a wireless-aware federated-learning system simulator.

    import wflsim
    scenario = wflsim.load("scenarios/quickstart.yaml")
    results = wflsim.run(scenario)
    results.summary, results.rounds, results.clients, results.legs
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wflsim.experiment import run
    from wflsim.scenario import Scenario, load
    from wflsim.sweep.run import run_sweep
    from wflsim.tables import Results

__all__ = ["Results", "Scenario", "load", "run", "run_sweep"]

_HOMES = {
    "Results": "wflsim.tables",
    "Scenario": "wflsim.scenario",
    "load": "wflsim.scenario",
    "run": "wflsim.experiment",
    "run_sweep": "wflsim.sweep.run",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: `wflsim --help` should not wait for pandas and scipy.
    if name not in _HOMES:
        raise AttributeError(f"module 'wflsim' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
