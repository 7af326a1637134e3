"""Spark as the judge of functions whose arguments have unusual types.

Each column in an expression of tests/data/spark_functions.sql gives way to each column of another
type. Where Spark accepts the expression and Skipstone judges it, type and values must be equal: an
argument may not be cast to a type to which Spark does not cast it.
"""

import re

import pytest

from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.session import Session
from tests.support.effort import LONG
from tests.support.spark.coercion import COLUMNS, judging
from tests.support.spark.functions import EXPRESSIONS, disagreements, ours
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

# Text in quotes and backticks, or a word that is no function.
WORD = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\b[A-Za-z_]\w*\b(?!\s*\()")
# A value of the list that equals decides the row here, whether or not another one cannot be cast.
DECIDED = re.compile(r"\bIN \(")
EVERY = 1 if LONG else 16
BATCH = 60


def replaced(text):
    """Return the expressions in which one column of `text` is replaced by another."""
    return [
        text[: m.start()] + column + text[m.end() :]
        for m in WORD.finditer(text)
        if m.group() in COLUMNS
        for column in COLUMNS
        if column != m.group()
    ]


def understood(text, session):
    try:
        return ours(text, session)
    except UnsupportedForm:  # a part of a lambda
        return None


def is_valid(spark, text):
    from pyspark.errors import PySparkException

    try:
        return bool(spark.sql(f"SELECT {text} AS c FROM rows").schema)
    except PySparkException:
        return False


def wrong_in(spark, found):
    """Return the expressions that differ from Spark's, or that Spark refuses at run time."""
    from pyspark.errors import PySparkException

    try:
        return list(disagreements(spark, found))
    except PySparkException as e:
        if len(found) == 1:
            return [(*found, "raised", str(e).splitlines()[0])]
    items = list(found.items())
    half = len(items) // 2
    return wrong_in(spark, dict(items[:half])) + wrong_in(spark, dict(items[half:]))


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "legacy"])
def test_arguments_are_cast_as_spark_casts_them(ansi, spark):
    session = Session("UTC", ansi)
    texts = sorted({t for text in EXPRESSIONS for t in replaced(text)} - set(EXPRESSIONS))
    mine = {
        t: found for t in texts[not ansi :: EVERY] if (found := understood(t, session)) is not None
    }
    with judging(spark, ansi, "UTC"):
        judged = {t: found for t, found in mine.items() if is_valid(spark, t)}
        items = list(judged.items())
        wrong = [
            w
            for i in range(0, len(items), BATCH)
            for w in wrong_in(spark, dict(items[i : i + BATCH]))
        ]
    assert [w for w in wrong if not (w[1] == "raised" and DECIDED.search(w[0]))] == []
    assert len(judged) > (3500 if LONG else 200)
