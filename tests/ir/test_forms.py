"""Predicates of all forms: former bugs, and a bounded part of the long random run.

`tests/fuzz/__main__.py` is the long run; here each judge gets a few seeds.
"""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.outcome import Verdict
from tests.support.effort import LONG
from tests.support.predicates import inside, judges
from tests.support.spark.judge import by_spark
from tests.support.spark.session import QUIET

NEVER, MAYBE, ALWAYS = Verdict.NEVER, Verdict.MAYBE, Verdict.ALWAYS
INF, NAN = math.inf, math.nan

TYPES = {
    "i": pa.int32(), "l": pa.int64(), "k": pa.int64(), "g": pa.float64(), "h": pa.float64(),
    "m": pa.decimal128(9, 2), "w": pa.decimal128(38, 10),
    "e": pa.decimal128(20, 0), "d": pa.date32(), "n": pa.timestamp("us"), "s": pa.string(),
    "v": pa.string(), "y": pa.binary(),
}  # fmt: skip

# predicate, the rows of one container, Spark settings, verdict
CASES = [
    # A suffix after a prefix of the maximum may lie above the maximum.
    ("concat(s, 'x') > 'b'",                      {"s": ["a", "aa"]},                    {}, NEVER),
    ("concat(s, 'x') < 'ab'",                     {"s": ["a", "aa"]},                    {}, MAYBE),
    ("s || v >= 'ab'",                            {"s": ["a", "aa"], "v": ["0", "it"]},  {}, MAYBE),
    ("concat(s, 'b') > '%c'",                     {"s": ["", "%"]},                      {}, MAYBE),
    ("concat(' ', s, '-') BETWEEN ' a' AND ' b'", {"s": ["a", "ab"]}, {}, ALWAYS),
    ("concat(s, 'b') > 'c'",                      {"s": ["", "a", "b"]},                 {}, NEVER),
    # A CASE whose condition may raise has no certain value.
    ("CASE WHEN 10 / i > 1 THEN 1 ELSE 1 END = 1",       {"i": [0, 2]},                  {}, MAYBE),
    ("CASE WHEN 10 / i > 1 THEN 1 ELSE 1 END = 1", {"i": [1, 2]}, {}, ALWAYS),
    ("if(CAST('x' AS INT) = i, 1, 1) = 1",               {"i": [0, 2]},                  {}, MAYBE),
    # The prefix of a pattern does not decide the whole pattern.
    ("CASE WHEN s LIKE 'a%b' THEN 1 ELSE 2 END = 1",     {"s": ["ab", "ac"]},            {}, MAYBE),
    # 0 times infinity is NaN, the greatest value.
    ("isnan(g * h)",                              {"g": [-1.0, 0.0, 1.0], "h": [INF]},   {}, MAYBE),
    ("g * h <= CAST('Infinity' AS DOUBLE)",       {"g": [-1.0, 0.0, 1.0], "h": [INF]},   {}, MAYBE),
    ("isnan(g * h)",                              {"g": [1.0, 2.0], "h": [3.0, INF]},    {}, NEVER),
    # A quotient of decimals beyond BIGINT wraps.
    ("e div -1 < 0", {"e": [Decimal(2), Decimal(2**64 - 1)]}, {"ansi": False}, MAYBE),
    # The pmod of a negative dividend may have more digits than its type.
    ("pmod(m, w) IS NULL", {"m": [Decimal(-1)], "w": [Decimal(10) ** 20]}, {"ansi": False}, ALWAYS),
    ("pmod(m, w) IS NULL", {"m": [Decimal(-1)], "w": [Decimal(10) ** 20]}, {}, MAYBE),
    # Scala rounds a negated decimal to 34 digits.
    ("abs(w) > 1", {"w": [Decimal("-9999999999999999999999999999.9999999999")]}, {}, MAYBE),
    ("-w < 1", {"w": [Decimal("9999999999999999999999999999.9999999999")]}, {}, MAYBE),
    # Wall clocks are seconds without a zone, cut towards zero.
    ("unix_timestamp(n) = 0", {"n": [dt.datetime(1970, 1, 1)]}, {"timezone": "Asia/Kolkata"},
     ALWAYS),
    ("unix_timestamp(n) = 0", {"n": [dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)]}, {}, ALWAYS),
    ("unix_seconds(CAST(n AS TIMESTAMP)) = -1",
     {"n": [dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)]}, {}, ALWAYS),
    # Remainders and roots have bounds, although neither is monotone.
    ("pmod(l, 7) BETWEEN 0 AND 6", {"l": [-20, 20]}, {}, ALWAYS),
    ("pmod(l, -7) > 0",                           {"l": [-20, 0]},                       {}, MAYBE),
    ("pmod(l, 7) > 3",                            {"l": [0, 3]},                         {}, NEVER),
    ("sqrt(g) > 3",                               {"g": [0.0, 9.0]},                     {}, NEVER),
    ("sqrt(g) > 3",                               {"g": [-1.0, 9.0]},                    {}, MAYBE),
    ("isnan(sqrt(g))", {"g": [-2.0, -1.0]}, {}, ALWAYS),
    # Bytes that are not UTF-8 have no known text.
    ("concat(CAST(y AS STRING), 'a') > 'a'",      {"y": [b"\xfe", b"b\xfe"]},            {}, MAYBE),
    # Members of other types change the type of the comparison.
    ("l IN (k, 1e0)", {"l": [2**53 + 1], "k": [2**53]}, {}, ALWAYS),
    ("l IN (k, 1)",                               {"l": [2**53 + 1], "k": [2**53]},      {}, NEVER),
    ("l IN (k, 1.5)", {"l": [7], "k": [7, 7]}, {}, ALWAYS),
    # Arrays of shape (1,) beside arrays of shape (n,).
    ("5 div l = 1", {"l": [4, 5]}, {}, ALWAYS),
    ("'a' LIKE 'a'", {"s": ["b"]}, {}, ALWAYS),
    ("concat('', '') LIKE '%'", {"s": ["b"]}, {}, ALWAYS),
]  # fmt: skip


