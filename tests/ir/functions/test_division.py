"""Quotients of decimals in machine words are those of Python's integers."""

import numpy as np
import pytest

from skipstone.ir.functions.division import _rounded_quotient
from tests.support.effort import LONG


@pytest.mark.parametrize("seed", range(200 if LONG else 10))
def test_quotients_are_rounded_half_up(seed):
    random = np.random.default_rng(seed)
    for _ in range(100):
        n, digits = random.integers(1, 20), int(random.integers(0, 31))
        a = random.integers(0, 10 ** random.integers(1, 19), n)
        d = random.integers(1, 10 ** random.integers(1, 19) + 1, n)
        a[0] = random.choice([a[0], 0, 2**63 - 1])
        d[0] = random.choice([d[0], 1, 2 * a[0] + 1 if a[0] < 2**62 else 2, 2**63 - 1])
        a, d = a[: random.choice([1, n])], d[: random.choice([1, n])]
        pairs = zip(*(x.tolist() for x in np.broadcast_arrays(a, d)), strict=True)
        expected = [(2 * x * 10**digits + y) // (2 * y) for x, y in pairs]
        assert _rounded_quotient(a, d, digits).tolist() == expected
        found = _rounded_quotient(a.astype(object), d, digits)
        assert found.tolist() == expected
