"""`iceberg`: plan a table of 200,000 files from its manifests, compared with pyiceberg."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import skipstone as ss
from bench.report.measure import Timing, interleave
from bench.report.report import OWN, Options, Report, Requirement, WrongAnswer
from skipstone.bindings.tables.iceberg.manifest import forget

FILES: Final = 200_000
PER_MANIFEST: Final = 5_000
PER_BLOCK: Final = 100  # entries; some 64 KB, as Java's writers make blocks
DAYS: Final = 19_358  # 2023-01-01
PEER: Final = "pyiceberg"
# The conditions. The first two prune no manifest, the last one prunes all but one.
QUESTIONS: Final = {
    "three tests, by bounds": (
        "id >= 50000000 AND id < 50400000 AND kind = 7",
        "id >= 50000000 and id < 50400000 and kind = 7",
    ),
    "a string, by bounds": (
        "name >= 'n0100000' AND name < 'n0100100'",
        "name >= 'n0100000' and name < 'n0100100'",
    ),
    "one day, by partition": (
        "day = DATE '2023-01-05' AND id > 0",
        "day = '2023-01-05' and id > 0",
    ),
}


def iceberg(options: Options) -> Report:
    """Plans of an Iceberg table with nothing in memory: manifests, decoding, verdicts."""
    n = FILES if options.containers >= 10_000_000 else options.containers
    report = Report(
        f"{n:,} files of 8 columns in manifests of {PER_MANIFEST:,}: "
        "paths to read, nothing in memory",
        n,
    )
    try:
        import pyiceberg.table  # noqa: F401
    except ModuleNotFoundError:
        report.leave_out(PEER, "it is not installed, and it must write the table")
        return report
    with tempfile.TemporaryDirectory() as folder:
        metadata = make_table(Path(folder), n)
        for name, (text, theirs) in QUESTIONS.items():
            runs = {OWN: partial(own, metadata, text), PEER: partial(peer, metadata, theirs)}
            found, expected = runs[OWN](), runs[PEER]()
            if sorted(found) != sorted(expected):
                raise WrongAnswer(
                    f"{name}: Skipstone keeps {len(found)} files, pyiceberg {len(expected)}"
                )
            timings = interleave(runs, options.rounds or (7 if options.full else 3))
            for engine, t in timings.items():
                report.time(f"{engine}, {name}", t, own=timings[OWN], engine=engine, group=name)
                report.rows.append(_row(engine, name, t, timings[OWN], n, len(found)))
            report.requirements.append(
                Requirement(
                    f"Iceberg, {name}: times as fast as pyiceberg's plan_files",
                    timings[PEER].times(timings[OWN]),
                    5,
                )
            )
    report.notes.append(
        f"Manifests are deflated, in blocks of {PER_BLOCK} entries as Java's writers make them. "
        "Both contestants read files from the page cache."
    )
    return report


def own(metadata: str, text: str) -> tuple[str, ...]:
    """Return the files that Skipstone keeps, without manifests of earlier runs in memory."""
    forget()
    return ss.scan_iceberg(metadata).plan(text).files


def peer(metadata: str, text: str) -> tuple[str, ...]:
    """Return the files that pyiceberg keeps."""
    from pyiceberg.table import StaticTable

    return tuple(
        task.file.file_path
        for task in StaticTable.from_metadata(metadata).scan(row_filter=text).plan_files()
    )


def _row(engine: str, name: str, t: Timing, own: Timing, n: int, kept: int) -> dict[str, Any]:
    return {
        "": f"{engine}, {name}",
        "ms": t.median * 1e3,
        "best ms": t.best * 1e3,
        "million files/s": n / t.median / 1e6,
        "times Skipstone": t.times(own),
        "kept": kept,
    }


# The table.


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
    from pyiceberg.types import (
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        IntegerType,
        LongType,
        NestedField,
        StringType,
        TimestampType,
    )

    (folder / "metadata").mkdir(parents=True)
    kinds = (
        LongType(),
        IntegerType(),
        StringType(),
        DateType(),
        TimestampType(),
        DoubleType(),
        DecimalType(12, 2),
        BooleanType(),
    )
    names = ("id", "kind", "name", "day", "at", "share", "price", "open")
    schema = Schema(
        *(
            NestedField(i + 1, name, kind)
            for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
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

    kinds = (
        LongType(),
        IntegerType(),
        StringType(),
        DateType(),
        TimestampType(),
        DoubleType(),
        DecimalType(12, 2),
        BooleanType(),
    )
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
