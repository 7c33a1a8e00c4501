"""What docstrings, comments and pages point to is there: links lead somewhere, and no document is named that is not in the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from wflsim.policies.registry import POLICIES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "reports").rglob("*.md"))]
SOURCES = sorted(path for room in ("wflsim", "tests", "studies", "benchmarks") for path in (ROOT / room).rglob("*.py"))
sys.path.append(str(ROOT / "docs/_ext"))

import wflsim_reference  # noqa: E402

MADE = {Path(name).name for name in wflsim_reference.pages()} | {"mutants.md"}
"""Names of pages that are made: the reference by `make docs`, the last one by `make mutants`."""
KNOWN = {path.name for room in ("docs", "reports", "studies") for path in (ROOT / room).rglob("*.md")} | {path.name for path in ROOT.glob("*.md")} | MADE
"""Names of all pages."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_no_source_names_a_document_that_is_not_in_the_repository():
    for path in SOURCES:
        named = re.findall(r"([\w./-]*\b\w+\.md)\b", path.read_text())
        missing = {name for name in named if Path(name).name not in KNOWN or (name.startswith(("docs/", "reports/")) and not (ROOT / name).exists())}
        assert not missing, f"{path.relative_to(ROOT)} names {missing}"


def test_the_identities_that_tests_hold_are_written_down():
    """`# I5, I6` above a group of tests is a row of docs/policies.md."""
    written = set(re.findall(r"^\| (I\d+) \|", (ROOT / "docs/policies.md").read_text(), flags=re.MULTILINE))
    held = set(re.findall(r"\b(I\d+)\b", " ".join(re.findall(r"# (I\d+.*)", (ROOT / "tests/policies/test_policies_identities.py").read_text()))))
    assert held
    assert held <= written, held - written


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_the_equations_of_every_policy_are_written_down(policy):
    page = (ROOT / "docs/policies.md").read_text()
    number = re.search(r"arXiv:[\d.]+\d", policy.about.paper)
    assert (number[0] if number else "DRDM") in page, f"write a section about {policy.__name__} into docs/policies.md"
    down_up = f"| {policy.about.down} | {policy.about.up} |"
    assert down_up in page, f"no row of the table of docs/policies.md says {down_up}"
