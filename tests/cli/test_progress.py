"""What a waiting user sees: bars with an ETA on a narrow terminal, plain lines in a log file."""

from __future__ import annotations

import io
import itertools
import math
import re
import time

import pytest
from rich.console import Console
from small_scenarios import SMALL

from wflsim.cli import progress as module
from wflsim.cli import sweep as sweep_module
from wflsim.cli.progress import progress
from wflsim.records import RoundRow, csv_lines
from wflsim.scenario import build
from wflsim.scenario.source import parse

ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
HEADER = ",".join(RoundRow._fields) + "\n"


def rows(*numbers):
    return csv_lines([RoundRow(s, s, 12345.6 + s, 5, 5, 0.5, 0.1, 0.2, 10, 10, 0.8, 0.7, 0.1, 0.6, 0.9, None) for s in numbers])


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "policy/seed-0"
    folder.mkdir(parents=True)
    (folder / "rounds.csv").write_text(HEADER + rows(*range(300)))
    return folder


def watched(console, place, later="", wait_s=1.3):
    titles = ["lambda-drdm with a long label, as users write them, seed 17", "fedavg seed 0"]
    with progress(console, [(title, place) for title in titles], 1000):
        time.sleep(wait_s / 2)
        with (place / "rounds.csv").open("a") as file:
            file.write(later)
        time.sleep(wait_s / 2)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 132])
def test_every_bar_fits_the_terminal_and_shows_count_and_eta(place, width):
    shown = watched(Console(file=io.StringIO(), force_terminal=True, width=width), place, rows(300, 301))
    lines = [line for line in re.split(r"[\r\n]+", ANSI.sub("", shown)) if "rounds" in line or "/1000" in line]
    assert lines
    assert max(map(len, lines)) <= width
    assert any(line.startswith("lambda-drdm with") for line in lines)
    for line in lines:
        assert re.search(r"\d+/[12]000 rounds +\d:\d\d:\d\d ETA +(\d:\d\d:\d\d|-:--:--)$", line.rstrip()), line


def test_without_a_terminal_there_is_a_plain_line_now_and_then(place, monkeypatch):
    monkeypatch.setattr(module, "PLAIN_S", 0.5, raising=False)
    shown = watched(Console(file=io.StringIO(), width=40), place, rows(300, 301), wait_s=3.0)
    lines = shown.splitlines()
    assert 2 <= len(lines) <= 6, shown
    assert re.fullmatch(r"all runs: 604 of at most 2000 rounds, [0-9.]+ m?s so far, ETA at most about [0-9.]+ (s|min|h)", lines[-1]), shown


def test_the_time_to_go_is_that_of_the_rounds_made_since_the_start(place, monkeypatch):
    """600 of 2000 rounds were there at the start; 4 more took t seconds, so the other 1396 take 349 t."""
    monkeypatch.setattr(module, "PLAIN_S", 0.2, raising=False)
    monkeypatch.setattr(module, "duration", lambda seconds: f"{seconds!r} s")
    shown = watched(Console(file=io.StringIO()), place, rows(300, 301), wait_s=2.0)
    after, left = (float(text) for text in re.search(r"604 of at most 2000 rounds, (.*) s so far, ETA at most about (.*) s", shown).groups())
    assert left == pytest.approx(after * 1396 / 4)


def test_plain_lines_come_ever_more_seldom():
    """After 10 s, then when a twentieth of the time so far has passed: 10 s apart at first, 50 s after a thousand."""
    now, said = [0.0], []
    lines = module.PlainLines(lambda words: said.append(now[0]), lambda: now[0])
    lines.take(module.Tick("all runs", 0, 10, "rounds"))
    for now[0] in range(2000):
        lines.write_if_due()
    gaps = [after - before for before, after in itertools.pairwise([0, *said])]
    assert gaps[:20] == [10] * 20
    assert gaps == [max(10, math.ceil(0.05 * began)) for began in [0, *said[:-1]]]


def test_a_short_run_prints_no_progress_into_a_log(place):
    assert watched(Console(file=io.StringIO()), place) == ""


@pytest.mark.parametrize("damage", ["\xff,\xfe\n", "301,x,y,z\n", "301\n", "nan,nan\n"])
def test_a_damaged_row_or_a_table_begun_anew_does_not_stop_the_watching(place, damage):
    tail = module._Tail("fedavg seed 0", place, 1000)
    assert int(tail.read()["round"]) == 299
    with (place / "rounds.csv").open("a", encoding="latin-1") as file:
        file.write(damage)
    assert int(tail.read()["round"]) == 299
    assert tail.energy_j == pytest.approx(150)
    (place / "rounds.csv").write_text(HEADER + rows(0, 1))
    assert int(tail.read()["round"]) == 1
    assert tail.energy_j == pytest.approx(1)


def test_a_sweep_says_how_many_runs_are_done_too(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PLAIN_S", 0.05, raising=False)
    console = Console(file=io.StringIO(), width=200)
    scenario = build(parse(SMALL, "small.yaml"), ["sweep={grid: {radio.snr: [0 dB, 10 dB]}}", "stop.rounds=40"])
    sweep_module.sweep(scenario, tmp_path / "out", 1, False, "local", False, console)
    assert re.search(r"^all regimes: [0-4] of at most 4 runs, ", console.file.getvalue(), re.MULTILINE), console.file.getvalue()
