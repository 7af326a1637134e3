"""Iceberg deletes by position, equality and vector: live rows are read, certain ones counted."""

import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import skipstone as ss
from tests.support.tables.iceberg_deletes import SCHEMA
from tests.support.tables.iceberg_tables import (
    append,
    commit,
    data_file,
    deletion_vector,
    equality_deletes,
    make,
    position_deletes,
    with_ids,
)

ARROW = pa.schema([("x", pa.int64()), ("p", pa.string()), ("f", pa.float64())])


BY_P = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))


NAN = float("nan")


def rows(first, n, p="a", f=None):
    return pa.table(
        [list(range(first, first + n)), [p] * n, f or [float(i) for i in range(n)]], schema=ARROW
    )


def xs(plan):
    return sorted(plan.to_arrow().column("x").to_pylist())


@pytest.fixture
def table(tmp_path):
    """Three files of ten rows: x starts at 0, 10, 20; p is a, b, a."""
    source = make(tmp_path, SCHEMA, BY_P)
    for k, p in enumerate("aba"):
        source = append(source, rows(k * 10, 10, p))
    return source


def path_of(source, x):
    return ss.scan_iceberg(source).plan(f"x = {x}").files[0]


def test_positions_in_one_file(table):
    source = position_deletes(table, [(path_of(table, 0), i) for i in (9, 0, 3, 3)], ("a",))
    t = ss.scan_iceberg(source)
    assert (
        xs(t.plan())
        == [x for x in range(30) if x not in (0, 3, 9)]
        == sorted(source.scan().to_arrow().column("x").to_pylist())
    )
    assert (
        t.files.logical_rows().tolist() == [10, 10, -1]
        and t.plan().sizes.total.rows == 30
        and t.plan().sizes.total.logical_rows is None
    )
    # Rows that are not certainly live do not count for a limit, and are counted by reading.
    plan = t.plan("x < 100", limit=5)
    assert plan.cut.reached and len(plan.files) == 1 and plan.files[0] != path_of(table, 0)
    assert (
        t.plan("x < 100").count() == 27
        and t.plan("x >= 0 AND x < 10").count() == 7
        and t.plan("x = 3").to_arrow().num_rows == 0
    )


def test_positions_of_several_files(table):
    source = position_deletes(
        table, [(path_of(table, 0), 1), (path_of(table, 20), 2)], ("a",), bounds=False
    )
    t = ss.scan_iceberg(source)
    assert (
        xs(t.plan())
        == [x for x in range(30) if x not in (1, 22)]
        == sorted(source.scan().to_arrow().column("x").to_pylist())
    )
    known = dict(zip(t.all_files, t.files.logical_rows().tolist(), strict=True))
    assert (
        known[path_of(table, 10)] == 10
        and known[path_of(table, 0)] == known[path_of(table, 20)] == -1
    )  # another partition's are not touched


def test_deletes_apply_to_older_files_only(table):
    source = position_deletes(table, [(path_of(table, 0), 1)], ("a",), bounds=False)
    source = append(source, rows(30, 10))
    t = ss.scan_iceberg(source)
    known = dict(zip(t.all_files, t.files.logical_rows().tolist(), strict=True))
    assert (
        known[path_of(source, 30)] == 10
        and known[path_of(source, 0)] == -1
        and len(xs(t.plan())) == 39
    )


def test_manifests_of_deletes_are_pruned(table):
    source = position_deletes(table, [(path_of(table, 0), 1)], ("a",))
    t = ss.scan_iceberg(source)
    assert xs(t.plan("p = 'b'")) == list(range(10, 20)) and (
        t.manifests_read,
        t.manifests_pruned,
    ) == (1, 3)
    assert xs(t.plan("p = 'a' AND x < 5")) == [0, 2, 3, 4] and t.manifests_read == 3


