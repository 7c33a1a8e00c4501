"""What every test needs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory, monkeypatch):
    """No test may live off what another has trained."""
    monkeypatch.setenv("WFLSIM_STORE", str(tmp_path_factory.mktemp("store")))
