"""Public names: few, listed, each with a runnable example in its help; results show themselves in notebooks."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pandas as pd
import pytest

import wflsim
from wflsim.analysis.tables import summary_html

NAMES = [name for name in wflsim.__all__ if not name.startswith("__")]


@pytest.mark.parametrize("name", NAMES)
def test_help_has_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing = getattr(wflsim, name)
    examples = doctest.DocTestFinder(recurse=False).find(thing, name, module=importlib.import_module(thing.__module__))
    assert examples[0].examples, f"help(wflsim.{name}) has no example"
    found = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(examples[0])
    assert found.failed == 0


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(getattr(wflsim, name))])
def test_help_of_a_function_names_its_parameters_and_errors(name):
    thing = getattr(wflsim, name)
    text = inspect.getdoc(thing)
    own = [one for one in inspect.signature(thing).parameters if name != "run_sweep" or one == "watch"]
    assert all(f"`{one}`" in text or one in text for one in own)
    assert "Raises" in text
    assert "eturn" in text


def test_a_summary_in_a_notebook_has_each_interval_beside_its_mean():
    """What has no interval stands alone, a cost is a lower bound where a run missed, and names are escaped."""
    numbers = {"rounds": 40, "energy_j": 2.0, "paper_energy_j": 1.0, "time_s": 3.0, "up_bits": 8e6, "down_bits": 4e6, "p_reach": 1.0,
               "final_average": 0.9, "final_worst": 0.8, "final_std": 0.05}  # fmt: skip
    nothing = {f"{name}_{side}": float("nan") for name in numbers for side in ("low", "high")}
    sure = {"policy": "<b>", "seeds": 5, "diverged": 0, **numbers, **nothing, "energy_j_low": 1.5, "energy_j_high": 2.5}
    text = summary_html(pd.DataFrame([sure, {**sure, "policy": "late", "p_reach": 0.4}]))
    assert "<td>2 J [1.5 J, 2.5 J]</td>" in text
    assert "<td>at least 2 J</td>" in text
    assert "<td>3 s</td>" in text
    assert "<td>8 Mbit</td>" in text
    assert "&lt;b&gt;" in text
    assert "energy_j" not in text
