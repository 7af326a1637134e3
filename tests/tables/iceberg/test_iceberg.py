"""Plan and read Iceberg tables made by pyiceberg: manifests, snapshots, damage and odd counts."""

import datetime as dt
import struct
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    MonthTransform,
)
from pyiceberg.types import (
    LongType,
    NestedField,
)

import skipstone as ss
from tests.support.tables.iceberg_kinds import IDS, SCHEMA, nulls_but, spec_of
from tests.support.tables.iceberg_tables import append, commit, data_file, make


def test_empty_table(tmp_path):
    table = ss.scan_iceberg(make(tmp_path, SCHEMA))
    assert table.version is None and table.num_files == 0
    plan = table.plan("i = 5")
    assert (
        plan.files == ()
        and plan.to_arrow().num_rows == 0
        and plan.count() == 0
        and plan.sizes.total.files == 0
    )


def test_a_snapshot_without_manifests(tmp_path):
    """pyiceberg writes its manifest list as a block of no records."""
    source = make(tmp_path, SCHEMA)
    source.append(source.scan().to_arrow().slice(0, 0))
    table = ss.scan_iceberg(source)
    assert table.version is not None and table.num_files == 0
    assert table.plan("i = 5").to_arrow().num_rows == 0


def test_only_some_manifests_are_read(tmp_path):
    source = make(tmp_path, SCHEMA, spec_of([("day", MonthTransform())]))
    for month in range(1, 7):
        source = append(
            source,
            nulls_but(2, day=[dt.date(2023, month, 3), dt.date(2023, month, 9)], i=[month, month]),
        )
    table = ss.scan_iceberg(source)
    assert table.work["manifests"] == 0 and table.num_files == 6  # from the manifest list alone
    plan = table.plan("day >= '2023-05-09'")
    assert (table.manifests_read, table.manifests_pruned, table.work["manifests"]) == (
        2,
        4,
        2,
    ) and table.work.bytes > 0
    assert (
        len(plan.verdicts) == len(plan.files) == 2
        and plan.sizes.total.files == 6
        and plan.sizes.total.rows == 12
        and plan.sizes.partition.files == 2
    )
    assert (
        plan.to_arrow().column("i").to_pylist() == [6, 6, 5]
        and plan.unpruned().to_arrow().num_rows == 3
    )
    again = table.plan("day = '2023-06-03' AND i = 6")
    assert table.work["manifests"] == 6 and again.count() == 1  # `unpruned` has read all of them
    assert table.plan("i = 3").files and (table.manifests_read, table.work["manifests"]) == (6, 6)
    # A strict projection proves whole partitions, which then count for a limit.
    limited = table.plan("day >= '2023-03-01'", limit=3)
    assert limited.cut.reached and len(limited.files) == 2 and limited.to_arrow().num_rows == 3
    assert (
        table.plan("day >= '2023-03-01'").count() == 8
        and (table.plan("day >= '2023-03-01'").verdicts == 2).all()
    )
    assert table.plan("i = 3 AND day > '2020-01-01'", stats_skipping=False).sizes.scan.files == 6


def test_snapshots(tmp_path):
    source = make(tmp_path, SCHEMA)
    source = append(source, nulls_but(1, i=[1]))
    first = source.current_snapshot().snapshot_id
    source = append(source, nulls_but(1, i=[2]))
    assert ss.scan_iceberg(source, first).plan().to_arrow().column("i").to_pylist() == [1]
    assert ss.scan_iceberg(source.metadata_location, first).num_files == 1
    assert sorted(ss.scan_iceberg(source).plan().to_arrow().column("i").to_pylist()) == [1, 2]
    source.delete("i = 1")
    assert ss.scan_iceberg(source.refresh()).plan().to_arrow().column("i").to_pylist() == [2]
    with pytest.raises(ss.SourceError, match="no snapshot 5"):
        ss.scan_iceberg(source, 5)


@pytest.mark.parametrize("cut", [0, 3, 100, -1])
def test_damaged_manifests(tmp_path, cut):
    source = make(tmp_path, SCHEMA)
    for i in range(3):
        source = append(source, nulls_but(1, i=[i]))
    (listed, *_) = source.current_snapshot().manifests(source.io)
    place = listed.manifest_path.removeprefix("file://")
    with open(place, "rb") as f:
        data = f.read()
    with open(place, "wb") as f:
        f.write(data[:cut])
    table = ss.scan_iceberg(source.metadata_location)
    with pytest.raises(ss.SourceError, match=r"manifest"):
        table.plan("i = 1")


