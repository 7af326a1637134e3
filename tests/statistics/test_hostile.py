"""Input that is made to break things: each gives an answer or a clear error, soon, and runs nothing."""

import contextlib
import functools
import operator
import pickle
import signal
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg import expressions as ice

import skipstone as ss
from skipstone import col, lit
from skipstone.ir.like import after_prefix, decode
from skipstone.ir.partitioning.projection import PartitionField
from skipstone.ir.partitioning.residual import residual
from skipstone.ir.partitioning.transforms import Transform
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.simplify import FALSE, TRUE
from tests.support import effort

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("é", pa.int64()),
        ("a\u200bb", pa.int64()),
    ]
)
STATS = ss.Statistics.from_dict(
    {"x": {"min": [1, 5], "max": [3, 9]}, "s": {"min": ["a", "b"]}}, SCHEMA
)
N, MB = 10_000, 1_000_000 if effort.LONG else 300_000
# Most take a tenth of a second, the slowest two; what grows with the square of its size would take minutes.
GUARD = 60
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.connect",
    "socket.getaddrinfo",
    "urllib.Request",
    "shutil.rmtree",
    "os.remove",
)
watching = False


def audit(event, args):
    if watching and (
        event in FORBIDDEN
        or (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"))
    ):
        raise AssertionError(f"{event} {args}")


sys.addaudithook(audit)


@contextlib.contextmanager
def guarded():
    """Stops what takes too long, and refuses what would reach out of the process."""
    global watching

    def stop(number, frame):
        raise TimeoutError(f"more than {GUARD} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, GUARD)
    watching = True
    try:
        yield
    finally:
        watching = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def answer(where):
    """What becomes of a predicate: verdicts, or the name of the error."""
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
    "names in a function":   (lambda: "f(" + ", ".join(["x"] * 100_000) + ")",         KEEP),
    "members":               (lambda: "x IN (" + ",".join(map(str, range(-6 * N, 0))) + ")",  NONE),
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
    ("s = '\ud800'",                              KEEP),            # a lone surrogate is no character
    ("\ud800 = 1",                                UNKNOWN_COLUMN),
    ("x\u200b = 1",                               UNKNOWN_COLUMN),  # a space of no width belongs to the name
    ("\u202ex = 1",                               UNKNOWN_COLUMN),
    ("x = 1\u202e",                               SYNTAX),
    ("x = 1 \u202eOR b",                          SYNTAX),
    ("s = 'A\u202e'",                             NONE),            # within a string it is a character
    ("s = ’a’",                                   UNKNOWN_COLUMN),
    ("s = “a”",                                   UNKNOWN_COLUMN),
    ("x = ５",                                    UNKNOWN_COLUMN),
    ("x = ٣",                                     UNKNOWN_COLUMN),
    ("x ＝ 5",                                    SYNTAX),
    ("e\u0301 = 1",                               UNKNOWN_COLUMN),  # e and an accent are not é
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


def test_literals_that_are_none():
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


def test_patterns_take_time_by_their_length():
    with guarded():
        assert decode("a" * MB + "%", "\\").prefix == "a" * MB
        assert after_prefix(("a" + "\U0010ffff" * MB).encode()) == b"b"
        assert after_prefix(("\U0010ffff" * MB).encode()) is None


def test_rows_under_patterns_that_no_engine_takes():
    table = pa.table({"s": ["a" * 5000]}).to_batches()[0]
    for pattern, expected in (
        ("%a" * 900 + "b", [False]),
        ("%a" * 900, [True]),
        ("a" * MB + "_", [False]),
    ):
        with guarded():
            assert (
                evaluate_rows(
                    ss.PruningPredicate(col("s").like(pattern), SCHEMA).node, table
                ).to_pylist()
                == expected
            )
    for pattern in ("a%" * 500_000 + "b", "_" * 100_000):
        with (
            guarded(),
            pytest.raises(ss.SkipstoneError, match="rows cannot be judged by LIKE with"),
        ):
            evaluate_rows(ss.PruningPredicate(col("s").like(pattern), SCHEMA).node, table)


A, B = "a" * 5000, "a" * 5000 + "b"
#    predicate                                A         B
PATTERNS = [
    ("s LIKE '" + "%a" * 20 + "%b'",          "never",  "always"),
    ("s LIKE '" + "%_a" * 20 + "%b'",         "never",  "always"),
    ("concat(s, '') LIKE '" + "%a" * 20 + "%b'", "never", "always"),
    ("s RLIKE '(a+)+b'",                      "never",  "always"),
    ("s RLIKE '^(a|a)*b$'",                   "never",  "always"),
    ("s RLIKE '(a*)*(a*)*(a*)*b'",            "never",  "always"),
    ("s RLIKE '" + "a?" * 400 + "a" * 100 + "b'", "never", "always"),
    ("s RLIKE '" + "(?:" * 300 + r"\\1'",     "maybe",  "maybe"),   # a reference
    ("s RLIKE '" + "(" * 450 + "b" + ")" * 450 + "'", "never", "always"),
    ("s RLIKE '" + "(" * 9000 + "b" + ")" * 9000 + "'", "maybe", "maybe"),  # longer than is tried
    ("s RLIKE '(?=b)'",                       "maybe",  "maybe"),
    ("s RLIKE '(?i)B'",                       "maybe",  "maybe"),
    ("s RLIKE '(?<x>b)'",                     "maybe",  "maybe"),
    ("s RLIKE 'a*+b'",                        "maybe",  "maybe"),
    ("s RLIKE '[a&&b]'",                      "maybe",  "maybe"),
    ("s RLIKE '^*b'",                         "maybe",  "maybe"),
    ("s RLIKE '(b'",                          "maybe",  "maybe"),   # an error in Spark
]  # fmt: skip


@pytest.mark.parametrize("where, a, b", PATTERNS, ids=[p[0][:40] for p in PATTERNS])
def test_patterns_that_backtrack(where, a, b):
    """In containers of one value, on rows, and in partitions: time grows with the text's length, whatever the pattern."""
    stats = ss.Statistics.from_dict(
        {"s": {"min": [A, B], "max": [A, B], "null_count": [0, 0]}}, SCHEMA
    )
    table = pa.table({"s": [A, B]}).to_batches()[0]
    with guarded():
        p = ss.PruningPredicate(where, SCHEMA)
        assert [v.name.lower() for v in map(ss.Verdict, p.evaluate(stats, "numpy"))] == [a, b]
        if a == "maybe":
            with pytest.raises(ss.SkipstoneError, match="rows cannot be judged"):
                evaluate_rows(p.node, table)
        else:
            assert evaluate_rows(p.node, table).to_pylist() == [False, True]
        left = [
            residual(
                p.node, [PartitionField(("s",), Transform("identity"), "p")], {"p": v.encode()}
            )
            for v in (A, B)
        ]
        assert left == [FALSE, TRUE] if where.startswith("s LIKE") else left == [p.node, p.node]


@pytest.mark.parametrize("pattern", ["a%" * 5000 + "b", "%" + "a" * MB], ids=["wildcards", "text"])
def test_patterns_that_no_engine_takes(pattern):
    """They prune by their prefix, and nothing else is known."""
    stats = ss.Statistics.from_dict(
        {"s": {"min": [A, "b"], "max": [A, "b"], "null_count": [0, 0]}}, SCHEMA
    )
    spec = [PartitionField(("s",), Transform("identity"), "p")]
    with guarded():
        p = ss.PruningPredicate(col("s").like(pattern), SCHEMA)
        assert p.evaluate(stats, "numpy").tolist() == [1, 0 if pattern.startswith("a") else 1]
        assert (
            ss.PruningPredicate(~col("s").like(pattern), SCHEMA)
            .evaluate(stats, "numpy")
            .tolist()[0]
            == 1
        )
        assert ss.PruningPredicate(lit("a").like(pattern), SCHEMA).evaluate(
            stats, "numpy"
        ).tolist() == [1, 1]
        assert residual(p.node, spec, {"p": A.encode()}) == p.node
        with pytest.raises(ss.SkipstoneError, match="rows cannot be judged by LIKE with"):
            evaluate_rows(p.node, pa.table({"s": [A]}).to_batches()[0])


#    predicate                value
UNLIKE = [
    ("s RLIKE 'a.b'",         "a\rb"),
    ("s RLIKE 'a.b'",         "a\u2028b"),
    ("s RLIKE 'a$'",          "a\n"),
    ("s RLIKE 'a$'",          "a\u0085"),
    ("s RLIKE '(?i)k'",       "\u212a"),
    ("s RLIKE 'é'",           "e\u0301"),
    (r"s RLIKE '\\w'",        "é"),
    (r"s RLIKE '\\s'",        "\x0b"),
    (r"s RLIKE 'a\\b'",       "aé"),
]  # fmt: skip


@pytest.mark.parametrize("where, value", UNLIKE)
def test_where_engines_read_patterns_otherwise(where, value):
    stats = ss.Statistics.from_dict({"s": {"min": [value], "max": [value]}}, SCHEMA)
    for text in (where, f"NOT ({where})"):
        assert ss.PruningPredicate(text, SCHEMA).evaluate(stats, "numpy").tolist() == [1]


#    predicate                            s from            to                verdict
TEXTS = [
    ("concat(s, 'x') < 'c'",              "a",              "b" * MB,         2),
    ("concat(s, 'x') < 'b'",              "a",              "b" * MB,         1),
    ("concat(s, 'x') > 'ab'",             "ab" * MB,        "ab" * MB + "c",  2),
    ("concat(s, s, s, 'x', s) > 'c'",     "a",              "b" * MB,         0),
    ("substring(s, 1, 1000000) < 'c'",    "a",              "b" * MB,         2),
]  # fmt: skip


@pytest.mark.parametrize("where, low, high, verdict", TEXTS, ids=[t[0] for t in TEXTS])
def test_bounds_of_a_megabyte(where, low, high, verdict):
    stats = ss.Statistics.from_dict({"s": {"min": [low], "max": [high], "null_count": [0]}}, SCHEMA)
    with guarded():
        assert ss.PruningPredicate(where, SCHEMA).evaluate(stats, "numpy").tolist() == [verdict]


#    predicate                                        value        verdict
SIZES = [
    ("length(replace(s, 'a', repeat('b', 60000))) > 0", "a" * 5000, 1),         # it would take 300 MB
    ("length(replace(s, 'a', repeat('b', 60000))) = 60000", "a",    2),
    ("replace(s, 'a', 'b') < 'c'",                    "a" * MB,     2),         # no longer than it was
    ("replace(s, 'aa', 'b') < 'c'",                   "a" * MB,     2),
    ("replace(s, 'c', repeat('b', 60000)) < 'b'",     "a" * MB,     2),
    ("length(repeat(s, 100000)) > 0",                 "a",          1),
    ("length(lpad(s, 100000, 'a')) > 0",              "a",          1),
]  # fmt: skip


@pytest.mark.parametrize("where, value, verdict", SIZES, ids=[t[0] for t in SIZES])
def test_texts_that_grow(where, value, verdict):
    """What is longer than functions make here is not known."""
    stats = ss.Statistics.from_dict(
        {"s": {"min": [value], "max": [value], "null_count": [0]}}, SCHEMA
    )
    with guarded():
        assert ss.PruningPredicate(where, SCHEMA).evaluate(stats, "numpy").tolist() == [verdict]
