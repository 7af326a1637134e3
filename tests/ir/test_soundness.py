"""Soundness: the known traps of other systems, one table each. Spark SQL defines the answer."""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss

D = decimal.Decimal
NAN = float("nan")
SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("i", pa.int8()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("m", pa.decimal128(9, 2)),
        ("w", pa.decimal128(38, 10)),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("d", pa.date32()),
        ("u", pa.uint64()),
        ("y", pa.int64()),
    ]
)
NEVER, MAYBE, ALWAYS = ss.Verdict


def verdict(where, rows=None, backend="numpy", timezone="UTC", ansi=True, **columns):
    stats = ss.Statistics.from_dict(
        {c: {k: [v] for k, v in s.items()} for c, s in columns.items()}, SCHEMA, row_count=[rows]
    )
    return (
        ss.PruningPredicate(where, SCHEMA, timezone=timezone, ansi=ansi)
        .evaluate(stats, backend)
        .tolist()[0]
    )


def table(*cases):
    return pytest.mark.parametrize(
        "where, statistics, expected", cases, ids=[f"{c[0][:60]}-{i}" for i, c in enumerate(cases)]
    )


@table(
    ("x IS NULL", {"x": {"row_count": 9}}, MAYBE),  # absent is not zero
    ("x IS NULL", {"x": {"null_count": 0}}, NEVER),
    (
        "x = 5",
        {"x": {"min": 5, "max": 5, "null_count": 9, "row_count": 9}},
        MAYBE,
    ),  # all NULL contradicts bounds
    ("x = 5", {"x": {"null_count": 9, "row_count": 9}}, NEVER),
    ("x = 5", {"x": {"min": 5, "max": 5, "null_count": 0}}, ALWAYS),
    ("x = 5", {"x": {"min": 5, "max": 5}}, MAYBE),
    ("x IS NULL", {"x": {"null_count": -1, "row_count": 9}}, MAYBE),
    ("x IS NULL", {"x": {"null_count": 10, "row_count": 9}}, MAYBE),
    ("x > 9", {"x": {"min": 7, "max": 3}}, MAYBE),
    ("x IS NOT NULL", {"x": {"null_count": 0, "row_count": -1}}, ALWAYS),
    ("f < 0", {"f": {"min": NAN, "max": 5.0}}, MAYBE),
    ("f > 9", {"f": {"min": 1.0, "max": NAN, "nan_count": 0}}, MAYBE),
)
def test_1_counts_decide_null_tests_and_constants(where, statistics, expected, backend):
    assert verdict(where, backend=backend, **statistics) == expected


@pytest.mark.parametrize(
    "where", ["x = 5", "x IS NULL", "TRUE", "x IS NOT NULL OR x IS NULL", "NOT (x = 5)"]
)
def test_1_a_container_without_rows_never_matches(where, backend):
    assert verdict(where, rows=0, backend=backend, x={"min": 5, "max": 5, "null_count": 0}) == NEVER
    assert verdict(where, rows=0, backend=backend) == NEVER


@table(
    (
        "x < 9",
        {"x": {"min": 1, "max": 5}},
        MAYBE,
    ),  # NOT (x < 9) is prunable, and yet a NULL row does not match
    ("NOT (x >= 9)", {"x": {"min": 1, "max": 5, "null_count": 1, "row_count": 9}}, MAYBE),
    ("x < 9", {"x": {"min": 1, "max": 5, "null_count": 0}}, ALWAYS),
    ("NOT (x < 9)", {"x": {"min": 1, "max": 5}}, NEVER),
)
def test_2_a_container_that_is_not_pruned_need_not_be_fully_matched(
    where, statistics, expected, backend
):
    assert verdict(where, backend=backend, **statistics) == expected


ARROW = {
    "min": 1.0,
    "max": 2.0,
    "null_count": 0,
    "row_count": 9,
}  # NaN is not in the bounds and not counted


