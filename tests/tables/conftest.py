"""Reads of tables judge all rows: what one read has found does not help the next one."""

import pytest


@pytest.fixture(autouse=True)
def judged_anew(monkeypatch):
    monkeypatch.setenv("SKIPSTONE_KEEP_MATCHES", "0")
