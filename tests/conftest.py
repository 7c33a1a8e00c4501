"""What every test needs."""

from __future__ import annotations

import signal

import pytest


def hears_ctrl_c() -> None:
    """Before a child starts: jobs of a background shell, CI's among them, ignore SIGINT, and so would the child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory, monkeypatch):
    """No test may live off what another has trained."""
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path_factory.mktemp("store")))
