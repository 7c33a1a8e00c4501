"""wflsim: a wireless-aware federated-learning system simulator.

    import wflsim
    results = wflsim.run("scenarios/quickstart.yaml")
    results.summary, results.rounds, results.clients, results.legs

`run`, `run_sweep` and `load` take the name of a scenario file, a mapping of its keys, or what `load` returned.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wflsim.analysis.tables import Results
    from wflsim.experiments.run import run
    from wflsim.experiments.sweep import SweepResults, run_sweep
    from wflsim.scenario import Scenario, load

    __version__: str

__all__ = ["Results", "Scenario", "SweepResults", "__version__", "load", "run", "run_sweep"]

_HOMES = {
    "Results": "wflsim.analysis.tables",
    "Scenario": "wflsim.scenario",
    "SweepResults": "wflsim.experiments.sweep",
    "load": "wflsim.scenario",
    "run": "wflsim.experiments.run",
    "run_sweep": "wflsim.experiments.sweep",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: `wflsim --help` should not wait for pandas and scipy.
    if name == "__version__":
        return version("wflsim")
    if name not in _HOMES:
        raise AttributeError(f"module 'wflsim' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, "__doc__", "__file__", "__name__", "__path__"})
