"""ss.join: an example query, several build sides, chains, and random joins against an oracle.

Ids in test names are those of the conformance table.
"""

import datetime as dt
import inspect
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skipstone as ss
from skipstone.bindings.joins.join import join_explained
from tests.fuzz import dynamic as fuzz_dynamic

LONG = os.environ.get("SKIPSTONE_TESTS") == "long"


@settings(max_examples=100_000 if LONG else 200)
@given(st.integers(0, 2**40))
def test_random_filters_and_joins(seed):
    fuzz_dynamic.run(1, first=seed)


def test_random_joins_of_files():
    for i in range(4000 if LONG else 40):
        fuzz_dynamic.file_case(i)


# The example query: store_returns by days, joined with date_dim.

DAYS = 200
FIRST = 2450815


def returned_items():
    r = np.random.default_rng(3)
    days = np.sort(r.integers(0, DAYS, 20_000)) + FIRST
    keys = pa.array(days, pa.int32(), mask=r.random(20_000) < 0.01)
    return pa.table(
        {
            "sr_returned_date_sk": keys,
            "sr_return_time_sk": r.integers(0, 86400, 20_000),
            "sr_item_sk": r.integers(0, 99, 20_000),
        }
    )


@pytest.fixture(scope="module")
def date_dim():
    dates = [dt.date(2000, 1, 1) + dt.timedelta(days=3 * i) for i in range(DAYS)]
    return pa.table(
        {
            "d_date_sk": pa.array(range(FIRST, FIRST + DAYS), pa.int64()),
            "d_date_id": [f"D{i}" for i in range(DAYS)],
            "d_year": [d.year for d in dates],
        }
    )


@pytest.fixture(scope="module", params=["partitioned by date", "clustered by date"])
def store_returns(request, tmp_path_factory):
    path, table = tmp_path_factory.mktemp("store_returns"), returned_items()
    if request.param == "clustered by date":
        for i in range(20):
            pq.write_table(
                table.slice(i * 1000, 1000), path / f"{i:02}.parquet", row_group_size=250
            )
        return ss.scan_parquet(str(path))
    pq.write_to_dataset(table, str(path), partition_cols=["sr_returned_date_sk"])
    return ss.scan_hive(str(path), partition_schema={"sr_returned_date_sk": pa.int32()})


def test_the_example_query(store_returns, date_dim):
    import duckdb

    on = {"sr_returned_date_sk": "d_date_sk"}
    joined = join_explained(store_returns, date_dim, on=on, where_dim="d_year = 2001")
    plain = join_explained(
        store_returns, date_dim, on=on, where_dim="d_year = 2001", dynamic_filtering=False
    )
    assert joined.table.equals(plain.table)
    sales = store_returns.plan().to_arrow()  # noqa: F841 what DuckDB reads
    rows = duckdb.sql(
        "SELECT count(*), sum(sr_item_sk) FROM sales "
        "JOIN date_dim ON sr_returned_date_sk = d_date_sk WHERE d_year = 2001"
    ).fetchall()[0]
    assert rows == (
        joined.table.num_rows,
        pa.compute.sum(joined.table.column("sr_item_sk")).as_py(),
    )
    kept, total = joined.plan.sizes.scan, plain.plan.sizes.scan
    assert kept.files < 0.5 * total.files and kept.rows < 0.65 * total.rows
    text = joined.plan.explain()
    assert (
        "DynamicFilteringTableSourceScan" in text
        and "DynamicFilteringDataCollector(fields=[sr_returned_date_sk])" in text
    )


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti", "not in"])
def test_joins_of_the_example_tables(store_returns, date_dim, how):
    options = {
        "on": {"sr_returned_date_sk": "d_date_sk"},
        "how": how,
        "where_dim": "d_year = 2000",
        "columns_dim": ["d_date_id"],
    }
    joined = ss.join(store_returns, date_dim, **options)
    assert joined.equals(ss.join(store_returns, date_dim, **options, dynamic_filtering=False))
    assert joined.num_rows and ("d_date_id" in joined.column_names) == (
        how not in ("semi", "anti", "not in")
    )


