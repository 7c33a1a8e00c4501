"""What every test needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test is a failure: `make CI=true test` and `slow`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where nothing may be skipped, a skip says what is missing and fails."""
    return _failed_if_skipped((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """The same for a whole file."""
    return _failed_if_skipped((yield), collector.config)


def _failed_if_skipped(report, config):
    if config.getoption("--no-skips") and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"not run, and with --no-skips that is a failure. {why}. Provide what is missing (README, 'For developers')."
    return report


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory, monkeypatch):
    """No test may live off what another has trained."""
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path_factory.mktemp("store")))
