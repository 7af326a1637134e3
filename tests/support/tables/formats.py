"""The same rows as a table of every format: two partitions, several files and row groups."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss

NAN = float("nan")
N = 40
ROWS = pa.table({
    "x": pa.array([None if i % 7 == 3 else i for i in range(N)], pa.int64()),
    "f": pa.array([(None, NAN, -0.0, 0.0, 1.5 * i, -i)[i % 6] for i in range(N)], pa.float64()),
    "s": pa.array([None if i % 5 == 0 else f"{chr(97 + i // 4)}{i}" for i in range(N)]),
    "k": pa.array(["a" if i < N // 2 else "b" for i in range(N)]),
})  # fmt: skip
SIX = 6  # rows of a row group


def parquet(path):
    path.mkdir()
    for i, at in enumerate(range(0, N, N // 2)):
        pq.write_table(ROWS.slice(at, N // 2), path / f"{i}.parquet", row_group_size=SIX)
    return ss.scan_parquet(path)


def folders(path):
    for value in "ab":
        (path / f"k={value}").mkdir(parents=True)
        part = ROWS.filter(pc.equal(ROWS["k"], value)).drop_columns("k")
        pq.write_table(part, path / f"k={value}" / "part.parquet", row_group_size=SIX)
    return path


def partitioned(path):
    return ss.scan_parquet(folders(path))


def hive(path):
    return ss.scan_hive(folders(path))


def delta(path):
    deltalake = pytest.importorskip("deltalake")
    for at in range(0, N, N // 4):
        part = ROWS.slice(at, N // 4)
        deltalake.write_deltalake(path, part, partition_by="k", mode="append")
    return ss.scan_delta(path)


def iceberg(path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType, LongType, NestedField, StringType

    from tests.support.tables.iceberg_tables import append, make

    columns = (
        NestedField(1, "x", LongType()),
        NestedField(2, "f", DoubleType()),
        NestedField(3, "s", StringType()),
        NestedField(4, "k", StringType()),
    )
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "k"))
    return ss.scan_iceberg(append(make(path, Schema(*columns), spec), ROWS))


FORMATS = {f.__name__: f for f in (parquet, partitioned, hive, delta, iceberg)}
