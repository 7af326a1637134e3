"""Hostile patterns of LIKE and RLIKE, and texts that grow: an answer or an error in linear time."""

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone import col, lit
from skipstone.ir.like import after_prefix, decode
from skipstone.ir.partitioning.projection import PartitionField
from skipstone.ir.partitioning.transforms import Transform
from skipstone.ir.rows import evaluate_rows
from skipstone.ir.simplify import FALSE, TRUE
from tests.support.guarded import MB, SCHEMA, guarded
from tests.support.rows.residual import residual


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
            pytest.raises(ss.SkipstoneError, match="cannot filter rows by LIKE with"),
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
    ("s RLIKE '" + "(?:" * 300 + r"\\1'",     "maybe",  "maybe"),   # a back reference
    ("s RLIKE '" + "(" * 450 + "b" + ")" * 450 + "'", "never", "always"),
    ("s RLIKE '" + "(" * 9000 + "b" + ")" * 9000 + "'", "maybe", "maybe"),  # too long
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
    """In containers of one value, on rows, and in partitions, time grows only with the text."""
    stats = ss.Statistics.from_dict(
        {"s": {"min": [A, B], "max": [A, B], "null_count": [0, 0]}}, SCHEMA
    )
    table = pa.table({"s": [A, B]}).to_batches()[0]
    with guarded():
        p = ss.PruningPredicate(where, SCHEMA)
        assert [v.name.lower() for v in map(ss.Verdict, p.evaluate(stats, "numpy"))] == [a, b]
        if a == "maybe":
            with pytest.raises(ss.SkipstoneError, match="cannot filter"):
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
    """Such patterns prune by their prefix only."""
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
        with pytest.raises(ss.SkipstoneError, match="cannot filter rows by LIKE with"):
            evaluate_rows(p.node, pa.table({"s": [A]}).to_batches()[0])


#    predicate                value
UNLIKE = [
    ("s RLIKE 'a.b'",         "a\rb"),
    ("s RLIKE 'a.b'",         "a\u2028b"),
    ("s RLIKE 'a$'",          "a\n"),
    ("s RLIKE 'a$'",          "a\u0085"),
    ("s RLIKE '(?i)k'",       "\u212a"),
    (r"s RLIKE '\\w'",        "é"),
    (r"s RLIKE '\\s'",        "\x0b"),
    (r"s RLIKE 'a\\b'",       "aé"),
]  # fmt: skip


@pytest.mark.parametrize("where, value", UNLIKE)
def test_patterns_that_engines_read_differently(where, value):
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
    ("length(replace(s, 'a', repeat('b', 60000))) > 0", "a" * 5000, 1),         # 300 MB
    ("length(replace(s, 'a', repeat('b', 60000))) = 60000", "a",    2),
    ("replace(s, 'a', 'b') < 'c'",                    "a" * MB,     2),         # no longer
    ("replace(s, 'aa', 'b') < 'c'",                   "a" * MB,     2),
    ("replace(s, 'c', repeat('b', 60000)) < 'b'",     "a" * MB,     2),
    ("length(repeat(s, 100000)) > 0",                 "a",          1),
]  # fmt: skip


@pytest.mark.parametrize("where, value, verdict", SIZES, ids=[t[0] for t in SIZES])
def test_texts_that_grow(where, value, verdict):
    """A result that exceeds the limit on texts is unknown."""
    stats = ss.Statistics.from_dict(
        {"s": {"min": [value], "max": [value], "null_count": [0]}}, SCHEMA
    )
    with guarded():
        assert ss.PruningPredicate(where, SCHEMA).evaluate(stats, "numpy").tolist() == [verdict]