class Slow:
    """A build side whose rows arrive when an event is set, or that raises an error."""

    def __init__(self, rows, arrival=None, error=None):
        self.rows, self.arrival, self.error, self.schema = rows, arrival, error, rows.schema

    def __arrow_c_stream__(self, requested=None):
        if self.arrival is not None:
            assert self.arrival.wait(30)
        if self.error is not None:
            raise self.error
        return self.rows.__arrow_c_stream__(requested)


@pytest.mark.parametrize(
    ("how", "wait"), [("inner", 0), ("inner", 30), ("right", 0), ("full", 0), ("anti", 0.05)]
)
def test_dimensions_read_with_the_fact_table(store_returns, date_dim, how, wait):
    options = {
        "on": {"sr_returned_date_sk": "d_date_sk"},
        "how": how,
        "where_dim": "d_year = 2000",
        "columns_dim": ["d_date_id"],
    }
    joined = join_explained(store_returns, date_dim, **options, wait=wait)
    assert joined.table.equals(ss.join(store_returns, date_dim, **options))
    assert all(f.data is not None for f in joined.filters)
    if how == "inner":
        assert len(joined.plan.files) < 0.7 * len(store_returns.plan().files)


def test_both_forms_of_a_join_have_one_signature():
    plain, explained = (inspect.signature(f).parameters for f in (ss.join, join_explained))
    assert plain == explained


@pytest.mark.parametrize("wait", [None, 0, 0.05])
def test_late_and_failing_dimensions(tmp_path, wait):
    for i in range(40):
        pq.write_table(
            pa.table({"k": [3 * i, 3 * i + 1], "j": [i % 2] * 2}), tmp_path / f"{i:02}.parquet"
        )
    table, few, halves = (
        ss.scan_parquet(str(tmp_path)),
        pa.table({"k": [9, 64]}),
        pa.table({"j": [1], "name": ["odd"]}),
    )
    later = threading.Event()
    threading.Timer(0.1, later.set).start()
    joined = join_explained(table, [Slow(few, later), halves], on=["k", "j"], wait=wait)
    assert (
        joined.table.to_pydict() == {"k": [9, 64], "j": [1, 1], "name": ["odd", "odd"]}
        and len(joined.plan.kept) == 2
    )
    with pytest.raises(OSError, match="gone"):
        ss.join(table, [halves, Slow(few, error=OSError("gone"))], on=["j", "k"], wait=wait)
    with pytest.raises(ss.UnknownColumn):
        ss.join(table, few, on="k", where_fact="nope = 1", wait=wait)
    assert ss.join(table, few, on={"k": "k"}, wait=wait, dynamic_filtering=False).num_rows == 2


# Nested joins that use one key twice, with disjoint filters.


def test_J24_filters_are_not_confused(tmp_path):
    store = pa.table(
        {
            "item": [(i + 30) % 50 for i in range(500)],
            "date": [i % 20 for i in range(500)],
            "price": [3 * i for i in range(500)],
        }
    )
    pq.write_to_dataset(store, str(tmp_path), partition_cols=["date"])
    table = ss.scan_hive(str(tmp_path), partition_schema={"date": pa.int64()})
    dates = pa.table({"sk": range(20), "year": range(20)})
    items = pa.table({"item": range(30, 50)})
    inner = join_explained(
        table, dates, on={"date": "sk"}, where_dim="year IN (2, 4, 6, 8) OR year >= 10"
    )
    sold = inner.table.select(["item"]).group_by("item").aggregate([])
    outer = join_explained(
        table,
        [dates, items, sold],
        on=[{"date": "sk"}, "item", "item"],
        where_dim=["year IN (1, 3, 5, 7)", None, None],
    )
    assert pa.compute.sum(outer.table.column("price")).as_py() == 28080
    assert inner.plan.sizes.scan.files == 14 and outer.plan.sizes.scan.files == 4


