"""Mutants of Parquet footers, and of `_metadata`, through everything that a plan does with them."""

import datetime as dt
import decimal
import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from skipstone.bindings.tables.parquet import footers
from skipstone.kernels.decode import footer_layout
from skipstone.kernels.decode.spans import GATHER
from skipstone.kernels.run.loops import compiled
from tests.fuzz.files import LostRows
from tests.support.tables import footers as thrift
from tests.support.tables.mutants import damaged, damaged_thrift

D = decimal.Decimal
ROWS = {
    "x": pa.array([1, 2, None, 4, 50, 6]),
    "s": pa.array(["a", None, "é", "m", "", "z" * 40]),
    "f": pa.array([1.5, float("nan"), None, -0.0, 1e300, 2.0]),
    "g": pa.array([1.5, 2.5, None, 1, 2, 3], pa.float32()),
    "i": pa.array([1, 2, None, -4, 5, 6], pa.int8()),
    "u": pa.array([1, 2, None, 4, 5, 2**32 - 1], pa.uint32()),
    "b": pa.array([True, False, None, True, True, True]),
    "d": pa.array([dt.date(2020, 1, i + 1) for i in range(6)]),
    "t": pa.array([i * 10**15 for i in range(6)], pa.timestamp("us", "UTC")),
    "m": pa.array([D(i) / 4 for i in range(6)], pa.decimal128(9, 2)),
    "w": pa.array([D(10) ** 30 + i for i in range(6)], pa.decimal128(38, 2)),
    "y": pa.array([b"", b"\xff", None, b"abc", b"q", b"r"]),
    "k": pa.array(["one", "two", "one", None, "two", "one"]).dictionary_encode(),
    "l": pa.array([[1], [], None, [2, None], [3], [4, 5]]),
    "n": pa.array([{"a": i, "c": str(i)} for i in range(6)]),
}
WHERE = ("x > 3", "s < 'm'", "f > 5 OR g = 2.5", "d = DATE '2020-01-03'", "m >= 0.5 AND w > 0")
WHERE += ("t < TIMESTAMP '2001-01-01Z'", "n.a = 3", "y = X'ff' OR k = 'one'", "x IS NULL", "NOT b")
OPTIONS = (
    {"row_group_size": 2, "write_page_index": True},
    {"row_group_size": 3, "store_schema": False, "compression": "zstd"},
    {"version": "1.0", "use_deprecated_int96_timestamps": True, "use_dictionary": False},
    {"data_page_version": "2.0", "write_statistics": False, "compression": "none"},
    {"row_group_size": 2, "compression": "none", "store_decimal_as_integer": True},
)
NOTES = {b"org.apache.spark.version": b"2.4.8", b"org.apache.spark.legacyDateTime": b""}


class Target:
    """Files with several writers' options in a folder, and one folder with `_metadata`."""

    def __init__(self, folder):
        self.folder, self.files = Path(folder), []
        table = pa.table(ROWS)
        for i, options in enumerate(OPTIONS):
            path = self.folder / f"{i}.parquet"
            pq.write_table(table.replace_schema_metadata(NOTES if i % 2 else None), path, **options)
            self.files.append((path, path.read_bytes()))
        lake = self.folder / "lake"
        lake.mkdir()
        kept = []
        for i in range(2):
            pq.write_table(table, lake / f"{i}.parquet", metadata_collector=kept, row_group_size=3)
            kept[i].set_file_path(f"{i}.parquet")
        pq.write_metadata(table.schema, lake / "_metadata", kept)
        self.summary = lake / "_metadata", (lake / "_metadata").read_bytes()
        self.number = 0

    def whole(self, undo):
        compiled(footer_layout.WALK), compiled(GATHER)
        for path, _ in [*self.files, self.summary]:
            yield from self.asks(path, random.Random(1), path == self.summary[0])

    def mutant(self, r, undo):
        # Plain Python reads small footers, unless COMPILE_BYTES is 0.
        undo.callback(setattr, footers, "COMPILE_BYTES", footers.COMPILE_BYTES)
        footers.COMPILE_BYTES = r.choice((0, footers.COMPILE_BYTES))
        summed = r.random() < 0.15
        path, data = self.summary if summed else r.choice(self.files)
        at = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
        kind = r.randrange(10)
        if kind < 4:
            fields = damaged_thrift(thrift._Reader(data[at:-8]).struct(), r)
            new = data[:at] + end(thrift_bytes(fields))
        elif kind < 8:
            new = data[:at] + end(damaged(data[at:-8], r, [d[-600:-8] for _, d in self.files]))
        elif kind == 8:
            new = damaged(data, r, start=at)
        else:
            new = damaged(data, r, [d for _, d in self.files])
        if summed:
            undo.callback(path.write_bytes, data)
            path.write_bytes(new)
        else:
            self.number += 1
            path = self.folder / f"m{self.number}.parquet"
            undo.callback(path.unlink)
            path.write_bytes(new)
        yield from self.asks(path, r, summed)

    def asks(self, path, r, summed):
        table, w = None, r.choice(WHERE)
        on_error = r.choice(("raise", "raise", "keep"))

        def scan():
            nonlocal table
            table = ss.scan_parquet(path.parent if summed else path, on_error=on_error)

        yield "scan", scan
        if table is None:
            return
        yield f"plan {w}", lambda: table.plan(w).row_groups
        match r.randrange(4):
            case 0:
                yield f"count {w}", lambda: table.plan(w).count()
                yield f"rows {w}", lambda: table.plan(w).to_arrow()
            case 1:
                yield "order", lambda: table.plan(order_by="x", limit=2).to_arrow()
            case 2:
                yield "snapshot", lambda: table.save_stats(str(self.folder / "stats"))
                yield (
                    "again",
                    lambda: (
                        ss.scan_parquet(path, stats=str(self.folder / "stats"), on_error=on_error)
                        .plan(w)
                        .row_groups
                    ),
                )
            case 3:
                found = []
                yield "all rows", lambda: found.append(table.plan().to_arrow())
                if found and not summed:
                    yield "peer", lambda: compare(found[0], path)


def compare(mine, path):
    """Find rows that pyarrow reads and Skipstone does not."""
    try:
        theirs = pq.ParquetFile(path).read()
    except Exception:  # pyarrow reads no rows, so none can be lost
        return
    if mine.num_rows != theirs.num_rows:
        raise LostRows(f"{mine.num_rows} rows of {theirs.num_rows}")


def end(footer):
    return footer + struct.pack("<I", len(footer)) + b"PAR1"


def thrift_bytes(fields):
    try:
        return thrift.write_struct(fields)
    # Kinds were exchanged.
    except (TypeError, ValueError, IndexError, AttributeError, struct.error):
        return b"\x15\x02\x00"
