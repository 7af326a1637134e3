"""Iceberg tables made by pyiceberg, and commits of files that pyiceberg itself cannot write."""

import datetime as dt
import itertools
import os
import struct
import uuid
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import write_file
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import WriteTask
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros

PATH, POSITION = 2147483546, 2147483545
_numbers = itertools.count(1)


def make(folder, schema, spec=UNPARTITIONED_PARTITION_SPEC, **properties):
    """Create a table, of format 2 by default, in a catalog on SQLite."""
    os.makedirs(folder, exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table(
        f"db.t{next(_numbers)}",
        schema,
        partition_spec=spec,
        properties={k.replace("_", "."): v for k, v in properties.items()},
    )


class Key:
    """A partition key; pyiceberg's own needs a package that transforms Arrow arrays."""

    def __init__(self, values):
        self.partition = Record(*values)

    def to_path(self):
        return "p=" + "-".join(str(v).encode().hex()[:40] for v in self.partition._data)


def internal(value, kind):
    """Return a Python value in the form that Iceberg's transforms expect."""
    if isinstance(value, dt.datetime):
        return datetime_to_micros(value)
    if isinstance(value, dt.date):
        return date_to_days(value)
    return value


def append(table, rows, per_file=None):
    """Commit rows as data files, one per partition and number of rows; return the new table."""
    spec, schema = table.spec(), table.schema()
    kinds = [schema.find_type(f.source_id) for f in spec.fields]
    columns = [rows.column(schema.find_column_name(f.source_id)).to_pylist() for f in spec.fields]
    transforms = [f.transform.transform(k) for f, k in zip(spec.fields, kinds, strict=True)]
    keys = [
        tuple(t(internal(v, k)) for t, v, k in zip(transforms, values, kinds, strict=True))
        for values in zip(*columns, strict=True)
    ]
    groups = {}
    for i, key in enumerate(keys or [()] * rows.num_rows):
        groups.setdefault(str(key), (key, []))[1].append(i)
    tasks = []
    for key, places in groups.values():
        step = per_file or len(places)
        for start in range(0, len(places), step):
            part = rows.take(pa.array(places[start : start + step]))
            tasks.append(
                WriteTask(
                    uuid.uuid4(),
                    next(_numbers),
                    schema,
                    part.to_batches(),
                    None,
                    Key(key) if spec.fields else None,
                )
            )
    files = list(write_file(table.io, table.metadata, iter(tasks)))
    with table.transaction() as tx, tx.update_snapshot().fast_append() as update:
        for f in files:
            update.append_data_file(f)
    return table.refresh()


def data_file(path, partition=(), rows=10, content=0, format="PARQUET", size=100, **more):
    """Return a data or delete file as a manifest lists it; `more` are its statistics."""
    names = {f.name for f in DATA_FILE_TYPE[2].fields}
    given = {
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
    }
    assert set(more) <= names
    return DataFile.from_args(
        content=DataFileContent(content), file_path=path, file_format=format,
        partition=Record(*partition), record_count=rows, file_size_in_bytes=size,
        **{name: None for name in (*given, "key_metadata", "split_offsets", "equality_ids",
          "sort_order_id") if name not in more},
        **more,
    )  # fmt: skip


class DeleteWriter(ManifestWriterV2):
    """A writer of a manifest of delete files."""

    def content(self):
        return ManifestContent.DELETES

    @property
    def _meta(self):
        return {**super()._meta, "content": "deletes"}


class Version3(DeleteWriter):
    """A writer of a manifest of deletion vectors; pyiceberg writes no manifest of version 3."""

    def __init__(self, *args, references=(), **more):
        super().__init__(*args, **more)
        self.references = iter(references)

    def new_writer(self):
        from pyiceberg.avro.file import AvroOutputFile

        schema = self._with_partition(3)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", metadata=self._meta)

    def prepare_entry(self, entry):
        target, offset, length = next(self.references)
        entry = super().prepare_entry(entry)
        old = entry.data_file
        entry[4] = Record(*[old[i] for i in range(16)], None, target, offset, length)
        return entry


def commit(
    table, files, content=0, statuses=None, spec=None, writer=None, codec="deflate", sequence=None
):
    """Commit a manifest of some files beside the current snapshot's; return the new table."""
    snapshot_id, number = 1000 + next(_numbers), table.last_sequence_number + 1
    folder = f"{table.location()}/metadata"
    spec = table.spec() if spec is None else spec
    make_writer = writer or (DeleteWriter if content else ManifestWriterV2)
    with make_writer(
        spec,
        table.schema(),
        table.io.new_output(f"{folder}/m{snapshot_id}.avro"),
        snapshot_id,
        codec,
    ) as w:
        for file, status in zip(
            files, statuses or [ManifestEntryStatus.ADDED] * len(files), strict=True
        ):
            own = sequence if status == ManifestEntryStatus.ADDED else number
            w.add_entry(
                ManifestEntry.from_args(
                    status=status,
                    snapshot_id=snapshot_id,
                    sequence_number=own,
                    file_sequence_number=own,
                    data_file=file,
                )
            )
    current = table.current_snapshot()
    listed = [] if current is None else current.manifests(table.io)
    return publish(table, [*listed, w.to_manifest_file()], snapshot_id, number)


def publish(table, manifests, snapshot_id, number):
    """Make a new snapshot of a list of manifests."""
    where = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    parent = None if table.current_snapshot() is None else table.current_snapshot().snapshot_id
    with write_manifest_list(
        2, table.io.new_output(where), snapshot_id, parent, number, "deflate"
    ) as w:
        w.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id, parent_snapshot_id=parent, sequence_number=number,
        manifest_list=where, schema_id=table.schema().schema_id,
        summary=Summary(operation=Operation.APPEND),
    )  # fmt: skip
    ref = SetSnapshotRefUpdate(snapshot_id=snapshot_id, ref_name="main", type="branch")
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), ref))
    return table.refresh()


