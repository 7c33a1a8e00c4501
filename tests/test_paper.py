"""The reproduction of the paper: what is committed under reports/paper/ follows from its cells, and cells can be run again."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "paper"))

import build  # noqa: E402
import cells  # noqa: E402
import claims  # noqa: E402
import search  # noqa: E402
import study  # noqa: E402
import tables  # noqa: E402


def test_all_330_cells_stand_beside_the_papers():
    ours, paper = pd.read_csv(study.REPORT / "cells.csv"), pd.read_csv(study.REPORT / "published.csv")
    assert len(ours) == len(paper) == 330
    assert list(ours)[: len(paper.columns)] == list(paper)
    pd.testing.assert_frame_equal(ours[list(paper)], paper)
    assert {"ours", "low", "high", "seeds"} <= set(ours)
    pd.testing.assert_frame_equal(ours, tables.beside()[list(ours)].round(4), check_dtype=False)


def test_a_cell_is_the_mean_of_its_seeds_last_rounds():
    cell = next(cell for cell in study.cells("mnist") if cell.file.exists())
    runs = pd.read_csv(cell.file)
    last = [100 * one.sort_values("round")["worst"].iloc[-1] for _, one in runs.groupby("seed")]
    shown = tables.beside()
    row = shown[(shown["data"] == "mnist") & (shown["alpha"] == cell.alpha) & (shown["sigma"] == cell.sigma)]
    row = row[(row["policy"] == cell.policy) & (row["metric"] == "worst")].iloc[0]
    assert row["ours"] == pytest.approx(np.mean(last), abs=1e-9)
    assert row["low"] < row["ours"] < row["high"]
    assert row["seeds"] == len(last)


@pytest.mark.parametrize("data", study.DATA_SETS)
def test_the_search_treats_all_alike_and_its_winners_are_frozen(data):
    frozen = {policy.name: policy.model_dump() for policy in study.load(study.scenario_file(data)).policies}
    assert set(frozen) == set(study.ALGORITHMS)
    trials = {policy: search.score(data, policy) for policy in study.ALGORITHMS}
    assert len({len(found) for found in trials.values()}) == 1
    for policy in trials:
        chosen = json.loads(search.winner(data, policy))
        assert {key: frozen[policy][key] for key in chosen} == pytest.approx(chosen)
        assert all(search.done(data, policy, chosen, seed) for seed in search.CONFIRM[data])
    table = pd.read_csv(search.FILE)
    used = {seed for cell in study.cells(data) if cell.file.exists() for seed in pd.read_csv(cell.file)["seed"]}
    assert not used & set(table["seed"])


def test_the_page_says_what_the_results_say():
    assert (study.REPORT / "README.md").read_text() == build.page(tables.beside())


def test_the_first_round_with_an_accuracy_is_the_first_evaluation_that_has_it():
    run = pd.DataFrame({"round": [5, 10, 15, 20], "worst": [0.5, 0.9, 0.8, 0.9]})
    assert claims.first(run, "worst", 0.8) == 10
    assert np.isnan(claims.first(run, "worst", 0.95))


@pytest.mark.slow
@pytest.mark.skipif("WFLSIM_DATA" not in os.environ, reason="WFLSIM_DATA names no copy of the real data sets")
@pytest.mark.parametrize(
    ("data", "alpha", "sigma", "policy", "rounds"),
    [
        ("mnist", 0.5, 0.0, "scaffpd", 60),
        ("mnist", 0.1, 0.7, "drdm", 60),
        ("fashion", 0.9, 0.0, "drfa", 60),
        ("fashion", 0.1, 0.3, "scaffold", 60),
        ("kmnist", 0.1, 0.0, "fedavg", 10),  # the first rounds: a whole run takes minutes
        ("kmnist", 0.1, 0.3, "drdm", 10),
    ],
)
def test_one_cell_of_each_table_comes_out_again(data, alpha, sigma, policy, rounds, tmp_path):
    cell = study.Cell(data, alpha, sigma, policy)
    known = cells.committed(cell, seed=0)
    assert known is not None
    known = known[known["round"] <= rounds]
    again = study.as_read(study.evaluations(cell.scenario, 0, 0, rounds, tmp_path))
    if set(known["machine"]) == {study.machine()}:
        pd.testing.assert_frame_equal(again[list(study.MEASURES)], known[list(study.MEASURES)], check_exact=True)
    else:  # other processors round differently, and training amplifies it
        assert abs(again["average"].iloc[-1] - known["average"].iloc[-1]) < 0.05
