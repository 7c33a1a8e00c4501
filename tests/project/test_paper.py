"""The reproduction of the paper: what is committed under reports/paper/ follows from its runs, and runs come out again."""

import json
import os

import numpy as np
import pandas as pd
import pytest

from studies.paper import build, claims, search, study, tables, train


def test_all_330_entries_stand_beside_the_papers():
    ours, paper = pd.read_csv(study.REPORT / "entries.csv"), pd.read_csv(study.REPORT / "published.csv")
    assert len(ours) == len(paper) == 330
    assert list(ours)[: len(paper.columns)] == list(paper)
    pd.testing.assert_frame_equal(ours[list(paper)], paper)
    assert {"ours", "low", "high", "seeds"} <= set(ours)
    pd.testing.assert_frame_equal(ours, tables.beside()[list(ours)].round(4), check_dtype=False)


def test_the_files_of_runs_are_tidy_and_hold_nothing_else():
    """Every line belongs to an entry of its study, once, in order; whoever adds a run that is there changes no byte."""
    files = {path.name for path in study.REPORT.glob("runs_*.csv")}
    studies = [*study.DATA_SETS, study.TAU_STUDY, study.OPEN_STUDY, study.LONG_STUDY]
    assert files == {study.file_of(name).name for name in studies}
    for name in studies:
        table = pd.read_csv(study.file_of(name))
        assert list(table) == list(study.COLUMNS)
        assert not table.duplicated(list(study.KEY)).any()
        assert sum(len(runs) for _, runs in study.read(study.entries(name))) == len(table)
        assert (table["ended"].notna() == table["worst"].isna()).all()


def test_adding_a_run_that_is_there_changes_no_byte(tmp_path, monkeypatch):
    file = study.file_of(study.LONG_STUDY)
    before = file.read_bytes()
    monkeypatch.setattr(study, "REPORT", tmp_path)
    copy = study.file_of(study.LONG_STUDY)
    copy.write_bytes(before)
    entry = study.entries(study.LONG_STUDY)[0]
    run = study.runs(entry).query("seed == 1")
    study.add_runs(entry, run.to_dict("records"))
    assert copy.read_bytes() == before
    study.add_runs(entry, [{**run.iloc[0].to_dict(), "seed": 7}])
    assert len(study.runs(entry)) == len(pd.read_csv(file).query("policy == 'drdm'")) + 1


def test_an_entry_is_the_mean_of_its_seeds_last_rounds():
    entry, runs = next(study.read(study.entries("mnist")))
    last = [100 * one.sort_values("round")["worst"].iloc[-1] for _, one in runs.groupby("seed")]
    shown = tables.beside()
    row = shown[(shown["data"] == "mnist") & (shown["alpha"] == entry.alpha) & (shown["sigma"] == entry.sigma)]
    row = row[(row["policy"] == entry.policy) & (row["metric"] == "worst")].iloc[0]
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
    used = set(pd.read_csv(study.file_of(data))["seed"])
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
def test_one_entry_of_each_table_comes_out_again(data, alpha, sigma, policy, rounds, tmp_path):
    entry = study.Entry(data, alpha, sigma, policy)
    known = train.committed(entry, seed=0)
    assert known is not None
    known = known[known["round"] <= rounds]
    again = study.as_read(study.evaluations(entry.scenario, 0, 0, rounds, tmp_path))
    if set(known["machine"]) == {study.machine()}:
        pd.testing.assert_frame_equal(again[list(study.MEASURES)], known[list(study.MEASURES)], check_exact=True)
    else:  # other processors round differently, and training amplifies it
        assert abs(again["average"].iloc[-1] - known["average"].iloc[-1]) < 0.05