@table(
    ("f > 5", {"f": ARROW}, MAYBE),
    ("f >= 5", {"f": ARROW}, MAYBE),
    ("f <> 1.5", {"f": {**ARROW, "min": 1.5, "max": 1.5}}, MAYBE),
    ("f = CAST('NaN' AS DOUBLE)", {"f": ARROW}, MAYBE),
    ("NOT (f < 5)", {"f": ARROW}, MAYBE),
    ("f < 5", {"f": ARROW}, MAYBE),  # not ALWAYS: NaN is above 5
    ("f NOT IN (1.0, 2.0)", {"f": {**ARROW, "max": 1.0}}, MAYBE),
    ("f < 0", {"f": ARROW}, NEVER),
    ("f > 5", {"f": {**ARROW, "nan_count": 0}}, NEVER),
    ("f < 5", {"f": {**ARROW, "nan_count": 0}}, ALWAYS),
    ("f > 5", {"f": {"nan_count": 9, "row_count": 9}}, ALWAYS),  # all NaN
    ("f >= CAST('Infinity' AS DOUBLE)", {"f": ARROW}, MAYBE),
    ("f > CAST('Infinity' AS DOUBLE)", {"f": ARROW}, MAYBE),
    ("f <= CAST('Infinity' AS DOUBLE)", {"f": ARROW}, MAYBE),
    ("f <= CAST('NaN' AS DOUBLE)", {"f": ARROW}, ALWAYS),
    ("f = 0.0", {"f": {"min": -0.0, "max": -0.0, "nan_count": 0, "null_count": 0}}, ALWAYS),
    ("f < 0.0", {"f": {"min": -0.0, "max": 0.0, "nan_count": 0}}, NEVER),
    ("f IN (-0.0, 7)", {"f": {"min": 0.0, "max": 0.0}}, MAYBE),
)
def test_3_nan_is_the_greatest_value_and_zeros_are_equal(where, statistics, expected, backend):
    assert verdict(where, backend=backend, **statistics) == expected


@table(
    ("s = 'abcdef'", {"s": {"min": "abc", "max": "abd"}}, MAYBE),
    ("s >= 'abd'", {"s": {"min": "a", "max": "abc", "null_count": 0}}, NEVER),
    ("s LIKE 'a%'", {"s": {"min": "b", "max": "c"}}, NEVER),
    ("s LIKE 'a%'", {"s": {"min": "a", "max": "azz", "null_count": 0}}, ALWAYS),
    (
        "s LIKE 'a\\_%'",
        {"s": {"min": "a_", "max": "a_z"}},
        MAYBE,
    ),  # the escape is decoded before the prefix is taken
    ("s LIKE 'a\\_%'", {"s": {"min": "ab", "max": "az"}}, NEVER),
    (
        "s LIKE '\U0010ffff%'",
        {"s": {"min": "\U0010ffff", "max": "\U0010ffff\U0010ffff", "null_count": 0}},
        ALWAYS,
    ),  # no prefix follows: unbounded
    ("s LIKE 'a\U0010ffff%'", {"s": {"min": "b", "max": "c"}}, NEVER),
    (
        "s LIKE '\ud7ff%'",
        {"s": {"min": "\ue000", "max": "\uffff"}},
        NEVER,
    ),  # U+E000 follows U+D7FF
    ("s > 'é'", {"s": {"min": "a", "max": "日"}}, MAYBE),  # by bytes, not by locale
    ("s < 'Z'", {"s": {"min": "a", "max": "b"}}, NEVER),
    (
        "s > '\uffff'",
        {"s": {"min": "a", "max": "\U00010000"}},
        MAYBE,
    ),  # UTF-16 order would differ
    ("s = ''", {"s": {"min": "", "max": "", "null_count": 0}}, ALWAYS),
    ("s >= 'x'", {"s": {"min": "a"}}, MAYBE),  # an absent maximum is above everything
)
def test_4_bounds_of_strings_may_be_truncated(where, statistics, expected, backend):
    assert verdict(where, backend=backend, **statistics) == expected


