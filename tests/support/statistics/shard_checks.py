"""Helpers for tests of shards: compare them with their statistics, and unmap them."""

import numpy as np

from skipstone.bindings.shards import files


def matches(p, stats, shards):
    """Compare every answer of shards with that of their statistics; return the verdicts."""
    found, expected = shards.judge(p), p.evaluate(stats)
    assert found.verdicts.dtype == np.uint8 and found.survivors.dtype == np.int64
    assert found.verdicts.tolist() == expected.tolist(), p.expr
    assert found.survivors.tolist() == p.survivors(stats).tolist() == shards.survivors(p).tolist()
    assert shards.prune(p).tolist() == p.prune(stats).tolist()
    assert found.kept == np.count_nonzero(expected) and not found.unreadable
    return found


def fresh():
    """Unmap all shards of this process."""
    files._mapped.__init__(files.MAX_MAPPED)
