"""ORDER BY with a limit, MIN and MAX: the result of sorting everything, from fewer files."""

import datetime as dt
import decimal
import itertools
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans import order as sorting
from skipstone.bindings.plans import topk
from skipstone.bindings.plans.selection import Cut
from tests.support.effort import LONG
from tests.support.tables.delta_log import Log, Written, delta_schema, simple
from tests.support.tables.iceberg_tables import make

COLUMNS = (
    "i BIGINT, f DOUBLE, s STRING, d DATE, t TIMESTAMP, m DECIMAL(20,2), b BOOLEAN, "
    "n STRUCT<v: INT>"
)
NAMES = ("i", "f", "s", "d", "t", "m", "b", "n.v")


def value(r, name, base):
    k = base + int(r.integers(0, 12))
    match name:
        case "f":
            return (
                [k / 4, -0.0, 0.0, math.nan, math.inf][min(int(r.integers(0, 40)), 4)]
                if r.random() < 0.1
                else k / 4
            )
        case "s":
            return "z" * 40 + str(k) if r.random() < 0.1 else f"s{k:04}"
        case "d":
            return dt.date(2024, 1, 1) + dt.timedelta(days=k)
        case "t":
            return dt.datetime(2024, 1, 1, 0, 0, 0, 123, dt.UTC) + dt.timedelta(hours=k)
        case "m":
            return decimal.Decimal(k * 25) / 100
        case "b":
            return bool(k % 5)
    return k


def row(r, base, gaps):
    out = {
        name: None if r.random() < gaps else value(r, name, base)
        for name in ("i", "f", "s", "d", "t", "m", "b")
    }
    return out | {
        "n": None
        if r.random() < gaps
        else {"v": None if r.random() < gaps else value(r, "n", base)}
    }


def rank(v, *, descending, nulls_first):
    """Return a key for Python's sort that gives Spark's order."""
    if v is None:
        return (0 if nulls_first else 2,)
    nan = isinstance(v, float) and math.isnan(v)
    return 1, Reversed((nan, 0 if nan else v)) if descending else (nan, 0 if nan else v)


class Reversed:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return other.v < self.v

    def __eq__(self, other):
        return other.v == self.v


def at(found, name):
    for part in name.split("."):
        found = None if found is None else found[part]
    return found


def random_table(folder, r, kind):
    gaps = r.choice([0.0, 0.05, 0.5])
    schema = ss.scan_delta(Log(folder / "schema", delta_schema(COLUMNS)).folder).schema
    files = [
        [row(r, int(base), gaps if r.random() < 0.7 else 0.0) for _ in range(int(r.integers(1, 8)))]
        for base in r.integers(0, 60, 14)
    ]
    tables = [pa.Table.from_pylist(rows, schema) for rows in files]
    if kind == "parquet":
        for i, t in enumerate(tables):
            pq.write_table(t, folder / f"{i:02}.parquet", row_group_size=3)
        return ss.scan_parquet(folder / "*.parquet")
    if kind == "iceberg":
        source = make(folder / "lake", schema)
        for t in tables:
            source.append(t)
        return ss.scan_iceberg(source)
    log = Log(folder / "t", delta_schema(COLUMNS), features=("deletionVectors",))
    for t in tables:
        dead = (
            sorted(r.choice(t.num_rows, int(r.integers(0, t.num_rows)), replace=False).tolist())
            if r.random() < 0.3
            else None
        )
        written = Written(t, dead=dead, stats=None if r.random() < 0.1 else ...)
        log.add(written)
    return ss.scan_delta(log.folder)


