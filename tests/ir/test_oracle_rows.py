"""The oracle against rows: statistics predict every outcome of a row."""

import random

import pytest
from hypothesis import given

from tests.support.effort import LONG
from tests.support.predicates.oracle_rows import judge
from tests.support.rows.strategies import randoms


@given(randoms)
def test_outcomes_are_predicted(r):
    judge(r, containers=1, predicates=2)


@pytest.mark.parametrize("seed", range(4 if LONG else 1))
def test_outcomes_are_predicted_in_bulk(seed):
    r = random.Random(seed)
    assert sum(judge(r, containers=12, predicates=6) for _ in range(40)) > 5000


def test_tests_of_a_term_that_raises_are_merged():
    judge(random.Random(26), containers=8, predicates=12)
