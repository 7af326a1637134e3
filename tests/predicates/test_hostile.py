"""Hostile predicates: each gives an answer or a clear error in time, and runs nothing."""

import functools
import operator
import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg import expressions as ice

import skipstone as ss
from skipstone import col, lit
from tests.support.guarded import MB, SCHEMA, N, guarded

STATS = ss.Statistics.from_dict(
    {"x": {"min": [1, 5], "max": [3, 9]}, "s": {"min": ["a", "b"]}}, SCHEMA
)


def answer(where):
    """Return the verdicts of a predicate, or the name of its error."""
    with guarded():
        try:
            p = ss.PruningPredicate(where, SCHEMA)
            verdicts = p.evaluate(STATS, "numpy").tolist()
            assert len(repr(p)) > 0
            assert pickle.loads(pickle.dumps(p)) == p
            return verdicts
        except ss.SkipstoneError as e:
            error = e
    assert len(str(error).encode()) < 5000
    return type(error).__name__


def nested(make, z, n=N):
    for _ in range(n):
        z = make(z)
    return z


def chained(op, parts):
    return functools.reduce(op, parts)


DEEP, SYNTAX, UNKNOWN_COLUMN, ERROR = (
    "PredicateTooDeep",
    "PredicateSyntaxError",
    "UnknownColumn",
    "PredicateError",
)
KEEP, SOME, NONE = [1, 1], [0, 1], [0, 0]