UTC = dt.UTC
NOON = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "where, zone, expected",
    [
        ("t = TIMESTAMP '2024-07-01 12:00:00'", "UTC", ALWAYS),
        ("t = TIMESTAMP '2024-07-01 12:00:00'", "Europe/Berlin", NEVER),
        ("t = '2024-07-01 14:00:00'", "Europe/Berlin", ALWAYS),
        ("t = '2024-07-01 14:00:00+02:00'", "Asia/Tokyo", ALWAYS),
        # 02:00 on the second in that zone
        ("t >= DATE '2024-07-02'", "Pacific/Kiritimati", ALWAYS),
        ("t >= DATE '2024-07-02'", "UTC", NEVER),
        ("n = TIMESTAMP '2024-07-01 10:00:00'", "Europe/Berlin", NEVER),
        (
            "n = TIMESTAMP '2024-07-01 12:00:00'",
            "Europe/Berlin",
            ALWAYS,
        ),  # the column is read in the session's zone
        (
            "n = TIMESTAMP '2024-03-31 03:30:00'",
            "Europe/Berlin",
            NEVER,
        ),  # an hour is missing in that zone, and the column is cast instead
        ("d = TIMESTAMP '2024-07-01 00:00:00'", "Europe/Berlin", ALWAYS),
        ("d < TIMESTAMP '2024-07-01 00:00:00.000001'", "Europe/Berlin", ALWAYS),
        ("d < TIMESTAMP '2024-07-01 00:00:00'", "Europe/Berlin", NEVER),
    ],
)
def test_5_times_are_compared_in_the_sessions_zone(where, zone, expected):
    bounds = {"t": NOON, "n": NOON.replace(tzinfo=None), "d": NOON.date()}
    statistics = {c: {"min": v, "max": v, "null_count": 0} for c, v in bounds.items()}
    assert verdict(where, timezone=zone, **statistics) == expected


@table(
    ("m = 1.10", {"m": {"min": D("1.10"), "max": D("1.10"), "null_count": 0}}, ALWAYS),
    ("m > 1.099", {"m": {"min": D("1.10"), "max": D("1.10"), "null_count": 0}}, ALWAYS),
    ("m = 1.105", {"m": {"min": D("1.10"), "max": D("1.11")}}, NEVER),
    (
        "w = 1234567890123456789012345678.0000000001",
        {
            "w": {
                "min": D("1234567890123456789012345678.0000000000"),
                "max": D("1234567890123456789012345678.0000000002"),
            }
        },
        MAYBE,
    ),
    (
        "w > 1234567890123456789012345678.0000000001",
        {"w": {"max": D("1234567890123456789012345678.0000000001")}},
        NEVER,
    ),
    (
        "x > 9007199254740992",
        {"x": {"min": 2**53 + 1, "max": 2**53 + 1, "null_count": 0}},
        ALWAYS,
    ),  # never converted through float
    (
        "x = 9007199254740992D",
        {"x": {"min": 2**53 + 1, "max": 2**53 + 1, "null_count": 0}},
        ALWAYS,
    ),  # unless Spark converts through float itself
    ("g = 0.1", {"g": {"min": 0.1, "max": 0.1}}, NEVER),  # FLOAT 0.1 is not DOUBLE 0.1
    ("g > 0.1", {"g": {"min": 0.1, "max": 0.1, "null_count": 0}}, ALWAYS),
    ("g < 0.1", {"g": {"min": 0.05, "max": 0.1}}, MAYBE),
    ("u > 9223372036854775807", {"u": {"min": 2**63, "max": 2**64 - 1, "null_count": 0}}, ALWAYS),
)
def test_6_decimals_and_large_integers_are_compared_exactly(where, statistics, expected, backend):
    assert verdict(where, backend=backend, **statistics) == expected


@table(
    ("i < 1000", {"i": {"null_count": 0}}, ALWAYS),  # beyond the type: TRUE, but
    ("i < 1000", {"i": {"min": 1}}, MAYBE),  # NULL stays NULL
    ("i = 1000", {"i": {}}, NEVER),
    ("i > -129", {"i": {"null_count": 0}}, ALWAYS),
    ("i >= 127.5", {"i": {}}, NEVER),
    (
        "x + 1 = 5 AND y = 3",
        {"y": {"min": 4, "max": 9}},
        NEVER,
    ),  # an unsupported leaf affects only itself
    ("x + 1 = 5 OR y = 3", {"y": {"min": 4, "max": 9}}, MAYBE),
    ("NOT (x + 1 = 5)", {"x": {"min": 7, "max": 9}}, MAYBE),
    ("s > 5", {"s": {"min": "1", "max": "2"}}, MAYBE),  # Spark casts the column
    ("CAST(x AS TINYINT) = 5", {"x": {"min": 300, "max": 400}}, MAYBE),
)
def test_7_literals_beyond_the_columns_type_are_decided(where, statistics, expected, backend):
    assert verdict(where, backend=backend, **statistics) == expected


