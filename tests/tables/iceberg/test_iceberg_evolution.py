"""Iceberg tables whose schema or partition spec changed."""

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    TruncateTransform,
)
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
from tests.support.tables.iceberg_kinds import IDS, SCHEMA, nulls_but, rows_of, spec_of
from tests.support.tables.iceberg_tables import append, commit, data_file, make


def test_partition_evolution(tmp_path):
    """Each manifest is judged by the spec of its files."""
    source = make(tmp_path, SCHEMA)
    source = append(source, nulls_but(2, l=[1, 2], s=["a", "b"]))
    with source.update_spec() as update:
        update.add_field("s", IdentityTransform(), "s")
    source = append(source.refresh(), nulls_but(2, l=[3, 4], s=["a", "c"]))
    with source.update_spec() as update:
        update.remove_field("s")
        update.add_field("l", BucketTransform(4), "l_bucket")
    source = append(source.refresh(), nulls_but(3, l=[5, 6, 7], s=["c", "d", None]))
    table = ss.scan_iceberg(source)
    assert table.partition_columns == ()
    for where, rows in {
        "s = 'c'": 2,
        "l = 6": 1,
        "s = 'a' AND l > 1": 1,
        "s IS NULL": 1,
        "s <> 'a'": 4,
    }.items():
        plan = table.plan(where)
        assert plan.to_arrow().num_rows == plan.unpruned().to_arrow().num_rows == rows, where
        theirs = {
            f.file.file_path for f in source.scan(row_filter=where.replace("<>", "!=")).plan_files()
        }
        assert set(plan.files) <= theirs | {p for p in plan.files if where == "s <> 'a'"}
    assert len(table.plan("l = 6").files) == 1


def test_files_of_one_schema_are_read_together_though_a_column_partitions_some(tmp_path):
    for first in (True, False):  # the files in which the column is stored come first, or last
        source = make(tmp_path / str(first), SCHEMA)
        for partitions in (not first, first):
            with source.update_spec() as update:
                if partitions:
                    update.add_field("s", IdentityTransform(), "s")
                elif source.spec().fields:
                    update.remove_field("s")
            rows = nulls_but(4, l=[1, 2, 3, 4], s=["a", "b", "a", None])
            source = append(source.refresh(), rows, per_file=2)
        table = ss.scan_iceberg(source)
        for where, count in {"s <> 'z'": 6, "l > 1 AND s = 'a'": 2, "s IS NULL": 2}.items():
            plan = table.plan(where)
            assert plan.to_arrow().num_rows == plan.count() == count, (first, where)


