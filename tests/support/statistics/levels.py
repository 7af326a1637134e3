"""Indexed statistics compared with statistics without an index."""

import math

import numpy as np
import pytest

from skipstone.kernels.index import descend


@pytest.fixture
def eager(monkeypatch):
    """Make coarse codes judge any number of containers, as if all candidates were spread out."""
    monkeypatch.setattr(descend, "MIN_CONTAINERS", 0)
    monkeypatch.setattr(descend, "SAMPLE", 1)
    monkeypatch.setattr(descend, "WORTH", math.inf)
    monkeypatch.setattr(descend._Search, "_share", lambda self, dense: 1)


def groupings(r, n):
    """Return random blocks, and blocks of these blocks."""
    out = []
    while n > 1 and len(out) < 3:
        out.append(np.array([*sorted(r.sample(range(1, n), r.randint(0, min(n - 1, n // 2)))), n]))
        n = len(out[-1])
    return out or None


def same(p, flat, indexed, backend="numpy"):
    """Compare all three calls, twice: the second time the index knows the predicate."""
    for _ in range(2):
        for call in ("evaluate", "prune", "survivors"):
            expected, got = getattr(p, call)(flat, backend), getattr(p, call)(indexed, backend)
            assert expected.dtype == got.dtype
            wrong = (
                np.flatnonzero(expected != got)
                if call != "survivors" and len(got) == len(expected)
                else []
            )
            assert expected.tolist() == got.tolist(), (p.expr, call, backend, wrong[:5])


def indexes(r, flat):
    """Return the same statistics under blocks of words and of any size, in two orders."""
    names = [n for n in flat.columns if "`" not in n]
    return [
        flat.index(b, o)
        for b in (64, groupings(r, len(flat)))
        for o in (None, r.sample(names, min(len(names), r.randint(1, 3))))
    ]
