"""Clustering: the figures equal an oracle's, for every type; unknown bounds are counted apart."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skipstone as ss
from skipstone.bindings.layout.bounds import ranges_of
from skipstone.bindings.layout.clustering import of_ranges
from skipstone.bindings.layout.depth import overlaps_and_depths
from skipstone.ir.types import from_arrow


def oracle(ranges):
    """Return overlaps and depths of (low, high) pairs, in O(n^2) and plain Python."""
    overlaps, depths = [], []
    for low, high in ranges:
        others = [(a, b) for a, b in ranges if a <= high and b >= low]
        overlaps.append(len(others) - 1)
        # The depth can only rise where a range begins.
        points = [low, *(a for a, _ in others if a >= low)]
        depths.append(max(sum(a <= p <= b for a, b in others) for p in points))
    return overlaps, depths


pairs = st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(sorted)


@given(st.lists(pairs, max_size=20))
def test_overlaps_and_depths_equal_the_oracles(ranges):
    low, high = (np.array([r[i] for r in ranges], np.int64) for i in (0, 1))
    found = overlaps_and_depths(low, high)
    assert tuple(f.tolist() for f in found) == oracle(ranges)


def test_long_and_random_ranges():
    r = np.random.default_rng(3)
    low = r.integers(0, 2000, 150)
    high = low + r.choice([0, 3, 50, 1900], 150)
    found = overlaps_and_depths(low, high)
    assert tuple(f.tolist() for f in found) == oracle(
        list(zip(low.tolist(), high.tolist(), strict=True))
    )


D, T = dt.date, dt.datetime
# type, [(min, max), ...]; None is unknown.
TYPES = {
    "int8": (pa.int8(), [(-128, 127), (1, 2), (None, 5), (2, 2), (-128, 0)]),
    "uint64": (pa.uint64(), [(0, 0), (0, 2**64 - 1), (5, None), (7, 9)]),
    "double": (pa.float64(), [(-1.5, 2.0), (2.0, 2.0), (2.5, float("inf")), (None, None)]),
    "bool": (pa.bool_(), [(False, True), (True, True), (False, False), (None, True)]),
    "date": (pa.date32(), [(D(2020, 1, 1), D(2020, 2, 1)), (D(2020, 2, 1), D(2020, 3, 1))]),
    "timestamp": (pa.timestamp("us", "UTC"), [(T(2020, 1, 1), T(2021, 1, 1)), (None, None)]),
    "decimal": (
        pa.decimal128(9, 2),
        [(Decimal("-1.5"), Decimal("2.25")), (Decimal("2.25"), Decimal("2.25"))],
    ),
    "long decimal": (
        pa.decimal128(38, 0),
        [(Decimal(10) ** 30, Decimal(10) ** 31), (Decimal(5), Decimal(10) ** 30)],
    ),
    "text": (pa.string(), [("", "b"), ("b", "c"), ("ba", "é"), (None, "z"), ("", "")]),
    "binary": (pa.binary(), [(b"", b"\xff"), (b"\x01", b"\x02")]),
}


@pytest.mark.parametrize("name", TYPES)
def test_every_type(name):
    kind, bounds = TYPES[name]
    schema = pa.schema([("x", kind)])
    lows, highs = (pa.array([b[i] for b in bounds], kind) for i in (0, 1))
    stats = ss.Statistics.from_dict({"x": {"min": lows, "max": highs}}, schema)
    found = of_ranges("x", ranges_of(stats, ("x",), from_arrow(kind)))
    known = [b for b in bounds if None not in b]
    if name == "text":
        known = [tuple(v.encode() for v in b) for b in known]
    overlaps, depths = oracle(known)
    assert found.unknown == len(bounds) - len(known)
    assert found.constant == sum(a == b for a, b in known)
    assert found.average_overlaps == pytest.approx(sum(overlaps) / len(known))
    assert found.average_depth == pytest.approx(sum(depths) / len(known))
    assert sum(found.depth_histogram.values()) == len(known)


def test_containers_of_nulls_have_depth_0():
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict(
        {"x": {"min": [1, None, None], "max": [5, None, None], "null_count": [0, 10, None]}},
        schema,
        row_count=[10, 10, 10],
    )
    found = of_ranges("x", ranges_of(stats, ("x",), from_arrow(pa.int64())))
    assert (found.unknown, found.empty, found.constant) == (1, 1, 1)
    assert (found.depth_histogram[0], found.depth_histogram[1]) == (1, 1)
    assert found.average_depth == 0.5


def test_bounds_that_cannot_be_true_are_unknown():
    schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
    stats = ss.Statistics.from_dict(
        {"x": {"min": [9, 1], "max": [1, 2]}, "s": {"min": ["b", "a"], "max": ["a", "a"]}}, schema
    )
    for column, kind in (("x", pa.int64()), ("s", pa.string())):
        ranges = ranges_of(stats, (column,), from_arrow(kind))
        assert ranges.contradictory.tolist() == [True, False]
        assert of_ranges(column, ranges).unknown == 1


def test_snowflakes_pictures():
    """The five micro-partitions of Snowflake's page on clustering depth, state by state."""
    letters = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}
    for ranges, depth in (
        (["AZ", "AZ", "AZ", "AZ", "AZ"], 5),
        (["AE", "FJ", "KP", "QU", "VZ"], 1),
    ):
        low, high = (np.array([letters[r[i]] for r in ranges]) for i in (0, 1))
        assert overlaps_and_depths(low, high)[1].tolist() == [depth] * 5