#   what                     text                                                      answer
LONG = {
    "parentheses":           (lambda: "(" * N + "x = 1" + ")" * N,                     DEEP),
    "open parentheses":      (lambda: "(" * N,                                         DEEP),
    "NOT":                   (lambda: "NOT " * N + "b",                                DEEP),
    "NOT, 120 deep":         (lambda: "NOT (" * 120 + "x = 1" + ")" * 120,             [1, 0]),
    "exclamation marks":     (lambda: "! " * N + "b",                                  DEEP),
    "minus signs":           (lambda: "x = " + "- " * N + "1",                         DEEP),
    "AND":                   (lambda: " AND ".join(["x > 3"] * N),                     SOME),
    "OR":                    (lambda: " OR ".join(f"x = {-i}" for i in range(N)),      NONE),
    "AND OR":                (lambda: " AND x > 1 OR ".join(["x > 3"] * N),            SYNTAX),
    "OR of a megabyte":      (lambda: " OR ".join(["x = 1"] * 110_000),                SYNTAX),
    "calls":                 (lambda: "upper(" * N + "s" + ")" * N + " = 'A'",         DEEP),
    "calls, 120 deep":       (lambda: "upper(" * 120 + "s" + ")" * 120 + " = 'A'",     KEEP),
    "casts":                 (lambda: "x = " + "CAST(" * N + "1" + " AS INT)" * N,     DEEP),
    "casts, 120 deep":       (lambda: "x = " + "CAST(" * 120 + "1" + " AS INT)" * 120, [1, 0]),
    "colon casts":           (lambda: "x = 1" + "::INT" * N,                           DEEP),
    "sums":                  (lambda: "x = " + " + ".join(["1"] * N),                  DEEP),
    "concatenation":         (lambda: "s = " + " || ".join(["'a'"] * N),               SOME[::-1]),
    "concat":                (lambda: "concat(s" + ", 'a'" * N + ") = 'A'",            NONE),
    "CASE":                  (lambda: "CASE WHEN b THEN " * N + "b" + " END" * N,      DEEP),
    "brackets":              (lambda: "x" + "[0]" * N + " = 1",                        DEEP),
    "dots":                  (lambda: "x" + ".x" * N + " = 1",                         DEEP),
    "IS NULL":               (lambda: "x" + " IS NULL" * N,                            DEEP),
    "equals":                (lambda: " = ".join(["x"] * N),                           DEEP),
    "BETWEEN":               (lambda: "x BETWEEN 1 AND " * N + "1",                    DEEP),
    "LIKE":                  (lambda: " LIKE ".join(["s"] * N),                        DEEP),
    "IN":                    (lambda: "x IN (" * N + "1" + ")" * N,                    DEEP),
    "subqueries":            (lambda: "x IN (SELECT " * N + "1" + ")" * N,             DEEP),
    "UNION":                 (lambda: "x = 1 " + "UNION SELECT 1 " * 2000,             SYNTAX),
    "lambdas":               (lambda: "exists(x, " + "y -> " * N + "1)",               DEEP),
    "intervals":             (lambda: "x > " + "INTERVAL 1 DAY + " * N + "1",          DEEP),
    "windows":               (lambda: "sum(" * 99 + "x" + ") OVER ()" * 99 + " = 1",   KEEP),
    "adjacent strings":      (lambda: "s = " + "'A'" * N,                              NONE),
    "quotes":                (lambda: "'" * N,                                         KEEP),
    "odd quotes":            (lambda: "'" * (N + 1),                                   SYNTAX),
    "braces":                (lambda: "{{" * N,                                        DEEP),
    "semicolons":            (lambda: ";" * N,                                         SYNTAX),
    "nested comments":       (lambda: "/*" * N + "*/" * N + " x = 1",                  DEEP),
    "a string":              (lambda: "s = '" + "A" * MB + "'",                        NONE),
    "a pattern":             (lambda: "s LIKE '" + "A%" * (MB // 2) + "'",             NONE),
    "a literal pattern":     (lambda: "s LIKE '" + "A" * MB + "%'",                    NONE),
    "escapes":               (lambda: "s LIKE '" + "\\\\%" * 300_000 + "'",            SYNTAX),
    "digits":                (lambda: "x = " + "1" * MB,                               KEEP),
    "decimals":              (lambda: "x = 0." + "1" * MB,                             KEEP),
    "an exponent":           (lambda: "f = 1e" + "1" * 1000,                           KEEP),
    "binary":                (lambda: "s = X'" + "ab" * (MB // 2) + "'",               KEEP),
    "a name":                (lambda: "a" * MB + " = 1",                               UNKNOWN_COLUMN),
    "a quoted name":         (lambda: "`" + "a" * MB + "` = 1",                        UNKNOWN_COLUMN),
    "names":                 (lambda: " OR ".join(["ab = 1"] * 110_000),               SYNTAX),
    "names in a function":   (lambda: "f(" + ", ".join(["x"] * (MB // 10)) + ")",       KEEP),
    "members":               (lambda: "x IN (" + ",".join(map(str, range(-MB // 15, 0))) + ")", NONE),
    "spaces":                (lambda: " " * MB + "x = 1" + "\n" * MB,                  [1, 0]),
    "a comment":             (lambda: "/*" + "a" * MB + "*/ x = 1",                    [1, 0]),
    "comments":              (lambda: "-- a\n" * N + "x = 1",                          [1, 0]),
    "five megabytes":        (lambda: "x = 1" + " " * 5_000_000,                          SYNTAX),
}  # fmt: skip


@pytest.mark.parametrize("make, expected", LONG.values(), ids=LONG)
def test_long_text(make, expected):
    assert answer(make()) == expected


#   text                                          answer
TRICKS = [
    ("s = '\ud800'",                              KEEP),            # a lone surrogate is not a character
    ("\ud800 = 1",                                UNKNOWN_COLUMN),
    ("x\u200b = 1",                               UNKNOWN_COLUMN),  # a zero-width space is part of the name
    ("\u202ex = 1",                               UNKNOWN_COLUMN),
    ("x = 1\u202e",                               SYNTAX),
    ("x = 1 \u202eOR b",                          SYNTAX),
    ("s = 'A\u202e'",                             NONE),            # a character of a string
    ("s = ’a’",                                   UNKNOWN_COLUMN),
    ("s = “a”",                                   UNKNOWN_COLUMN),
    ("x = ５",                                    UNKNOWN_COLUMN),
    ("x = ٣",                                     UNKNOWN_COLUMN),
    ("x ＝ 5",                                    SYNTAX),
    ("e\u0301 = 1",                               UNKNOWN_COLUMN),  # e with a combining accent is not é
    ("É = 1",                                     KEEP),
    ("`a\u200bb` = 1 OR x > 3",                   KEEP),
    ("x = 1\0 OR b",                              SYNTAX),
    ("s = 'A\0b'",                                NONE),
    ("\0",                                        UNKNOWN_COLUMN),
    ("x = 1 -- OR TRUE",                          [1, 0]),
    ("x = 1 /* OR TRUE */",                       [1, 0]),
    ("x = 1 /*",                                  SYNTAX),
    ("--",                                        SYNTAX),
    ("x = 1; DROP TABLE t",                       SYNTAX),
    ("1; 2",                                      SYNTAX),
    ("x = 1;",                                    [1, 0]),
    ("DROP TABLE t",                              SYNTAX),
    ("SELECT 1",                                  SYNTAX),
    ("x = 1 UNION SELECT 1",                      SYNTAX),
    ("x = 1 LIMIT 1",                             SYNTAX),
    ("x IN (SELECT 1)",                           KEEP),
    ("EXISTS (SELECT 1)",                         KEEP),
    ("x = (SELECT max(x) FROM t)",                KEEP),
    ("__import__('os').system('true') = 1",       KEEP),
    ("eval('__import__(\"os\").system(\"true\")')", KEEP),
    ("reflect('java.lang.System', 'exit', 1) = 1", KEEP),
    ("{{ x }} = 1",                               KEEP),
    ("${x} = 1",                                  KEEP),
    ("x = ?",                                     KEEP),
    ("f < 1e400",                                 KEEP),            # Spark refuses these numbers
    ("f > -1e400",                                KEEP),
    ("f = 1e39F",                                 KEEP),
    ("f < 1e400BD",                               KEEP),
    ("x < " + "9" * 39,                           KEEP),
    ("x = 9223372036854775807 + 1",               KEEP),
    ("x = DATE '2024-13-45'",                     KEEP),
    ("x IN ()",                                   SYNTAX),
    ("",                                          SYNTAX),
    (" \t\n",                                     SYNTAX),
    ("'",                                         SYNTAX),
    ("`",                                         SYNTAX),
    ("s = '\\",                                   SYNTAX),
]  # fmt: skip


@pytest.mark.parametrize("text, expected", TRICKS, ids=[ascii(t[0])[:60] for t in TRICKS])
def test_tricks(text, expected):
    assert answer(text) == expected


F = pc.field
TREES = {
    "col AND":               (lambda: chained(operator.and_, [col("x") > 3] * N),                              SOME),
    "col OR":                (lambda: chained(operator.or_, [col("x") == -i for i in range(N)]),               NONE),
    "col AND, right":        (lambda: nested(lambda z: (col("x") > 3) & z, col("b")),                          SOME),
    "col NOT":               (lambda: nested(operator.invert, col("b")),                                       DEEP),
    "col equals":            (lambda: nested(lambda z: z == True, col("b")),                                   DEEP),  # noqa: E712
    "col IS NULL":           (lambda: nested(lambda z: z.is_null(), col("b")),                                 DEEP),
    "col AND OR":            (lambda: nested(lambda z: (z & col("b")) | col("b"), col("b")),                   DEEP),
    "col IN":                (lambda: nested(lambda z: z.isin([True]), col("b")),                              DEEP),
    "col members":           (lambda: col("x").isin(range(-300_000, 0)),                                       NONE),
    "col string":            (lambda: col("s") == "A" * 10 * MB,                                               NONE),
    "col prefix":            (lambda: col("s").startswith("\U0010ffff" * MB),                                  KEEP),
    "col pattern":           (lambda: col("s").like("A" * MB + "%"),                                           NONE),
    "col name":              (lambda: col(*["a"] * 100_000) == 1,                                              UNKNOWN_COLUMN),
    "arrow AND":             (lambda: chained(operator.and_, [F("x") > 3] * N),                                SOME),
    "arrow OR":              (lambda: chained(operator.or_, [F("x") == -i for i in range(N)]),                 NONE),
    "arrow NOT":             (lambda: nested(operator.invert, F("b")),                                         DEEP),
    "arrow sum":             (lambda: nested(lambda z: z + 1, F("x"), 3000) == 1,                              DEEP),
    "arrow string":          (lambda: F("s") == "A" * 10 * MB,                                                 NONE),
    "arrow members":         (lambda: F("x").isin(pa.array(range(-300_000, 0))),                               NONE),
    "iceberg AND":           (lambda: chained(ice.And, [ice.GreaterThan("x", 3)] * N),                         SOME),
    "iceberg AND, balanced": (lambda: ice.And(*[ice.GreaterThan("x", 3)] * N),                                 SOME),
    "iceberg OR":            (lambda: chained(ice.Or, [ice.EqualTo("x", -i) for i in range(N)]),               NONE),
    "iceberg AND OR":        (lambda: nested(lambda z: ice.Or(ice.And(z, ice.IsNull("x")), ice.IsNull("s")), ice.IsNull("x"), 3000), DEEP),
    "iceberg members":       (lambda: ice.In("x", list(range(-50_000, 0))),                                    NONE),
    "iceberg name":          (lambda: ice.EqualTo(".".join("a" * 100_000), 1),                                 UNKNOWN_COLUMN),
    "filters":               (lambda: [[("x", "=", -i)] for i in range(N)],                                    NONE),
    "nested filters":        (lambda: nested(lambda z: [z], [("x", "=", 1)]),                                  DEEP),
    "a literal":             (lambda: lit(True),                                                               [2, 2]),
}  # fmt: skip


@pytest.mark.parametrize("make, expected", TREES.values(), ids=TREES)
def test_trees(make, expected):
    assert answer(make()) == expected


def test_values_that_are_no_literals():
    for value in (10**5000, float, object(), {1: 2}, "\ud800", 1j, range(3)):
        with guarded(), pytest.raises(ss.PredicateError, match="is not a literal"):
            ss.PruningPredicate(col("x") == value, SCHEMA)


def test_errors_can_be_printed():
    for text in (
        "\ud800 = 1",
        "x = '\ud800' OR \ud800 =",
        "(" * N,
        "a" * MB + " = 1",
        "\n" * N + "x = ",
    ):
        with pytest.raises(ss.PredicateError) as raised:
            ss.PruningPredicate(text, SCHEMA)
        assert len(str(raised.value).encode()) < 2000
