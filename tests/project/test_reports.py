"""Every file under reports/ is derived from committed inputs by a test, or says by which command and when it was measured."""

from __future__ import annotations

import csv
import importlib
import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from studies import evidence, readme_answer, reports_page
from studies.policies import claims, minimax, side_by_side, trials
from wflsim.policies.registry import POLICIES

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "reports"
ROWS = list(csv.DictReader((REPORTS / "provenance.csv").read_text(encoding="utf-8").splitlines()))


def covered(row) -> set[Path]:
    return {path for path in REPORTS.glob(row["files"]) if path.is_file()}


def test_every_committed_result_says_where_it_comes_from():
    committed = subprocess.run(["git", "ls-files", "reports"], cwd=ROOT, capture_output=True, text=True)
    listed = {ROOT / name for name in committed.stdout.split("\n") if name} if committed.returncode == 0 else set()
    files = {path for path in REPORTS.rglob("*") if path.is_file()} | listed
    named = [row for path in files for row in ROWS if path in covered(row)]
    for path in sorted(files):
        rows = [row["files"] for row in ROWS if path in covered(row)]
        assert len(rows) == 1, f"{path.relative_to(REPORTS)} stands in {len(rows)} rows of reports/provenance.csv: {rows}"
    assert {row["files"] for row in named} == {row["files"] for row in ROWS}, "a row of provenance.csv matches no file"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["files"])
def test_a_row_is_complete(row):
    assert row["kind"] in ("derived", "measured", "copied", "written")
    assert row["made_by"]
    if row["kind"] == "measured":
        assert date.fromisoformat(row["on"]) >= date(2026, 11, 1)
    for file in re.findall(r"(?:benchmarks|scenarios)/[\w/]+\.(?:py|yaml)", row["made_by"]):
        assert (ROOT / file).exists(), file
    for module in re.findall(r"-m (studies[\w.]+)", row["made_by"]):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), module
    assert "studies/" not in row["made_by"], "a study is run as a module: python -m studies.NAME"
    if row["kind"] == "derived" or row["held_by"]:
        file, test = row["held_by"].split("::")
        assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), flags=re.MULTILINE), row["held_by"]


def test_the_front_page_is_made_of_the_list():
    assert (REPORTS / "README.md").read_text() == reports_page.page()


def test_the_validated_tests_exist():
    """Every row of the table of comparisons names a test that is there, and its deviation is that of its two numbers."""
    table = pd.read_csv(REPORTS / "proof/validation.csv")
    for name, row in table.set_index("test").iterrows():
        file, *_, test = name.split("::")
        assert re.search(rf"^ *def {test}\(", (ROOT / file).read_text(), flags=re.MULTILINE), name
        if row["deviation"] > 1e-6:  # the table has ten digits of each number
            apart = abs(row["found"] / row["expected"] - 1) if row["relative"] else abs(row["found"])
            assert row["deviation"] == pytest.approx(apart, rel=0.06), name
    assert len(table) > 250


@pytest.mark.parametrize("claim", evidence.CLAIMS, ids=lambda claim: claim.says)
def test_every_claim_names_a_test_a_result_and_a_command_that_exist(claim):
    """And its figure is a sentence with a number from committed results: without them there is none."""
    file, test = claim.held_by.split("::")
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), flags=re.MULTILINE)
    assert (REPORTS / claim.results).exists()
    for part in claim.command.split("; "):
        where = re.search(r"-m (studies[\w.]+)|(benchmarks/\w+\.py|tests/[\w/]+\.py)|(make paper)", part)
        assert where, part
        assert where[3] or (ROOT / (where[2] or f"{where[1].replace('.', '/')}.py")).exists()
    assert re.search(r"\d", claim.figure())


def test_the_claims_are_those_that_a_reader_may_doubt():
    assert {claim.about for claim in evidence.CLAIMS} >= {"physics", "policies", "energy", "tuning", "replay", "speed", "scale", "the paper"}


def test_the_page_of_claims_follows_from_its_rows():
    rows = pd.read_csv(REPORTS / "policies/claims.csv", dtype={"measure": str})
    assert (REPORTS / "policies/claims.md").read_text() == claims.page(rows)


def test_the_page_of_step_trials_follows_from_its_rows_and_the_scenario_has_the_chosen_steps():
    rows = pd.read_csv(REPORTS / "policies/trials.csv")
    assert (REPORTS / "policies/trials.md").read_text() == trials.page(rows)
    policies = yaml.safe_load(trials.SCENARIO.read_text())["policies"]
    assert {policy["name"]: policy[trials.step_key(policy)] for policy in policies} == trials.chosen(rows)
    assert set(rows.groupby(["policy", "eta"])["seed"].apply(tuple)) == {trials.SEEDS}
    assert not set(trials.SEEDS) & set(pd.read_csv(REPORTS / "policies/side_by_side.csv")["seed"])