def test_J13_a_branch_with_a_literal(tmp_path):
    pq.write_table(pa.table({"k": [1, 2, 3]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": [7, 8, 9]}), tmp_path / "b.parquet")
    dim = pa.table({"k": [4, 8]})
    table = ss.scan_parquet(str(tmp_path))
    literal = pa.table({"k": pa.array([4] * table.plan().count(), pa.int64())})
    both = pa.concat_tables([ss.join(part, dim, on="k", how="semi") for part in (literal, table)])
    assert both.column("k").to_pylist() == [4] * 6 + [8]


def test_several_dimensions_and_chains(tmp_path):
    r = np.random.default_rng(1)
    fact = pa.table(
        {
            "day": np.repeat(np.arange(20), 50),
            "store": r.integers(0, 6, 1000),
            "amount": r.random(1000),
        }
    )
    for i in range(20):
        pq.write_table(
            fact.slice(50 * i, 50).sort_by("store"), tmp_path / f"{i:02}.parquet", row_group_size=10
        )
    table = ss.scan_parquet(str(tmp_path))
    days, stores = (
        pa.table({"day": range(20), "month": [i // 5 for i in range(20)]}),
        pa.table({"store": range(6), "city": [i % 2 for i in range(6)]}),
    )
    cities = pa.table({"city": [0, 1], "name": ["north", "south"]})
    where = {"where_dim": ["month = 1", "store > 3"]}
    joined = join_explained(table, [days, stores], on=["day", "store"], **where)
    assert joined.table.equals(
        ss.join(table, [days, stores], on=["day", "store"], **where, dynamic_filtering=False)
    )
    assert len(joined.filters) == 2 and all(e.pruned for e in joined.plan.dynamic.effects)
    snow = ss.join(stores, cities, on="city", where_dim="name = 'north'")
    chained = join_explained(table, snow, on="store")
    later = join_explained(
        table, [stores, cities], on=["store", "city"], where_dim=[None, "name = 'north'"]
    )
    key = [("day", "ascending"), ("amount", "ascending")]
    assert (
        chained.table.select(["amount", "name"]).equals(later.table.select(["amount", "name"]))
        and chained.table.sort_by(key).num_rows == later.table.num_rows
    )
    assert len(later.filters) == 1
    left = {"on": ["day", "store"], "how": ["left", "full"], **where}
    assert ss.join(table, [days, stores], **left).equals(
        ss.join(table, [days, stores], **left, dynamic_filtering=False)
    )


CASES = [
    ({"on": "x"}, ss.UnknownColumn, "names 'x'"),
    ({"on": []}, ss.PredicateError, "expected names of keys"),
    ({"on": 5}, ss.PredicateError, "on is 5"),
    ({"on": "k", "how": "not in", "null_safe": True}, ss.PredicateError, "NOT IN compares by ="),
    ({"on": "k", "how": "cross"}, ss.PredicateError, "how is 'cross'; expected one of 'inner'"),
    ({"on": "k", "how": "iner"}, ss.PredicateError, "how is 'iner'; did you mean 'inner'"),
    ({"on": {"k": "ss"}}, ss.UnknownColumn, "on= names 'ss'; the build side has 'k', 's'"),
    ({"on": {"k": "s"}}, ss.UnsupportedForm, "Spark"),
    ({"on": "k", "null_safe": ["k"]}, ss.PredicateError, "null_safe is .*; expected True or False"),
    ({"on": "k", "wait": "1s"}, ss.DynamicFilterError, "wait is '1s'; expected a number"),
    ({"on": "k", "wait": -1}, ss.DynamicFilterError, "wait is -1; expected a number"),
    ({"on": "k", "columns_fact": "k"}, ss.PredicateError, "columns_fact is 'k'; expected a list"),
    ({"on": "k", "columns_dim": "s"}, ss.PredicateError, "columns_dim is 's'; expected a list"),
]


@pytest.mark.parametrize(("options", "error", "text"), CASES, ids=[c[2] for c in CASES])
def test_refused(options, error, text):
    fact, dim = pa.table({"k": [[1]] if "Spark" in text else [1]}), pa.table({"k": [1], "s": ["a"]})
    with pytest.raises(error, match=text):
        ss.join(fact, dim, **options)
    with pytest.raises(ss.PredicateError, match="only as the last join"):
        ss.join(fact, [dim, dim], on=["k", "k"], how=["full", "inner"])


#    a side of the join             in the error
NO_ROWS = [
    ("lake/sales",                  r"a path, 'lake/sales'; .* skipstone.scan\(path\) opens one"),
    (Path("lake/sales"),            r"a path, 'lake/sales'; .* skipstone.scan\(path\) opens one"),
    (5,                             "rows are of the type int; expected an Arrow RecordBatch"),
    (None,                          "of the type NoneType; expected an Arrow"),
]  # fmt: skip


@pytest.mark.parametrize(("side", "text"), NO_ROWS, ids=[c[1] for c in NO_ROWS])
def test_objects_without_rows_are_refused(side, text):
    for fact, dim in ((side, pa.table({"k": [1]})), (pa.table({"k": [1]}), side)):
        with pytest.raises(ss.DynamicFilterError, match=text):
            ss.join(fact, dim, on="k")


def test_a_name_that_two_columns_have(tmp_path):
    """The name means a column of the rows joined so far, but a filter might mean another."""
    pq.write_table(pa.table({"k": [100, 101], "x": [1, 2]}), tmp_path / "fact.parquet")
    table, dims = (
        ss.scan_parquet(str(tmp_path)),
        [pa.table({"x": [1, 2], "K": [7, 8]}), pa.table({"K": [7, 8]})],
    )
    with pytest.raises(ss.AmbiguousColumn, match="'K'; the left side has 'k', 'K'"):
        ss.join(table, dims, on=["x", "K"])
    assert ss.join(table, [], on=[], wait=0.1).num_rows == 2
    assert ss.join(table, dims, on=["x", "K"], case_sensitive=True).num_rows == 2


def test_columns(tmp_path):
    pq.write_table(
        pa.table({"k": [1, 2], "v": [1.0, 2.0], "w": ["a", "b"]}), tmp_path / "a.parquet"
    )
    dim = pa.table({"K": pa.array([2, 3], pa.int32()), "v": ["x", "y"]})
    table = ss.scan_parquet(str(tmp_path))
    assert ss.join(table, dim, on={"k": "K"}, columns_fact=["w"]).to_pydict() == {
        "w": ["b"],
        "K": [2],
        "v": ["x"],
    }
    assert ss.join(table, dim, on={"k": "K"}, columns_dim=["v"]).to_pydict() == {
        "k": [2],
        "v": [2.0],
        "w": ["b"],
        "v_dim": ["x"],
    }
    assert ss.join(
        table, dim.rename_columns(["k", "v"]), on="k", how="right", columns_fact=["v"]
    ).to_pydict() == {"v": [2.0, None], "v_dim": ["x", "y"]}


def test_rows_that_spark_raises_for():
    with pytest.raises(ss.UnsupportedForm, match="Spark raises an error"):
        ss.join(pa.table({"k": [1]}), pa.table({"k": ["one"]}), on="k")


def test_the_workload():
    from bench.report.report import Options
    from bench.report.show import table
    from bench.tables.dynamic import dynamic

    report = dynamic(Options(rounds=1, containers=2000))
    assert "ten readers read" in " ".join(
        r.text for r in report.requirements
    ) and "late filter" in table(report.rows)
