"""Functions of columns: verdicts from their intervals."""

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.ir.functions import text as texts
from tests.support.predicates.schemas import FUNCTIONS as SCHEMA

NEVER, MAYBE, ALWAYS = 0, 1, 2
D = dt.date


def verdict(text, bounds, **session):
    """Return the verdict for one container whose columns have these bounds, no NULL and no NaN."""
    columns = {
        name: {"min": [low], "max": [high], "null_count": [0], "nan_count": [0]}
        for name, (low, high) in bounds.items()
    }
    return int(
        ss.PruningPredicate(text, SCHEMA, **session).evaluate(
            ss.Statistics.from_dict(columns, SCHEMA, row_count=[5])
        )[0]
    )


def at(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC)


X, Y, XX = {"x": (1, 4)}, {"y": (10, 20)}, {"x": (3, 3)}
DAYS, YEAR = {"d": (D(2024, 3, 5), D(2024, 3, 20))}, {"d": (D(2024, 1, 1), D(2024, 12, 31))}
#    predicate                              bounds                              verdict
CASES = [
    # casts
    ("CAST(x AS DOUBLE) > 4.5",             X,                                  NEVER),
    ("CAST(x AS DOUBLE) < 4.5",             X,                                  ALWAYS),
    ("CAST(y AS INT) < 10",                 Y,                                  NEVER),
    ("CAST(y AS INT) < 10", {"y": (10, 2**31)}, MAYBE),  # Spark may raise
    ("TRY_CAST(y AS INT) < 10",             {"y": (10, 2**31)},                 NEVER),
    ("TRY_CAST(y AS INT) >= 10",            {"y": (10, 2**31)},                 MAYBE),
    ("TRY_CAST(y AS INT) IS NULL",          {"y": (2**31, 2**32)},              ALWAYS),
    ("CAST(f AS INT) = 2",                  {"f": (2.0, 2.9)},                  ALWAYS),
    ("CAST(f AS INT) = 3",                  {"f": (2.0, 2.9)},                  NEVER),
    ("CAST(f AS DECIMAL(38,18)) > 5",       {"f": (-2.2, 0.3)},                 NEVER),
    ("CAST(f AS DECIMAL(38,18)) < 5",       {"f": (-2.2, 0.3)},                 ALWAYS),
    ("CAST(f AS DECIMAL(38,18)) = 0.1",     {"f": (0.1, 0.1)},                  ALWAYS),
    # Versions of Java may write more digits.
    ("CAST(f AS DECIMAL(38,18)) = 0.12345678", {"f": (0.12345678, 0.12345678)}, MAYBE),
    ("round(f, 2) = 2.68",                  {"f": (2.675, 2.675)},              ALWAYS),
    ("CAST(f AS DECIMAL(38,18)) = 0.125",   {"f": (0.125, 0.125)},              ALWAYS),
    ("CAST(m AS INT) = 2",                  {"m": (Decimal("2.10"), Decimal("2.99"))}, ALWAYS),
    ("CAST(t AS DATE) = DATE'2024-03-05'",  {"t": (at(2024, 3, 5), at(2024, 3, 5, 23))}, ALWAYS),
    ("CAST(t AS DATE) = DATE'2024-03-06'",  {"t": (at(2024, 3, 5), at(2024, 3, 5, 23))}, NEVER),
    ("CAST(d AS TIMESTAMP) < t", {**DAYS, "t": (at(2024, 4, 1), at(2024, 5, 1))}, ALWAYS),
    ("CAST(x AS STRING) = '3'",             XX,                                 ALWAYS),
    ("CAST(x AS STRING) = '4'",             XX,                                 NEVER),
    ("CAST(x AS STRING) = '3'",             X,                                  MAYBE),
    ("CAST(d AS STRING) LIKE '2024-03%'",   DAYS,                               ALWAYS),
    ("datediff(DAY, d, DATE'2026-03-01') <= 30", DAYS,                          NEVER),
    ("timestampdiff(HOUR, t, TIMESTAMP'2024-03-06 00:00:00') <= 24",
     {"t": (at(2024, 3, 5), at(2024, 3, 5, 23))},                               ALWAYS),
    ("months_between(d, DATE'2024-01-01') >= 1", DAYS,                          ALWAYS),
    ("months_between(d, DATE'2024-01-01') > 3.1", DAYS,                         NEVER),
    ("months_between(d, DATE'2024-01-05') = 2", {"d": (D(2024, 3, 5), D(2024, 3, 5))}, ALWAYS),
    # LIKE and its kin cast to text.
    ("d LIKE '2024-03%'",                   DAYS,                               ALWAYS),
    ("d ILIKE '2023-%'",                    DAYS,                               NEVER),
    ("d RLIKE '^2024-03-'",                 DAYS,                               ALWAYS),
    ("startswith(d, '2024-04')",            DAYS,                               NEVER),
    ("d NOT LIKE '2023-%'",                 DAYS,                               ALWAYS),
    ("x LIKE '3'",                          XX,                                 ALWAYS),
    ("x LIKE '4%'",                         XX,                                 NEVER),
    ("t LIKE '2024-03-05 %'", {"t": (at(2024, 3, 5), at(2024, 3, 5, 23))},      ALWAYS),
    ("s LIKE 12",                           {"s": ("12", "12")},                ALWAYS),
    ("CAST(s AS INT) = 12",                 {"s": ("12", "12")},                ALWAYS),
    ("CAST(x AS BOOLEAN)",                  X,                                  ALWAYS),
    ("CAST(u AS BIGINT) > 5",               {"u": (0, 5)},                      NEVER),
    # arithmetic
    ("x + 1 > 5",                           X,                                  NEVER),
    ("x + 1 <= 5",                          X,                                  ALWAYS),
    ("x - y > 0",                           {**X, **Y},                         NEVER),
    ("x * y >= 10",                         {**X, **Y},                         ALWAYS),
    ("x * -2 < -8",                         X,                                  NEVER),
    ("-x >= 0",                             X,                                  NEVER),
    ("-x < 0",                              X,                                  ALWAYS),
    ("abs(x) > 5",                          {"x": (-5, 3)},                     NEVER),
    ("abs(x) >= 0",                         {"x": (-5, 3)},                     ALWAYS),
    ("x / 2 > 2",                           X,                                  NEVER),
    ("y / x >= 2.5D",                       {**X, **Y},                         ALWAYS),
    ("y / x > 5", {"x": (0, 4), **Y}, MAYBE),  # a divisor of 0
    ("x % 3 > 2",                           X,                                  NEVER),
    ("x % 10 = x",                          XX,                                 ALWAYS),
    ("y div 10 = 1",                        {"y": (10, 19)},                    ALWAYS),
    ("x + 1 > 0", {"x": (0, 2**31 - 1)}, MAYBE),  # overflows
    ("y + x > 0",                           {"x": (0, 2**31 - 1), **Y},         ALWAYS),
    ("m * 2 > 10",                          {"m": (Decimal(1), Decimal(5))},    NEVER),
    ("f + 1 > 3",                           {"f": (0.0, 1.0)},                  NEVER),
    # dates
    ("year(d) = 2024",                      YEAR,                               ALWAYS),
    ("year(d) > 2024",                      YEAR,                               NEVER),
    ("month(d) = 3",                        DAYS,                               ALWAYS),
    ("month(d) > 12",                       {"d": (D(2023, 1, 1), D(2024, 6, 1))}, NEVER),
    ("month(d) = 8",                        {"d": (D(2024, 3, 1), D(2024, 6, 1))}, NEVER),
    ("month(d) = 8",                        {"d": (D(2023, 3, 1), D(2024, 6, 1))}, MAYBE),
    ("quarter(d) = 1",                      DAYS,                               ALWAYS),
    ("day(d) BETWEEN 5 AND 20",             DAYS,                               ALWAYS),
    ("hour(t) = 7",                         {"t": (at(2024, 3, 5, 8), at(2024, 3, 5, 9))}, NEVER),
    ("hour(t) >= 8",                        {"t": (at(2024, 3, 5, 8), at(2024, 3, 5, 9))}, ALWAYS),
    ("date_trunc('month', t) = TIMESTAMP'2024-03-01'", {"t": (at(2024, 3, 5), at(2024, 3, 9))},
     ALWAYS),
    ("trunc(d, 'year') < DATE'2024-01-01'", YEAR,                               NEVER),
    ("date_add(d, 10) > DATE'2024-03-30'",  DAYS,                               NEVER),
    ("d - 5 >= DATE'2024-02-29'",           DAYS,                               ALWAYS),
    ("d + INTERVAL 1 MONTH < DATE'2024-04-05'", DAYS,                           NEVER),
    ("datediff(d, DATE'2024-03-01') < 4",   DAYS,                               NEVER),
    ("unix_timestamp(t) < 0",               {"t": (at(2024, 3, 5), at(2024, 3, 9))}, NEVER),
    ("timestamp_seconds(m) > TIMESTAMP'1970-01-01 00:00:05'",
     {"m": (Decimal(1), Decimal("5.5"))}, MAYBE),
    ("timestamp_seconds(m) = TIMESTAMP'1970-01-01 00:00:02.25'",
     {"m": (Decimal("2.25"), Decimal("2.25"))}, ALWAYS),
    ("timestamp_seconds(m) < TIMESTAMP'1970-01-01 00:00:02'",
     {"m": (Decimal("2.25"), Decimal("2.75"))}, NEVER),
    ("timestamp_seconds(f) > TIMESTAMP'1970-01-01 00:00:00.75'", {"f": (0.5, 1.0)}, MAYBE),
    ("timestamp_seconds(f) < TIMESTAMP'1970-01-01'", {"f": (0.5, 1.0)}, NEVER),
    ("to_date(t) = DATE'2024-03-04'",       {"t": (at(2024, 3, 5), at(2024, 3, 9))}, NEVER),
    ("date_format(t, 'yyyy-MM') = '2024-03'", {"t": (at(2024, 3, 5), at(2024, 3, 9))}, ALWAYS),
    ("date_format(t, 'yyyy-MM') IN ('2024-04')", {"t": (at(2024, 3, 5), at(2024, 3, 9))}, NEVER),
    ("date_format(t, 'MM/yyyy') = '04/2024'", {"t": (at(2024, 3, 5), at(2024, 3, 9))}, MAYBE),
    ("date_format(d, 'yyyyMMdd') < '20240305'", DAYS,                           NEVER),
    ("t + INTERVAL 1 MONTH < TIMESTAMP'2024-04-05'", {"t": (at(2024, 3, 5), at(2024, 3, 9))},
     NEVER),
    # text beside other types
    ("s = 5",                               {"s": ("05", "05")},                ALWAYS),
    ("s > 5",                               {"s": ("10", "9")},                 MAYBE),
    ("s IN (5, 6)",                         {"s": ("7", "7")},                  NEVER),
    ("s < DATE'2024-01-01'",                {"s": ("2024-1-1", "2024-1-1")},    NEVER),
    ("s = 5",                               {"s": ("a", "a")},                  MAYBE),  # raises
    # numbers
    ("floor(f) = 2",                        {"f": (2.0, 2.9)},                  ALWAYS),
    ("ceil(f) = 2",                         {"f": (2.1, 2.9)},                  NEVER),
    ("round(f, -2) = 300",                  {"f": (250.0, 349.9)},              ALWAYS),
    ("bround(f, -2) = 200",                 {"f": (150.0, 250.0)},              ALWAYS),
    ("bround(f, 1) = 0.2",                  {"f": (0.25, 0.25)},                ALWAYS),
    ("round(x, -1) = 10",                   {"x": (5, 14)},                     ALWAYS),
    ("round(x, -1) = 10",                   {"x": (15, 24)},                    NEVER),
    ("bround(x, -1) = 0",                   {"x": (-5, 5)},                     ALWAYS),
    ("bround(x, -1) = 20",                  {"x": (15, 25)},                    ALWAYS),
    ("round(x, -1) > 0",                    {"x": (2**31 - 9, 2**31 - 1)},      MAYBE),  # raises
    ("round(y, -18) = -9000000000000000000", {"y": (-(2**63), -(2**63))},       ALWAYS),
    ("round(m, -1) = 10",                   {"m": (Decimal("5.00"), Decimal("14.99"))}, ALWAYS),
    ("bround(m, 0) = 2",                    {"m": (Decimal("1.50"), Decimal("2.50"))}, ALWAYS),
    ("round(m, 1) > 2.5",                   {"m": (Decimal("1.00"), Decimal("2.54"))}, NEVER),
    ("sqrt(f) > 3",                         {"f": (0.0, 8.0)},                  NEVER),
    # text
    ("length(s) < 0",                       {"s": ("a", "z")},                  NEVER),
    ("length(s) = 3",                       {"s": ("abc", "abc")},              ALWAYS),
    ("left(s, 2) = 'ab'",                   {"s": ("aba", "abz")},              ALWAYS),
    ("substr(s, 1, 1) > 'b'",               {"s": ("aba", "abz")},              NEVER),
    ("upper(s) LIKE 'AB%'",                 {"s": ("aba", "abz")},              ALWAYS),
    ("lower(s) = 'x'",                      {"s": ("AB", "AZ")},                NEVER),
    ("s ILIKE 'ab%'",                       {"s": ("ABa", "ABz")},              ALWAYS),
    ("s ILIKE 'b%'",                        {"s": ("ABa", "ABz")},              NEVER),
    ("s ILIKE 'x%'",                        {"s": ("apple", "banana")},   NEVER),
    ("lower(s) = 'q'",                      {"s": ("Apple", "Cherry")},         NEVER),
    ("lower(s) = 'b'",                      {"s": ("Apple", "Cherry")},         MAYBE),
    ("upper(s) < 'D'",                      {"s": ("apple", "cherry")},         ALWAYS),
    # KELVIN SIGN lies between the bounds.
    ("lower(s) = 'k'",                      {"s": ("l", "\u212b")},             MAYBE),
    ("s RLIKE '^ab'",                       {"s": ("aba", "abz")},              ALWAYS),
    ("s RLIKE '^b+'",                       {"s": ("aba", "abz")},              NEVER),
    ("s RLIKE 'b.a'",                       {"s": ("abca", "abca")},            ALWAYS),
    ("s LIKE '%b%a'",                       {"s": ("abca", "abca")},            ALWAYS),
    ("s LIKE '%q'",                         {"s": ("abca", "abca")},            NEVER),
    ("starts_with(s, 'ab')",                {"s": ("aba", "abz")},              ALWAYS),
    ("endswith(s, 'c')",                    {"s": ("abc", "abc")},              ALWAYS),
    ("s || 'x' = 'abx'",                    {"s": ("ab", "ab")},                ALWAYS),
    ("concat('k-', s) LIKE 'k-a%'",         {"s": ("aa", "az")},                ALWAYS),
    # choices
    ("coalesce(x, 0) > 4",                  X,                                  NEVER),
    ("if(x > 4, 'a', 'b') = 'b'",           X,                                  ALWAYS),
    ("CASE WHEN x > 4 THEN 1 WHEN x > 0 THEN 2 ELSE 3 END = 2", X,              ALWAYS),
    ("greatest(x, 9) = 9",                  X,                                  ALWAYS),
    ("least(x, y) > 4",                     {**X, **Y},                         NEVER),
    ("nullif(x, 9) IS NULL",                X,                                  NEVER),
    ("isnan(f)",                            {"f": (0.0, 1.0)},                  NEVER),
    ("isnan(x)",                            X,                                  NEVER),
    # columns
    ("x < y",                               {**X, **Y},                         ALWAYS),
    ("x = y",                               {**X, **Y},                         NEVER),
    ("x <=> y",                             {**X, **Y},                         NEVER),
    ("x >= f",                              {**X, "f": (9.0, 9.5)},             NEVER),
    ("d < t", {**DAYS, "t": (at(2025, 1, 1), at(2025, 1, 2))}, ALWAYS),
    ("s = s || ''",                         {"s": ("ab", "ab")},                ALWAYS),
    ("(x > 4) = (y > 20)",                  {**X, **Y},                         ALWAYS),
    ("x IN (y, 9)",                         {**X, **Y},                         NEVER),
    ("r.z + 1 = 9",                         {"r.z": (1, 2)},                    NEVER),
]  # fmt: skip
MIRROR = {NEVER: ALWAYS, ALWAYS: NEVER, MAYBE: MAYBE}