def test_equality(table):
    old = table
    source = equality_deletes(old, pa.table({"x": [3, 12, 500]}), [1], ("a",))
    source = append(source, rows(0, 10))
    t = ss.scan_iceberg(source)
    # The delete applies to older files of partition a; how many rows it matches is unknown.
    assert xs(t.plan()) == sorted([x for x in range(30) if x != 3] + list(range(10)))
    assert sorted(t.files.logical_rows().tolist()) == [-1, -1, 10, 10]
    assert t.plan("x >= 0").count() == 39 and t.plan("x = 3").count() == 1
    assert len(t.plan("x >= 0", limit=15).files) == 2


def test_equality_everywhere(tmp_path):
    source = make(tmp_path, SCHEMA)
    source = append(source, rows(0, 4, f=[1.0, None, NAN, -0.0]))
    source = equality_deletes(
        source, pa.table({"f": [None, NAN, 7.0]}, schema=pa.schema([("f", pa.float64())])), [3]
    )
    t = ss.scan_iceberg(source)
    assert xs(t.plan()) == [0, 3] and t.files.logical_rows().tolist() == [-1]
    assert xs(t.plan("f IS NULL OR isnan(f)")) == []
    both = equality_deletes(source, pa.table({"x": [0, 3], "f": [1.0, 5.0]}), [1, 3])
    assert xs(ss.scan_iceberg(both).plan()) == [3]
    # The compared columns need not be requested.
    assert ss.scan_iceberg(both).plan(columns=["p"]).to_arrow().to_pylist() == [{"p": "a"}]


def test_equality_by_columns_that_changed(tmp_path):
    """Columns are compared by id: renamed, promoted, dropped, or missing in the file."""
    kinds = Schema(
        NestedField(1, "x", IntegerType()),
        NestedField(2, "gone", StringType()),
        NestedField(3, "st", StructType(NestedField(4, "a", IntegerType()))),
    )
    source = make(tmp_path, kinds)
    schema = pa.schema(
        [("x", pa.int32()), ("gone", pa.string()), ("st", pa.struct([("a", pa.int32())]))]
    )
    source.append(
        pa.table(
            [[1, 2, 3, 4], ["u", "v", "w", None], [{"a": 1}, {"a": 2}, None, {"a": None}]],
            schema=schema,
        )
    )
    source = equality_deletes(source.refresh(), pa.table({"x": pa.array([1], pa.int32())}), [1])
    source = equality_deletes(source, pa.table({"gone": ["v"]}), [2])
    with source.update_schema() as update:
        update.rename_column("x", "y")
        update.update_column("x", LongType())
        update.delete_column("gone")
        update.add_column("new", LongType())
    source = source.refresh()
    t = ss.scan_iceberg(source)
    assert t.plan().to_arrow().column("y").to_pylist() == [3, 4] and t.schema.names == [
        "y",
        "st",
        "new",
    ]
    gone = equality_deletes(
        source,
        pa.table({"new": pa.array([None], pa.int64())}),
        [source.schema().find_field("new").field_id],
    )
    assert (
        ss.scan_iceberg(gone).plan().to_arrow().num_rows == 0
    )  # the file lacks the column, so it is NULL


def test_vectors(table):
    target = path_of(table, 10)
    t = ss.scan_iceberg(deletion_vector(table, target, [0, 9, 4], ("b",)))
    assert xs(t.plan()) == [x for x in range(30) if x not in (10, 14, 19)]
    assert sorted(t.files.logical_rows().tolist()) == [
        7,
        10,
        10,
    ]  # exact: a vector has a cardinality
    assert t.plan("x >= 10 AND x < 20").count() == 7 and t.plan().sizes.scan.logical_rows == 27
    assert (
        t.plan("p = 'b'", limit=8).cut.reached is False and t.plan("p = 'b'", limit=7).cut.reached
    )


