"""DECIMAL(38, 0) against a literal with a fraction: Spark rounds the literal.

The answers are Spark 4.3's; 0.1 equals 0 there.
"""

from decimal import Decimal

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.rows import judge

SCHEMA = pa.schema([("d", pa.decimal128(38, 0)), ("e", pa.decimal128(38, 10))])
VALUES = [0, 1, 2, 10**38 - 1]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("d = 0.1", [0]),
        ("d > 0.1", [1, 2, 3]),
        ("d < 0.1", []),
        ("d <= 0.1", [0]),
        ("d <> 0.1", [1, 2, 3]),
        ("d IN (0.1, 1)", [0, 1]),
        ("d = 0.10000000000000000001", [0]),
        ("d = 0.5", [1]),
        ("d = -0.5", []),
    ],
)
def test_the_literal_is_rounded_as_in_spark(condition, wanted):
    ordered = [Decimal(v) for v in VALUES]
    predicate = ss.PruningPredicate(condition, SCHEMA)
    stats = ss.Statistics.from_dict(
        {"d": {"min": ordered, "max": ordered, "null_count": [0] * 4}}, SCHEMA, row_count=[1] * 4
    )
    assert predicate.survivors(stats).tolist() == wanted
    batch = pa.record_batch({"d": pa.array(ordered, pa.decimal128(38, 0))})
    truth = judge(predicate.node, batch, {})
    assert truth.true.nonzero()[0].tolist() == wanted
    assert not truth.may_raise.any()


@pytest.mark.parametrize("condition", ["e = 1e30BD", "d = e", "e IN (0.1, 1e30BD)"])
def test_a_column_that_would_be_rounded_is_not_judged(condition):
    stats = ss.Statistics.from_dict(
        {name: {"min": [Decimal(1)], "max": [Decimal(1)], "null_count": [0]} for name in "de"},
        SCHEMA,
    )
    assert ss.PruningPredicate(condition, SCHEMA).prune(stats).tolist() == [True]