def zone_map(columns, containers=1):
    """Return the statistics of the rows, as of several identical containers."""
    schema, made = pa.schema([(name, TYPES[name]) for name in columns]), {}
    for name, values in columns.items():
        numbers = [v for v in values if v == v]
        made[name] = {
            "min": pa.array([min(numbers)] * containers, TYPES[name]),
            "max": pa.array([max(numbers)] * containers, TYPES[name]),
        }
        made[name] |= {
            "null_count": [0] * containers,
            "nan_count": [len(values) - len(numbers)] * containers,
        }
    return schema, ss.Statistics.from_dict(
        made, schema, row_count=[max(map(len, columns.values()))] * containers
    )


@pytest.mark.parametrize("containers", [1, 2])
@pytest.mark.parametrize(
    "sql, columns, settings, verdict", CASES, ids=[f"{c[0]}-{c[3].name}" for c in CASES]
)
def test_cases(sql, columns, settings, verdict, containers, backend):
    schema, stats = zone_map(columns, containers)
    assert (
        ss.PruningPredicate(sql, schema, **settings).evaluate(stats, backend=backend).tolist()
        == [verdict] * containers
    )


def test_dates_that_leave_their_type_are_not_truncated():
    schema = pa.schema([("d", pa.date32())])
    least = pa.array([-(2**31)], pa.int32()).view(pa.date32())
    stats = ss.Statistics.from_dict(
        {"d": {"min": least, "max": least, "null_count": [0]}}, schema, row_count=[1]
    )
    assert ss.PruningPredicate("trunc(d, 'week') > DATE '2024-01-01'", schema).evaluate(
        stats
    ).tolist() == [MAYBE]


def test_try_cast_of_a_far_date_is_null():
    schema = pa.schema([("d", pa.date32())])
    far = pa.array([2**31 - 1], pa.int32()).view(pa.date32())
    stats = ss.Statistics.from_dict(
        {"d": {"min": far, "max": far, "null_count": [0]}}, schema, row_count=[1]
    )
    assert ss.PruningPredicate(
        "TRY_CAST(d AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ '2024-01-01 00:00:00'", schema
    ).evaluate(stats).tolist() == [MAYBE]


# A bounded part of the long random run.


@pytest.mark.parametrize("part", range(2 if LONG else 1))
def test_scalars_lie_in_their_intervals(part):
    assert sum(inside.judge(1000 * part + seed) for seed in range(12)) > 90_000


@pytest.mark.parametrize("part", range(2 if LONG else 1))
@pytest.mark.parametrize("judge", [judges.by_rows, judges.by_duckdb])
def test_no_verdict_contradicts_the_rows(judge, part):
    if judge is judges.by_duckdb:
        pytest.importorskip("duckdb")
    tally = judges.Tally()
    for seed in range(2):
        judge(1000 * part + seed, tally, containers=400, predicates=100)
    assert tally.unsound == []
    assert tally.verdicts > 60_000
    total = [
        sum(getattr(c, name) for c in tally.forms.values())
        for name in ("empty", "pruned", "full", "always")
    ]
    assert total[1] > 0.65 * total[0] and total[3] > 0.55 * total[2]


def test_backends_agree_on_every_form():
    tally = judges.Tally()
    judges.by_rows(7, tally, containers=200, predicates=12, numba=1)
    assert tally.unsound == []


@pytest.mark.filterwarnings(QUIET)
def test_no_verdict_contradicts_spark(spark):
    tally = judges.Tally()
    for seed in range(2 if LONG else 1):
        by_spark(spark, seed, tally, containers=60, predicates=80)
    assert tally.unsound == []
    assert tally.surprises == []
    assert tally.verdicts > (6000 if LONG else 3000)
