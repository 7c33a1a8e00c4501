"""The paper's open energy map: traces put together from committed rows, the two maps joined, and what the page says of them."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from studies.paper import energy_map, open_map, open_page, study
from wflsim.scenario import load
from wflsim.tune.dry import DryRounds


@pytest.fixture(scope="module")
def tables():
    return energy_map.committed()


def test_every_run_has_both_tables_every_round_and_its_target(tables):
    """No gap, evaluated in every round, reached in one of the last four rounds, all of one kind of machine."""
    runs, cohorts = tables
    pd.testing.assert_frame_equal(runs[["tau", "seed", "round"]], cohorts[["tau", "seed", "round"]])
    assert runs["machine"].nunique() == 1
    assert runs["ended"].isna().all()
    for _, one in runs.groupby(["tau", "seed"]):
        assert list(one["round"]) == list(range(1, len(one) + 1))
        assert len(one) - 4 < open_map.hit(one.to_dict("records")) <= len(one)
    assert set(zip(runs["tau"], runs["seed"], strict=True)) <= {(entry.tau, seed) for entry, seed in open_map.wanted()}


def test_cohorts_are_twenty_of_thirty_clients_and_half_of_the_uploads_are_rare(tables):
    cohorts = tables[1]
    for mask in (*cohorts["main"], *cohorts["dual"]):
        clients = energy_map.clients_of(mask)
        assert len(clients) == 20
        assert clients == sorted(set(clients))
        assert clients[-1] < 30
    # the snapshot is the last of tau steps once in tau rounds
    once = cohorts[cohorts["tau"] == 5]["models_up"].eq(1).mean()
    assert 0.1 < once < 0.3


def test_a_trace_put_together_from_the_tables_has_their_cohorts_again(tables):
    """The second phase's cohort is uniform and follows from the seed alone: the policy's own dry round draws the same."""
    cohorts = tables[1]
    scenario = load(energy_map.SCENARIO, ["evaluate_every=1"])
    dry = DryRounds(scenario, 0).round(5, 0)
    mine = [table[(table["tau"] == 5) & (table["seed"] == 0)] for table in tables]
    trace = energy_map.trace_of(dry, *mine, scenario.clients)
    again = pd.DataFrame(open_map.cohorts_of(trace, 5, 0))
    pd.testing.assert_frame_equal(again, mine[1].reset_index(drop=True), check_dtype=False)
    assert [entry.evaluation.accuracy[0] for entry in trace] == list(mine[0]["worst"])
    (first,), _ = dry
    assert [order.client for order in first.steps[1].orders] == energy_map.clients_of(cohorts["dual"].iloc[0])
    assert [order.client for order in first.steps[0].orders] == energy_map.clients_of(cohorts["main"].iloc[0])
    longer = energy_map.filled_up(trace, 100)
    assert longer[: len(trace)] == trace
    assert [entry.round for entry in longer] == list(range(100))
    assert all(entry.evaluation is None for entry in longer[len(trace) :])


TAUS = {"": [5, 10, 30], "_wide": [1, 5, 10, 30, 100, 200]}


@pytest.mark.parametrize(
    ("edge", "wide", "beyond", "words"),
    [
        ("", 10, False, ""),
        ("high", 100, True, ""),
        ("high", 200, True, "no larger tau was trained yet"),
        ("high", 10, False, "tau 100, 200 is not cheaper on 2 seeds"),
        ("low", 1, True, "there are no fewer steps than 1"),
        ("low", 10, False, "tau 1 is not cheaper on 2 seeds"),
    ],
)
def test_why_tau_is_at_an_end(edge, wide, beyond, words):
    assert energy_map.reason({"edge": edge}, {"tau_star": wide}, beyond, TAUS) == words


def test_maps_are_joined_where_two_seeds_find_a_cheaper_tau_beyond(tmp_path):
    """A regime inside the first map keeps it whatever two seeds say; one at its end takes a cheaper tau beyond that end only."""
    first = [(5, "low", 10.0), (10, "", 10.0), (30, "high", 10.0), (30, "high", 10.0)]
    second = [(100, 9.0), (100, 9.0), (100, 6.0), (10, 9.0)]
    for name in study.MAPS:
        for end, chosen in (("", first), ("_wide", second)):
            place = tmp_path / f"energy_{name}{end}"
            place.mkdir()
            rows = [{"regime": i, "radio.snr": f"{i} dB", "radio.bandwidth": "1 MHz", "tau_star": one[0], "cost": one[-1],
                     "within5": "7", "edge": one[1] if len(one) == 3 else ""} for i, one in enumerate(chosen)]  # fmt: skip
            pd.DataFrame(rows).to_csv(place / "map.csv", index=False)
            costs = [{"regime": i, "tau": tau, "cost": {30: 8.0, 100: 6.0}.get(tau, 9.0)} for i in range(4) for tau in TAUS[end]]
            pd.DataFrame(costs).to_csv(place / "costs.csv", index=False)
    found = energy_map.joined(tmp_path)
    assert list(found["accounting"]) == ["paper"] * 4 + ["full"] * 4
    assert list(found["tau_star"][:4]) == [5, 10, 100, 30]
    assert list(found["seeds"][:4]) == [5, 5, 2, 5]
    assert list(found["saved"][:4]) == [0, 0, pytest.approx(0.25), 0]
    assert list(found["end"][:4]) == ["tau 1 is not cheaper on 2 seeds", "", "", "tau 100, 200 is not cheaper on 2 seeds"]


def test_the_committed_map_is_joined_from_the_committed_maps():
    pd.testing.assert_frame_equal(energy_map.joined(study.REPORT).fillna({"end": ""}), open_page.read(), check_dtype=False, rtol=1e-12)


def test_the_page_counts_what_is_missing():
    runs, _ = energy_map.committed()
    planned, there = len(open_map.wanted()), runs.groupby(["tau", "seed"]).ngroups
    said = open_page.missing()
    assert said == "All runs that were planned are there." if planned == there else f"{planned - there} are missing" in said


@pytest.mark.slow
def test_the_papers_maps_follow_from_their_runs(tmp_path):
    """In a process of its own, because it names a store. The two last digits of a cost may be another machine's."""
    done = subprocess.run([sys.executable, "-m", "studies.paper.energy_map", str(tmp_path)], cwd=study.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    committed = [*study.REPORT.glob("energy_*/*"), study.REPORT / "energy_open.csv"]
    assert len(committed) == 17
    for path in committed:
        again = tmp_path / path.relative_to(study.REPORT)
        if path.suffix == ".csv":
            pd.testing.assert_frame_equal(pd.read_csv(again), pd.read_csv(path), rtol=1e-12)
        else:
            assert again.read_text() == path.read_text()
