"""Every kind of missing in a sweep, on the page and in its sentences: runs that failed, missed or diverged, regimes without runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from report_folders import sweep_folder
from row_facts import interval, student

from wflsim.analysis.formats import joules
from wflsim.analysis.tables import FACTS
from wflsim.errors import StoreError
from wflsim.report.compose import compose, gather


def sweep(tmp_path, change=lambda runs: runs):
    """The page of a sweep of two policies, four seeds and six regimes whose table of runs was changed, and that table."""
    folder = sweep_folder(tmp_path / "sweep")
    runs = pd.read_csv(folder / "runs.csv")
    runs["reached"] = 1.0
    runs = change(runs)
    runs.to_csv(folder / "runs.csv", index=False)
    return compose(gather([folder])), runs


def fail(runs, where, reason="MemoryError"):
    runs.loc[where, [name for name in FACTS if name in runs]] = np.nan
    runs.loc[where, ["status", "reason"]] = ["failed", reason]
    return runs


def line(page, regime_values, policy):
    table = page.tables[0]
    found = [dict(zip(table.names, row, strict=True)) for row in table.rows]
    return [row for row in found if [row["radio.snr"].text, row["radio.bandwidth"].text, row["policy"].text] == [*regime_values, policy]]


def test_a_run_that_failed_is_said_and_counts_in_no_mean(tmp_path):
    page, runs = sweep(tmp_path, lambda runs: fail(runs, (runs["regime"] == 2) & (runs["policy"] == "drdm") & (runs["seed"] == 1)))
    assert page.missing == ["runs.csv: 1 of 48 runs have no result (MemoryError)"]
    own = runs[(runs["regime"] == 2) & (runs["policy"] == "drdm")].dropna(subset=["energy_j"])
    (row,) = line(page, own.iloc[0][["radio.snr", "radio.bandwidth"]], "drdm")
    assert row["seeds"].value == len(own) == 3
    assert (row["energy_j"].value, row["energy_j"].low, row["energy_j"].high) == pytest.approx(interval(own["energy_j"]))
    assert (row["p_reach"].text, row["p_reach"].range) == ("100 %", "[29.2, 100]")
    assert [fact.value for fact in page.openings[0].facts] == ["6", "2", "47", "snr, bandwidth"]


def test_a_regime_without_runs_and_a_policy_without_runs_in_a_regime(tmp_path):
    def change(runs):
        return fail(fail(runs, runs["regime"] == 0), (runs["regime"] == 1) & (runs["policy"] == "fedavg"), "killed")

    page, _ = sweep(tmp_path, change)
    assert page.missing == ["runs.csv: 12 of 48 runs have no result (MemoryError; killed)"]
    assert len(page.tables[0].rows) == 9
    assert not line(page, ("-5 dB", "180 kHz"), "drdm")
    assert not line(page, ("-5 dB", "1 MHz"), "fedavg")
    assert len(line(page, ("-5 dB", "1 MHz"), "drdm")) == 1
    assert " of 5 regimes, from " in page.openings[0].answer
    assert page.openings[0].facts[0].value == "5"


def test_nothing_but_failed_runs_is_no_page_but_a_sentence(tmp_path):
    with pytest.raises(StoreError, match=r"nothing to report: .*runs\.csv: 48 of 48 runs have no result \(MemoryError\)"):
        sweep(tmp_path, lambda runs: fail(runs, runs["regime"] >= 0))


def means(runs):
    return runs.groupby(["regime", "policy"], sort=False)["energy_j"].mean().unstack()


def name(runs, regime):
    first = runs[runs["regime"] == regime].iloc[0]
    return f"{first['radio.snr']}, {first['radio.bandwidth']}"


def test_the_answer_of_a_sweep_by_hand(tmp_path):
    """Who is cheapest in how many regimes, and the cheapest and the dearest regime of a winner."""
    page, runs = sweep(tmp_path)
    table = means(runs)
    best = table.idxmin(axis=1)
    counts = best.value_counts()
    cost = table.min(axis=1)
    said = page.openings[0].answer
    assert said.startswith(f"{counts.index[0]} reaches 80 % worst-case accuracy with the least energy in {counts.iloc[0]} of 6 regimes, from ")
    assert f"from {joules(cost.min())} ({name(runs, cost.idxmin())}) to {joules(cost.max())} ({name(runs, cost.idxmax())})" in said
    apart = 0
    for regime in range(6):
        own = {policy: each.sort_values("seed")["energy_j"].to_numpy() for policy, each in runs[runs["regime"] == regime].groupby("policy")}
        rival = "fedavg" if best[regime] == "drdm" else "drdm"
        apart += student(np.log(own[best[regime]] / own[rival]), low=-np.inf)[2] < 0
    assert page.openings[0].sure.endswith(f"(95 % interval of the paired difference) in {apart} of 6 regimes.")
    assert page.warnings == []


def test_a_regime_where_nobody_reaches_the_target_has_no_winner(tmp_path):
    def change(runs):
        runs.loc[runs["regime"] == 3, "reached"] = 0.0
        return runs

    page, runs = sweep(tmp_path, change)
    counts = means(runs).drop(index=3).idxmin(axis=1).value_counts()
    assert f" in {counts.iloc[0]} of 6 regimes, from " in page.openings[0].answer
    assert page.openings[0].answer.endswith("; " + ", ".join([f"{policy} in {count}" for policy, count in counts.iloc[1:].items()] + ["nobody in 1"]) + ".")
    for policy in ("fedavg", "drdm"):
        assert f"{policy} missed the target on some seed in 1 of 6 regimes; those count with all they spent, so its costs there are lower bounds" in page.warnings
    (row,) = line(page, ("5 dB", "1 MHz"), "drdm")
    assert row["energy_j"].text.startswith("≥ ")
    assert row["energy_j"].range == ""
    assert (row["p_reach"].text, row["p_reach"].range) == ("0 %", "[0, 60.2]")


def test_nobody_anywhere(tmp_path):
    page, _ = sweep(tmp_path, lambda runs: runs.assign(reached=0.0))
    assert page.openings[0].answer == "No policy reaches 80 % worst-case accuracy in any of 6 regimes."


def test_the_sure_policy_wins_over_the_cheap_one_that_misses(tmp_path):
    def change(runs):
        cheap = runs["policy"] == "drdm"
        runs.loc[cheap, "energy_j"] = 0.001
        runs.loc[cheap & (runs["seed"] == 0), "reached"] = 0.0
        return runs

    page, _ = sweep(tmp_path, change)
    assert page.openings[0].answer.startswith("fedavg reaches 80 % worst-case accuracy with the least energy in 6 of 6 regimes, from ")


def test_runs_that_diverged_are_counted_as_a_warning(tmp_path):
    def change(runs):
        runs.loc[runs["seed"] == 0, ["status", "reached"]] = ["diverged", 0.0]
        return runs

    page, _ = sweep(tmp_path, change)
    assert "12 runs ended as “diverged”" in page.warnings
    assert page.missing == []


def test_one_seed_and_one_policy_claim_nothing(tmp_path):
    page, _ = sweep(tmp_path, lambda runs: runs[runs["seed"] == 0])
    assert page.openings[0].sure == "How sure: one seed is an anecdote. Run several to get intervals."
    other, _ = sweep(tmp_path / "alone", lambda runs: runs[runs["policy"] == "drdm"])
    assert other.openings[0].sure == "How sure: 4 seeds in each regime."
    assert other.openings[0].answer.startswith("drdm reaches 80 % worst-case accuracy in 6 of 6 regimes, from ")