@pytest.mark.parametrize("late", [False, True], ids=["all columns", "sorted columns first"])
@pytest.mark.parametrize("kind", ["delta", "parquet", "iceberg"])
@pytest.mark.parametrize("seed", range(2 if LONG else 1))
def test_the_first_rows_are_those_of_sorting_everything(tmp_path, monkeypatch, seed, kind, late):
    monkeypatch.setattr(topk, "MIN_VALUES_PER_WANTED", 0 if late else 10**9)
    r = np.random.default_rng([seed, late])
    table = random_table(tmp_path, r, kind)
    for _ in range(12):
        keys = [
            (str(name), bool(r.random() < 0.5), bool(r.random() < 0.5))
            for name in r.choice(NAMES, int(r.integers(1, 3)), replace=False)
        ]
        order = ", ".join(
            f"{n} {'DESC' if d else 'ASC'} NULLS {'FIRST' if f else 'LAST'}" for n, d, f in keys
        )
        where = [None, "i >= 20", "f < 9 OR i IS NULL", "s LIKE 's00%'"][r.integers(0, 4)]
        limit = [None, 0, 1, 3, 10, 1000][r.integers(0, 6)]
        rows = table.plan(where).unpruned().to_arrow().to_pylist()
        expected = sorted(
            [rank(at(one, n), descending=d, nulls_first=f) for n, d, f in keys] for one in rows
        )[:limit]
        plan = table.plan(where, limit=limit, order_by=order)
        found = plan.to_arrow()
        got = [
            [rank(at(one, n), descending=d, nulls_first=f) for n, d, f in keys]
            for one in found.to_pylist()
        ]
        assert got == expected, (order, where, limit)
        assert not Counter(map(repr, found.to_pylist())) - Counter(map(repr, rows))
        assert found.schema == table.schema
        assert plan.count() == len(expected)
        for one in NAMES:
            values = [v for found in rows if (v := at(found, one)) is not None]
            ends = [rank(v, descending=False, nulls_first=False) for v in values]
            plan = table.plan(where)
            for end, pick in ((plan.min(one), min), (plan.max(one), max)):
                assert (end is None) == (not ends), (one, where)
                assert end is None or rank(end, descending=False, nulls_first=False) == pick(
                    ends
                ), (one, where)


def test_only_the_files_of_the_first_rows_are_kept(tmp_path):
    table = ss.scan_delta(simple(tmp_path / "t", 20).folder)  # ten rows each, x ascending
    for order, where, limit, kept in [
        ("x DESC", None, 5, [19]),
        ("x", None, 5, [0]),
        ("X DESC NULLS LAST", None, 11, [18, 19]),
        ("x DESC", "x < 55", 5, [4, 5]),  # half of the sixth file may match
        ("x DESC", "x < 50", 5, [4]),
        ("x DESC", "s LIKE 't%'", 10, [19]),
        ("x DESC", "s LIKE '%9'", 10, list(range(20))),  # no row certainly matches
        ("s DESC", None, 3, None),
        ("x DESC", None, 200, list(range(20))),
        ("x DESC", None, 0, []),
    ]:
        plan = table.plan(where, limit=limit, order_by=order)
        assert kept is None or plan.kept.tolist() == kept, order
        assert plan.skipping == ("none" if where is None else "data")
    assert table.plan(limit=3, order_by="x DESC", columns=["s"]).to_arrow().to_pydict() == {
        "s": ["t199", "t198", "t197"]
    }
    assert table.plan(order_by=["x DESC"]).to_arrow().column("x").to_pylist() == list(
        range(199, -1, -1)
    )
    assert table.plan("x < 20", limit=3, order_by="x DESC").cut == Cut(3, 10, reached=True)


def test_equal_values_of_one_column_need_no_more_files(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, y INT"))
    log.add(*(Written([{"x": 7, "y": i}] * 3) for i in range(50)))
    table = ss.scan_delta(log.folder)
    assert len(table.plan(limit=2, order_by="x DESC").files) == 1
    assert len(table.plan(limit=2, order_by="x DESC, y DESC").files) == 50
    assert table.plan(limit=2, order_by="x DESC, y DESC").to_arrow().column("y").to_pylist() == [
        49,
        49,
    ]


def test_min_and_max_read_only_what_may_hold_them(tmp_path, monkeypatch):
    log = simple(tmp_path / "t", 20)
    log.add(Written([{"x": 1, "s": "a"}, {"x": 10_000, "s": "b"}], dead=[1]))
    read = []
    original = ss.DeltaTable.tasks
    monkeypatch.setattr(
        ss.DeltaTable,
        "tasks",
        lambda self, plan, **how: (
            read.extend(plan.kept.tolist()),
            original(self, plan, **how),
        )[1],
    )
    table = ss.scan_delta(log.folder)
    plan = table.plan("x >= 5 AND s LIKE 't%'")
    assert (plan.min("x"), sorted(set(read))) == (5, [0])
    read.clear()
    assert (table.plan().min("x"), read) == (0, [])
    assert (table.plan().max("x"), read) == (199, [20])  # its greatest value was deleted
    assert table.plan("x < 0").max("x") is None
    with pytest.raises(ss.PredicateError, match="plan without a limit"):
        table.plan(limit=3).min("x")


def test_dictionaries(tmp_path):
    for i in range(12):
        pq.write_table(
            pa.table({"x": pa.array([f"s{i:03}"] * 2).dictionary_encode()}),
            tmp_path / f"{i:02}.parquet",
            write_statistics=i % 2 > 0,
        )
    plan = ss.scan_parquet(tmp_path / "*.parquet").plan()
    assert (plan.min("x"), plan.max("x")) == ("s000", "s011")


@pytest.mark.parametrize("kind", [pa.decimal32(7, 2), pa.decimal64(16, 2), pa.decimal128(16, 2)])
def test_decimals_of_any_width(kind, tmp_path):
    """Arrow sorts those of 32 and 64 bits by their bytes, the lowest first, or refuses them."""
    values = [decimal.Decimal(k * 7919 % 1000 - 500) / 100 for k in range(400)]
    rows = pa.table({"x": pa.array([*values, None], kind), "i": range(401)})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=100)
    table, least_first = ss.scan_parquet(tmp_path / "t.parquet"), sorted(values)
    first = table.plan(order_by="x NULLS LAST", limit=20).to_arrow()["x"]
    assert (first.type, first.to_pylist()) == (kind, least_first[:20])
    assert table.plan(order_by="x DESC").to_arrow()["x"].to_pylist() == [*least_first[::-1], None]
    some, some_values = table.plan("i % 3 = 0"), values[::3]
    assert (some.min("x"), some.max("x")) == (min(some_values), max(some_values))