@pytest.mark.parametrize(
    "text, bounds, expected", CASES, ids=[f"{c[0]} {list(c[1].values())}" for c in CASES]
)
def test_verdicts(text, bounds, expected):
    nulls = "TRY_CAST" in text or "r.z" in text  # NULL is neither
    assert verdict(text, bounds) == expected
    if not nulls:
        assert verdict(f"NOT ({text})", bounds) == MIRROR[expected]
    elif expected is ALWAYS:
        assert verdict(f"NOT ({text})", bounds) == NEVER


def test_possible_errors_affect_their_conjunct_only():
    assert verdict("x + 1 > 0 AND y > 50", {"x": (0, 2**31 - 1), **Y}) == NEVER
    assert verdict("x + 1 > 0 OR y > 5", {"x": (0, 2**31 - 1), **Y}) == ALWAYS
    assert verdict("x + 1 < -9", {"x": (0, 2**31 - 1)}, ansi=False) == MAYBE  # it wraps
    assert verdict("y / x > 50", {"x": (0, 0), **Y}, ansi=False) == NEVER  # NULL


def test_time_zones_shift_dates():
    bounds = {"t": (at(2024, 3, 5, 23, 30), at(2024, 3, 5, 23, 45))}
    assert verdict("to_date(t) = DATE'2024-03-06'", bounds, timezone="Europe/Berlin") == ALWAYS
    assert verdict("hour(t) = 0", bounds, timezone="Europe/Berlin") == ALWAYS
    # Clocks go back at 01:00 UTC: 02:30 occurs twice, and the last hour of the range is not its
    # greatest.
    back = {"t": (at(2024, 10, 27, 0, 30), at(2024, 10, 27, 1, 10))}
    assert verdict("hour(t) = 2", back, timezone="Europe/Berlin") == ALWAYS
    assert verdict("minute(t) >= 45", back, timezone="Europe/Berlin") == MAYBE


