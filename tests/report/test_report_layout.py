"""What the eye meets on the page: bars that do not cover each other, and a table that fits."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from report_folders import run_folder, sweep_folder

import wflsim
from wflsim.report.charts.clients import timeline
from wflsim.report.compose import compose, gather
from wflsim.report.figures.clients import client_figures
from wflsim.report.page import COLUMNS, SPLIT_ROWS, parts, render

QUICKSTART = Path(__file__).resolve().parents[2] / "scenarios/quickstart.yaml"


@pytest.fixture(scope="module")
def phones(tmp_path_factory):
    """Two rounds of phones whose LTE radio stays awake for ten seconds after each transfer, beside computing."""
    folder = tmp_path_factory.mktemp("phones")
    overrides = ["stop={rounds: 2}", "seeds=1", "model={name: linear}", "devices={compute: phone_midrange, modem: lte}", "server.idle=all"]
    wflsim.run(wflsim.load(QUICKSTART, overrides), folder, workers=1)
    legs = wflsim.Results(folder).legs
    tails, work = legs[legs["activity"] == "tail"], legs[legs["activity"] == "compute"]
    pairs = [(t, w) for t in tails.itertuples() for w in work.itertuples() if (t.policy, t.client) == (w.policy, w.client)]
    assert any(t.start_s < w.end_s and w.start_s < t.end_s for t, w in pairs), "no tail beside computing: the test shows nothing"
    return gather([folder])


def disjoint(boxes):
    """No two rectangles (left, right, top, bottom) overlap by more than rounding."""
    for a, b in combinations(boxes, 2):
        across = min(a[1], b[1]) - max(a[0], b[0])
        down = min(a[3], b[3]) - max(a[2], b[2])
        assert across <= 1e-9 * max(1.0, a[1]) or down <= 1e-9, (a, b)


def test_no_bar_of_the_timeline_covers_another(phones):
    for view in timeline(phones.stories).views.values():
        boxes = []
        for trace in view["data"]:
            if trace["type"] == "bar":
                widths = trace["width"] if hasattr(trace["width"], "__len__") else [trace["width"]] * len(trace["y"])
                for left, length, y, thick in zip(trace["base"], trace["x"], trace["y"], widths, strict=True):
                    boxes.append((left, left + length, y - thick / 2, y + thick / 2))
        assert len(boxes) > 10
        disjoint(boxes)
        low, high = sorted(view["layout"]["yaxis"]["range"])
        assert all(low <= top and bottom <= high for _, _, top, bottom in boxes), "a bar is cut off at the axis"


def test_no_bar_of_the_printed_timeline_covers_another(phones):
    figures = [figure for name, figure in client_figures(phones) if name.startswith("timeline")]
    for figure in figures:
        bars = [bar for box in figure.axes[0].containers for bar in box]
        disjoint([(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_y(), bar.get_y() + bar.get_height()) for bar in bars])
    assert figures


def shown(page, id):
    """[heads, rows of texts] of every table element under a caption."""
    figure = re.search(rf'<figure class="card table" id="table-{id}">.*?</figure>', render(page), re.S)[0]
    tables = re.findall(r"<table.*?</table>", figure, re.S)
    return [(re.findall(r"<th scope=\"col\".*?<button[^>]*>(.*?)</button>", one, re.S), re.findall(r"<tr data-row", one)) for one in tables]


def test_a_wide_table_is_shown_in_parts_that_hold_every_column_once(tmp_path):
    page = compose(gather([run_folder(tmp_path / "run", rounds=5)]))
    table, both = page.tables[0], shown(page, "comparison")
    assert len(table.heads) > COLUMNS
    assert len(both) == 2
    assert all(len(heads) <= COLUMNS and heads[:2] == ["policy", "seeds"] and len(rows) == 2 for heads, rows in both)
    flat = [head.replace("&#39;", "'") for heads, _ in both for head in heads[2:]]
    assert ["policy", "seeds", *flat] == table.heads


def test_a_long_table_stays_whole(tmp_path):
    """It is read down its columns: three tables of hundreds of rows would keep a regime's numbers pages apart."""
    table = compose(gather([sweep_folder(tmp_path / "sweep")])).tables[0]
    long = replace(table, rows=table.rows * 2)
    assert len(long.rows) > SPLIT_ROWS >= len(table.rows)
    assert len(parts(table)) > 1
    assert [(part.heads, part.rows) for part in parts(long)] == [(long.heads, long.rows)]
