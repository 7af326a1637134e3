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


DEEP, SYNTAX, UNKNOWN, ERROR = (
    "PredicateTooDeep",
    "PredicateSyntaxError",
    "UnknownColumn",
    "PredicateError",
)
KEEP, SOME, NONE = [1, 1], [0, 1], [0, 0]

#    what                     answer    text
LONG = {
    "parentheses":          (DEEP,    lambda: "(" * N + "x = 1" + ")" * N),
    "open parentheses":     (DEEP,    lambda: "(" * N),
    "NOT":                  (DEEP,    lambda: "NOT " * N + "b"),
    "NOT, 120 deep":        ([1, 0],  lambda: "NOT (" * 120 + "x = 1" + ")" * 120),
    "exclamation marks":    (DEEP,    lambda: "! " * N + "b"),
    "minus signs":          (DEEP,    lambda: "x = " + "- " * N + "1"),
    "AND":                  (SOME,    lambda: " AND ".join(["x > 3"] * N)),
    "OR":                   (NONE,    lambda: " OR ".join(f"x = {-i}" for i in range(N))),
    "AND OR":               (SYNTAX,  lambda: " AND x > 1 OR ".join(["x > 3"] * N)),
    "OR of a megabyte":     (SYNTAX,  lambda: " OR ".join(["x = 1"] * 110_000)),
    "calls":                (DEEP,    lambda: "upper(" * N + "s" + ")" * N + " = 'A'"),
    "calls, 120 deep":      (KEEP,    lambda: "upper(" * 120 + "s" + ")" * 120 + " = 'A'"),
    "casts":                (DEEP,    lambda: "x = " + "CAST(" * N + "1" + " AS INT)" * N),
    "casts, 120 deep":      ([1, 0],  lambda: "x = " + "CAST(" * 120 + "1" + " AS INT)" * 120),
    "colon casts":          (DEEP,    lambda: "x = 1" + "::INT" * N),
    "sums":                 (DEEP,    lambda: "x = " + " + ".join(["1"] * N)),
    "concatenation":        (SOME[::-1], lambda: "s = " + " || ".join(["'a'"] * N)),
    "concat":               (NONE,    lambda: "concat(s" + ", 'a'" * N + ") = 'A'"),
    "CASE":                 (DEEP,    lambda: "CASE WHEN b THEN " * N + "b" + " END" * N),
    "brackets":             (DEEP,    lambda: "x" + "[0]" * N + " = 1"),
    "dots":                 (DEEP,    lambda: "x" + ".x" * N + " = 1"),
    "IS NULL":              (DEEP,    lambda: "x" + " IS NULL" * N),
    "equals":               (DEEP,    lambda: " = ".join(["x"] * N)),
    "BETWEEN":              (DEEP,    lambda: "x BETWEEN 1 AND " * N + "1"),
    "LIKE":                 (DEEP,    lambda: " LIKE ".join(["s"] * N)),
    "IN":                   (DEEP,    lambda: "x IN (" * N + "1" + ")" * N),
    "subqueries":           (DEEP,    lambda: "x IN (SELECT " * N + "1" + ")" * N),
    "UNION":                (SYNTAX,  lambda: "x = 1 " + "UNION SELECT 1 " * 2000),
    "lambdas":              (DEEP,    lambda: "exists(x, " + "y -> " * N + "1)"),
    "intervals":            (DEEP,    lambda: "x > " + "INTERVAL 1 DAY + " * N + "1"),
    "windows":              (KEEP,    lambda: "sum(" * 99 + "x" + ") OVER ()" * 99 + " = 1"),
    "adjacent strings":     (NONE,    lambda: "s = " + "'A'" * N),
    "quotes":               (KEEP,    lambda: "'" * N),
    "odd quotes":           (SYNTAX,  lambda: "'" * (N + 1)),
    "braces":               (DEEP,    lambda: "{{" * N),
    "semicolons":           (SYNTAX,  lambda: ";" * N),
    "nested comments":      (DEEP,    lambda: "/*" * N + "*/" * N + " x = 1"),
    "a string":             (NONE,    lambda: "s = '" + "A" * MB + "'"),
    "a pattern":            (NONE,    lambda: "s LIKE '" + "A%" * (MB // 2) + "'"),
    "a literal pattern":    (NONE,    lambda: "s LIKE '" + "A" * MB + "%'"),
    "escapes":              (SYNTAX,  lambda: "s LIKE '" + "\\\\%" * 300_000 + "'"),
    "digits":               (KEEP,    lambda: "x = " + "1" * MB),
    "decimals":             (KEEP,    lambda: "x = 0." + "1" * MB),
    "an exponent":          (KEEP,    lambda: "f = 1e" + "1" * 1000),
    "binary":               (KEEP,    lambda: "s = X'" + "ab" * (MB // 2) + "'"),
    "a name":               (UNKNOWN, lambda: "a" * MB + " = 1"),
    "a quoted name":        (UNKNOWN, lambda: "`" + "a" * MB + "` = 1"),
    "names":                (SYNTAX,  lambda: " OR ".join(["ab = 1"] * 110_000)),
    "names in a function":  (KEEP,    lambda: "f(" + ", ".join(["x"] * (MB // 10)) + ")"),
    "members":              (NONE,    lambda: f"x IN ({','.join(map(str, range(-MB // 15, 0)))})"),
    "spaces":               ([1, 0],  lambda: " " * MB + "x = 1" + "\n" * MB),
    "a comment":            ([1, 0],  lambda: "/*" + "a" * MB + "*/ x = 1"),
    "comments":             ([1, 0],  lambda: "-- a\n" * N + "x = 1"),
    "five megabytes":       (SYNTAX,  lambda: "x = 1" + " " * 5_000_000),
}  # fmt: skip


@pytest.mark.parametrize("expected, make", LONG.values(), ids=LONG)
def test_long_text(expected, make):
    assert answer(make()) == expected


#   text                                          answer
TRICKS = [
    ("s = '\ud800'",                              KEEP),            # a lone surrogate
    ("\ud800 = 1",                                UNKNOWN),
    ("x\u200b = 1",                               UNKNOWN),  # a zero-width space in a name
    ("\u202ex = 1",                               UNKNOWN),
    ("x = 1\u202e",                               SYNTAX),
    ("x = 1 \u202eOR b",                          SYNTAX),
    ("s = 'A\u202e'",                             NONE),            # a character of a string
    ("s = ’a’",                                   UNKNOWN),
    ("s = “a”",                                   UNKNOWN),
    ("x = ５",                                    UNKNOWN),
    ("x = ٣",                                     UNKNOWN),
    ("x ＝ 5",                                    SYNTAX),
    ("e\u0301 = 1",                               UNKNOWN),  # not é, but e and an accent
    ("É = 1",                                     KEEP),
    ("`a\u200bb` = 1 OR x > 3",                   KEEP),
    ("x = 1\0 OR b",                              SYNTAX),
    ("s = 'A\0b'",                                NONE),
    ("\0",                                        UNKNOWN),
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


F, AND, OR, EQUAL = pc.field, operator.and_, operator.or_, ice.EqualTo


def and_or(z):
    return ice.Or(ice.And(z, ice.IsNull("x")), ice.IsNull("s"))


TREES = {
    "col AND":               (SOME,    lambda: chained(AND, [col("x") > 3] * N)),
    "col OR":                (NONE,    lambda: chained(OR, [col("x") == -i for i in range(N)])),
    "col AND, right":        (SOME,    lambda: nested(lambda z: (col("x") > 3) & z, col("b"))),
    "col NOT":               (DEEP,    lambda: nested(operator.invert, col("b"))),
    "col equals":            (DEEP,    lambda: nested(lambda z: z == True, col("b"))),  # noqa: E712
    "col IS NULL":           (DEEP,    lambda: nested(lambda z: z.is_null(), col("b"))),
    "col AND OR":            (DEEP,    lambda: nested(lambda z: z & col("b") | col("b"), col("b"))),
    "col IN":                (DEEP,    lambda: nested(lambda z: z.isin([True]), col("b"))),
    "col members":           (NONE,    lambda: col("x").isin(range(-300_000, 0))),
    "col string":            (NONE,    lambda: col("s") == "A" * 10 * MB),
    "col prefix":            (KEEP,    lambda: col("s").startswith("\U0010ffff" * MB)),
    "col pattern":           (NONE,    lambda: col("s").like("A" * MB + "%")),
    "col name":              (UNKNOWN, lambda: col(*["a"] * 100_000) == 1),
    "arrow AND":             (SOME,    lambda: chained(AND, [F("x") > 3] * N)),
    "arrow OR":              (NONE,    lambda: chained(OR, [F("x") == -i for i in range(N)])),
    "arrow NOT":             (DEEP,    lambda: nested(operator.invert, F("b"))),
    "arrow sum":             (DEEP,    lambda: nested(lambda z: z + 1, F("x"), 3000) == 1),
    "arrow string":          (NONE,    lambda: F("s") == "A" * 10 * MB),
    "arrow members":         (NONE,    lambda: F("x").isin(pa.array(range(-300_000, 0)))),
    "iceberg AND":           (SOME,    lambda: chained(ice.And, [ice.GreaterThan("x", 3)] * N)),
    "iceberg AND, balanced": (SOME,    lambda: ice.And(*[ice.GreaterThan("x", 3)] * N)),
    "iceberg OR":            (NONE,    lambda: chained(ice.Or, [EQUAL("x", -i) for i in range(N)])),
    "iceberg AND OR":        (DEEP,    lambda: nested(and_or, ice.IsNull("x"), 3000)),
    "iceberg members":       (NONE,    lambda: ice.In("x", list(range(-50_000, 0)))),
    "iceberg name":          (UNKNOWN, lambda: ice.EqualTo(".".join("a" * 100_000), 1)),
    "filters":               (NONE,    lambda: [[("x", "=", -i)] for i in range(N)]),
    "nested filters":        (SYNTAX,  lambda: nested(lambda z: [z], [("x", "=", 1)])),
    "a literal":             ([2, 2],  lambda: lit(True)),
}  # fmt: skip


@pytest.mark.parametrize("expected, make", TREES.values(), ids=TREES)
def test_trees(expected, make):
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
