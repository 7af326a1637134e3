"""Packing: statistics in every form that they arrive in; impossible ones are unknown."""

import datetime as dt
import random
from decimal import Decimal as D

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skipstone as ss
from skipstone.ir.evaluation.oracle import column_facts
from skipstone.ir.types import from_arrow
from skipstone.kernels.pack import bound_arrays, counts
from skipstone.kernels.pack.columns import ColumnStatistics, pack_column
from skipstone.kernels.pack.counts import rows_plane
from skipstone.kernels.pack.planes import unpack
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.rows.strategies import TYPES, Field, point, schema_of
from tests.support.rows.zonemaps import hostile
from tests.support.statistics.backends import agree

NAN, INF = float("nan"), float("inf")


def packed(column, low, high):
    """Return bounds after packing as axis values; None if they are the type's own ends."""
    dtype, n = from_arrow(column), len(low if low is not None else high)
    c = pack_column(ColumnStatistics(low, high), dtype, n)
    if c.codes is None:
        ends = (c.end(False), c.end(True))
        return [
            [None if a is None or (v := a[j].item()) == end else v for j in range(n)]
            for a, end in ((c.low, ends[0]), (c.high, ends[1]))
        ]
    keys = [*c.codes.keys.to_pylist(), None]
    value = lambda key: (
        key if key is None or not dtype.precision else int.from_bytes(key, "big") - 2**127
    )
    return [
        None if codes is None else [value(keys[code]) for code in codes]
        for codes in (c.low, c.high)
    ]


def ints(values, arrow):
    return pa.array(values, pa.int64()).view(arrow)


TS = pa.timestamp
# column, bounds as given, read as.
READ = [
    (pa.int64(), pa.array([5, None], pa.int8()), [5, None]),
    # not a value of the type
    (pa.int8(), pa.array([5, 300, -300]), [5, None, None]),
    (pa.uint32(), pa.array([5, -1, 2**32]), [5, None, None]),
    (pa.uint64(), pa.array([5, -1]), [5, None]),
    (pa.int64(), pa.array([5, 2**63], pa.uint64()), [5, None]),
    (pa.int64(), pa.array([1.5]), [None]),  # floats do not bound integers
    (pa.int64(), pa.array([True]), [None]),
    (pa.int64(), pa.array(["5"]), [None]),
    (
        pa.float64(),
        pa.array([0.1, NAN, INF, -INF], pa.float32()),
        [0.10000000149011612, None, INF, -INF],
    ),
    # JSON's 0.1 is the FLOAT 0.1
    (pa.float32(), pa.array([0.1, 1e39, 1e-50]), [0.10000000149011612, INF, 0.0]),
    (pa.float64(), pa.array([5, 2**53 + 1]), [5.0, 2.0**53]),
    (pa.float64(), pa.array([5, 2**64 - 1], pa.uint64()), [5.0, 2.0**64]),
    (pa.decimal128(9, 2), pa.array([D("1.5"), D("-1.5")], pa.decimal128(5, 1)), [150, -150]),
    (
        pa.decimal128(9, 2),
        pa.array([D("1.500"), D("1.555")], pa.decimal128(9, 3)),
        [150, None],
    ),  # digits would be lost
    (pa.decimal128(9, 2), pa.array([D(10) ** 7, D(1)], pa.decimal128(20, 2)), [None, 100]),
    (pa.decimal128(9, 2), pa.array([D(10) ** 60, D(1)], pa.decimal256(76, 2)), [None, 100]),
    (pa.decimal128(9, 2), pa.array([D(5)], pa.decimal32(9, 2)), [500]),
    (pa.decimal128(9, 2), pa.array([5, 2**62]), [500, None]),
    (pa.decimal128(38, 10), pa.array([D(10) ** 60, D(1)], pa.decimal256(76, 2)), [None, 10**10]),
    (
        pa.decimal128(38, 0),
        pa.array([D(10**38 - 1), D(1 - 10**38)], pa.decimal128(38, 0)),
        [10**38 - 1, 1 - 10**38],
    ),
    (
        pa.decimal128(20, 0),
        pa.array([D(10**20), D(10**20 - 1)], pa.decimal128(38, 0)),
        [None, 10**20 - 1],
    ),
    (
        pa.decimal128(20, 0),
        pa.array([D(-(10**20)), D(1 - 10**20)], pa.decimal128(38, 0)),
        [None, 1 - 10**20],
    ),
    (pa.decimal128(38, 37), pa.array([20, 1]), [None, 10**37]),
    (pa.decimal256(20, 3), pa.array([D(5)], pa.decimal64(18, 3)), [5000]),
    (pa.decimal128(9, 2), pa.array([1.5]), [None]),
    (pa.date32(), ints([86_400_000, -86_400_000], pa.date64()), [1, -1]),
    (pa.date64(), pa.array([1, 2**31 - 1], pa.int32()).view(pa.date32()), [1, 2**31 - 1]),
    (pa.date32(), ints([5], TS("s")), [None]),
    (TS("us"), ints([5, 2**62], TS("s")), [5_000_000, None]),
    (TS("s"), ints([5_000_000, -5_000_000], TS("us")), [5, -5]),
    (TS("us"), ints([5], TS("us", "UTC")), [None]),  # a wall clock does not bound an instant
    (TS("us", "UTC"), ints([5], TS("us", "Asia/Tokyo")), [5]),
    (TS("us"), pa.array([5]), [None]),
    (pa.string(), pa.array(["a", ""], pa.large_string()), [b"a", b""]),
    (pa.string(), pa.array(["a"], pa.string_view()), [b"a"]),
    (pa.large_string(), pa.array(["a", "b", "a"]).dictionary_encode(), [b"a", b"b", b"a"]),
    (pa.string(), pa.array([b"a"]), [None]),
    (pa.binary(), pa.array([b"a"], pa.binary(1)), [b"a"]),
    (pa.binary(), pa.array([b"\xff"], pa.binary_view()), [b"\xff"]),
    (pa.int64(), pc.run_end_encode(pa.array([5, 5, 6])), [5, 5, 6]),
    (pa.bool_(), pa.array([True]), [1]),
]


