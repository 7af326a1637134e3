"""The table of `iceberg`: metadata and manifests of many files that do not exist."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

PER_MANIFEST: Final = 5_000
PER_BLOCK: Final = 100  # entries; some 64 KB, as Java's writers make blocks
DAYS: Final = 19_358  # 2023-01-01
NAMES: Final = ("id", "kind", "name", "day", "at", "share", "price", "open")


def make_table(folder: Path, n: int) -> str:
    """Write the metadata of a table of n files that do not exist; return its path."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import write_manifest_list
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.serializers import ToOutputFile
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.table.update import (
        AddSnapshotUpdate,
        SetSnapshotRefUpdate,
        update_table_metadata,
    )
    from pyiceberg.transforms import DayTransform
    from pyiceberg.types import NestedField

    (folder / "metadata").mkdir(parents=True)
    schema = Schema(
        *(
            NestedField(i + 1, name, kind)
            for i, (name, kind) in enumerate(zip(NAMES, _types(), strict=True))
        )
    )
    spec = PartitionSpec(PartitionField(4, 1000, DayTransform(), "day_day"))
    io, number = PyArrowFileIO(), 1
    metadata = new_table_metadata(
        schema, spec, UNSORTED_SORT_ORDER, str(folder), {"format-version": "2"}
    )
    manifests = [
        _manifest(folder, io, schema, metadata.spec(), first, min(first + PER_MANIFEST, n))
        for first in range(0, n, PER_MANIFEST)
    ]
    listed = str(folder / "metadata" / "snap.avro")
    with write_manifest_list(2, io.new_output(listed), number, None, number, "deflate") as writer:
        writer.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=number,
        sequence_number=number,
        manifest_list=listed,
        schema_id=0,
        summary=Summary(operation=Operation.APPEND),
    )
    ref = SetSnapshotRefUpdate(snapshot_id=number, ref_name="main", type="branch")
    path = str(folder / "metadata" / "00001.metadata.json")
    ToOutputFile.table_metadata(
        update_table_metadata(metadata, (AddSnapshotUpdate(snapshot=snapshot), ref)),
        io.new_output(path),
    )
    return path


def _types() -> tuple[Any, ...]:
    """Return the types of the columns, in the order of `NAMES`."""
    from pyiceberg.types import (
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        IntegerType,
        LongType,
        StringType,
        TimestampType,
    )

    return (
        LongType(),
        IntegerType(),
        StringType(),
        DateType(),
        TimestampType(),
        DoubleType(),
        DecimalType(12, 2),
        BooleanType(),
    )


def _manifest(folder: Path, io: Any, schema: Any, spec: Any, first: int, stop: int) -> Any:
    """Write a manifest of the files [first, stop) by pyiceberg, with many entries in a block."""
    from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestWriterV2

    class Writer(ManifestWriterV2):  # type: ignore[misc]
        def new_writer(self) -> Any:
            writer, waiting = super().new_writer(), []
            write = writer.write_block

            def write_block(entries: Any) -> None:
                waiting.extend(entries)
                if len(waiting) == PER_BLOCK or len(self._partitions) == stop - first:
                    write(list(waiting))
                    waiting.clear()

            writer.write_block = write_block
            return writer

    with Writer(
        spec, schema, io.new_output(str(folder / "metadata" / f"m{first:08}.avro")), 1, "deflate"
    ) as writer:
        for file in itertools.islice(_files(folder, first), stop - first):
            writer.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=file
                )
            )
    return writer.to_manifest_file()


def _files(folder: Path, first: int) -> Iterator[Any]:
    """Yield data files from number `first` on, with ascending days and ids."""
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    kinds = _types()
    for i in itertools.count(first):
        day = DAYS + i // 1000
        midnight = dt.datetime(2023, 1, 1) + dt.timedelta(days=day - DAYS)
        low = (
            i * 500,
            i % 50,
            f"n{i:07}a",
            day,
            midnight,
            i / 7,
            decimal.Decimal(i * 100 + 1).scaleb(-2),
            False,
        )
        high = (
            i * 500 + 499,
            i % 50 + 3,
            f"n{i:07}z",
            day,
            midnight + dt.timedelta(hours=23),
            i / 7 + 1,
            decimal.Decimal(i * 100 + 99).scaleb(-2),
            True,
        )
        bounds = [
            {
                c + 1: to_bytes(kind, v)
                for c, (kind, v) in enumerate(zip(kinds, values, strict=True))
            }
            for values in (low, high)
        ]
        yield DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{folder}/data/day_day={day}/"
            f"00000-{i}-0d0c4f5e-9a3b-4a57-9f3e-2a1f6b7c8d9e.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(day),
            record_count=500,
            file_size_in_bytes=20_000 + i % 977,
            column_sizes=dict.fromkeys(range(1, 9), 2000 + i % 100),
            value_counts=dict.fromkeys(range(1, 9), 500),
            null_value_counts={c: i % 3 if c > 4 else 0 for c in range(1, 9)},
            nan_value_counts={6: 0},
            lower_bounds=bounds[0],
            upper_bounds=bounds[1],
            key_metadata=None,
            split_offsets=[4],
            equality_ids=None,
            sort_order_id=0,
        )
