"""The evidence for what wflsim claims: for each claim that a reader may doubt one line, its figure read from reports/.

`studies.reports_page` puts these lines at the top of reports/README.md. No figure is written here: each is read from a
committed table when the page is made, and a test makes the page again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

REPORTS = Path(__file__).resolve().parents[1] / "reports"


class Claim(NamedTuple):
    """One line."""

    about: str
    says: str
    """What a reader may doubt."""
    figure: Callable[[], str]
    """The number that speaks for it or against it, from committed results."""
    results: str
    """File or folder below reports/ that holds it."""
    held_by: str
    """The test behind it."""
    command: str
    """What makes the results, or runs the tests."""


def _tests_of(room: str) -> str:
    """How many numbers the tests of a room compare, and how far the typical worst pair of a test is apart."""
    table = pd.read_csv(REPORTS / "proof/validation.csv")
    mine = table[table["test"].str.startswith(f"tests/{room}/")]
    half = mine["deviation"].median()
    return (
        f"{len(mine)} tests compare {mine['compared'].sum():,} numbers with closed forms, hand counts, numpy or "
        f"standards; in half of the tests the worst pair is within {half:.0e} (the others compare random samples, or "
        f"printed digits)"
    )


def _others() -> str:
    table = pd.read_csv(REPORTS / "others/others.csv")
    published = table.dropna(subset=["theirs"])
    works = published["work"].nunique()
    off = (published["ours"] / published["theirs"] - 1).abs()
    exact = int((off < 1e-6).sum())
    return f"{len(published)} published numbers of {works} papers: {exact} within 1e-6, all within the printed digits"


def _energy() -> str:
    published = pd.read_csv(REPORTS / "tune/published/map.csv")
    measured = pd.read_csv(REPORTS / "world/check_values.csv")
    return f"the {len(published)} regimes of the paper's calibration; {len(measured)} check values of named devices"


def _tuning() -> str:
    table = pd.read_csv(REPORTS / "tune/open_tau.csv")
    good, bad = table[table["chosen_within_5"] >= 0.95], table[table["chosen_within_5"] < 0.95]
    worst = "; ".join(f"{row.case}: {row.chosen_within_5:.0%}" for row in bad.itertuples()).replace("%", " %")
    found = f"planted optima found within 5 % in at least 95 of 100 trials in {len(good)} of {len(table)} cases"
    return f"{found}; not in: {worst}" if len(bad) else found


def _winner() -> str:
    table = pd.read_csv(REPORTS / "statistics/winner.csv")
    equal = table[table["table"] == "equal"]
    own, unseen = equal["own_bias"].min(), equal["unseen_bias"].abs().max()
    return (
        f"of equally good candidates the winner's own cost is up to {-100 * own:.0f} % too low, its cost on seeds that "
        f"did not choose it at most {100 * unseen:.1f} % off"
    )


def _intervals() -> str:
    table = pd.read_csv(REPORTS / "statistics/interval_coverage.csv")
    ours = table[(table["method"] == "ours") & (table["n"] >= 5)]["coverage"]
    low, high = 100 * ours.min(), 100 * ours.max()
    return f"95 % intervals of skewed costs cover {low:.1f} to {high:.1f} % with five seeds or more"


def _replay() -> str:
    table = pd.read_csv(REPORTS / "benchmarks/vectorised.csv")
    found = re.search(r"\| ([\d.]+) s \| ([\d.]+) ms \| (\d+) \|", (REPORTS / "tune/replay.md").read_text())
    assert found is not None
    off, ratio = table["largest_relative_difference"].max(), table["ratio"]
    return (
        f"bit for bit for every synchronous policy; {found[1]} s of training are replayed in {found[2]} ms; by arrays "
        f"within {off:.0e} of SimPy, {ratio.min():.0f} to {ratio.max():.0f} times faster"
    )


def _speed() -> str:
    table = pd.read_csv(REPORTS / "benchmarks/learning_avx2.csv", comment="#").set_index("model")
    return "; ".join(f"{name} {row['speedup']:.2f} times a plain torch loop" for name, row in table.iterrows())


def _scale() -> str:
    text = (REPORTS / "benchmarks/world.txt").read_text()
    found = re.search(r"-> ([\d.]+) s for 1,000 -> ([\d,]+) concurrent uploads", text)
    assert found is not None
    return f"{found[2]} concurrent uploads over one band in {found[1]} s"


def _policies() -> str:
    table = pd.read_csv(REPORTS / "policies/side_by_side.csv")
    return f"{table['policy'].nunique()} policies with {table['seed'].nunique()} seeds each in one world"


def _paper() -> str:
    table = pd.read_csv(REPORTS / "paper/differences.csv")
    verdicts = re.findall(r"\*\*(holds|does not hold|undecided)[^*]*\*\*", (REPORTS / "paper/README.md").read_text())
    words = {"holds": "hold", "does not hold": "do not hold", "undecided": "are undecided"}
    counts = ", ".join(f"{verdicts.count(word)} {words[word]}" for word in dict.fromkeys(verdicts))
    low, high = table["gap_average"].min(), table["gap_average"].max()
    return f"of {len(verdicts)} claims {counts}; average accuracies {low:.1f} to {high:.1f} points from those printed"


CLAIMS = (
    Claim("physics", "rates, losses, sharing and path loss are those of the standards", lambda: _tests_of("world"),
          "proof/validation.csv", "tests/world/test_world_links.py::test_path_loss_of_tr_38901",
          "python -m studies.validation"),
    Claim("physics", "other people's numbers come out", _others, "others/README.md",
          "tests/project/test_others.py::test_every_row_of_the_gallery_of_others_comes_out_again",
          "python -m studies.others"),
    Claim("policies", "each is its paper's algorithm", lambda: _tests_of("policies"), "proof/validation.csv",
          "tests/policies/test_policies_numpy.py::test_drdm_and_its_lambda_consistent_variant",
          "python -m studies.validation"),
    Claim("policies", "they are compared fairly", _policies, "policies/README.md",
          "tests/policies/test_policies_contract.py::test_renaming_clients_renames_the_result",
          "python -m studies.policies.side_by_side"),
    Claim("energy", "every joule has a cause and is paid once", _energy, "world/measured.md",
          "tests/world/test_world_books.py::test_every_leg_costs_what_the_scenario_says",
          "python -m pytest tests/world/test_world_books.py"),
    Claim("tuning", "the optimum is found without a grid", _tuning, "tune/open_tau.md",
          "tests/tune/test_open_tau.py::test_planted_optima_are_found_through_the_noise_of_the_seeds",
          "python -m studies.open_tau"),
    Claim("tuning", "a winner is not flattered", _winner, "statistics/winner.md",
          "tests/tune/test_tune_winner.py::test_committed_table_says_what_the_study_says", "python -m studies.winner"),
    Claim("statistics", "intervals cover", _intervals, "statistics/interval_coverage.md",
          "tests/project/test_reports.py::test_the_statistics_pages_follow_from_their_tables",
          "python -m studies.interval_coverage"),
    Claim("replay", "one training answers for every world", _replay, "tune/replay.md",
          "tests/results/test_store.py::test_replay_is_live_bit_for_bit_for_every_synchronous_policy",
          "python benchmarks/replay.py; python benchmarks/vectorised.py"),
    Claim("speed", "training is not slowed by the simulator", _speed, "benchmarks/learning_avx2.csv",
          "tests/learning/test_learning_learner.py::test_gradients_and_losses_agree_with_each_other",
          "python benchmarks/learning.py"),
    Claim("scale", "a cell may have many clients", _scale, "benchmarks/world.txt",
          "tests/world/test_world_access.py::test_equal_shares_against_a_fluid_model",
          "python benchmarks/world_sharing.py"),
    Claim("the paper", "its claims, held against runs", _paper, "paper/README.md",
          "tests/project/test_reports.py::test_the_papers_pages_follow_from_its_runs", "make paper"),
)  # fmt: skip


def lines() -> list[str]:
    """The table, one line per claim."""
    table = ["| about | what one may doubt | figure | results | test behind it | command |", "|" + "---|" * 6]
    for claim in CLAIMS:
        test = claim.held_by.split("::")[-1]
        cells = (claim.about, claim.says, claim.figure(), f"[{claim.results}]({claim.results})", f"`{test}`")
        table.append(f"| {' | '.join(cells)} | `{claim.command}` |")
    return table
