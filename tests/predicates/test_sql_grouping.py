"""Text without parentheses is grouped as Spark groups it, whatever version of sqlglot reads it.

A parser that grouped otherwise would prune by another condition than was written. Each text must
read as the one with parentheses, and not as the other grouping, or not be understood.
"""

import pyarrow as pa
import pytest

import skipstone as ss

SCHEMA = pa.schema(
    [
        *((n, pa.int64()) for n in ("x", "y", "z")),
        ("s", pa.string()),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("c", pa.bool_()),
        ("d", pa.date32()),
    ]
)

#    text                              as Spark groups it                    another grouping
GROUPED = [
    ("b OR c AND x = 1",               "b OR (c AND x = 1)",                 "(b OR c) AND x = 1"),
    ("x = 1 AND b OR c",               "(x = 1 AND b) OR c",                 "x = 1 AND (b OR c)"),
    ("NOT b AND c",                    "(NOT b) AND c",                      "NOT (b AND c)"),
    ("NOT b OR c",                     "(NOT b) OR c",                       "NOT (b OR c)"),
    ("NOT x = 1 OR b",                 "(NOT (x = 1)) OR b",                 "NOT (x = 1 OR b)"),
    ("! b AND c",                      "(NOT b) AND c",                      "NOT (b AND c)"),
    ("NOT b IS NULL",                  "NOT (b IS NULL)",                    "(NOT b) IS NULL"),
    ("NOT x IN (1, 2) AND b",
     "(NOT (x IN (1, 2))) AND b",
     "NOT (x IN (1, 2) AND b)"),
    ("x BETWEEN 1 AND 2 AND b",        "(x BETWEEN 1 AND 2) AND b",          None),
    ("x BETWEEN 1 AND 2 OR b",         "(x BETWEEN 1 AND 2) OR b",           None),
    ("x BETWEEN 1 + y AND 2 * z",      "x BETWEEN (1 + y) AND (2 * z)",      None),
    ("s LIKE 'a%' AND t LIKE 'b%'",    "(s LIKE 'a%') AND (t LIKE 'b%')",    None),
    ("s LIKE 'a%' ESCAPE '!' OR b",    "(s LIKE 'a%' ESCAPE '!') OR b",      None),
    ("x + y * z = 7",                  "x + (y * z) = 7",                    "(x + y) * z = 7"),
    ("x * y + z = 7",                  "(x * y) + z = 7",                    "x * (y + z) = 7"),
    ("x - y - z = 7",                  "(x - y) - z = 7",                    "x - (y - z) = 7"),
    ("x - y + z = 7",                  "(x - y) + z = 7",                    "x - (y + z) = 7"),
    ("x / y / z = 7",                  "(x / y) / z = 7",                    "x / (y / z) = 7"),
    ("x / y * z = 7",                  "(x / y) * z = 7",                    "x / (y * z) = 7"),
    ("x % y * z = 7",                  "(x % y) * z = 7",                    "x % (y * z) = 7"),
    ("x DIV y * z = 7",                "(x DIV y) * z = 7",                  "x DIV (y * z) = 7"),
    ("x + y % z = 7",                  "x + (y % z) = 7",                    "(x + y) % z = 7"),
    ("- x + y = 7",                    "(- x) + y = 7",                      "- (x + y) = 7"),
    ("- x * y + z = 7",                "((- x) * y) + z = 7",                "- (x * (y + z)) = 7"),
    ("~ x + y = 7",                    "(~ x) + y = 7",                      "~ (x + y) = 7"),
    ("x + y < z * 2",                  "(x + y) < (z * 2)",                  None),
    ("x + y & z = 7",                  "(x + y) & z = 7",                    "x + (y & z) = 7"),
    ("x = y & z",                      "x = (y & z)",                        None),
    ("s || t = 'ab'",                  "(s || t) = 'ab'",                    None),
    ("s || t LIKE 'ab%'",              "(s || t) LIKE 'ab%'",                None),
    ("x = 1 IS TRUE",                  "(x = 1) IS TRUE",                    None),
    ("x > 1 IS NOT TRUE OR b",         "((x > 1) IS NOT TRUE) OR b",         None),
    ("d + INTERVAL 1 DAY > d - INTERVAL 2 DAYS",
     "(d + INTERVAL 1 DAY) > (d - INTERVAL 2 DAYS)",                         None),
    ("CASE WHEN b OR c AND x = 1 THEN x ELSE y END = 1",
     "CASE WHEN b OR (c AND x = 1) THEN x ELSE y END = 1",
     "CASE WHEN (b OR c) AND x = 1 THEN x ELSE y END = 1"),
    ("x = 1 OR y = 2 AND z = 3 OR b",
     "(x = 1 OR (y = 2 AND z = 3)) OR b",
     "(x = 1 OR y = 2) AND (z = 3 OR b)"),
    ("CAST(x + y * z AS STRING) = '7'",
     "CAST(x + (y * z) AS STRING) = '7'",
     "CAST((x + y) * z AS STRING) = '7'"),
]  # fmt: skip


def read(text):
    return ss.PruningPredicate(text, SCHEMA)


@pytest.mark.parametrize("text, grouped, other", GROUPED, ids=[text for text, *_ in GROUPED])
def test_text_is_grouped_as_spark_groups_it(text, grouped, other):
    assert read(text).has_unknown or read(text).node == read(grouped).node
    assert not read(grouped).has_unknown
    if other is not None:
        assert read(text).node != read(other).node


def test_most_texts_are_understood():
    assert sum(read(text).has_unknown for text, *_ in GROUPED) <= 3


def test_spark_groups_so(spark):
    """Spark reads each text as the one with parentheses, and not as the other grouping."""
    plan = spark.createDataFrame([], "x long, y long, z long, s string, t string, b boolean,"
                                 "c boolean, d date")  # fmt: skip

    def tree(text):
        where = plan.where(text)._jdf.queryExecution().analyzed().expressions().head()
        return where.canonicalized().sql()

    for text, grouped, other in GROUPED:
        assert tree(text) == tree(grouped), text
        assert other is None or tree(text) != tree(other), text