@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("vector_first", [True, False])
def test_vectors_replace_position_deletes(vector_first, bounds, table):
    """The vector of a file holds all of its position deletes; any others are ignored, as in Spark.

    Deletes by equality still apply.
    """
    source, target = table, path_of(table, 0)
    for is_vector in (vector_first, not vector_first):
        if is_vector:
            source = deletion_vector(source, target, [1, 4], ("a",))
        else:
            rows_of_both = [(target, 0), (target, 1), (path_of(table, 20), 7)]
            some = rows_of_both[:2] if bounds else rows_of_both
            source = position_deletes(source, some, ("a",), bounds=bounds)
    others = {1, 4} if bounds else {1, 4, 27}
    t = ss.scan_iceberg(source)
    assert xs(t.plan()) == [x for x in range(30) if x not in others]
    assert xs(t.plan("x < 5")) == [0, 2, 3] and t.plan("x < 5").count() == 3
    known = dict(zip(t.all_files, t.files.logical_rows().tolist(), strict=True))
    assert known[target] == 8
    t = ss.scan_iceberg(equality_deletes(source, pa.table({"x": [2]}), [1], ("a",)))
    assert xs(t.plan()) == [x for x in range(30) if x not in {2, *others}]


def test_a_file_whose_rows_are_all_deleted(table):
    target = path_of(table, 10)
    t = ss.scan_iceberg(deletion_vector(table, target, list(range(10)), ("b",)))
    assert (
        len(t.plan("x >= 0").files) == 2
        and target not in t.plan("x >= 0").files
        and t.plan("x = 12").files == ()
    )


def test_damaged_vectors(table):
    import glob

    source = deletion_vector(table, path_of(table, 10), [0, 9, 4], ("b",))
    (path,) = glob.glob(f"{source.location().removeprefix('file://')}/data/*.puffin")
    with open(path, "r+b") as f:
        f.seek(20)
        f.write(b"\xff")
    with pytest.raises(ss.SourceError, match="deletion vector"):
        ss.scan_iceberg(source).plan("x = 11").to_arrow()
    assert xs(ss.scan_iceberg(source).plan("x = 5")) == [5]


def test_removed_files(table):
    """Entries of removed files are skipped, wherever they stand."""
    gone = path_of(table, 10)
    current = table.current_snapshot().manifests(table.io)
    entry = next(
        e
        for m in current
        for e in m.fetch_manifest_entry(table.io)
        if e.data_file.file_path == gone
    )
    fresh = data_file(
        "/nowhere.parquet",
        ("b",),
        5,
        lower_bounds={1: (900).to_bytes(8, "little")},
        upper_bounds={1: (901).to_bytes(8, "little")},
    )
    source = commit(
        table,
        [entry.data_file, fresh],
        statuses=[ManifestEntryStatus.DELETED, ManifestEntryStatus.ADDED],
    )
    t = ss.scan_iceberg(source)
    assert t.num_files == 4 and t.plan("x = 900").files == ("/nowhere.parquet",)


@pytest.mark.parametrize("columns", [None, ["x"], ["p"], ["f"], ["x", "p"]])
@pytest.mark.parametrize("where", [None, "x > 0", "p = 'a'"])
def test_equality_by_a_partition_that_the_file_lacks(where, columns, tmp_path):
    """Files of a Hive table that were added lack it. Whether it is requested changes no row."""
    source, path = make(tmp_path, SCHEMA, BY_P), f"{tmp_path}/added.parquet"
    pq.write_table(pa.table([[1, 2, 3]], schema=with_ids([("x", pa.int64(), 1)])), path)
    source = commit(source, [data_file(path, ("a",), 3)])
    deleted = pa.table({"x": [2, 3], "p": ["a", "b"]})
    table = ss.scan_iceberg(equality_deletes(source, deleted, [1, 2], ("a",)))
    expected = pa.table({"x": [1, 3], "p": ["a", "a"], "f": [None, None]}, schema=ARROW)
    found = table.plan(where, columns=columns).to_arrow()
    assert found.to_pylist() == expected.select(columns or ARROW.names).to_pylist()