def with_ids(fields):
    """Return an Arrow schema whose fields have ids."""
    return pa.schema(
        [
            pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
            for name, kind, number in fields
        ]
    )


def position_deletes(table, rows, partition=(), bounds=True):
    """Commit a position delete file: (path, position) of each row."""
    path = f"{table.location()}/data/deletes-{next(_numbers)}.parquet"
    os.makedirs(os.path.dirname(path.removeprefix("file://")), exist_ok=True)
    schema = with_ids([("file_path", pa.string(), PATH), ("pos", pa.int64(), POSITION)])
    names = [r[0] for r in rows]
    pq.write_table(pa.table([names, [r[1] for r in rows]], schema=schema), path)
    ends = (
        {"lower_bounds": {PATH: min(names).encode()}, "upper_bounds": {PATH: max(names).encode()}}
        if bounds
        else {}
    )
    return commit(table, [data_file(path, partition, len(rows), 1, **ends)], 1)


def equality_deletes(table, columns, ids, partition=(), spec=None):
    """Commit an equality delete file: an Arrow table, and the ids of its columns."""
    path = f"{table.location()}/data/equality-{next(_numbers)}.parquet"
    os.makedirs(os.path.dirname(path.removeprefix("file://")), exist_ok=True)
    pq.write_table(
        columns.cast(
            with_ids(
                [
                    (n, columns.schema.field(n).type, i)
                    for n, i in zip(columns.column_names, ids, strict=True)
                ]
            )
        ),
        path,
    )
    return commit(
        table,
        [data_file(path, partition, columns.num_rows, 2, equality_ids=list(ids))],
        1,
        spec=spec,
    )


def deletion_vector(table, target, positions, partition=()):
    """Commit a Puffin file with the deletion vector of one data file."""
    from pyroaring import BitMap64

    data = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    blob = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    path = f"{table.location()}/data/dv-{next(_numbers)}.puffin"
    with table.io.new_output(path).create() as f:
        f.write(b"PFA1" + blob + b"PFA1")

    def writer(*args):
        return Version3(*args, references=[(target, 4, len(blob))])

    return commit(
        table, [data_file(path, partition, len(positions), 1, "PUFFIN")], 1, writer=writer
    )
