"""Fixtures for tests of statistics."""

import pytest

from skipstone.bindings.statistics.store import layout, write
from skipstone.kernels.run import guard


@pytest.fixture
def small_blocks(monkeypatch):
    """Use checksum blocks of 512 bytes, the minimum, so that small files have many."""
    for module in (guard, layout):
        monkeypatch.setattr(module, "SHIFT", 9)
    for module in (guard, write):
        monkeypatch.setattr(module, "BLOCK", 512)
