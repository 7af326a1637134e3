"""Spark as the judge of functions, in both ANSI modes and several zones.

Every expression of tests/data/spark_functions.sql runs on every row. A row is lost if Spark raises,
or if its result is not known here; on all other rows, type and value must equal Spark's.
"""

import re
from pathlib import Path

import pytest

from skipstone.bindings.predicates import reference
from skipstone.ir.session import Session
from tests.support.spark.coercion import ROWS, SETTINGS, judging
from tests.support.spark.functions import EXPRESSIONS, disagreements, ours

# Expressions that are unknown here on some rows, although Spark evaluates them: text of numbers
# in unusual notation, clocks before 1900.
LOST_AT_MOST = 0.08


@pytest.mark.parametrize(
    "ansi, zone", SETTINGS, ids=[f"{'ansi' if a else 'legacy'}-{z}" for a, z in SETTINGS]
)
def test_functions_are_sparks(ansi, zone, spark):
    session = Session(zone, ansi)
    mine = {text: found for text in EXPRESSIONS if (found := ours(text, session)) is not None}
    not_understood = sorted(set(EXPRESSIONS) - set(mine))
    with judging(spark, ansi, zone):
        wrong = [
            w
            for i in range(0, len(mine), 60)
            for w in disagreements(spark, dict(list(mine.items())[i : i + 60]))
        ]
    assert wrong == []
    assert not_understood == sorted(NOT_UNDERSTOOD if zone == "UTC" else NOT_UNDERSTOOD + CLOCKS)
    if not ansi and zone == "UTC":
        lost = sum(sum(rows) for _, rows, _ in mine.values())
        assert lost / (len(mine) * ROWS) < LOST_AT_MOST


NOT_UNDERSTOOD = ["decode(s, '5', 1, NULL, 2)"]  # a missing default is a STRING
CLOCKS = [
    "date_trunc('minute', t)",
    "date_trunc('hour', n)",
    "date_trunc('millisecond', n)",
    "datediff(DAY, d, t)",
    "datediff(MONTH, d, TIMESTAMP '2024-02-29 00:00:00')",
    "datediff(DAY, s, n)",
    "months_between(n, n)",
]  # the zone's offset changes here
TESTS = Path(__file__).parents[2]
JUDGED = [
    *TESTS.glob("spark/predicates/*.py"),
    *TESTS.glob("support/spark/*.py"),
    *TESTS.glob("data/spark_*.sql"),
]


def test_spark_judges_every_function():
    """A new function gets a call in tests/data/spark_functions.sql."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in JUDGED)
    names = {name for family in reference.FAMILIES for name, _ in reference._functions_of(family)}
    called = {name for name in names if re.search(rf"\b{re.escape(name)}\(", texts)}
    # Operators are called by their signs; Iceberg's transforms are not Spark's own.
    others = {n for n in names - called - reference.OPERATORS.keys() if n.isidentifier()}
    assert others == {"div"}
