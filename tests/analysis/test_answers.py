"""Answers about runs that missed, diverged or cannot be told apart: what is not known is said in words."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from report_folders import run_folder

from wflsim.analysis.answer import against, answer, notes
from wflsim.analysis.formats import cost
from wflsim.analysis.noise import unequal_noise
from wflsim.analysis.ranking import pair, ranked
from wflsim.analysis.tables import FACTS, Results, over_seeds
from wflsim.report.compose import compose, gather

TARGET = {"metric": "worst", "accuracy": 0.8, "hold": 1, "window": 1}


def runs(**policies):
    """policy=[(energy, reached), ...], one entry per seed."""
    rows = [
        {**dict.fromkeys(FACTS, 0.5), "policy": policy, "seed": seed, "energy_j": energy, "paper_energy_j": energy,
         "time_s": energy, "rounds": energy, "reached": float(reached), "status": "done"}
        for policy, entries in policies.items() for seed, (energy, reached) in enumerate(entries)
    ]  # fmt: skip
    return pd.DataFrame(rows)


class Held:
    """Just enough of Results for `answer`."""

    def __init__(self, table):
        self.runs, self.target = table, TARGET
        rows = [{"policy": name, **over_seeds(own, True)} for name, own in table.groupby("policy", sort=False)]
        self.policies = {row["policy"]: row for row in rows}


def said(**policies):
    return answer(Held(runs(**policies)))


def bounds(text):
    return [tuple(float(part) for part in pair) for pair in re.findall(r"\[(-?\d+) %, (-?\d+) %\]", text)]


YES = [(10.0, 1), (11.0, 1), (12.0, 1), (9.0, 1), (10.5, 1)]


def test_a_saving_that_is_known():
    text = said(drdm=YES, fedavg=[(2.1 * joules, 1) for joules, _ in YES[:-1]] + [(20.0, 1)])
    ratio = np.log([1 / 2.1] * 4 + [10.5 / 20])
    ((low, high),) = bounds(text)
    assert low < 100 * (1 - np.exp(ratio.mean())) < high
    assert f"{100 * (1 - np.exp(ratio.mean())):.0f} % [" in text
    assert "less than fedavg (reached by 5 of 5 seeds; 95 % intervals)." in text


def test_a_saving_whose_interval_contains_zero_is_no_headline():
    other = [9.0, 30.0, 8.0, 25.0, 10.0]
    text = said(drdm=YES, fedavg=[(joules, 1) for joules in other])
    ratio = np.log([mine / theirs for (mine, _), theirs in zip(YES, other, strict=True)])
    half = 2.7764451051977987 * ratio.std(ddof=1) / np.sqrt(5)
    most, least = 100 * np.expm1(ratio.mean() + half), -100 * np.expm1(ratio.mean() - half)
    assert f"not told apart from fedavg (somewhere between {most:.0f} % more and {least:.0f} % less)" in text
    assert "% [" not in text
    wide = said(drdm=[(1.0, 1), (30.0, 1)], fedavg=[(40.0, 1), (10.0, 1)])
    assert re.search(r"between \S+ times as much and 100 % less", wide), wide


def test_a_rival_that_missed_has_a_lower_bound():
    dear = [(2.0 * joules + seed, int(seed > 1)) for seed, (joules, _) in enumerate(YES)]
    text = said(drdm=YES, fedavg=dear)
    ((low, high),) = bounds(text)
    assert 0 < low < high
    assert re.search(r"at least \d+ % \[\d+ %, \d+ %\] less than fedavg \(which missed it on 2 of 5 seeds, so its cost is a lower bound\)", text)
    cheap = [(0.1, 0), (0.1, 0), (20.0, 1), (21.0, 1), (22.0, 1)]
    assert "not told apart in energy from fedavg (which missed it on 2 of 5 seeds" in said(drdm=YES, fedavg=cheap)
    assert "where fedavg reaches it on none of 5 seeds" in said(drdm=YES, fedavg=[(0.1, 0)] * 5)


def test_a_winner_that_missed_claims_no_saving():
    text = said(drdm=[(5.0, 1), (6.0, 1), (50.0, 0), (50.0, 0), (50.0, 0)], fedavg=[(90.0, 0)] * 5)
    assert text.startswith("drdm reaches 80 % worst-case accuracy on only 2 of 5 seeds, with 5.5 J [")
    assert text.endswith("on those (fedavg on 0 of 5). What the other seeds would have cost is not known, so no saving is claimed.")
    assert "less" not in text


def test_more_energy_keeps_its_interval():
    """The cheaper mean, but dearer on every seed that both have: the bounds are of what it spends more."""
    table = runs(drdm=YES, fedavg=[(0.8 * joules + 0.1 * seed, 1) for seed, (joules, _) in enumerate(YES)])
    text = against(table, "drdm", "fedavg")
    ratio = np.log([joules / (0.8 * joules + 0.1 * seed) for seed, (joules, _) in enumerate(YES)])
    ((low, high),) = bounds(text)
    assert 0 < low < 100 * np.expm1(ratio.mean()) < high
    assert "more than fedavg" in text


def test_no_energy_one_seed_and_no_common_seed_are_said():
    assert "cannot be said, because a run spends 0 J" in said(drdm=[(0.0, 1), (0.0, 1)], fedavg=[(0.0, 1), (0.0, 1)])
    alone = said(drdm=[(5.0, 1)], fedavg=[(10.0, 1)])
    assert alone == "drdm reaches 80 % worst-case accuracy with 5 J, 50 % less than fedavg on the one seed in common (reached by 1 of 1 seeds)."
    apart = runs(drdm=YES, fedavg=YES)
    apart.loc[apart["policy"] == "fedavg", "seed"] += 100
    assert against(apart, "drdm", "fedavg") == "not comparable with fedavg, which has no seed in common"


@pytest.mark.parametrize("seed", range(30))
def test_no_sentence_ever_prints_what_is_not_a_number(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    table = {name: [(float(rng.choice([0.0, 0.1, 5.0, 50.0])), int(rng.random() < 0.6)) for _ in range(n)] for name in ("a", "b", "c")}
    text = said(**table)
    assert "nan" not in text
    assert "inf" not in text
    assert all(low <= high for low, high in bounds(text))


def test_dying_early_never_wins():
    """Both reach it on two of three seeds; one of them is cheap only because its third run died after a joule."""
    table = runs(steady=[(10.0, 1), (10.0, 1), (100.0, 0)], dying=[(30.0, 1), (30.0, 1), (1.0, 0)])
    table.loc[(table["policy"] == "dying") & (table["seed"] == 2), "status"] = "diverged"
    rows = {str(name): {"policy": name, **over_seeds(own, True)} for name, own in table.groupby("policy")}
    assert rows["dying"]["energy_j"] < rows["steady"]["energy_j"]
    assert [row["policy"] for row in ranked(list(rows.values()))] == ["steady", "dying"]
    assert cost(rows["dying"], "energy_j", lambda value: f"{value:.0f} J") == "at least 20 J"
    assert np.isnan(rows["dying"]["energy_j_high"]), "a mean that contains a lower bound has no interval"
    assert not pair(table, "steady", "dying", True).told_apart
    free = {str(name): {"policy": name, **over_seeds(own, False)} for name, own in table.groupby("policy")}
    assert ranked(list(free.values()))[0]["policy"] == "steady"
    assert cost(free["dying"], "energy_j", lambda value: f"{value:.0f} J") == "at least 20 J", "without a target, too"


def test_a_run_that_diverged_in_its_first_round_is_counted(tmp_path):
    """It leaves a table with a header and no row; dropped, the policy would seem to reach its target always."""
    folder = run_folder(tmp_path / "run", seeds=3)
    path = folder / "drdm/seed-1"
    for name in ("rounds", "clients", "legs"):
        (path / f"{name}.csv").write_text((path / f"{name}.csv").read_text().splitlines()[0] + "\n")
    (path / "status.json").write_text(json.dumps({"status": "diverged", "reason": "w is no longer finite", "mode": "live"}))
    results = Results(folder)
    assert results.policies["drdm"]["seeds"] == 3
    assert results.policies["drdm"]["p_reach"] == pytest.approx(2 / 3)
    assert answer(results).startswith("fedavg reaches"), "three of three come before two of three"


def test_clients_without_tests_are_said_on_the_terminal_and_on_the_page(tmp_path):
    folder = run_folder(tmp_path / "run")
    path = folder / "partition-seed-0.csv"
    table = pd.read_csv(path)
    table.loc[table["client"].isin([1, 4]), "test_samples"] = 0
    table.to_csv(path, index=False)
    wanted = "2 of 6 clients have no test samples"
    assert [line for line in notes(Results(folder)) if line.startswith(wanted) and "over the remaining 4" in line]
    assert [line for line in compose(gather([folder])).warnings if line.startswith(wanted)]


def test_unequal_noise_is_warned_about_where_single_evaluations_decide():
    def rows(policy, noise, slow):
        for seed in range(5):
            level = 0.9 * (1 - np.exp(-np.arange(1, 201) / slow))
            values = level + np.random.default_rng(seed).normal(0, noise, 200)
            yield from ({"policy": policy, "seed": seed, "round": s, "worst": value} for s, value in enumerate(values))

    table = pd.DataFrame([*rows("loud", 0.06, 40.0), *rows("quiet", 0.005, 15.0)])
    warning = unequal_noise(table, TARGET)
    assert warning is not None
    assert "accuracy of loud shows it by about" in warning
    assert "stop.target.window: 20" in warning
    assert unequal_noise(table, {**TARGET, "window": 20}) is None
    alike = pd.DataFrame([*rows("loud", 0.06, 40.0), *rows("louder", 0.06, 42.0)])
    assert unequal_noise(alike, TARGET) is None
