"""Each container is drawn on the axis, perhaps with open ends, or in a margin beside it."""

import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.views.ranges import Margin, ranges_of
from skipstone.ir.errors import UnknownColumn

INF = math.inf
AXIS, NO_BOUNDS, ONLY_NULL, CONTRADICTORY = Margin
DAY = 86_400_000.0
D = decimal.Decimal


def utc(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC)


def stats(kind, low, high, nulls=None, rows=None):
    bounds = {"min": pa.array(low, kind), "max": pa.array(high, kind)}
    counts = {} if nulls is None else {"null_count": nulls}
    return ss.Statistics.from_dict({"x": {**bounds, **counts}}, pa.schema([("x", kind)]), rows)


#   type                       minima and maxima                         positions and kind of axis
PLACED = {
    "integers": (pa.int32(), [1, 5], [3, 9], [(1, 3), (5, 9)], "number"),
    "no minimum": (pa.int32(), [None, 5], [3, 9], [(-INF, 3), (5, 9)], "number"),
    "no maximum": (pa.int32(), [1, 5], [3, None], [(1, 3), (5, INF)], "number"),
    "unsigned": (pa.uint64(), [1], [2**64 - 1], [(1, 2.0**64)], "number"),
    "floats": (pa.float64(), [1.5], [2.5], [(1.5, 2.5)], "number"),
    "an infinite maximum": (pa.float64(), [1.5], [INF], [(1.5, INF)], "number"),
    "a NaN maximum is unknown": (pa.float64(), [1.5], [math.nan], [(1.5, INF)], "number"),
    "the far end of doubles": (pa.float64(), [-1.7e308], [0], [(-INF, 0)], "number"),
    "decimals": (pa.decimal128(9, 2), [D("1.25")], [D("3.50")], [(1.25, 3.5)], "number"),
    "long decimals": (pa.decimal128(30, 1), [D("-2.5"), None], [D("7"), D("9")],
                      [(-2.5, 7), (-INF, 9)], "number"),
    "dates": (pa.date32(), [dt.date(1970, 1, 2)], [dt.date(1970, 1, 4)], [(DAY, 3 * DAY)], "time"),
    "instants": (pa.timestamp("us", "UTC"), [utc(1970, 1, 2)], [utc(1970, 1, 3)],
                 [(DAY, 2 * DAY)], "time"),
    "timestamps without a zone": (pa.timestamp("ns"), [dt.datetime(1970, 1, 2)],
                                  [dt.datetime(1970, 1, 3)], [(DAY, 2 * DAY)], "time"),
    "times of day": (pa.time64("us"), [dt.time(1), None], [dt.time(2), dt.time(3)],
                     [(3_600_000, 7_200_000), (-INF, 10_800_000)], "clock"),
    "booleans": (pa.bool_(), [False, True], [True, True], [(0, 1), (1, 1)], "rank"),
    "strings": (pa.string(), ["b", "a"], ["d", "b"], [(1, 2), (0, 1)], "rank"),
    "an empty string is a bound": (pa.string(), ["", None], ["a", "b"], [(0, 1), (-INF, 2)],
                                   "rank"),
    "binary": (pa.binary(), [b"\xff"], [b"\xff\x00"], [(0, 1)], "rank"),
    "large integers keep their differences": (pa.int64(), [2**60, 2**60 + 2], [2**60 + 1] * 2,
                                              [(0, 1), None], "number"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "low", "high", "expected", "axis"), PLACED.values(), ids=PLACED)
def test_positions(kind, low, high, expected, axis):
    r = ranges_of(stats(kind, low, high), "x")
    for i, ends in enumerate(expected):
        if ends is None:  # the minimum lies above the maximum
            assert r.margin[i] == CONTRADICTORY
        else:
            assert (r.margin[i], r.low[i], r.high[i]) == (AXIS, *ends)
    assert r.axis.kind == axis
    finite = [v for v in (*r.low, *r.high) if math.isfinite(v)]
    assert r.axis.low <= min(finite) <= max(finite) <= r.axis.high
    assert r.axis.low < r.axis.high