# Wall clocks that a zone skips are moved by Spark, which makes instants of them.
@pytest.mark.parametrize(
    "condition, zone",
    [
        ("datediff(DAY, n, TIMESTAMP_NTZ '2011-12-30 21:10:01') = 2", "Pacific/Apia"),
        ("datediff(HOUR, n, TIMESTAMP_NTZ '2011-12-30 21:10:01') = 59", "Pacific/Apia"),
        ("datediff(DAY, n, TIMESTAMP_NTZ '2011-12-30 21:10:01') = 1", "UTC"),
        ("timestampdiff(DAY, TIMESTAMP_NTZ '2011-12-28 09:25:01', n) = 1", "Pacific/Apia"),
    ],
)
def test_time_between_wall_clocks(condition, zone):
    start = dt.datetime(2011, 12, 29, 9, 25, 1)
    assert verdict(condition, {"n": (start, start)}, timezone=zone) == ALWAYS


def test_single_values_need_no_nulls_and_no_nan():
    stats = ss.Statistics.from_dict(
        {"f": {"min": [0.0], "max": [0.0], "null_count": [0]}}, SCHEMA, row_count=[3]
    )
    assert ss.PruningPredicate("f * 2 = 0", SCHEMA).evaluate(stats).tolist() == [
        MAYBE
    ]  # NaN may be there
    stats = ss.Statistics.from_dict(
        {"s": {"min": ["ab"], "max": ["ab"], "null_count": [None]}}, SCHEMA, row_count=[3]
    )
    assert ss.PruningPredicate("reverse(s) = 'ba'", SCHEMA).evaluate(stats).tolist() == [MAYBE]
    assert ss.PruningPredicate("reverse(s) = 'ab'", SCHEMA).evaluate(stats).tolist() == [NEVER]


