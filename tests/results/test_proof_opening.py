"""Opening a result folder, and reading damaged tables: every rule from both sides, without a training."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from report_folders import run_folder
from small_scenarios import small

from wflsim.errors import StoreError, WflsimError
from wflsim.records import ClientRow, Leg, RoundRow
from wflsim.results.opening import opened
from wflsim.results.rows import read_partition, read_rows, read_whole_rows
from wflsim.scenario import dump


def about(folder):
    return json.loads((folder / "run.json").read_text())


def make(folder, scenario, fresh=False, **files):
    """Open the folder, write these files and close it; returns the marks that were yielded."""
    with opened(scenario, folder, fresh, kind="run") as marks:
        assert about(folder)["status"] == "running"
        kept = dict(marks)
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
    return kept


def test_a_folder_says_whose_it_is_and_how_it_ended(tmp_path):
    scenario = small("seeds=[3, 5]")
    assert set(make(tmp_path / "a", scenario, table_csv="x\n1\n", answer_txt="yes", map_png="...")) == {"scenario.yaml"}
    held = about(tmp_path / "a")
    assert (held["status"], held["kind"], held["name"], held["labels"], held["seeds"]) == ("done", "run", "small", ["fedavg", "drdm"], [3, 5])
    assert (tmp_path / "a" / "scenario.yaml").read_text() == dump(scenario)
    assert set(make(tmp_path / "a", scenario)) == {"scenario.yaml", "table.csv", "answer.txt"}  # a picture is not sealed


def test_what_was_damaged_is_removed_and_what_is_whole_is_vouched_for(tmp_path):
    make(tmp_path / "a", small(), good_csv="x\n1\n", bad_csv="x\n1\n", gone_csv="x\n1\n")
    (tmp_path / "a" / "bad.csv").write_text("x\n2\n")
    (tmp_path / "a" / "gone.csv").unlink()
    assert set(make(tmp_path / "a", small())) == {"scenario.yaml", "good.csv"}
    assert not (tmp_path / "a" / "bad.csv").exists()
    assert (tmp_path / "a" / "good.csv").read_text() == "x\n1\n"


@pytest.mark.parametrize(("error", "raised", "ending"), [
    (WflsimError("no"), WflsimError, "failed"), (OSError(28, "No space left on device", "x.csv"), StoreError, "failed"),
    (KeyboardInterrupt(), KeyboardInterrupt, "interrupted"), (ValueError("a bug"), ValueError, "interrupted"),
])  # fmt: skip
def test_how_it_ended_is_written_down_whatever_happens(tmp_path, error, raised, ending):
    with pytest.raises(raised) as caught, opened(small(), tmp_path / "a", False):
        raise error
    assert about(tmp_path / "a")["status"] == ending
    if raised is StoreError:
        assert str(caught.value) == "cannot read or write x.csv: No space left on device; make room for it, or name another folder with --out"


def test_only_the_seeds_of_a_folders_scenario_may_change(tmp_path):
    make(tmp_path / "a", small("seeds=2"))
    make(tmp_path / "a", small("seeds=3"))
    assert about(tmp_path / "a")["seeds"] == [0, 1, 2]
    with pytest.raises(StoreError, match=r"holds the results of another version of this scenario \(stop\.rounds: 4 there, 5 here\); keep them"):
        make(tmp_path / "a", small("stop.rounds=5"))
    assert (tmp_path / "a" / "scenario.yaml").read_text() == dump(small("seeds=3"))
    make(tmp_path / "a", small("stop.rounds=5"), fresh=True)
    assert (tmp_path / "a" / "scenario.yaml").read_text() == dump(small("stop.rounds=5"))


def test_six_differing_keys_are_named_and_the_rest_is_counted(tmp_path):
    changes = ["clients=7", "stop.rounds=5", "train.batch=8", "partition.alpha=1", "partition.sigma=1", "radio.power=1 W", "radio.bandwidth=1 MHz", "evaluate_every=2"]
    make(tmp_path / "a", small())
    with pytest.raises(StoreError) as caught:
        make(tmp_path / "a", small(*changes))
    assert str(caught.value).count(" there, ") == 6
    assert "; and 2 other keys)" in str(caught.value)
    with pytest.raises(StoreError) as caught:
        make(tmp_path / "a", small(*changes[:6]))
    assert str(caught.value).count(" there, ") == 6
    assert "other keys" not in str(caught.value)


def test_fresh_discards_results_but_never_a_folder_of_somebody_else(tmp_path):
    make(tmp_path / "a", small(), old_csv="x\n1\n")
    make(tmp_path / "a", small(), fresh=True)
    assert not (tmp_path / "a" / "old.csv").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all my work")
    make(tmp_path / "mine", small(), fresh=True)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "all my work"


def test_results_whose_scenario_is_gone_or_damaged_are_nobodys(tmp_path):
    make(tmp_path / "a", small())
    (tmp_path / "a" / "scenario.yaml").unlink()
    make(tmp_path / "a", small())  # the seal says that it was this very scenario
    (tmp_path / "a" / "scenario.yaml").unlink()
    with pytest.raises(StoreError, match="is not there, so nobody knows which scenario"):
        make(tmp_path / "a", small("clients=7"))
    results = tmp_path / "old" / "drdm" / "seed-0"
    results.mkdir(parents=True)
    make(tmp_path / "old", small())  # an empty folder is nobody's yet
    for path in ("run.json", "scenario.yaml"):
        (tmp_path / "old" / path).unlink()
    (results / "rounds.csv").write_text("")
    with pytest.raises(StoreError, match="is not there, so nobody knows which scenario"):
        make(tmp_path / "old", small())
    make(tmp_path / "b", small())
    (tmp_path / "b" / "scenario.yaml").write_text(dump(small("clients=7")))
    with pytest.raises(StoreError, match="cannot be read, so nobody knows which scenario"):
        make(tmp_path / "b", small("clients=7"))


# --- tables of which a line is damaged

NEEDED = {
    "rounds": {"round", "start_s", "end_s", "asked", "delivered", "energy_j", "radiated_j", "paper_energy_j", "up_bits", "down_bits"},
    "clients": {"round", "client"},
    "legs": {"round", "phase", "client", "activity", "start_s", "end_s", "bits", "attempts", "energy_j", "radiated_j", "paper_j", "outcome"},
}  # fmt: skip
COLUMNS = [(name, column) for name, kind in (("rounds", RoundRow), ("clients", ClientRow), ("legs", Leg)) for column in kind._fields]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("rows") / "run", labels=("drdm",), seeds=1, rounds=3) / "drdm" / "seed-0"


@pytest.mark.parametrize(("name", "column"), COLUMNS)
def test_a_line_that_lacks_a_number_is_dropped_only_where_one_must_stand(run, tmp_path, name, column):
    frame = pd.read_csv(run / f"{name}.csv", dtype=str)
    frame.loc[1, column] = None
    frame.to_csv(tmp_path / f"{name}.csv", index=False)
    kept, dropped = read_whole_rows(tmp_path / f"{name}.csv", list(frame.columns))
    assert (dropped, len(kept)) == ((1, len(frame) - 1) if column in NEEDED[name] else (0, len(frame)))


@pytest.mark.parametrize(("column", "value", "dropped"), [
    ("energy_j", 1e30, 0), ("energy_j", 1.1e30, 1), ("energy_j", -1.1e30, 1), ("energy_j", "three", 1), ("round", 1e6, 0), ("round", 1e6 + 1, 1), ("round", -1, 1), ("round", 0, 0),
])  # fmt: skip
def test_numbers_beyond_all_reason_from_both_sides(run, tmp_path, column, value, dropped):
    frame = pd.read_csv(run / "rounds.csv").astype(object)
    frame.loc[1, column] = value
    frame.to_csv(tmp_path / "rounds.csv", index=False)
    assert read_whole_rows(tmp_path / "rounds.csv", list(frame.columns))[1] == dropped


def test_a_line_too_long_costs_no_other(run, tmp_path):
    lines = (run / "rounds.csv").read_text().splitlines()
    torn = lines[2].split(",")
    (tmp_path / "rounds.csv").write_text("\n".join([lines[0], lines[1], ",".join(torn[:4] + torn), lines[3]]) + "\n")
    kept, _ = read_whole_rows(tmp_path / "rounds.csv", lines[0].split(","))
    assert kept[kept["round"] != 1]["energy_j"].tolist() == pd.read_csv(run / "rounds.csv")["energy_j"].iloc[[0, 2]].tolist()


def test_the_strict_reader_names_the_missing_column_and_the_stray_word(run, tmp_path):
    frame = pd.read_csv(run / "rounds.csv").astype(object)
    frame.drop(columns=["worst", "jain"]).to_csv(tmp_path / "rounds.csv", index=False)
    with pytest.raises(StoreError, match="is damaged: no column worst, jain;"):
        read_rows(tmp_path / "rounds.csv")
    frame.loc[0, "energy_j"] = "much"
    frame.to_csv(tmp_path / "rounds.csv", index=False)
    with pytest.raises(StoreError, match="is damaged: column energy_j holds something that is no number;"):
        read_rows(tmp_path / "rounds.csv")
    (tmp_path / "rounds.csv").write_text("")
    with pytest.raises(StoreError, match="cannot be read as a table"):
        read_rows(tmp_path / "rounds.csv")


@pytest.mark.parametrize("body", ["0,a,0,0\n", "0,a,-1,0\n", "0,a,1e31,0\n"])
def test_a_partition_holds_counts_of_samples(tmp_path, body):
    (tmp_path / "p.csv").write_text("client,class,samples,test_samples\n" + body)
    with pytest.raises(ValueError, match="not counts of samples"):
        read_partition(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text("client,class,samples,test_samples\n0,nan,2,1\n1,b,0,0\n")
    assert read_partition(tmp_path / "p.csv").to_dict("list") == {"client": [0, 1], "class": ["nan", "b"], "samples": [2.0, 0.0], "test_samples": [1, 0]}