@pytest.mark.parametrize("columns", [None, ["x"], ["p"]])
def test_equality_by_a_dropped_column_whose_name_is_used_again(columns, tmp_path):
    """Its values are NULL where a file lacks it, whatever the new column's partition says."""
    kinds = Schema(NestedField(1, "x", LongType()), NestedField(2, "p", StringType()))
    source, path = make(tmp_path, kinds), f"{tmp_path}/added.parquet"
    with source.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("p")
    with source.update_schema() as update:
        update.add_column("p", StringType())
    with source.update_spec() as update:
        update.add_identity("p")
    pq.write_table(pa.table([[1, 2, 3]], schema=with_ids([("x", pa.int64(), 1)])), path)
    source = commit(source.refresh(), [data_file(path, ("a",), 3)])
    for value, left in (("a", [1, 2, 3]), (None, [])):
        deleted = pa.table({"p": pa.array([value], pa.string())})
        source = equality_deletes(source, deleted, [2], ("a",))
        found = ss.scan_iceberg(source).plan(columns=columns).to_arrow()
        expected = pa.table({"x": left, "p": ["a"] * len(left)})
        assert found.to_pylist() == expected.select(columns or ["x", "p"]).to_pylist()


def test_equality_by_fields_of_structs(tmp_path):
    """The compared field was dropped from a struct that is still read."""
    kinds = Schema(
        NestedField(
            1,
            "st",
            StructType(NestedField(2, "a", IntegerType()), NestedField(3, "b", IntegerType())),
        )
    )
    source = make(tmp_path, kinds)
    struct = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    source.append(
        pa.table(
            [[{"a": 1, "b": 10}, {"a": 2, "b": 20}, None, {"a": None, "b": 30}]],
            schema=pa.schema([("st", struct)]),
        )
    )
    path = f"{tmp_path}/deletes.parquet"
    b = pa.StructArray.from_arrays(
        [pa.array([20, 99], pa.int32())],
        fields=[pa.field("b", pa.int32(), metadata={"PARQUET:field_id": "3"})],
    )
    pq.write_table(
        pa.Table.from_arrays(
            [b], schema=pa.schema([pa.field("st", b.type, metadata={"PARQUET:field_id": "1"})])
        ),
        path,
    )
    source = commit(source.refresh(), [data_file(path, (), 2, 2, equality_ids=[3])], 1)
    with source.update_schema() as update:
        update.delete_column(("st", "b"))
    assert ss.scan_iceberg(source.refresh()).plan().to_arrow().column("st").to_pylist() == [
        {"a": 1},
        None,
        {"a": None},
    ]


def test_deletes_in_partitions_of_promoted_columns(tmp_path):
    """Partition values of the earlier, narrower types name the same partition."""
    kinds = Schema(
        NestedField(1, "i", IntegerType()),
        NestedField(2, "f", FloatType()),
        NestedField(3, "d", DecimalType(4, 1)),
    )
    spec = PartitionSpec(
        *(
            PartitionField(i, 999 + i, IdentityTransform(), n)
            for i, n in ((1, "i"), (2, "f"), (3, "d"))
        )
    )
    source = make(tmp_path, kinds, spec)
    values = [-3, 0.5, decimal.Decimal("-2.5")]
    schema = pa.schema([("i", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(4, 1))])
    source = append(source, pa.table([[v] * 3 for v in values], schema=schema))
    with source.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(20, 1))
    source = source.refresh()
    (path,) = ss.scan_iceberg(source).all_files
    t = ss.scan_iceberg(
        position_deletes(source, [(path, 0), ("/another", 5)], values, bounds=False)
    )
    assert t.plan(
        "f = 0.5 AND i = -3 AND d = -2.5"
    ).to_arrow().num_rows == 2 and t.files.logical_rows().tolist() == [-1]