def test_arrays_and_structs_allow_null_tests_only():
    stats = ss.Statistics.from_dict(
        {"a": {"null_count": [0]}, "r": {"null_count": [5]}}, SCHEMA, row_count=[5]
    )
    assert ss.PruningPredicate("a IS NULL OR r IS NOT NULL", SCHEMA).evaluate(stats).tolist() == [
        NEVER
    ]
    assert ss.PruningPredicate("length(a) = 1 OR coalesce(r, r) = 1", SCHEMA).evaluate(
        stats
    ).tolist() == [MAYBE]


def test_expressions_build_calls():
    c = ss.col
    pairs = [
        (c("x") + 1 > 5, "x + 1 > 5"),
        (1 - c("x") * 2 <= -c("y") % 3, "1 - x * 2 <= -y % 3"),
        (abs(c("x")) / 2 == 1, "abs(x) / 2 = 1"),
        (ss.call("year", c("d")) == 2024, "year(d) = 2024"),
        (c("x").cast(pa.int64()) == 5, "CAST(x AS BIGINT) = 5"),
        (c("y").try_cast(pa.int32()) == 5, "TRY_CAST(y AS INT) = 5"),
        (ss.call("if", c("x") > 1, 1, 2) == 2, "if(x > 1, 1, 2) = 2"),
        (c("s").startswith("a%"), "startswith(s, 'a%')"),
        (c("f").is_nan(), "isnan(f)"),
    ]  # fmt: skip
    for built, text in pairs:
        assert ss.PruningPredicate(built, SCHEMA) == ss.PruningPredicate(text, SCHEMA), text
    with pytest.raises(ss.PredicateError, match="a cast to list"):
        c("x").cast(pa.list_(pa.int32()))


