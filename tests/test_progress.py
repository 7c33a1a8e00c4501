"""What a waiting user sees: bars with an ETA on a narrow terminal, plain lines in a log file."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from wflsim.cli import progress as module
from wflsim.cli import sweep as sweep_module
from wflsim.cli.progress import progress
from wflsim.record import RoundRow, csv_lines
from wflsim.scenario import build
from wflsim.scenario.source import parse

ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
HEADER = ",".join(RoundRow._fields) + "\n"


def rows(*numbers):
    return csv_lines([RoundRow(s, s, 12345.6 + s, 5, 5, 0.5, 0.1, 0.2, 10, 10, 0.8, 0.7, 0.1, 0.6, 0.9, None) for s in numbers])


@pytest.fixture
def cell(tmp_path):
    folder = tmp_path / "policy/seed-0"
    folder.mkdir(parents=True)
    (folder / "rounds.csv").write_text(HEADER + rows(*range(300)))
    return folder


def watched(console, cell, later="", wait_s=1.3):
    titles = ["lambda-drdm with a long label, as users write them, seed 17", "fedavg seed 0"]
    with progress(console, [(title, cell) for title in titles], 1000):
        time.sleep(wait_s / 2)
        with (cell / "rounds.csv").open("a") as file:
            file.write(later)
        time.sleep(wait_s / 2)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 132])
def test_every_bar_fits_the_terminal_and_shows_count_and_eta(cell, width):
    shown = watched(Console(file=io.StringIO(), force_terminal=True, width=width), cell, rows(300, 301))
    lines = [line for line in re.split(r"[\r\n]+", ANSI.sub("", shown)) if "rounds" in line or "/1000" in line]
    assert lines
    assert max(map(len, lines)) <= width
    assert any(line.startswith("lambda-drdm with") for line in lines)
    for line in lines:
        assert re.search(r"\d+/[12]000 rounds +\d:\d\d:\d\d ETA +(\d:\d\d:\d\d|-:--:--)$", line.rstrip()), line


def test_without_a_terminal_there_is_a_plain_line_now_and_then(cell, monkeypatch):
    monkeypatch.setattr(module, "PLAIN_S", 0.5, raising=False)
    shown = watched(Console(file=io.StringIO(), width=40), cell, rows(300, 301), wait_s=3.0)
    lines = shown.splitlines()
    assert 2 <= len(lines) <= 6, shown
    assert re.fullmatch(r"604/2000 rounds after [0-9.]+ m?s, about [0-9.]+ (s|min|h) to go", lines[-1]), shown


def test_the_time_to_go_is_that_of_the_rounds_made_since_the_start(cell, monkeypatch):
    """600 of 2000 rounds were there at the start; 4 more took t seconds, so the other 1396 take 349 t."""
    monkeypatch.setattr(module, "PLAIN_S", 0.2, raising=False)
    monkeypatch.setattr(module, "duration", lambda seconds: f"{seconds!r} s")
    shown = watched(Console(file=io.StringIO()), cell, rows(300, 301), wait_s=2.0)
    after, left = (float(text) for text in re.search(r"604/2000 rounds after (.*) s, about (.*) s to go", shown).groups())
    assert left == pytest.approx(after * 1396 / 4)


def test_a_short_run_prints_no_progress_into_a_log(cell):
    assert watched(Console(file=io.StringIO()), cell) == ""


@pytest.mark.parametrize("damage", ["\xff,\xfe\n", "301,x,y,z\n", "301\n", "nan,nan\n"])
def test_a_damaged_row_or_a_table_begun_anew_does_not_stop_the_watching(cell, damage):
    tail = module._Tail(cell)
    assert int(tail.read()["round"]) == 299
    with (cell / "rounds.csv").open("a", encoding="latin-1") as file:
        file.write(damage)
    assert int(tail.read()["round"]) == 299
    assert tail.energy_j == pytest.approx(150)
    (cell / "rounds.csv").write_text(HEADER + rows(0, 1))
    assert int(tail.read()["round"]) == 1
    assert tail.energy_j == pytest.approx(1)


def test_a_sweep_says_how_many_cells_are_done_too(tmp_path, monkeypatch):
    from test_store import SMALL

    monkeypatch.setattr(module, "PLAIN_S", 0.05, raising=False)
    console = Console(file=io.StringIO(), width=200)
    scenario = build(parse(SMALL, "small.yaml"), ["sweep={grid: {radio.snr: [0 dB, 10 dB]}}", "stop.rounds=40"])
    sweep_module.sweep(scenario, tmp_path / "out", 1, False, "local", False, console)
    assert re.search(r"^[0-4]/4 cells after ", console.file.getvalue(), re.MULTILINE), console.file.getvalue()
