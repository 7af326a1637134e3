"""A dataset has the rows of the kept containers, or says in one line why it cannot have them."""

import datetime as dt
import pickle

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables.formats import FORMATS
from tests.support.tables.parquet_cases import LEGACY

WHERE = {
    "everything": None,
    "some rows": "x > 11 AND s < 'h'",
    "a partition": "k = 'b'",
    "no row": "x > 1000",
    "NaN": "f > 1e300",
}
FILTERS = {
    "none": None,
    "numbers": pc.field("x") > 20,
    "a partition": pc.field("k") == "a",
    "both": (pc.field("k") == "b") & (pc.field("x") < 30),
    "NULL": pc.field("s").is_null(),
}


def rows(table):
    return sorted(map(repr, table.to_pylist()))


@pytest.fixture(params=FORMATS)
def table(request, tmp_path):
    return FORMATS[request.param](tmp_path / "t")


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_a_dataset_has_the_rows_of_the_kept_containers(table, where):
    plan = table.plan(where)
    found, expected = plan.to_dataset(), plan.to_arrow(filter=False)
    assert isinstance(found, ds.Dataset) and found.schema.equals(plan.schema)
    assert found.count_rows() == expected.num_rows
    for condition in FILTERS.values():
        wanted = expected if condition is None else expected.filter(condition)
        assert rows(found.to_table(filter=condition)) == rows(wanted)
        some = found.to_table(["k", "x"], filter=condition)
        assert rows(some) == rows(wanted.select(["k", "x"]))
    again = pickle.loads(pickle.dumps(found))
    assert rows(again.to_table()) == rows(expected)
    assert again.count_rows() == expected.num_rows
    assert again.replace_schema(again.schema).count_rows() == expected.num_rows
    assert again.count_rows(pc.field("x") > 20) == expected.filter(pc.field("x") > 20).num_rows


def test_engines_read_a_dataset(table):
    plan = table.plan("x > 11")
    found = plan.to_dataset()
    got = duckdb.sql("SELECT * FROM found WHERE x > 11").to_arrow_table()
    assert rows(got) == rows(plan.to_arrow())
    assert len(found.to_table().to_pandas()) == plan.to_arrow(filter=False).num_rows


VALUES = {
    "integers": (["1", "-7"], pa.int32()),
    "texts": (["a b", "__HIVE_DEFAULT_PARTITION__", ""], pa.string()),
    "days": (["2024-02-29", "__HIVE_DEFAULT_PARTITION__"], pa.date32()),
    "times": (["2024-02-29 01%3A02%3A03"], pa.timestamp("us", "UTC")),
    "decimals": (["1.50"], pa.decimal128(5, 2)),
    "floats": (["1.5", "-0.0", "Infinity"], pa.float64()),
    "truths": (["true", "false"], pa.bool_()),
}


@pytest.mark.parametrize(("texts", "kind"), VALUES.values(), ids=VALUES)
def test_partition_values_keep_their_types(tmp_path, texts, kind):
    for text in filter(None, texts):
        (tmp_path / f"k={text}").mkdir()
        pq.write_table(pa.table({"x": [1, 2]}), tmp_path / f"k={text}" / "0.parquet")
    plan = ss.scan_parquet(tmp_path, partition_schema={"k": kind}).plan()
    found, expected = plan.to_dataset(), plan.to_arrow()
    assert found.schema.field("k").type == kind
    assert rows(found.to_table()) == rows(expected)
    for value in set(expected["k"].to_pylist()) - {None}:
        condition = pc.field("k") == pa.scalar(value, kind)
        assert rows(found.to_table(filter=condition)) == rows(expected.filter(condition))
    condition = pc.field("k").is_null()
    assert rows(found.to_table(filter=condition)) == rows(expected.filter(condition))


def write(table, **options):
    return lambda path: pq.write_table(table, path / "0.parquet", **options)