@pytest.mark.parametrize(
    "text",
    [
        "upper(s) = 'K7'",
        "upper(CAST(s LIKE '%' AS STRING)) = 'TRUE'",
        "x - y > 0",
        "s LIKE 'k%9'",
        "CAST(s AS INT) = 3",
        "coalesce(s, 'k3') < 'k2'",
        "if(x > 5, s, 'k') = 'k'",
    ],
)
def test_verdicts_are_independent_of_the_number_of_containers(text):
    """The verdict of a container does not depend on how many there are, nor on repeated bounds."""
    n = 70_000
    i = np.arange(n)
    texts = pa.array(
        np.where(i % 7 == 0, None, np.char.add("k", (i % 11).astype(str)).astype(object))
    )
    columns = {
        "x": {"min": pa.array(i, pa.int32(), mask=i % 5 == 0), "max": pa.array(i + 3, pa.int32())},
        "y": {"min": i[::-1].copy(), "max": i[::-1] + 2, "null_count": i % 2},
        "s": {"min": texts, "max": texts, "null_count": i % 3},
    }
    p, stats = (
        ss.PruningPredicate(text, SCHEMA),
        ss.Statistics.from_dict(columns, SCHEMA, row_count=np.full(n, 5)),
    )
    found = p.evaluate(stats, "numpy")
    for start in (0, 32_700, n - 100):
        part = {
            name: {k: v[start : start + 100] for k, v in given.items()}
            for name, given in columns.items()
        }
        assert (
            p.evaluate(ss.Statistics.from_dict(part, SCHEMA, row_count=[5] * 100)).tolist()
            == found[start : start + 100].tolist()
        )
    assert len(set(found.tolist())) > 1 or "CAST" in text


