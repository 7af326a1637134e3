"""Mutants of Iceberg's metadata: `metadata.json`, manifest lists, manifests.

Manifest lists and manifests are also compared with pyiceberg.
"""

import decimal
import gzip
import json
from pathlib import Path

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import skipstone as ss
from skipstone.bindings.tables.iceberg import manifest
from skipstone.bindings.tables.iceberg.listing import decode as decode_list
from skipstone.kernels.decode.avro import Container
from tests.fuzz import avro as fuzz_avro
from tests.fuzz import avro_files
from tests.fuzz.files import LostRows
from tests.support.tables.avro import text, varint
from tests.support.tables.iceberg_tables import append, make, position_deletes
from tests.support.tables.mutants import damaged, damaged_json, dumped

SCHEMA = Schema(
    NestedField(1, "x", LongType()),
    NestedField(2, "p", StringType()),
    NestedField(3, "f", DoubleType()),
    NestedField(4, "m", DecimalType(12, 2)),
    NestedField(5, "st", StructType(NestedField(6, "a", LongType()))),
    NestedField(7, "l", ListType(8, StringType(), element_required=False)),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "p"),
    PartitionField(1, 1001, BucketTransform(4), "b"),
)
WHERE = ("x > 5", "p = 'a' AND x < 9", "f < 3 OR m = 1", "st.a = 2", "x IN (1, 15) AND p <> 'b'")


class Target:
    """A table of two appends and one commit of deletes; its files are changed one at a time."""

    def __init__(self, folder):
        self.folder = Path(folder)
        order = SortOrder(SortField(1, IdentityTransform()))
        table = make(folder, SCHEMA, SPEC, **{"write_avro_compression-codec": "null"})
        for k in range(2):
            table = append(table, rows(10 * k))
        (path, *_) = ss.scan_iceberg(table).all_files
        spec = ss.scan_iceberg(table)
        key = spec.files.at(0)[0].keys[0]
        table = position_deletes(table, [(path, 0)], partition(key))
        assert order.fields
        self.plain = self.folder / "v1.metadata.json"
        source = Path(table.metadata_location.removeprefix("file://"))
        self.plain.write_bytes(source.read_bytes())
        self.packed = self.folder / "v1.gz.metadata.json"
        self.packed.write_bytes(gzip.compress(source.read_bytes()))
        snapshot = table.current_snapshot()
        self.list = Path(snapshot.manifest_list.removeprefix("file://"))
        listed = ss.scan_iceberg(table).manifests
        self.manifests = [Path(m.manifest_path.removeprefix("file://")) for m in listed]
        self.bases = [*avro_files.bases().values()]
        self.lists = [*avro_files.LISTS.values()]
        self.all = [p.read_bytes() for p in (self.list, *self.manifests)]

    def whole(self, undo):
        for data in self.bases:
            yield "manifest", lambda data=data: fuzz_avro.check(data)
        for data in self.lists:
            yield "list", lambda data=data: fuzz_avro.check_list(data)
        for path in (self.plain, self.packed):
            for w in WHERE:
                yield from self.asks(path, w, 2)
                yield from self.asks(path, w, 3)

    def mutant(self, r, undo):
        kind = r.randrange(20)
        if kind < 6:
            yield "manifest", lambda: self.judged(fuzz_avro.check, decode_one, self.bases, r)
        elif kind < 8:
            yield "list", lambda: self.judged(fuzz_avro.check_list, decode_list, self.lists, r)
        else:
            path = self.changed(kind, r, undo)
            yield from self.asks(path, r.choice(WHERE), r.randrange(4))

    def judged(self, check, decode, bases, r):
        """Compare damaged bytes with pyiceberg, which refuses more if the schema is changed."""
        if r.random() < 0.65:
            raise_if_refused(check(damaged(r.choice(bases), r, bases)))
        else:
            decode(reworded(r.choice(bases), r))

    def changed(self, kind, r, undo):
        if kind < 13:
            data = self.plain.read_bytes()
            if kind < 12:
                new = dumped(damaged_json(json.loads(data), r)).encode(errors="replace")
            else:
                new = damaged(data, r)
            path = self.plain
            if r.random() < 0.15:
                path, data = self.packed, self.packed.read_bytes()
                new = gzip.compress(new, 1) if r.random() < 0.7 else damaged(data, r)
        else:
            path = self.list if kind < 16 else r.choice(self.manifests)
            data = path.read_bytes()
            new = broken(data, r, self.all)
        undo.callback(path.write_bytes, data)
        path.write_bytes(new)
        return path if path == self.packed else self.plain

    def asks(self, path, where, which):
        manifest.forget()
        table = None

        def scan():
            nonlocal table
            table = ss.scan_iceberg(str(path))

        yield "scan", scan
        if table is None:
            return
        yield f"plan {where}", lambda: table.plan(where).files
        match which:
            case 0:
                yield "count", lambda: table.plan(where).count()
                yield "sizes", lambda: (table.data_size, table.sort_order, table.partition_columns)
            case 1:
                yield "statistics", lambda: table.with_stats
            case 2:
                yield "rows", lambda: table.plan(where).to_arrow()
            case 3:
                yield "all rows", lambda: compare(table)


def compare(table):
    """Find rows that pyiceberg reads and Skipstone does not."""
    mine = table.plan().to_arrow().num_rows
    try:
        scan = table.source.scan(snapshot_id=table.version)
        theirs = scan.to_arrow().num_rows
    except Exception:  # pyiceberg reads no rows, so none can be lost
        return
    if mine < theirs:
        raise LostRows(f"{mine} rows of {theirs}")


def decode_one(data):
    return fuzz_avro.ours(manifest.decode(data, "m.avro", 0, 9))


def raise_if_refused(found):
    if found == "refused":
        raise ss.SkipstoneError(found)


def broken(data, r, others):
    """Damage an Avro file: its bytes, its schema, or other values of its header."""
    return damaged(data, r, others) if r.random() < 0.65 else reworded(data, r)


def reworded(data, r):
    """Change the header of an Avro file."""
    found = Container(data)
    header = dict(found.header)
    if r.random() < 0.8:
        schema = damaged_json(json.loads(header["avro.schema"]), r)
        header["avro.schema"] = dumped(schema)
    else:
        header = {str(k): str(v) for k, v in damaged_json(header, r).items()}
    pairs = (
        text(k.encode(errors="replace")) + text(v.encode(errors="replace"))
        for k, v in header.items()
    )
    rest = data[found.sync :]
    return b"Obj\x01" + varint(len(header)) + b"".join(pairs) + b"\0" + rest


def rows(first):
    n = 10
    columns = {
        "x": range(first, first + n),
        "p": ["a", "b"] * 5,
        "f": [i / 3 for i in range(n)],
        "m": pa.array([decimal.Decimal(i) for i in range(n)], pa.decimal128(12, 2)),
        "st": [{"a": i} for i in range(n)],
        "l": [[str(i)] for i in range(n)],
    }
    return pa.table(columns)


def partition(key):
    return tuple(v.decode() if isinstance(v, bytes) else v for v in key)
