"""The rows of a plan as an Arrow stream: its readers get the rows that `to_arrow` returns."""

import threading

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.progress import Track
from skipstone.bindings.tables.parquet import group_tasks
from skipstone.bindings.tables.read import read_in_order
from tests.support.tables.formats import FORMATS

PLANS = {
    "everything": {},
    "some rows": {"where": "x > 11 AND s < 'h'"},
    "a partition": {"where": "k = 'b'", "columns": ["s", "x"]},
    "no row": {"where": "x > 1000"},
    "a limit": {"where": "x > 3", "limit": 2},
    "a limit of none": {"limit": 0},
    "sorted": {"where": "x > 3", "order_by": "x DESC", "limit": 5},
    "NaN": {"where": "f > 1e300"},
}
READERS = {
    "pyarrow": pa.table,
    "polars": lambda plan: pl.DataFrame(plan).to_arrow(),
    "duckdb": lambda plan: duckdb.sql("FROM plan").to_arrow_table(),
    "batches": lambda plan: pa.Table.from_batches(plan.to_batches(), plan.schema),
}


def rows(table):
    """Return the rows of a table as text, in which NaN equals itself and -0.0 is not 0.0."""
    return list(map(repr, table.to_pylist()))


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    return FORMATS[request.param](tmp_path / "t")


@pytest.mark.parametrize("arguments", PLANS.values(), ids=PLANS)
def test_streams_hold_the_rows_of_the_plan(table, arguments):
    plan = table.plan(**arguments)
    expected = plan.to_arrow()
    assert plan.schema == expected.schema
    for name, read in READERS.items():
        found = read(plan)
        assert found.column_names == plan.columns, name
        assert rows(found) == rows(expected), name


def test_a_stream_has_the_requested_types(table):
    plan = table.plan("x > 30", columns=["x"])
    wanted = pa.schema([("x", pa.int32())])
    stream = pa.RecordBatchReader.from_stream(plan, wanted)
    assert stream.schema == wanted
    assert stream.read_all() == plan.to_arrow().cast(wanted)


def test_a_relation_can_be_read_again(table):
    plan = table.plan("x > 11")  # noqa: F841 - DuckDB finds it by its name
    relation = duckdb.sql("FROM plan SELECT x")
    for _ in range(2):
        assert len(relation.filter("x > 20").fetchall()) == len(table.plan("x > 20").to_arrow())


def test_batches_are_read_while_they_are_consumed(tmp_path, monkeypatch):
    monkeypatch.setattr(group_tasks, "files_at_once", lambda: 1)
    for i in range(50):
        (tmp_path / f"k={i:02}").mkdir()
        pq.write_table(pa.table({"x": [i]}), tmp_path / f"k={i:02}" / "0.parquet")
    plan = ss.scan_parquet(tmp_path).plan()
    (tmp_path / "k=49" / "0.parquet").unlink()
    batches = plan.to_batches()
    assert next(batches).column("x").to_pylist() == [0]
    with pytest.raises(ss.SourceError):
        list(batches)


@pytest.mark.parametrize("read", [list, lambda b: b.read_all(), pa.Table.from_batches])
def test_errors_of_batches_are_our_own(tmp_path, read):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "0.parquet")
    plan = ss.scan_parquet(tmp_path).plan("soundex(x) = 'a'")
    with pytest.raises(ss.UnsupportedForm, match="filter=False"):
        read(plan.to_batches())
    with pytest.raises(NotImplementedError, match="filter=False"):
        pa.table(plan)


@pytest.mark.parametrize("arguments", PLANS.values(), ids=PLANS)
def test_unfiltered_rows_are_those_of_the_kept_containers(table, arguments):
    plan = table.plan(**arguments)
    found = plan.to_arrow(filter=False)
    everything = plan.only(plan.kept, plan.columns)
    assert found.schema == plan.schema
    assert found.num_rows == plan.sizes.scan.rows
    assert set(rows(everything.to_arrow())) <= set(rows(found))
    if plan.predicate is None:
        assert rows(found) == rows(everything.to_arrow())


def test_unfiltered_rows_need_no_condition(table):
    plan = table.plan("soundex(s) = 'a' AND x > 30")
    with pytest.raises(ss.UnsupportedForm, match=r"to_spark.*filter=False"):
        plan.to_arrow()
    whole = plan.to_arrow(filter=False)
    assert whole.num_rows == plan.sizes.scan.rows
    assert sum(batch.num_rows for batch in plan.to_batches(filter=False)) == whole.num_rows
    assert len(plan.to_pandas(filter=False)) == whole.num_rows


def test_a_stream_may_be_closed_in_one_of_its_own_threads():
    """An engine drops a stream wherever it next runs Python, such as where the stream decodes."""
    paused, closed = threading.Event(), threading.Event()

    def read(task):
        if task == 3:  # is read ahead
            paused.wait(60)
            rows.close()
            closed.set()
        return [task]

    rows = read_in_order(read, range(20), Track("reading", 20, "tasks"), workers=2)
    assert next(rows) == 0
    paused.set()
    assert closed.wait(10)
    assert list(rows) == []
