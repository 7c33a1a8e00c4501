"""The page as a file: escaping, damaged folders, self-containment, and what it costs to make it."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from time import process_time

import pytest
from report_folders import asynchronous_folder, cell, run_folder, sweep_folder, tune_folder

from wflsim.errors import StoreError
from wflsim.report import build
from wflsim.report.charts.chart import to_json
from wflsim.report.compose import compose, gather
from wflsim.report.page import render

EVIL = "<script>alert(1)</script>"
LIMIT_BYTES = 6_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("page") / "run", rounds=25)


@pytest.fixture
def broken(folder, tmp_path):
    """A copy to damage."""
    return shutil.copytree(folder, tmp_path / "broken")


class Elements(HTMLParser):
    """What a browser would see: scripts, what they hold, and attributes that fetch."""

    def __init__(self):
        super().__init__()
        self.scripts, self.fetched, self.inside, self.text = [], [], None, []

    def handle_starttag(self, tag, attrs):
        self.inside = tag if tag in ("script", "style") else None
        self.fetched += [value for name, value in attrs if name in ("src", "href") and not value.startswith(("#", "data:"))]

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.text).append(data)


def elements(text):
    parser = Elements()
    parser.feed(text)
    return parser


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("kinds")
    return {
        "run": [run_folder(base / "run")],
        "single": [run_folder(base / "single", labels=["drdm"], seeds=1, partitions=False)],
        "no target": [run_folder(base / "free", target=None, rounds=8)],
        "asynchronous": [asynchronous_folder(base / "async")],
        "sweep": [sweep_folder(base / "sweep")],
        "sweep over one key": [sweep_folder(base / "sweep1", keys=1)],
        "tune": [tune_folder(base / "tune")],
        "tune over one key": [tune_folder(base / "tune1", keys=1)],
        "tune without regimes": [tune_folder(base / "tune0", keys=0)],
        "comparison": [base / "run", base / "single"],
        "everything": [base / "run", base / "sweep", base / "tune"],
    }


@pytest.mark.parametrize("kind", [
    "run", "single", "no target", "asynchronous", "sweep", "sweep over one key", "tune", "tune over one key",
    "tune without regimes", "comparison", "everything",
])  # fmt: skip
def test_one_file_that_fetches_nothing(folders, kind, tmp_path):
    path = build(folders[kind], tmp_path / "out" / "page.html")
    text = path.read_text(encoding="utf-8")
    seen = elements(text)
    assert path.stat().st_size < LIMIT_BYTES
    assert seen.fetched == []
    assert "default-src 'none'" in text
    assert len(seen.scripts) == 4  # theme, data, plotly, ours
    assert text.count('class="answer') == len(folders[kind])
    charts = json.loads(seen.scripts[1])
    assert charts
    assert {chart["id"] for chart in charts} == set(re.findall(r'id="chart-([^"]+)"', text))


@pytest.mark.parametrize("kind", ["run", "asynchronous", "sweep", "sweep over one key", "tune", "tune over one key"])
def test_charts_are_valid_plotly(folders, kind):
    from plotly.graph_objects import Figure

    def plain(value, key=""):
        """Theme colours as the page resolves them."""
        if isinstance(value, str) and value.startswith("@"):
            return [[0, "#fff"], [1, "#000"]] if value == "@sequential" else "#123456"
        if isinstance(value, dict):
            return {name: plain(entry, name) for name, entry in value.items()}
        return [plain(entry) for entry in value] if isinstance(value, list) else value

    for chart in json.loads(to_json([chart.spec() for chart in compose(gather(folders[kind])).charts])):
        for view in chart["views"].values():
            Figure(plain(view))  # raises on unknown attributes and bad values


def test_what_the_issue_asks_for_is_there(folders):
    ids = {chart.id for chart in compose(gather(folders["run"])).charts}
    assert ids >= {"accuracy", "pareto", "energy-cause", "energy-client", "latency", "stragglers", "timeline", "clients", "partition"}
    accuracy = next(chart for chart in compose(gather(folders["run"])).charts if chart.id == "accuracy")
    assert set(accuracy.views) == {f"{m}|{a}" for m in ("worst", "average", "std") for a in ("energy_j", "time_s", "rounds", "bits")}
    text = render(compose(gather(folders["run"])))
    for fact in ("live: losses", "python 3.11", "abc", "target reached", "rounds: 100"):
        assert fact in text


def test_markup_in_names_is_text(tmp_path):
    folder = run_folder(tmp_path / "evil", name=EVIL, labels=["<b>bold<b>", "drdm"], rounds=12)
    (folder / "drdm" / "seed-0" / "status.json").write_text(json.dumps({"status": EVIL, "reason": "</script>" + EVIL, "mode": EVIL}))
    second = shutil.copytree(folder, tmp_path / "<img src=x onerror=alert(2)>")
    for text in (render(compose(gather([folder]))), render(compose(gather([folder, second])))):
        seen = elements(text)
        assert len(seen.scripts) == 4
        assert not any("alert(1)" in script for script in seen.scripts[:1] + seen.scripts[2:])
        assert EVIL not in text
        assert "<img" not in text.replace(seen.scripts[2], "")
        assert "<b>bold" not in text
        assert any(EVIL in words for words in seen.text)
    assert "\\u003c/script" in to_json({"a": "</script>"})


def test_numbers_survive_json():
    assert json.loads(to_json([float("nan"), float("inf"), 1.23456789, 3.0, True, None])) == [None, None, 1.2346, 3, True, None]


def damaged(folder, name, content):
    path = folder / name
    path.unlink() if content is None else path.write_bytes(content)
    page = compose(gather([folder]))
    render(page)
    return page


@pytest.mark.parametrize(("name", "content", "said"), [
    ("scenario.yaml", None, "broken/scenario.yaml: not there"),
    ("scenario.yaml", b"name: [", "broken/scenario.yaml: "),
    ("scenario.yaml", b"- a list", "broken/scenario.yaml: not a mapping"),
    ("scenario.yaml", b"stop: {target: {metric: nonsense, accuracy: high}}", "stop.target is not readable"),
    ("scenario.yaml", b"\xff\xfe\x00", "broken/scenario.yaml: "),
    ("run.json", None, "broken/run.json is not there; call the same wflsim command again"),
    ("run.json", b"{", "broken/run.json is damaged: it is not JSON any more"),
    ("run.json", b'{"labels": 3, "seeds": "x", "versions": [], "status": 1}', None),
    ("drdm/seed-1/rounds.csv", None, "broken/drdm/seed-1/rounds.csv: not there"),
    ("drdm/seed-1/rounds.csv", b"", "broken/drdm/seed-1/rounds.csv: "),
    ("drdm/seed-1/rounds.csv", b"round,start_s\n0,1\n", "broken/drdm/seed-1/rounds.csv: "),
    ("drdm/seed-1/rounds.csv", bytes(range(256)) * 9, "broken/drdm/seed-1/rounds.csv: "),
    ("drdm/seed-0/legs.csv", None, "broken/drdm/seed-0/legs.csv: not there"),
    ("drdm/seed-0/legs.csv", b"what,is,this\n1,2\n", "broken/drdm/seed-0/legs.csv: "),
    ("drdm/seed-0/clients.csv", None, "broken/drdm/seed-0/clients.csv: not there"),
    ("drdm/seed-0/status.json", b"[]", None),
    ("drdm/seed-0/status.json", None, None),
    ("partition-seed-0.csv", b"client\nx\n", "partition-seed-0.csv: "),
])  # fmt: skip
def test_damage_is_said_and_the_rest_is_shown(broken, name, content, said):
    page = damaged(broken, name, content)
    assert page.openings[0].answer
    assert {chart.id for chart in page.charts} >= {"accuracy", "pareto", "timeline"}
    if said:
        assert any(said in line for line in page.missing), page.missing


def test_a_torn_last_line_and_a_doubled_one_cost_only_themselves(broken):
    path = broken / "drdm" / "seed-1" / "rounds.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:10], lines[10] + lines[10], *lines[11:20], lines[20][:30]]))
    page = damaged(broken, "run.json", (broken / "run.json").read_bytes())
    assert any("damaged rows left out" in line for line in page.missing)
    row = next(row for row in page.tables[0].rows if row[0].text == "drdm")
    assert row[1].value == 3


def test_a_run_that_is_not_over_says_so(broken):
    shutil.rmtree(broken / "drdm" / "seed-2")
    about = json.loads((broken / "run.json").read_text())
    page = damaged(broken, "run.json", json.dumps({**about, "status": "interrupted"}).encode())
    assert "not complete (status: interrupted)" in page.warnings[0]
    assert any("drdm/seed-2/rounds.csv: not there" in line for line in page.missing)


TABLES = [(sweep_folder, "runs.csv"), *((tune_folder, name) for name in ("map.csv", "costs.csv", "curves.csv"))]


@pytest.mark.parametrize(("make", "name"), TABLES)
def test_damaged_sweeps_and_maps(make, name, folder, tmp_path):
    other = make(tmp_path / "other")
    assert (other / name).exists()
    (other / name).write_text("a,b\n1,2\n")
    page = compose(gather([folder, other]))
    render(page)
    assert any(name in line and "no column" in line for line in page.missing)


def test_nothing_at_all_is_an_error_that_names_the_reasons(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"nothing to report: .*absent is not a folder.*empty: nothing to show"):
        build([tmp_path / "absent", tmp_path / "empty"])
    with pytest.raises(StoreError, match="nothing to report"):
        build([])


def test_one_good_folder_among_bad_ones_is_shown(folder, tmp_path):
    out = build([tmp_path / "absent", folder], tmp_path / "page.html")
    assert "absent is not a folder" in out.read_text()


def test_a_place_that_cannot_be_written_is_said(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        build([folder], tmp_path / "file" / "page.html")


def test_default_place_is_the_first_folder(broken):
    assert build([broken]) == broken / "report.html"
    assert build([broken]).read_bytes() == build([broken]).read_bytes()


def test_importing_it_waits_for_nothing(folder, tmp_path):
    code = (
        "import sys; from wflsim.report import build; from pathlib import Path\n"
        "assert not {'pandas', 'plotly', 'matplotlib', 'jinja2'} & set(sys.modules)\n"
        f"build([Path({str(folder)!r})], Path({str(tmp_path / 'p.html')!r}))\n"
        "assert not {'torch', 'simpy', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_two_hundred_runs_are_made_in_time_and_stay_small(tmp_path):
    labels = [f"policy{i}" for i in range(20)]
    folder = run_folder(tmp_path / "big", labels=labels, seeds=10, rounds=1, clients=30, partitions=False)
    for p, label in enumerate(labels):
        # the legs of one seed stand in for all: only how many there are matters here
        model = folder / label / "seed-0"
        shutil.rmtree(model)
        cell(model, p, 0, 100, 30, 0.05)
        for seed in range(1, 10):
            shutil.rmtree(folder / label / f"seed-{seed}")
            shutil.copytree(model, folder / label / f"seed-{seed}")
    began = process_time()  # one thread: what a machine with nothing else to do would show on its clock
    path = build([folder])
    took = process_time() - began
    print(f"{took:.1f} s, {path.stat().st_size / 1e6:.2f} MB")
    assert took < 20
    assert path.stat().st_size < LIMIT_BYTES
    text = path.read_text(encoding="utf-8")
    assert "Curves are cut to" in text
    assert "drawn in bins of up to" in text
    assert "A few telling moments of seed 0; legs.csv holds all." in text


def mutated(rng, content):
    """One accident: cut off, bytes flipped, lines shuffled, a number replaced by nonsense."""
    if rng.random() < 0.25:
        return content[: rng.randrange(len(content) + 1)]
    if rng.random() < 0.3:
        flipped = bytearray(content)
        for _ in range(rng.randrange(1, 20)):
            if flipped:
                flipped[rng.randrange(len(flipped))] = rng.randrange(256)
        return bytes(flipped)
    text = content.decode("latin1")
    if rng.random() < 0.3:
        lines = text.split("\n")
        rng.shuffle(lines)
        return "\n".join(lines).encode("latin1")
    found = list(re.finditer(r"\d+\.?\d*", text))
    if not found:
        return b""
    spot = rng.choice(found)
    nonsense = rng.choice(["-5", "1e308", "nan", "0", "inf", "99999999999999999999", "x", "", '"', "<b>"])
    return (text[: spot.start()] + nonsense + text[spot.end() :]).encode("latin1")


@pytest.mark.slow
def test_no_accident_to_a_folder_ends_in_a_traceback(tmp_path):
    whole = {
        "run": run_folder(tmp_path / "run", rounds=6, clients=3, seeds=2),
        "sweep": sweep_folder(tmp_path / "sweep"),
        "tune": tune_folder(tmp_path / "tune"),
    }
    rng = random.Random(8)
    shown = 0
    for number in range(150):
        folder = shutil.copytree(whole[rng.choice(["run", "run", "sweep", "tune"])], tmp_path / f"broken-{number}")
        for path in rng.sample(sorted(path for path in folder.rglob("*") if path.is_file()), k=rng.choice([1, 1, 3])):
            path.write_bytes(mutated(rng, path.read_bytes()))
        try:
            page = compose(gather([folder]))
        except StoreError:
            continue
        to_json([chart.spec() for chart in page.charts])
        assert page.openings[0].answer
        shown += 1
    assert shown > 100