def test_the_side_by_side_study_has_every_policy_with_a_server():
    served = {policy.model_fields["name"].default for policy in POLICIES if not policy.decentralised}
    assert {name for names in side_by_side.FAMILIES.values() for name in names} == served
    assert set(pd.read_csv(REPORTS / "policies/side_by_side.csv")["policy"]) == served


@pytest.mark.parametrize(
    ("runs", "step"),
    [
        ({0.1: [(1, 50), (1, 60)], 0.2: [(1, 40), (1, 50)]}, 0.2),  # cheaper
        ({0.1: [(1, 90), (1, 90)], 0.2: [(1, 10), (0, 99)]}, 0.1),  # surer
        ({0.1: [(0, 10), (0, 10)], 0.2: [(0, 20), (0, 20)]}, 0.2),  # neither: better accuracy
    ],
)
def test_the_rule_of_the_step_trials(runs, step):
    rows = [("p", eta, reached, joules, eta) for eta, two in runs.items() for reached, joules in two]
    filled = [("p", eta, 0, 1.0, np.nan) for eta in trials.ETAS if eta not in runs]
    columns = ["policy", "eta", "reached", "energy_j", "late_worst"]
    assert trials.chosen(pd.DataFrame(rows + filled, columns=columns)) == {"p": step}


def same_picture(one: Path, two: Path) -> bool:
    """Pixel by pixel, but for the rounding of another build of the font library."""
    pixels = [np.asarray(Image.open(path).convert("RGB"), dtype=int) for path in (one, two)]
    return pixels[0].shape == pixels[1].shape and np.abs(pixels[0] - pixels[1]).mean() < 0.05


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The repository's results and studies in an empty place, and `make paper` run there with its pages removed."""
    place = tmp_path_factory.mktemp("paper")
    for name in ("reports", "studies", "scenarios", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for row in ROWS:
        if row["made_by"] == "make paper":
            for path in place.joinpath("reports").glob(row["files"]):
                path.unlink()
    text = (ROOT / "README.md").read_text()
    (place / "README.md").write_text(re.sub(r"(?<=<!-- headline -->\n).*?(?=\n<!-- /headline -->)", "> -", text, flags=re.DOTALL))
    done = subprocess.run([sys.executable, "-m", "studies.paper.build"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return place


@pytest.mark.slow
def test_the_papers_pages_follow_from_its_runs(built):
    compared = 0
    for row in ROWS:
        if row["made_by"] != "make paper":
            continue
        for path in covered(row):
            again = built / path.relative_to(ROOT)
            assert again.exists(), f"`make paper` does not make {path.relative_to(ROOT)}"
            same = same_picture(path, again) if path.suffix == ".png" else path.read_bytes() == again.read_bytes()
            assert same, f"`make paper` makes another {path.relative_to(ROOT)}"
            compared += 1
    assert compared > 10


@pytest.mark.slow
def test_the_readmes_headline_follows_from_the_papers_runs(built):
    assert (built / "README.md").read_text() == (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_readmes_answer_is_what_the_quickstart_prints(tmp_path):
    quote = re.search(r"<!-- answer -->\n(.*?)\n<!-- /answer -->", (ROOT / "README.md").read_text(), flags=re.DOTALL)[1]
    assert readme_answer.quote(tmp_path / "quickstart") == quote


@pytest.mark.slow
def test_the_published_map_comes_out_again(tmp_path):
    command = [sys.executable, "-m", "wflsim", "tune", "scenarios/published_energy_map.yaml", "--out", str(tmp_path / "map")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for path in (REPORTS / "tune" / "published").iterdir():
        again = tmp_path / "map" / path.name
        same = same_picture(path, again) if path.suffix == ".png" else path.read_bytes() == again.read_bytes()
        assert same, path.name


def test_the_minimax_table_follows_from_its_csv():
    rows = pd.read_csv(REPORTS / "policies" / "minimax.csv").to_dict("records")
    p = minimax.the_problem()
    facts = {"ERM": minimax.worst(p, minimax.erm(p)), "minimax": minimax.minimax(p)[1]}
    assert minimax.table(rows, facts, 8000) == (REPORTS / "policies" / "minimax.md").read_text()


@pytest.mark.parametrize("name", ["hitting_time", "interval_coverage"])
def test_the_statistics_pages_follow_from_their_tables(name):
    """And the tables say what the program relies on: no definition but the window is free of `evaluate_every`."""
    found = pd.read_csv(REPORTS / "statistics" / f"{name}.csv")
    assert importlib.import_module(f"studies.{name}").words(found) == (REPORTS / "statistics" / f"{name}.md").read_text()
    if name == "interval_coverage":
        ours = found[(found["method"] == "ours") & (found["n"] >= 5)]
        assert ours["coverage"].min() >= 0.934
        assert found[(found["method"] == "Student's t") & (found["n"] == 5)]["coverage"].min() < 0.87
    else:
        spread = found.groupby(["definition", "curve"])["rounds"].agg(lambda rounds: rounds.max() - rounds.min()).groupby("definition").max()
        assert spread["mean over 20 rounds, its middle (window: 20)"] < 9
        assert spread["one evaluation (hold: 1)"] > 30