@pytest.mark.parametrize(
    "column, given, expected", READ, ids=[f"{given.type} for {column}" for column, given, _ in READ]
)
def test_bounds_are_read_as_the_column_s_type(column, given, expected):
    dtype = from_arrow(column)
    for got, end in (
        (packed(column, given, None)[0], dtype.lowest),
        (packed(column, None, given)[1], dtype.highest),
    ):
        assert [None if v == end else v for v in got or [None] * len(given)] == [
            None if v == end else v for v in expected
        ]


def test_a_coarser_unit_rounds_outwards_at_the_ends():
    given = ints([2**63 - 1, -(2**63), 1, -1, 0], TS("ns"))
    low, high = packed(TS("s"), given, None)[0], packed(TS("s"), None, given)[1]
    assert low == [9223372036, -9223372037, 0, -1, 0]
    assert high == [9223372037, -9223372036, 1, 0, 0]


# Layouts: the same values with other memory layouts.


def streamed(a):
    """Return an array read from Arrow's IPC: with another alignment, and read-only."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("x", a.type)])) as writer:
        writer.write_batch(pa.record_batch([a], names=["x"]))
    return pa.ipc.open_stream(sink.getvalue()).read_all().column(0)


def encoded(a):
    """Encode bounds by a dictionary; counts must be plain integers."""
    return a if a.type == pa.int64() or pa.types.is_dictionary(a.type) else a.dictionary_encode()


LAYOUTS = {
    "sliced": lambda a: pa.concat_arrays([a[:1], a])[1:],
    "chunked": lambda a: pa.chunked_array([a[: len(a) // 2], a[len(a) // 2 :]], a.type),
    "one chunk too many": lambda a: pa.chunked_array([a, a[:0]], a.type),
    "streamed": streamed,
    "dictionary": encoded,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("arrow", dict.fromkeys(TYPES), ids=str)
def test_layouts(arrow, layout):
    r = random.Random(str(arrow))
    f = Field(("x",), arrow)
    z, schema = hostile(r, (f,), 20), schema_of((f,))
    if layout == "dictionary" and pa.types.is_string_view(arrow):
        pytest.skip("Arrow has no dictionaries of views")
    stats = z.statistics(schema, LAYOUTS[layout])
    for _ in range(20 if LONG else 8):
        agree(
            ss.PruningPredicate(predicate(r, (f,)).sql, schema),
            z,
            stats,
            [z.facts(j) for j in range(20)],
            "numpy",
        )


# Blocks: the number of containers that are packed at a time does not change the result.


def contents(c):
    arrays = (
        a if a is None or isinstance(a, bool) else (a.dtype, a.tobytes())
        for a in (c.low, c.high, c.may_hold_value, c.may_hold_null, c.may_hold_nan)
    )
    return c.numpy_type, *arrays, None if c.codes is None else c.codes.keys.to_pylist()


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 127, 128, 129, 500])
@pytest.mark.parametrize("arrow", dict.fromkeys(TYPES), ids=str)
def test_blocks(arrow, n, monkeypatch):
    r = random.Random(f"{arrow} {n}")
    f = Field(("x",), arrow)
    stats = hostile(r, (f,), n).statistics(
        schema_of((f,)), r.choice(list(LAYOUTS.values())) if n else lambda a: a
    )
    raw, dtype = stats.raw(("x",)), from_arrow(arrow)
    whole, rows = pack_column(raw, dtype, n, rows=stats.row_count), rows_plane(stats.row_count, n)
    for name in (bound_arrays, counts):
        monkeypatch.setattr(name, "CHUNK", 64)
    monkeypatch.setattr(bound_arrays, "SAMPLE", 3)
    assert contents(pack_column(raw, dtype, n, rows=stats.row_count)) == contents(whole)
    assert np.array_equal(rows_plane(stats.row_count, n), rows)


#    what one of 1,000 bounds is   type
MISSED = [(5, "int8"), (300, "int16"), (2**40, "int64"), (None, "int8")]


@pytest.mark.parametrize("odd, numpy_type", MISSED)
@pytest.mark.parametrize("at", [0, 500, 999])
def test_the_type_is_widened_if_the_sample_missed_a_bound(odd, numpy_type, at, monkeypatch):
    for name, value in (("CHUNK", 64), ("SAMPLE", 1)):
        monkeypatch.setattr(bound_arrays, name, value)
    high = [9] * 1000
    high[at] = odd
    c = pack_column(
        ColumnStatistics(pa.array([0] * 1000), pa.array(high)), from_arrow(pa.int64()), 1000
    )
    assert c.numpy_type == numpy_type and str(c.low.dtype) == str(c.high.dtype) == numpy_type
    assert c.high.tolist() == [c.end(high=True) if v is None else v for v in high]


@pytest.mark.parametrize("arrow", [pa.int64(), pa.float64(), pa.int16(), TS("us")], ids=str)
def test_bounds_that_need_no_packing_stay_where_they_lie(arrow):
    values = np.arange(1, 101).astype(
        "f8" if arrow == pa.float64() else f"i{arrow.bit_width // 8}"
    ) * (1 if arrow.bit_width < 64 else 2**40)
    low, high = (pa.array(v).view(arrow) for v in (values, values + values.dtype.type(9)))
    c = pack_column(ColumnStatistics(low, high), from_arrow(arrow), 100)
    assert all(a.ctypes.data == b.buffers()[1].address for a, b in ((c.low, low), (c.high, high)))
    inverted = pack_column(
        ColumnStatistics(low, pa.concat_arrays([high[:50], low[:1], high[51:]])),
        from_arrow(arrow),
        100,
    )
    assert inverted.low[50] == inverted.end(high=False) and inverted.high[50] == inverted.end(
        high=True
    )
    assert np.array_equal(np.delete(inverted.high, 50), np.delete(c.high, 50))


# Bytes that are not UTF-8 bound nothing, and other bounds stay.


def test_undecodable_bytes():
    bad = pa.Array.from_buffers(
        pa.string(),
        3,
        [None, pa.py_buffer(np.array([0, 1, 2, 3], "i4").tobytes()), pa.py_buffer(b"\xffab")],
    )
    good = pa.array(["b", "b", "b"])
    assert packed(pa.string(), bad, good) == [[b"", b"a", b"b"], [b"b", b"b", b"b"]]
    assert packed(pa.string(), good, bad)[1] == [None, None, b"b"]  # 'a' < 'b': inverted
    assert packed(pa.string(), bad[1:], good[1:])[0] == [b"a", b"b"]


#    type        min             max             read as
ORDER = [
    (pa.int64(),  5,              4,              (None, None)),
    (pa.float64(), 5.0,           4.0,            (None, None)),
    (pa.float64(), 0.0,           -0.0,           (0.0, 0.0)),      # they are equal
    (pa.float64(), NAN,           4.0,            (None, 4.0)),
    (pa.float64(), 4.0,           NAN,            (4.0, None)),
    (pa.string(), "b",            "a",            (b"", None)),
    # in the order of UTF-8 bytes; UTF-16 reverses them
    (pa.string(), "\ue000",       "\U00010000",   (b"\xee\x80\x80", b"\xf0\x90\x80\x80")),
    (pa.binary(), b"\x80",        b"\x7f",        (b"", None)),     # unsigned bytes
    (pa.decimal128(38, 0), D(2),  D(1),           (1 - 10**38, 10**38 - 1)),
    (pa.decimal128(9, 2), D(2),   D(1),           (None, None)),
    (pa.bool_(), True,            False,          (None, None)),
]  # fmt: skip


@pytest.mark.parametrize("arrow, low, high, expected", ORDER)
def test_order_of_bounds(arrow, low, high, expected):
    (got_low,), (got_high,) = packed(arrow, pa.array([low], arrow), pa.array([high], arrow))
    assert (got_low, got_high) == expected


# Counts in all relevant combinations, against the oracle's own reading.

COUNTS = [None, -1, 0, 1, 2, 3, 2**63 - 1]


@pytest.mark.parametrize("arrow", [pa.int64(), pa.float64(), pa.string()], ids=str)
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("above", [True, False])
def test_counts(arrow, nullable, above):
    dtype = from_arrow(arrow)
    grid = [
        (null, rows, nan, container)
        for null in COUNTS
        for rows in COUNTS
        for nan in COUNTS
        for container in (None, -5, 0, 2)
    ]
    raw = [pa.array([g[i] for g in grid], pa.int64()) for i in range(4)]
    c = pack_column(
        ColumnStatistics(None, None, *raw[:3]),
        dtype,
        len(grid),
        nullable=nullable,
        parent_may_be_null=above,
        rows=raw[3],
    )
    planes = [
        np.full(len(grid), p) if isinstance(p, bool) else unpack(p, len(grid))
        for p in (c.may_hold_value, c.may_hold_null, c.may_hold_nan)
    ]
    for j, (null, rows, nan, container) in enumerate(grid):
        f = column_facts(
            dtype,
            null_count=null,
            row_count=rows,
            nan_count=nan,
            container_rows=container,
            nullable=nullable,
            parent_may_be_null=above,
        )
        assert [bool(p[j]) for p in planes] == [
            f.may_hold_value,
            f.may_hold_null,
            f.may_hold_nan,
        ], grid[j]


#    counts as given                            read as
GIVEN = [
    ([0, None, 2],                              [0, None, 2]),
    (np.array([0, 1, 2], np.uint8),             [0, 1, 2]),
    (pa.array([0, 2**64 - 1, 2], pa.uint64()),  [0, None, 2]),
    (pa.array([0.0, 1.0, 2.0]),                 [None] * 3),    # pandas' floats: not integers
    (np.array([0.0, 1.0, 2.0]),                 [None] * 3),
    ([0, "1", 2.0],                             [0, None, None]),
    (pa.nulls(3),                               [None] * 3),
    (pa.chunked_array([[0], [1, 2]]),           [0, 1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("given, expected", GIVEN)
def test_forms_of_counts(given, expected):
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict({"x": {"null_count": given}}, schema, row_count=[5, 5, 5])
    # IS NULL can hold unless there are no NULLs, and always holds if there are only NULLs.
    assert ss.PruningPredicate("x IS NULL", schema).prune(stats).tolist() == [
        e != 0 for e in expected
    ]


# Values from Python lists: a value that is not of the type is unknown, and its neighbours stay.

# type, values, which are known.
LISTS = [
    (pa.int64(), [5, "x", 2**70, None, NAN], [1, 0, 0, 0, 0]),
    (pa.int64(), [5, 1.5, -1.5], [1, 1, 1]),  # cut: x <= 1.5 is x <= 1
    (pa.uint8(), [5, 256, -1], [1, 0, 0]),
    (pa.string(), ["a", 5, "\ud800", b"\xff", None], [1, 0, 0, 0, 0]),
    (pa.date32(), [dt.date(2024, 1, 1), "2024-01-01", None], [1, 0, 0]),
    (pa.timestamp("us"), [dt.datetime(2024, 1, 1), "x", None], [1, 0, 0]),
    (pa.decimal128(5, 2), [D("1.5"), D("1.555"), D(10**9), D("NaN"), "x"], [1, 0, 0, 0, 0]),
    (pa.bool_(), [True, 1, "true"], [1, 0, 0]),
    (pa.list_(pa.int64()), ["x", 5], [0, 0]),
    (pa.run_end_encoded(pa.int32(), pa.int64()), [5, "x", None], [1, 0, 0]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", 5, None], [1, 0, 0]),
]


@pytest.mark.parametrize("arrow, values, known", LISTS, ids=[str(t) for t, _, _ in LISTS])
def test_lists_of_python_values(arrow, values, known):
    schema = pa.schema([("x", arrow)])
    stats = ss.Statistics.from_dict({"x": {"min": values, "max": values}}, schema)
    assert stats.get("x", "min").is_valid().to_pylist() == known
    assert ss.PruningPredicate("x IS NULL", schema).prune(stats).all()


@pytest.mark.parametrize("arrow", dict.fromkeys(TYPES), ids=str)
def test_points_fit_their_types(arrow):
    r, dtype = random.Random(str(arrow)), from_arrow(arrow)
    for _ in range(300):
        v = point(r, dtype, r.randint(-6, 6), arrow)
        assert v != v or (dtype.lowest <= v and (dtype.highest is None or v <= dtype.highest))