def test_schema_evolution(tmp_path):
    """Columns are identified by id: renamed, dropped, added again by their old name, promoted."""
    kinds = Schema(
        NestedField(1, "a", IntegerType()),
        NestedField(2, "b", StringType()),
        NestedField(3, "f", FloatType()),
        NestedField(4, "d", DecimalType(5, 2)),
        NestedField(
            5,
            "st",
            StructType(NestedField(6, "x", IntegerType()), NestedField(7, "y", StringType())),
        ),
    )
    source = make(tmp_path, kinds)
    struct = pa.struct([("x", pa.int32()), ("y", pa.string())])
    schema = pa.schema(
        [
            ("a", pa.int32()),
            ("b", pa.string()),
            ("f", pa.float32()),
            ("d", pa.decimal128(5, 2)),
            ("st", struct),
        ]
    )
    old = [
        [1, 2, None],
        ["p", "q", None],
        [0.1, 2.5, None],
        [decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")],
        [{"x": 1, "y": "u"}, None, {"x": None, "y": "v"}],
    ]
    source.append(pa.table(old, schema=schema))
    with source.update_schema() as update:
        update.rename_column("b", "name")
        update.update_column("a", LongType())
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(12, 2))
        update.rename_column(("st", "x"), "z")
        update.update_column(("st", "x"), LongType())
        update.delete_column(("st", "y"))
    with source.update_schema() as update:
        update.add_column("b", IntegerType())
        update.add_column(("st", "y"), IntegerType())
    table = ss.scan_iceberg(source.refresh())
    expected = source.scan().to_arrow().cast(table.schema)
    assert rows_of(table.plan().to_arrow()) == rows_of(expected)
    source.append(
        pa.table(
            [
                [2**40, 2],
                ["p", "r"],
                [0.1, 2.5],
                [decimal.Decimal("1.25"), None],
                [7, None],
                [{"z": 2**35, "y": 5}, None],
            ],
            schema=pa.schema(
                [
                    ("a", pa.int64()),
                    ("name", pa.string()),
                    ("f", pa.float64()),
                    ("d", pa.decimal128(12, 2)),
                    ("b", pa.int32()),
                    ("st", pa.struct([("z", pa.int64()), ("y", pa.int32())])),
                ]
            ),
        ).select(["a", "name", "f", "d", "st", "b"])
    )
    table = ss.scan_iceberg(source.refresh())
    files = table.all_files
    assert table.schema.field("a").type == pa.int64() and table.schema.field(
        "d"
    ).type == pa.decimal128(12, 2)
    cases = {
        "a = 1": (1, [files[1]]),
        "a > 2147483647": (1, [files[0]]),
        "name = 'q'": (1, list(files)),
        "name > 'q'": (1, [files[0]]),
        "b = 7": (1, list(files)),  # a file without the column has no statistics of it
        "b IS NULL": (4, list(files)),
        "b IS NOT NULL": (1, list(files)),
        "f = 0.1D": (1, [files[0]]),  # FLOAT 0.1 is another number
        "d = 1.25": (2, list(files)),
        "d < 0": (1, [files[1]]),
        "st.z > 100": (1, list(files)),
        "st.y = 5": (1, list(files)),
        "st.z = 1": (1, list(files)),
    }
    for where, (rows, kept) in cases.items():
        plan = table.plan(where)
        assert plan.to_arrow().num_rows == plan.unpruned().to_arrow().num_rows == rows, where
        assert set(plan.files) <= set(kept), where
    # The first snapshot has its own schema.
    first = ss.scan_iceberg(source, source.snapshots()[0].snapshot_id)
    assert (
        first.schema.names == ["a", "b", "f", "d", "st"]
        and first.plan("b = 'q'").to_arrow().num_rows == 1
    )


def test_imported_files(tmp_path):
    """Files without ids use the table's name mapping; they may lack the partition's column."""
    kinds = Schema(
        NestedField(1, "x", LongType()),
        NestedField(2, "p", StringType()),
        NestedField(3, "st", StructType(NestedField(4, "a", IntegerType()))),
    )
    source = make(tmp_path, kinds)
    path = str(tmp_path / "own.parquet")
    pq.write_table(
        pa.table(
            {
                "st": pa.array([{"a": 5}, None], pa.struct([("a", pa.int32())])),
                "x": [1, 2],
                "p": ["u", "v"],
            }
        ),
        path,
    )
    source.add_files([path])
    table = ss.scan_iceberg(source.refresh())
    assert (
        table.plan("x = 2").to_arrow().to_pylist() == [{"x": 2, "p": "v", "st": None}]
        and table.plan("st.a = 5").count() == 1
    )
    assert table.plan("x = 3").files == ()


def imported(folder):
    """Return a table of two imported files without ids."""
    struct = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    kinds = StructType(NestedField(4, "a", LongType()), NestedField(5, "b", LongType()))
    source = make(
        folder,
        Schema(
            NestedField(1, "x", LongType()),
            NestedField(2, "y", LongType()),
            NestedField(3, "st", kinds),
        ),
    )
    paths = [str(folder / f"{k}.parquet") for k in range(2)]
    for k, path in enumerate(paths):
        st = pa.array([{"a": k, "b": 100 + k}], struct)
        pq.write_table(pa.table({"x": [k], "y": [100 + k], "st": st}), path)
    source.add_files(paths)
    return source.refresh()


def renamed(source, *names):
    for old, new in names:
        with source.update_schema() as update:
            update.rename_column(old, new)
        source = source.refresh()
    return source