#    minimum  maximum  nulls  rows   margin
MARGINS = [
    (1,       2,       0,     10,    AXIS),
    (1,       2,       9,     10,    AXIS),
    (None,    2,       0,     10,    AXIS),
    (None,    None,    0,     10,    NO_BOUNDS),
    (None,    None,    None,  None,  NO_BOUNDS),
    (None,    None,    None,  10,    NO_BOUNDS),
    (None,    None,    10,    10,    ONLY_NULL),
    (None,    None,    None,  0,     ONLY_NULL),
    (1,       2,       10,    10,    CONTRADICTORY),
    (2,       1,       0,     10,    CONTRADICTORY),
]  # fmt: skip


@pytest.mark.parametrize(("low", "high", "nulls", "rows", "margin"), MARGINS)
def test_margins(low, high, nulls, rows, margin):
    r = ranges_of(stats(pa.int64(), [low], [high], [nulls], [rows]), "x")
    assert r.margin[0] == margin


# value of a type -> its text
TEXTS = {
    "integer": (pa.int64(), 2**60 + 1, "1152921504606846977"),
    "float": (pa.float64(), 0.1, "0.1"),
    "decimal": (pa.decimal128(30, 2), D("12.50"), "12.50"),
    "date": (pa.date32(), dt.date(2013, 1, 31), "2013-01-31"),
    "instant": (pa.timestamp("us", "Europe/Berlin"), utc(2013, 1, 31, 12, 30), "2013-01-31 12:30"),
    "midnight": (pa.timestamp("us"), dt.datetime(2013, 1, 31), "2013-01-31"),
    "seconds": (pa.timestamp("us"), dt.datetime(2013, 1, 31, 0, 0, 5), "2013-01-31 00:00:05"),
    "string": (pa.string(), "<b>", "<b>"),
    "long string": (pa.string(), "a" * 99 + "z", "a" * 30 + "…" + "a" * 28 + "z"),
    "binary": (pa.binary(), b"\x01\xff", "X'01ff'"),
    "boolean": (pa.bool_(), True, "true"),
    "time": (pa.time64("us"), dt.time(1, 2), "01:02:00"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "text"), TEXTS.values(), ids=TEXTS)
def test_bounds_as_text(kind, value, text):
    r = ranges_of(stats(kind, [value, None], [None, value]), "x")
    assert [r.text("min", 0), r.text("max", 0)] == [text, "unknown"]
    assert [r.text("min", 1), r.text("max", 1)] == ["unknown", text]


def test_timestamps_beyond_python_are_numbers():
    low = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    r = ranges_of(stats(pa.timestamp("us"), low, low), "x")
    assert r.text("min", 0) == "4,611,686,018,427,387,904 us since 1970"
    assert r.low[0] == 2**62 / 1000


def test_a_column_without_an_order_says_so():
    schema = pa.schema([("l", pa.list_(pa.int64())), ("x", pa.int64())])
    r = ranges_of(ss.Statistics.from_dict({"x": {"min": [1, 2]}}, schema), "l")
    assert r.margin.tolist() == [NO_BOUNDS] * 2
    assert r.note == "LIST<ITEM: INT64> has no order, so it has no bounds."


def test_nested_columns_and_those_without_statistics():
    schema = pa.schema([("a", pa.struct([("b", pa.int64())])), ("c", pa.string())])
    made = ss.Statistics.from_dict({"a.b": {"min": [1, 2], "max": [3, 4]}}, schema)
    r = ranges_of(made, "a.b")
    assert (r.name, r.low.tolist(), r.high.tolist()) == ("a.b", [1, 2], [3, 4])
    assert ranges_of(made, "c").margin.tolist() == [NO_BOUNDS] * 2
    with pytest.raises(UnknownColumn, match=r"a map names 'bb'; the schema has 'a', 'a.b', 'c'"):
        ranges_of(made, "bb")


def test_a_value_is_located_among_ranks():
    r = ranges_of(stats(pa.string(), ["b", "d"], ["d", "f"]), "x")
    assert [r.placed.locate(v) for v in (b"a", b"b", b"c", b"f", b"g")] == [-0.5, 0, 0.5, 2, 2.5]


@pytest.mark.parametrize("n", [0, 1])
def test_no_containers_and_one(n):
    r = ranges_of(stats(pa.int64(), [5][:n], [5][:n]), "x")
    assert (len(r.low), r.axis.low < r.axis.high) == (n, True)
    assert np.isfinite([r.axis.low, r.axis.high]).all()