EVERY = ", ".join(map(str, range(-128, 128)))
DENSE = ", ".join(map(str, range(-1000, 1001)))
LONG = ", ".join(str(2 * k) for k in range(5000))


@table(
    ("x NOT IN (1, NULL)", {"x": {"min": 5, "max": 9, "null_count": 0}}, NEVER),
    ("x IN (1, NULL)", {"x": {"min": 1, "max": 1, "null_count": 0}}, ALWAYS),
    ("x IN (NULL)", {"x": {"min": 1, "max": 1}}, NEVER),
    ("NOT (x IN (1, NULL))", {"x": {"min": 1, "max": 1}}, NEVER),
    (
        f"x IN ({LONG})",
        {"x": {"min": 4001, "max": 4001}},
        NEVER,
    ),  # no list is too long, and gaps are exact
    (f"x IN ({LONG})", {"x": {"min": 4001, "max": 4002}}, MAYBE),
    (f"x NOT IN ({LONG})", {"x": {"min": 4002, "max": 4002}}, NEVER),
    (
        "x NOT IN (3, 4, 5)",
        {"x": {"min": 3, "max": 5}},
        NEVER,
    ),  # the list covers all integers between
    ("x IN (3, 4, 5)", {"x": {"min": 3, "max": 5, "null_count": 0}}, ALWAYS),
    ("x NOT IN (3, 5)", {"x": {"min": 3, "max": 5}}, MAYBE),
    ("s IN ('a', 'b')", {"s": {"min": "a", "max": "b", "null_count": 0}}, MAYBE),
    (f"x IN ({DENSE})", {"x": {"min": -1000, "max": 1000, "null_count": 0}}, ALWAYS),
    (
        f"x NOT IN ({DENSE})",
        {"x": {"max": 50}},
        MAYBE,
        # An unknown bound is wider than any list, however few bytes the bounds take.
    ),
    (f"x NOT IN ({DENSE})", {"x": {"min": 50}}, MAYBE),
    (f"x IN ({DENSE})", {"x": {"max": 50, "null_count": 0}}, MAYBE),
    (f"x IN ({DENSE})", {"x": {"min": 1001}}, NEVER),
    (f"i IN ({EVERY})", {"i": {"null_count": 0}}, ALWAYS),
    (
        f"i IN ({EVERY})",
        {"i": {"min": -128, "max": 127, "null_count": 0}},
        ALWAYS,
        # 256 values, and their distance does not fit the type.
    ),
    (f"i NOT IN ({EVERY})", {"i": {"min": -128, "max": 127}}, NEVER),
    (f"i NOT IN ({EVERY.replace('0, 1,', '1,')})", {"i": {"min": -128, "max": 127}}, MAYBE),
)
def test_8_lists_are_judged_by_their_values_between_the_bounds(
    where, statistics, expected, backend
):
    assert verdict(where, backend=backend, **statistics) == expected


def test_9_a_missing_statistic_affects_its_own_leaf_only(backend):
    assert verdict("x = 5 AND y = 5", backend=backend, x={"min": 6, "max": 7}) == NEVER
    assert verdict("x = 5 OR y = 5", backend=backend, x={"min": 6, "max": 7}) == MAYBE
    assert (
        verdict(
            "x < 9 AND y < 9",
            backend=backend,
            x={"min": 6, "max": 7, "null_count": 0},
            y={"null_count": 0},
        )
        == MAYBE
    )


def test_11_a_real_file_with_nan_keeps_its_row(tmp_path):
    pq.write_table(pa.table({"f": [1.0, NAN]}), tmp_path / "t.parquet")
    found = ss.scan_parquet(tmp_path)
    for where in (
        "f > 5",
        "f >= 5",
        "f <> 1",
        "NOT (f < 10)",
        "f = CAST('NaN' AS DOUBLE)",
        "f NOT IN (1)",
    ):
        rows = found.plan(where=where).to_arrow()["f"].to_pylist()
        assert [str(v) for v in rows] == ["nan"], where
    assert found.plan(where="f <= 1").to_arrow()["f"].to_pylist() == [1.0]