def test_a_count_overrides_bounds(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT"))
    log.add(
        Written(
            [{"x": None}] * 2,
            stats={
                "numRecords": 2,
                "minValues": {"x": -5},
                "maxValues": {"x": 700},
                "nullCount": {"x": 2},
            },
        )
    )
    log.add(Written([{"x": 3}, {"x": 4}]))
    plan = ss.scan_delta(log.folder).plan()
    assert (plan.min("x"), plan.max("x")) == (3, 4)


def test_dates_that_python_lacks(tmp_path):
    pq.write_table(
        pa.table({"d": pa.array([5_000_000, 3], pa.int32()).cast(pa.date32())}),
        tmp_path / "a.parquet",
    )
    plan = ss.scan_parquet(tmp_path / "a.parquet").plan()
    assert plan.min("d") == dt.date(1970, 1, 4)
    assert plan.max("d") == pa.scalar(5_000_000, pa.int32()).cast(pa.date32())


def test_an_exact_name_is_preferred(tmp_path):
    log = Log(tmp_path / "t", delta_schema("a INT, A INT, `b.c` INT, `desc` INT"))
    log.add(Written([{"a": 1, "A": 2, "b.c": 3, "desc": 4}]))
    plan = ss.scan_delta(log.folder).plan("a > 0", case_sensitive=True)
    assert [plan.min(name) for name in ("a", "A", "`b.c`", "desc")] == [1, 2, 3, 4]
    for wrong in ("a, A", "a DESC", "nope", "", "`B.C`", "DESC"):
        with pytest.raises(ss.PredicateError):
            plan.min(wrong)
    plan = ss.scan_delta(log.folder).plan("`desc` > 0")  # a case-insensitive session
    assert [plan.min(name) for name in ("a", "A", "`b.c`", "`B.C`", "DESC")] == [1, 2, 3, 3, 4]


@pytest.mark.parametrize(
    "order", ["", "  ", ["x", ""], "(" * 2000 + "x" + ")" * 2000, "x,,y", "x DESC ASC"]
)
def test_orders_that_cannot_be_read(tmp_path, order):
    with pytest.raises(ss.PredicateError) as e:
        ss.scan_delta(simple(tmp_path / "t", 1).folder).plan(order_by=order)
    assert "sqlglot" not in str(e.value)


@pytest.mark.parametrize("order", [3, [None], {"x": 1}, [["x"]], b"x"])
def test_orders_of_the_wrong_type(tmp_path, order):
    with pytest.raises(ss.PredicateError, match=r"order_by is .*; expected Spark SQL"):
        ss.scan_delta(simple(tmp_path / "t", 1).folder).plan(order_by=order)


def test_limits_of_any_size(tmp_path):
    table = ss.scan_delta(simple(tmp_path / "t", 2).folder)
    assert table.plan(limit=2**70).count() == 20
    assert table.plan(limit=np.int64(2)).to_arrow().num_rows == 2
    with pytest.raises(ss.PredicateError, match="columns is empty"):
        table.plan(columns=[])
    with pytest.raises(ss.PredicateError, match="columns= names 'x' twice"):
        table.plan(columns=["x", "x"])


def test_counts_that_no_file_has(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT"))
    for _ in range(3):
        log.add(
            Written(
                [{"x": 1}],
                stats={
                    "numRecords": 2**62,
                    "minValues": {"x": 1},
                    "maxValues": {"x": 1},
                    "nullCount": {"x": 0},
                },
            )
        )
    assert ss.scan_delta(log.folder).plan().count() == 3


def test_columns_without_an_order_are_refused(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, a ARRAY<INT>, n STRUCT<v: INT>"))
    log.add(Written([{"x": 1}]))
    table = ss.scan_delta(log.folder)
    for order, message in [
        ("a", "have an order"), ("n", "have an order"), ("x + 1", "have an order"), ("y", "y"),
        ("", "order_by"), ("x LIMIT 3", "order_by"), ([], "names no column"),
    ]:  # fmt: skip
        with pytest.raises(ss.PredicateError, match=message):
            table.plan(order_by=order)


def ticks(path, unit, t, bounds, **columns):
    columns["t"] = pa.array(t, pa.int64()).cast(pa.timestamp(unit))
    pq.write_table(
        pa.table(columns), path, version="2.6", store_schema=False, write_statistics=bounds
    )


def test_the_nanosecond_that_pandas_takes_for_null(tmp_path):
    """It is a value like others, and the values after it are read."""
    for i in range(40):
        values = [-(2**63)] if i < 39 else [5, -(2**63)]
        ticks(tmp_path / f"{i:02}.parquet", "ns", values, bounds=False)
    table = ss.scan_parquet(tmp_path)
    assert table.plan().max("t") == np.datetime64(5, "ns")
    assert table.plan().min("t") == pa.scalar(-(2**63), pa.timestamp("ns"))
    last = table.plan(order_by="t DESC", limit=1).to_arrow()["t"]
    assert last.cast(pa.int64()).to_pylist() == [5]


def test_extremes_of_files_with_other_units(tmp_path):
    ticks(tmp_path / "0.parquet", "ms", [1, 5_000], bounds=["x", "t"], x=[2, 2])
    ticks(tmp_path / "1.parquet", "us", [1, 5_000], bounds=["x"], x=[2, 1])
    plan = ss.scan_parquet(tmp_path).plan("x = 2")  # only the first file has bounds, in its unit
    assert plan.min("t") == dt.datetime(1970, 1, 1, 0, 0, 0, 1) and plan.max("t") == dt.datetime(
        1970, 1, 1, 0, 0, 5
    )


@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("name", ["i", "f", "s", "d", "t", "m", "b", "n.v"])
def test_rows_that_cannot_be_among_the_first_are_left_out_before_sorting(
    name, descending, nulls_first, monkeypatch
):
    r = np.random.default_rng(len(name))
    path = tuple(name.split("."))
    keys = [sorting.SortKey(path, descending, nulls_first), sorting.SortKey(("i",), True, False)]
    for gaps, k in itertools.product((0, 0.3, 0.98, 1), (0, 1, 2, 7, 40)):
        rows = pa.Table.from_pylist([row(r, 0, gaps) for _ in range(120)], ROWS)
        monkeypatch.setattr(sorting, "MIN_ROWS_PER_WANTED", 1 << 30)
        expected = sorting.first_rows(rows, keys, k)
        monkeypatch.setattr(sorting, "MIN_ROWS_PER_WANTED", 1)
        assert str(sorting.first_rows(rows, keys, k).to_pylist()) == str(expected.to_pylist())
        sorted_rows = []
        monkeypatch.setattr(sorting.pc, "sort_indices", counting(sorted_rows), raising=False)
        sorting.first_rows(rows, keys, k)
        monkeypatch.undo()
        if gaps == 0 and 0 < k < 7 and name in ("i", "d", "t", "m"):
            assert sorted_rows[0] < 60


ROWS = pa.schema(
    [("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("d", pa.date32()),
     ("t", pa.timestamp("us", "UTC")), ("m", pa.decimal128(20, 2)), ("b", pa.bool_()),
     ("n", pa.struct([("v", pa.int32())]))]
)  # fmt: skip


def counting(sizes):
    sort = pa.compute.sort_indices
    return lambda rows, **how: (sizes.append(rows.num_rows), sort(rows, **how))[1]