def test_missing_files(tmp_path):
    import os

    source = append(make(tmp_path, SCHEMA), nulls_but(1, i=[1]))
    table = ss.scan_iceberg(source)
    plan = table.plan("i = 1")
    os.remove(table.all_files[0].removeprefix("file://"))
    with pytest.raises(ss.SourceError, match=r"reading the file failed"):
        plan.to_arrow()
    source = append(source, nulls_but(1, i=[2]))
    os.remove(
        source.current_snapshot().manifests(source.io)[0].manifest_path.removeprefix("file://")
    )
    with pytest.raises(ss.SourceError, match=r"manifest cannot be read"):
        ss.scan_iceberg(source.metadata_location).plan("i = 1")
    os.remove(source.current_snapshot().manifest_list.removeprefix("file://"))
    with pytest.raises(ss.SourceError, match=r"manifest list cannot be read"):
        ss.scan_iceberg(source.metadata_location)


@pytest.mark.parametrize("what", ["list", "manifest", "data"])
def test_files_that_need_a_key(tmp_path, what):
    """Iceberg encrypts its own files as AES GCM streams; Parquet encrypts itself."""
    source = append(make(tmp_path, SCHEMA), nulls_but(1, i=[1]))
    snapshot = source.current_snapshot()
    match what:
        case "list":
            place = snapshot.manifest_list
        case "manifest":
            place = snapshot.manifests(source.io)[0].manifest_path
        case _:
            place = ss.scan_iceberg(source).all_files[0]
    path = place.removeprefix("file://")
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:-4] + b"PARE" if what == "data" else b"AGS1" + data[4:])
    with pytest.raises(ss.SourceError, match="encrypted"):
        ss.scan_iceberg(source.metadata_location).plan("i = 1").to_arrow()


def test_uuids(tmp_path):
    from pyiceberg.types import UUIDType

    source = make(
        tmp_path, Schema(NestedField(1, "u", UUIDType()), NestedField(2, "x", LongType()))
    )
    one = uuid.UUID(int=5)
    source.append(
        pa.table({"u": pa.array([one.bytes, None], pa.binary(16)).cast(pa.uuid()), "x": [1, 2]})
    )
    table = ss.scan_iceberg(source.refresh())
    assert table.plan(f"u = '{one}'").to_arrow().to_pylist() == [{"u": str(one), "x": 1}]
    assert table.plan("u IS NULL").count() == 1


def test_sort_order(tmp_path):
    from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder

    order = SortOrder(
        SortField(IDS["s"], IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
        SortField(IDS["l"], BucketTransform(4)),
    )
    lake = make(tmp_path, SCHEMA).catalog
    table = ss.scan_iceberg(lake.create_table("db.sorted", SCHEMA, sort_order=order))
    assert table.sort_order == (
        ("s", "identity", "desc", "nulls-last"),
        ("l", "bucket[4]", "asc", "nulls-first"),
    )
    assert ss.scan_iceberg(make(tmp_path, SCHEMA)).sort_order == ()


def test_many_threads(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    source = make(tmp_path, SCHEMA)
    for i in range(8):
        source = commit(
            source,
            [
                data_file(
                    f"/{i}-{k}",
                    lower_bounds={1: struct.pack("<i", i)},
                    upper_bounds={1: struct.pack("<i", i)},
                )
                for k in range(50)
            ],
        )
    table = ss.scan_iceberg(source)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: len(table.plan(f"i = {i % 8}").files), range(32)))
    assert found == [50] * 32


def test_counts_of_struct_fields_are_not_used(tmp_path):
    """Some writers do not count rows whose struct is NULL, so their NULL counts are not used."""
    kind = pa.struct([("a", pa.int64())])
    source = make(tmp_path, pa.schema([("s", kind)]))
    for rows in ([{"a": 1}, None, None], [{"a": 2}, {"a": 3}, {"a": 4}]):
        source = append(source, pa.table({"s": pa.array(rows, kind)}))
    table = ss.scan_iceberg(source)
    assert (table.files.null_counts(("s", "a")) == -1).all()
    plan = table.plan(order_by="s.a NULLS LAST", limit=3)
    assert [r["s"]["a"] for r in plan.to_arrow().to_pylist()] == [1, 2, 3]


@pytest.mark.parametrize("rows", [0, 2**62])
def test_an_impossible_row_count_is_unknown(tmp_path, rows):
    source = append(
        make(tmp_path, pa.schema([("i", pa.int32())])),
        pa.table({"i": pa.array([1, 2, 3], pa.int32())}),
    )
    (task,) = source.scan().plan_files()
    statistics = {
        "lower_bounds": {1: struct.pack("<i", 1)},
        "upper_bounds": {1: struct.pack("<i", 3)},
        "value_counts": {1: 3},
        "null_value_counts": {1: 0},
    }
    lying = commit(
        make(tmp_path, pa.schema([("i", pa.int32())])),
        [data_file(task.file.file_path, (), rows, **statistics), data_file("/none", (), 0)],
    )
    table = ss.scan_iceberg(lying)
    assert table.files.logical_rows().tolist() == [-1, 0]
    plan = table.plan("i = 2")
    assert (plan.verdicts.tolist(), plan.to_arrow().num_rows, plan.count()) == ([1, 0], 1, 1)
