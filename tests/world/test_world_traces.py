"""Channel traces: the header is believed by name, values must be decibels, and what was read is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

import wflsim
from wflsim.errors import ScenarioError
from wflsim.exchange import Order
from wflsim.world.channel.traces import TraceChannel, TraceSpec, describe
from wflsim.world.spec import WorldSpec, influences, remarks
from wflsim.world.world import World

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def snr_db(path, client, at_s=0.0):
    return float(10 * np.log10(TraceChannel(TraceSpec(file=str(path))).snr(client, np.array([at_s]))[0]))


@pytest.mark.parametrize(
    "header",
    [
        "time_s,client_0,client_1", "time_s,snr_db_0,snr_db_1", "time_s,c0,c1", "time_s,0,1", "time_s, client 0, client 1",
        "time_s,client_0_snr_db,client_1_snr_db", "TIME_S,UE0,UE1", "time_s,snr_0_db,snr_1_db", "time_s,client_0 [dB],client_1 [dB]",
        '"time_s","client_0","client_1"', "\ufefftime_s,client_0,client_1",
    ],
)  # fmt: skip
def test_headers_that_say_what_they_hold(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}\n0,3,7\n1,4,8\n", encoding="utf-8")
    assert [snr_db(tmp_path / "t.csv", client) for client in range(3)] == pytest.approx([3, 7, 3])


def test_columns_belong_to_the_clients_they_name(tmp_path):
    (tmp_path / "t.csv").write_text("time_s,client_2,client_0,client_1\n0,12,10,11\n1,12,10,11\n")
    assert [snr_db(tmp_path / "t.csv", client) for client in range(3)] == pytest.approx([10, 11, 12])


def test_one_client_needs_no_number(tmp_path):
    (tmp_path / "t.csv").write_text("time_s,snr_db\n0,3\n1,4\n")
    assert snr_db(tmp_path / "t.csv", 5, 1.0) == pytest.approx(4)


WRONG = [
    ("time,client,snr\n0,0,10\n0,1,20\n", r"line 1: one line per time and client \(time, client, snr\) is not understood"),
    ("time_s,client,snr_db\n0,0,10\n0,1,20\n", "one line per time and client"),
    ("time,client_0\n0,1\n1,2\n", r"line 1: the first column is called 'time'; the header must be time_s"),
    ("client_0,time_s\n0,1\n1,2\n", "the first column is called 'client_0'"),
    ("0,10\n1,11\n2,12\n", "the first column is called '0'"),
    ("time_s,rate_mbps_0\n0,10\n1,11\n", "column 'rate_mbps_0' does not hold an SNR in dB"),
    ("time_s,client_0_mbps\n0,10\n1,11\n", "does not hold an SNR"),
    ("time_s,throughput_0\n0,10\n1,11\n", "does not hold an SNR"),
    ("time_s,client_0_kbit\n0,10\n1,11\n", "does not hold an SNR"),
    ("time_s,snr_linear_0\n0,10\n1,11\n", "does not hold an SNR"),
    ("time_s,rsrp_0\n0,-90\n1,-80\n", "does not hold an SNR"),
    ("time_s,client_0_dbm\n0,10\n1,11\n", "does not hold an SNR"),
    ("time_s,alice,bob\n0,10,10\n1,11,10\n", "column 'alice' does not say which client it is of"),
    ("time_s,client_1,client_2\n0,10,10\n1,11,10\n", "from 0 to 1"),
    ("time_s,client_0,client_0\n0,10,10\n1,11,10\n", "one for each client"),
    ("time_s,client_0\n0,10\n1,nan\n", "line 3: nan for client 0 is no SNR in dB"),
    ("time_s,client_0\n0,10\n1,inf\n", "line 3: inf for client 0 is no SNR in dB"),
    ("time_s,client_0,client_1\n0,10,3\n1,10,150\n", "line 3: 150 for client 1 is no SNR in dB; allowed: -60 to 80 dB, or -100 dB and less"),
    ("time_s,client_0\n0,-70\n1,10\n", "line 2: -70 for client 0"),
    ("time_s,client_0\n0,10\n1,ten\n", "line 3: could not convert"),
    ("time_s,client_0\n0,10\n1,11,12\n", "line 3: 3 numbers under a header of 2 columns"),
    ("time_s,client_0\n0,10\n2,11\n1,12\n", "line 4: time_s is 1; times must be"),
    ("time_s,client_0\n0,10\nnan,11\n", "line 3: time_s is nan"),
    ("time_s,client_0\n0,10\n\n1,11\n", "line 4: there is an empty line before it"),
    ("time_s,client_0\n0,10\n", "at least two instants"),
    ("time_s\n0\n1\n", "at least two instants and a column"),
    ("", "the first column is called ''"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_files_that_hold_something_else_are_refused_with_line_and_cure(tmp_path, text, words):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ValidationError, match=words) as caught:
        TraceSpec(file=str(tmp_path / "bad.csv"))
    assert "bad.csv" in str(caught.value)


def test_an_npz_is_checked_alike(tmp_path):
    np.savez(tmp_path / "t.npz", time_s=[0.0, 1.0], snr_db=[[0.0, 10.0], [0.0, 999.0]])
    with pytest.raises(ValidationError, match="entry 1: 999 for client 1 is no SNR in dB"):
        TraceSpec(file=str(tmp_path / "t.npz"))
    np.savez(tmp_path / "u.npz", time=[0.0, 1.0], snr_db=[[0.0], [0.0]])
    with pytest.raises(ValidationError, match="an NPZ needs the arrays time_s and snr_db"):
        TraceSpec(file=str(tmp_path / "u.npz"))


def test_a_scenario_with_a_foreign_file_is_refused_where_it_names_it(tmp_path):
    (tmp_path / "rates.csv").write_text("time_s,mbps_0\n0,1\n1,2\n")
    text = (SCENARIOS / "walking_trace.yaml").read_text().replace("walk.csv", "rates.csv")
    (tmp_path / "s.yaml").write_text(text)
    line = next(number for number, words in enumerate(text.splitlines(), start=1) if "rates.csv" in words)
    with pytest.raises(ScenarioError, match=rf"s\.yaml:{line}: radio\.trace\.file: got 'rates\.csv'; .*'mbps_0' does not hold"):
        wflsim.load(tmp_path / "s.yaml")


def test_no_coverage_is_an_outage_and_an_influence(tmp_path):
    (tmp_path / "t.csv").write_text("time_s,client_0,client_1\n0,10,-100\n1000,10,10\n")
    spec = WorldSpec.model_validate({"radio": {"trace": {"file": str(tmp_path / "t.csv")}, "patience": "1 s"}})
    assert influences(spec) == ["radio.trace.file"]
    w = World(spec, 2, 0)
    assert [o.fate for o in w.gather([Order(c, 0, 0, 0, 0, 0, 10**6, 0, 0, 0) for c in range(2)], None)] == ["delivered", "lost"]
    assert [(leg.client, leg.outcome, leg.snr_db) for leg in w.take_legs() if leg.activity == "transmit"] == [
        (0, "ok", pytest.approx(10)), (1, "outage", None),
    ]  # fmt: skip
    (tmp_path / "whole.csv").write_text("time_s,client_0\n0,10\n1,-60\n")
    assert influences(WorldSpec.model_validate({"radio": {"trace": {"file": str(tmp_path / "whole.csv")}}})) == []


def test_what_was_read_is_said(tmp_path):
    """Lines at 0, 1, 2, 5, 6: a step of 1 s, one gap of 3 s; the last line lasts the mean step of 1.5 s, so 7.5 s in all."""
    (tmp_path / "t.csv").write_text("time_s,c0,c1\n10,1,2\n11,3,4\n12,5,6\n15,7,-200\n16,8,9\n")
    spec = WorldSpec.model_validate({"radio": {"trace": {"file": str(tmp_path / "t.csv")}}})
    assert remarks(spec) == [describe(str(tmp_path / "t.csv"))]
    assert describe(str(tmp_path / "t.csv")) == (
        "radio.trace.file t.csv: 2 clients, 6 s, a line every 1 s (1 gaps, the longest step is 3 s), SNR 1 / 5 / 9 dB (least, "
        "median, greatest), no coverage in 10.00% of the entries; after 7.5 s it starts over; more clients than 2 get its "
        "columns in turn"
    )


def test_the_shipped_walk_is_read_as_before():
    spec = wflsim.load(SCENARIOS / "walking_trace.yaml").world
    assert len(remarks(spec)) == 1
    assert snr_db(SCENARIOS / "walk.csv", 3, 2.0) == pytest.approx(13.7)


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time_s,client_0\n0,3\n1,4\n")
    assert snr_db(path, 0) == pytest.approx(3)
    path.write_text("time_s,client_0\n0,13\n1,4\n")
    assert snr_db(path, 0) == pytest.approx(13)