def int96(path):
    times = pa.table({"t": pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us"))})
    pq.write_table(times, path / "0.parquet", use_deprecated_int96_timestamps=True)


def two(first, second):
    def make(path):
        pq.write_table(first, path / "0.parquet")
        pq.write_table(second, path / "1.parquet")

    return make


def folder(name, table):
    def make(path):
        (path / name).mkdir()
        pq.write_table(table, path / name / "0.parquet")

    return make


ONE = pa.table({"x": pa.array([1], pa.int32())})
OTHERS = {
    "INT96": (int96, "INT96"),
    "lists": (write(pa.table({"l": [[1, 2], [3]]})), "Arrow leaves out"),
    "days in the Julian calendar": (
        write(pa.table({"d": [dt.date(1500, 1, 1)]}).replace_schema_metadata(LEGACY)), "Julian"
    ),
    "a wider type": (two(ONE, ONE.cast(pa.schema([("x", pa.int64())]))), "is int64 in the table"),
    "another case": (two(ONE, ONE.rename_columns(["X"])), "is the file's column X"),
    "NaN": (folder("k=NaN", ONE), "NaN"),
    "the partition's column": (
        folder("k=1", ONE.append_column("k", pa.array([5], pa.int32()))), "not the partition"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "why"), OTHERS.values(), ids=OTHERS)
def test_what_a_dataset_cannot_say_is_refused(tmp_path, make, why):
    make(tmp_path)
    types = {"k": pa.float64()} if list(tmp_path.glob("k=NaN")) else None
    plan = ss.scan_parquet(tmp_path, partition_schema=types).plan()
    with pytest.raises(ss.UnsupportedForm, match=why) as error:
        plan.to_dataset()
    assert "\n" not in str(error.value) and "to_arrow()" in str(error.value)
    assert pa.table(plan).num_rows == plan.to_arrow().num_rows > 0


def test_an_absent_column_is_null(tmp_path):
    two(ONE, ONE.append_column("y", pa.array(["a"])))(tmp_path)
    plan = ss.scan_parquet(tmp_path).plan()
    assert rows(plan.to_dataset().to_table()) == rows(plan.to_arrow())


def test_other_columns_do_not_matter(tmp_path):
    write(ONE.append_column("l", pa.array([[1]])))(tmp_path)
    assert ss.scan_parquet(tmp_path).plan(columns=["x"]).to_dataset().to_table() == ONE


def test_a_replaced_file_is_noticed(tmp_path):
    write(ONE)(tmp_path)
    plan = ss.scan_parquet(tmp_path).plan()
    write(pa.concat_tables([ONE] * 1000))(tmp_path)
    with pytest.raises(ss.StaleFile):
        plan.to_dataset()


def test_deleted_rows_of_delta_are_refused(tmp_path):
    from tests.support.tables.delta_log import Written, simple

    log = simple(tmp_path / "t", 2)
    plan = ss.scan_delta(log.folder).plan()
    assert rows(plan.to_dataset().to_table()) == rows(plan.to_arrow())
    log.add(Written([{"x": 1, "s": "a"}, {"x": 100, "s": "b"}], dead=[1]))
    with pytest.raises(ss.UnsupportedForm, match="deleted"):
        ss.scan_delta(log.folder).plan().to_dataset()
    assert ss.scan_delta(log.folder).plan("x < 0").to_dataset().count_rows() == 0


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_of_delta_are_refused(tmp_path, mode):
    from tests.support.tables.delta_log import simple

    log = simple(tmp_path / "t", 1, mapping=mode)
    with pytest.raises(ss.UnsupportedForm, match=f"mapped by {mode}"):
        ss.scan_delta(log.folder).plan().to_dataset()


def test_evolved_iceberg_tables_are_refused(tmp_path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.schema import Schema
    from pyiceberg.types import IntegerType, LongType, NestedField, StringType

    from tests.support.tables.iceberg_tables import append, make

    schema = Schema(NestedField(1, "x", IntegerType()), NestedField(2, "s", StringType()))
    table = make(tmp_path, schema)
    append(table, pa.table({"x": pa.array(np.arange(3, dtype=np.int32)), "s": ["a", "b", "c"]}))

    def dataset(**arguments):
        table.refresh()
        plan = ss.scan_iceberg(table).plan(**arguments)
        assert pa.table(plan) == plan.to_arrow()
        found = plan.to_dataset()
        assert rows(found.to_table()) == rows(plan.to_arrow())
        return found

    dataset()
    with table.update_schema() as change:
        change.add_column("y", LongType())
    assert dataset().to_table()["y"].null_count == 3
    with table.update_schema() as change:
        change.rename_column("s", "t")
    with pytest.raises(ss.UnsupportedForm, match="another name"):
        dataset()
    dataset(columns=["x", "y"])
    with table.update_schema() as change:
        change.delete_column("t")
    with table.update_schema() as change:
        change.add_column("s", StringType())
    with pytest.raises(ss.UnsupportedForm, match="another name"):
        dataset()
    with table.update_schema() as change:
        change.update_column("x", LongType())
    with pytest.raises(ss.UnsupportedForm, match="of type int32 is int64"):
        dataset(columns=["x"])


def test_deleted_rows_of_iceberg_are_refused(tmp_path):
    from tests.support.tables.iceberg_tables import position_deletes

    scanned = FORMATS["iceberg"](tmp_path / "t")
    path = scanned.all_files[0]
    table = position_deletes(scanned.source, [(path, 1)], ("a",), bounds=False)
    plan = ss.scan_iceberg(table).plan()
    with pytest.raises(ss.UnsupportedForm, match="deleted"):
        plan.to_dataset()
    assert pa.table(plan).num_rows == scanned.plan().to_arrow().num_rows - 1
    assert ss.scan_iceberg(table).plan("k = 'b'").to_dataset().count_rows() > 0
