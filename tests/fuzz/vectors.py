"""Mutants of deletes: Delta's deletion vectors, Iceberg's in Puffin files, and delete files."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyroaring import BitMap64

import skipstone as ss
from skipstone.bindings.tables.bitmaps import MAGIC, rows_of
from skipstone.bindings.tables.delta import cache
from skipstone.bindings.tables.iceberg import manifest
from tests.fuzz.files import LostRows
from tests.support.tables.delta_log import Log, Written, base85, delta_schema
from tests.support.tables.iceberg_tables import (
    append,
    deletion_vector,
    equality_deletes,
    make,
    position_deletes,
)
from tests.support.tables.mutants import damaged, damaged_json, dumped

ROWS = 400
SETS = (
    [1, 5, 7],
    range(0, ROWS, 2),
    range(50, 300),
    [],
    range(ROWS),
    [0, *range(70_000, 80_000), 2**33, 2**40 + 7],
    range(0, 200_000, 3),
)


class Target:
    """Tables of 400 rows with deletes."""

    def __init__(self, folder):
        folder = Path(folder)
        self.vectors = [serialised(rows) for rows in SETS]
        self.log = Log(folder / "delta", delta_schema("x BIGINT"), features=("deletionVectors",))
        self.action = self.log.written(Written([{"x": i} for i in range(ROWS)], dead=[2, 3, 9]))
        self.log.commit(self.action)
        self.commit = self.log.log / f"{self.log.version:020}.json"
        (self.stored,) = self.log.folder.glob("deletion_vector_*.bin")
        schema = Schema(NestedField(1, "x", LongType()))
        rows = pa.table({"x": range(ROWS)})
        self.iceberg = {}
        for kind in ("vector", "positions", "equality"):
            table = append(make(folder / kind, schema), rows)
            (path,) = ss.scan_iceberg(table).all_files
            match kind:
                case "vector":
                    table = deletion_vector(table, path, [1, 5, *range(100, 200)])
                case "positions":
                    table = position_deletes(table, [(path, 3), (path, 4), ("other", 1)])
                case "equality":
                    table = equality_deletes(table, pa.table({"x": [3, 4, 1000]}), [1])
            deletes = ss.scan_iceberg(table)
            data = {Path(p.removeprefix("file://")) for p in deletes.all_files}
            (file,) = (
                set((Path(table.location().removeprefix("file://")) / "data").glob("*.*")) - data
            )
            self.iceberg[kind] = table, file, file.read_bytes()

    def whole(self, undo):
        for data, rows in zip(self.vectors, SETS, strict=True):
            yield "rows_of", lambda data=data, rows=rows: rows_of(data, len(rows), "the vector")
        yield "delta", self.read_delta
        for kind in self.iceberg:
            yield kind, lambda kind=kind: self.read_iceberg(kind)

    def mutant(self, r, undo):
        match r.randrange(10):
            case 0 | 1 | 2:
                data = damaged(r.choice(self.vectors), r, self.vectors, start=r.choice((0, 4)))
                yield "rows_of", lambda: decode(data, r)
            case 3 | 4:
                yield from self.stored_vector(r, undo)
            case 5 | 6:
                yield from self.described_vector(r, undo)
            case 7 | 8:
                yield from self.iceberg_file(r.choice(("vector", "vector", "positions")), r, undo)
            case 9:
                yield from self.iceberg_file("equality", r, undo)

    def stored_vector(self, r, undo):
        whole = self.stored.read_bytes()
        undo.callback(self.stored.write_bytes, whole)
        if r.random() < 0.4:
            self.stored.write_bytes(damaged(whole, r))
        else:  # under a matching checksum
            data = damaged(whole[5:-4], r, self.vectors, start=4)
            size = struct.pack(">i", r.choice((len(data), len(whole) - 9)))
            self.stored.write_bytes(whole[:1] + size + data + struct.pack(">I", zlib.crc32(data)))
            self.describe(undo, sizeInBytes=len(data))
        yield "delta", self.read_delta

    def described_vector(self, r, undo):
        vector = self.action["add"]["deletionVector"]
        if r.random() < 0.5:
            data = damaged(r.choice(self.vectors), r, self.vectors)
            text = base85(data + b"\0" * (-len(data) % 4))
            vector = vector | {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data)}
            vector["cardinality"] = counted(data, r)
        if r.random() < 0.7:
            vector = damaged_json(vector, r)
        line = dumped({"add": self.action["add"] | {"deletionVector": vector}})
        undo.callback(self.commit.write_bytes, self.commit.read_bytes())
        self.commit.write_text(line + "\n")
        yield "delta", self.read_delta

    def describe(self, undo, **fields):
        vector = self.action["add"]["deletionVector"] | fields
        undo.callback(self.commit.write_bytes, self.commit.read_bytes())
        line = dumped({"add": self.action["add"] | {"deletionVector": vector}})
        self.commit.write_text(line + "\n")

    def iceberg_file(self, kind, r, undo):
        _, file, data = self.iceberg[kind]
        undo.callback(file.write_bytes, data)
        if kind == "vector" and r.random() < 0.6:
            size = len(data) - 16
            inner = (damaged(data[8 : 4 + 4 + size], r, self.vectors, start=4) + bytes(size))[:size]
            new = data[:8] + inner + struct.pack(">I", zlib.crc32(inner)) + data[-4:]
        else:  # pyarrow reads pages of Parquet files, so only the footer is damaged
            new = damaged(data, r, start=0 if kind == "vector" else len(data) - 8 - footer(data))
        file.write_bytes(new)
        yield kind, lambda: self.read_iceberg(kind)

    def read_delta(self):
        cache.forget()
        table = ss.scan_delta(self.log.folder)
        alive(table.plan("x >= 0").to_arrow(), table.plan("x >= 0").count())

    def read_iceberg(self, kind):
        manifest.forget()
        found = ss.scan_iceberg(self.iceberg[kind][0]).plan("x >= 0").to_arrow()
        alive(found, found.num_rows)


def alive(found, counted):
    if counted != found.num_rows:
        raise LostRows(f"{found.num_rows} rows, but the count is {counted}")


def serialised(rows):
    bitmap = BitMap64(rows)
    if len(bitmap) > 100:
        bitmap.run_optimize()
    return struct.pack("<i", MAGIC) + bitmap.serialize()


def counted(data, r):
    """Return the number of rows in a vector, so that its cardinality does not give it away."""
    for cardinality in (0, 1):
        try:
            return rows_of(data, cardinality, "").count
        except ss.SourceError as e:
            words = str(e).split(" names ")
            if len(words) == 2:
                return int(words[1].split()[0])
    return r.choice((1, 5, 250))


def decode(data, r):
    """Compare a vector that Skipstone accepts with the peer's reading of it."""
    found = rows_of(data, counted(data, r), "the vector")
    try:
        theirs = BitMap64.deserialize(data[4:])
    except ValueError:  # for example, adjacent runs
        return
    if found.count != len(theirs) or (found.count and found.stop != theirs.max() + 1):
        raise LostRows(f"{found.count} rows up to {found.stop}, and the peer's are {len(theirs)}")
    some = [int(a) for a in found.starts[:50]] + [int(b) - 1 for b in found.stops[-50:]]
    if not all(row in theirs for row in some) or np.any(found.starts < 0):
        raise LostRows("other rows than the peer's")


def footer(data):
    return struct.unpack("<I", data[-8:-4])[0]
