"""Tables of one run: which columns may be empty, and tables of the first versions, which had fewer columns."""

from __future__ import annotations

import pytest

from wflsim.errors import StoreError
from wflsim.records import ClientRow, Leg, csv_lines
from wflsim.results.folders import columns_of
from wflsim.results.rows import read_rows, read_whole_rows

FIRST_CLIENTS = "round,client,accuracy,loss,lam\n0,0,0.5,1.25,\n0,1,0.75,1.0,\n"
FIRST_LEGS = (
    "round,phase,client,activity,start_s,end_s,bits,snr_db,rate_bps,attempts,energy_j,radiated_j,paper_j,outcome\n"
    "0,0,3,transmit,1.0,2.0,64,10.0,64.0,1,0.5,0.1,0.1,ok\n"
)


@pytest.mark.parametrize(("name", "text", "rows"), [("clients.csv", FIRST_CLIENTS, 2), ("legs.csv", FIRST_LEGS, 1)])
def test_a_table_of_the_first_version_is_read_with_empty_columns(tmp_path, name, text, rows):
    path = tmp_path / name
    path.write_text(text)
    strict, (forgiving, damaged) = read_rows(path), read_whole_rows(path, columns_of(name))
    assert (len(strict), len(forgiving), damaged) == (rows, rows, 0)
    for frame in (strict, forgiving):
        assert set(columns_of(name)) <= set(frame.columns)
    later = [column for column in columns_of(name) if column not in text.split("\n")[0].split(",")]
    assert later
    assert strict[later].isna().all(axis=None)


def test_a_row_of_an_ordinary_policy_is_whole(tmp_path):
    """Its policy has no lambda, no clusters and no peers: those fields are empty."""
    for name, row in (("clients.csv", ClientRow(0, 0, 0.5, 1.25, None)), ("legs.csv", Leg(0, 0, 1, "compute", 0.0, 1.0))):
        path = tmp_path / name
        path.write_text(",".join(columns_of(name)) + "\n" + csv_lines([row]))
        frame, damaged = read_whole_rows(path, columns_of(name))
        assert (len(frame), damaged) == (1, 0)


def test_a_column_that_was_always_there_must_be(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text(FIRST_CLIENTS.replace("loss", "lost"))
    with pytest.raises(StoreError, match="no column loss"):
        read_rows(path)
    with pytest.raises(ValueError, match="no column loss"):
        read_whole_rows(path, columns_of("clients.csv"))