def test_statistics_of_files_whose_columns_are_found_by_other_names(tmp_path):
    """A name that is given to another column leads to that one, in files without ids."""
    swapped = imported(tmp_path / "swapped")
    swapped = renamed(swapped, ("x", "z"), ("y", "x"), ("z", "y"))
    swapped = renamed(swapped, ("st.a", "c"), ("st.b", "a"), ("st.c", "b"))
    table = ss.scan_iceberg(swapped)
    assert table.plan("y = 101").to_arrow().to_pylist() == [
        {"y": 101, "x": 1, "st": {"b": 101, "a": 1}}
    ]
    assert table.plan("coalesce(x, 7) = 0 AND st.a < 100 AND st.b >= 100").count() == 1
    assert table.plan("x > 99 OR st.a > 99").count() == 0
    taken = renamed(imported(tmp_path / "taken"), ("x", "z"), ("st", "old"))
    with taken.update_schema() as update:
        update.add_column("x", LongType())
        update.add_column("st", StructType(NestedField(9, "a", LongType())))
    table = ss.scan_iceberg(taken.refresh())
    assert table.plan("z IS NULL AND old.a IS NULL AND x < 1 AND st.a = 0").count() == 1
    # Names that lead to the same columns as before change nothing.
    table = ss.scan_iceberg(renamed(imported(tmp_path / "renamed"), ("x", "z"), ("st.a", "c")))
    assert len(table.plan("z = 0").files) == 1 and table.plan("st.c IS NULL").files == ()


def test_partitions_of_promoted_columns(tmp_path):
    """Hashes of a promoted column are those of its earlier type; truncated values are not used."""
    source = make(
        tmp_path,
        SCHEMA,
        spec_of(
            [("i", BucketTransform(4)), ("f", IdentityTransform()), ("d", TruncateTransform(100))]
        ),
    )
    source = append(
        source,
        nulls_but(
            4, i=[1, 2, 3, None], f=[0.1, 0.5, None, np.nan], d=[decimal.Decimal("1.00")] * 4
        ),
    )
    with source.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(18, 2))
    source = source.refresh()
    table = ss.scan_iceberg(source)
    assert table.partition_columns == ("f",)
    for where, rows in {
        "i = 2": 1,
        "f = 0.5": 1,
        "f = 0.1D": 0,
        "f > 100": 1,
        "f IS NULL": 1,
        "d = 1.00": 4,
        "d = 5.00": 0,
        "i IS NULL": 1,
    }.items():
        plan = table.plan(where)
        assert plan.to_arrow().num_rows == plan.unpruned().to_arrow().num_rows == rows and len(
            plan.files
        ) == (rows if rows < 4 else 4), where


def test_fields_without_a_column(tmp_path):
    """Partition fields that were removed (void ones in version 1), and dropped columns."""
    source = make(tmp_path, SCHEMA, spec_of([("s", IdentityTransform())]), format_version="1")
    source = append(source, nulls_but(2, i=[1, 2], s=["a", "b"]))
    with source.update_spec() as update:
        update.remove_field("s_identity")
    source = append(source.refresh(), nulls_but(2, i=[3, 4], s=["a", None]))
    table = ss.scan_iceberg(source)
    assert (
        table.plan("s = 'a'").to_arrow().num_rows == 2
        and table.plan("s IS NULL").to_arrow().num_rows == 1
        and len(table.plan("s = 'b'").files) == 1
    )
    with source.update_schema() as update:
        update.delete_column("s")
    table = ss.scan_iceberg(source.refresh())
    assert len(table.plan("i = 3").files) == 1 and table.plan().to_arrow().num_rows == 4


def test_unknown_transforms(tmp_path):
    """Unknown transforms bound nothing, whatever the manifests hold."""
    fields = PartitionSpec(
        PartitionField(IDS["l"], 1000, BucketTransform(7), "l_z"),
        PartitionField(IDS["i"], 1001, IdentityTransform(), "i"),
    )
    source = commit(
        make(tmp_path, SCHEMA, fields), [data_file("/a", (1, 5)), data_file("/b", (None, 6))]
    )
    path = tmp_path / "odd.metadata.json"
    with open(source.metadata_location.removeprefix("file://")) as f:
        path.write_text(f.read().replace("bucket[7]", "zigzag[7]"))
    table = ss.scan_iceberg(path)
    assert (
        table.plan("l = 3").files == ("/a", "/b")
        and table.plan("i = 5 AND l = 3").files == ("/a",)
        and table.plan("l IS NULL").files == ("/a", "/b")
    )
    assert len(ss.scan_iceberg(source).plan("l IS NULL").files) == 1
