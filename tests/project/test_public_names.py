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
    summary = pd.DataFrame({"policy": ["<b>"], "energy_j": [2.0], "energy_j_low": [1.5], "energy_j_high": [2.5],
                            "time_s": [3.0], "time_s_low": [float("nan")], "time_s_high": [float("nan")]})  # fmt: skip
    text = summary_html(summary)
    assert "<td>2 [1.5, 2.5]</td>" in text
    assert "<td>3</td>" in text
    assert "&lt;b&gt;" in text
    assert "energy_j_low" not in text
