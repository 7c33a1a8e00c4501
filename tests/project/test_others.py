"""Other people's numbers: the page follows from its table, and every row of the table comes out again."""

from __future__ import annotations

import pandas as pd
import pytest

from studies import others


def test_the_page_of_others_follows_from_its_table():
    assert (others.REPORT / "README.md").read_text() == others.page(others.committed())


def test_every_committed_row_agrees_with_what_stands_beside_it():
    table = others.committed()
    assert dict(table["work"].value_counts()) == {"Wang 2019": 6, "Chen 2021": 9, "SAFA": 4, "FEDL": 12}
    for row in table.itertuples():
        known = [value for value in (row.theirs, row.counted) if value == value]
        assert known, row
        for value in known:
            assert row.ours == pytest.approx(value, rel=row.relative, abs=0), row


def test_what_is_copied_is_what_the_table_calls_theirs():
    """The published numbers stand in the study and in the table; crashes shorten SAFA's rounds, so that they are seen."""
    table = others.committed()
    assert list(table.loc[table["quantity"] == "100 rounds", "theirs"].dropna()) == list(others.SAFA.values())
    crashing = table[table["case"].str.contains("crash")]
    assert 0.5 < float(crashing["ours"].iloc[0]) / next(iter(others.SAFA.values())) < 0.95


@pytest.mark.slow
def test_every_row_of_the_gallery_of_others_comes_out_again():
    again = others.rows().fillna({"unit": ""})
    pd.testing.assert_frame_equal(again, others.committed(), rtol=1e-12, check_dtype=False)