@pytest.mark.parametrize("near", [64, 1, 0])
def test_concat_bounds(near, monkeypatch):
    """The bounds hold every text; short upper bounds are reached, long ones are cut."""
    monkeypatch.setattr(texts, "MAX_BOUND_TAIL", near)
    words = sorted("".join(w).encode() for n in range(4) for w in itertools.product("ab", repeat=n))
    spans = [(low, high) for low, high in itertools.combinations_with_replacement(words, 2)]
    for (low, high), (rest_low, rest_high) in itertools.product(spans, spans[::7]):
        made = [
            a + b for a in words if low <= a <= high for b in words if rest_low <= b <= rest_high
        ]
        least, most = texts._concat_bounds([(low, high, False), (rest_low, rest_high, False)])
        assert least <= min(made) and max(made) <= most, (low, high, rest_low, rest_high)
        assert max(made) == most or near < 3 or most == high + rest_high
        unbounded = texts._concat_bounds([(low, high, False), (rest_low, b"", True)])[1]
        assert unbounded is None or max(made) < unbounded


@pytest.mark.parametrize("text", ["hour(t) = 1", "upper(s) = 'A'", "x + y > 3", "d + x > d"])
def test_no_containers(text):
    nothing = ss.Statistics.from_dict(
        {f.name: {"min": pa.nulls(0, f.type), "max": pa.nulls(0, f.type)} for f in SCHEMA},
        SCHEMA,
        row_count=[],
    )
    for zone in ("UTC", "America/New_York"):
        assert ss.PruningPredicate(text, SCHEMA, timezone=zone).evaluate(nothing).tolist() == []