ROWS = pa.table(
    {
        "x": pa.array(range(400)),
        "day": pa.array([D(2020, 1, 1) + dt.timedelta(i % 30) for i in range(400)]),
        "s": pa.array([f"name {i * 37 % 400:03}" for i in range(400)]),
        "p": pa.array(["a" if i < 200 else "b" for i in range(400)]),
    }
)


def lake(kind, folder):
    if kind == "parquet":
        pq.write_table(ROWS, folder / "t.parquet", row_group_size=50)
        return ss.scan_parquet(folder)
    if kind == "hive":
        for p in "ab":
            (folder / f"p={p}").mkdir()
            mine = ROWS.filter(pa.compute.equal(ROWS["p"], p)).drop_columns("p")
            pq.write_table(mine, folder / f"p={p}" / "0.parquet", row_group_size=50)
        return ss.scan_hive(folder)
    if kind == "delta":
        deltalake = pytest.importorskip("deltalake")
        for i in range(8):
            deltalake.write_deltalake(folder, ROWS.slice(i * 50, 50), mode="append")
        return ss.scan_delta(folder)
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    for i in range(8):
        table.append(ROWS.slice(i * 50, 50))
    catalog.close()
    return ss.scan_iceberg(table.metadata_location)


@pytest.mark.parametrize("kind", ["parquet", "hive", "delta", "iceberg"])
def test_all_formats(kind, tmp_path):
    table = lake(kind, tmp_path)
    found = table.clustering()
    assert [c.column for c in found] == list(table.schema.names)
    assert found.unit == ("row groups" if kind in ("parquet", "hive") else "files")
    figures = {c.column: (c.containers, c.unknown, c.average_depth) for c in found}
    assert figures["x"] == (8, 0, 1.0)
    assert figures["day"] == (8, 0, 8.0)
    assert figures["p"] == (8, 0, 4.0)
    assert found["p"].constant == 8
    assert found["x"].depth_histogram[1] == 8
    assert found.to_dict()["x"]["partition_depth_histogram"]["00001"] == 8
    assert "overlaps" in str(found)


def test_columns_come_from_a_workload_or_by_name(tmp_path):
    table = lake("parquet", tmp_path)
    assert [c.column for c in table.clustering(workload=["s = 'a' AND x > 3", "x = 5"])] == [
        "x",
        "s",
    ]
    assert [c.column for c in table.clustering(["day"])] == ["day"]
    with pytest.raises(ss.UnknownColumn, match="dya"):
        table.clustering(["dya"])
    with pytest.raises(ss.UnknownColumn, match="it has day"):
        table.clustering(["day"])["x"]


def test_columns_without_an_order(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [[1], [2]], "b": [{"c": 1}, {"c": 2}]}), path)
    table = ss.scan_parquet(path)
    assert [c.column for c in table.clustering()] == ["b.c"]
    with pytest.raises(ss.StatisticsError, match="no order"):
        table.clustering(["a"])
