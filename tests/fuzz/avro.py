"""Damaged manifests: our decoder raises SourceError, or gives what pyiceberg's gives. `python -m tests.fuzz.avro --cases N`."""

import argparse
import dataclasses
import decimal
import io
import time

import numpy as np
from pyiceberg.avro.file import AvroFile
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import ResolveError
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV1,
    ManifestWriterV2,
    PartitionFieldSummary,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    UUIDType,
)

from skipstone.bindings.tables.iceberg import fallback
from skipstone.bindings.tables.iceberg.listing import Listed
from skipstone.bindings.tables.iceberg.listing import decode as decode_list
from skipstone.bindings.tables.iceberg.manifest import (
    LOWER,
    NANS,
    NULLS,
    UPPER,
    VALUES,
    Manifest,
    decode,
)
from skipstone.ir.errors import SourceError
from tests.support.iceberg_tables import DeleteWriter, data_file

LIMIT = 10  # seconds that one case may take, on any machine
KINDS = (
    LongType(),
    StringType(),
    DoubleType(),
    DecimalType(10, 2),
    BooleanType(),
    UUIDType(),
    IntegerType(),
)
SCHEMA = Schema(*(NestedField(i + 1, f"c{i + 1}", kind) for i, kind in enumerate(KINDS)))
TRANSFORMS = (
    IdentityTransform(),
    TruncateTransform(3),
    IdentityTransform(),
    IdentityTransform(),
    IdentityTransform(),
    IdentityTransform(),
    BucketTransform(8),
)
SPEC = PartitionSpec(
    *(PartitionField(i + 1, 1000 + i, t, f"p{i + 1}") for i, t in enumerate(TRANSFORMS))
)
# What pyiceberg refuses beyond Avro's specification: no codec in the header means none, annotations that are not known are
# passed over, and so are fields that may be missing, as counts of version 1 may.
STRICTER = (
    "Unsupported codec: gzip",
    "Unknown logical/physical type combination",
    "File/read schema are not aligned for map, got None",
    "_count: required int is non-optional, and not part of the file schema",
)
KEYS = (*range(0, 9), 200, 2147483546, -5)


class Memory:
    """A file in memory, for pyiceberg."""

    location = "memory"

    def __init__(self, data=b""):
        self.data = data

    def open(self, seekable=True):
        return io.BytesIO(self.data)

    def create(self, overwrite=False):
        outer = self

        class Stream(io.BytesIO):
            def close(self):
                outer.data = self.getvalue()
                super().close()

        return Stream()

    def __len__(self):
        return len(self.data)


def written(n=5, writer=ManifestWriterV2, codec="deflate", spec=SPEC, block=1, seed=0, content=0):
    """A manifest of n entries of all kinds, by pyiceberg's writer."""
    r = np.random.default_rng(seed)
    out, waiting = Memory(), []
    w = writer(spec, SCHEMA, out, 77, codec)
    with w:
        write = w._writer.write_block

        def write_block(entries):
            waiting.extend(entries)
            if len(waiting) >= block or len(w._partitions) == n:
                write(list(waiting))
                waiting.clear()

        w._writer.write_block = write_block
        for i in range(n):
            values = (
                int(r.integers(-(2**40), 2**40)),
                "p" * (i % 4),
                float(i) / 3,
                None,
                bool(i % 2),
                r.bytes(16),
                int(r.integers(8)),
            )
            partition = tuple(None if r.random() < 0.2 else v for v in values)[: len(spec.fields)]
            own = [c for c in range(1, 8) if r.random() < 0.8]
            stats = {
                name: {c: int(r.integers(-3, 300)) for c in own}
                for name in (
                    "column_sizes",
                    "value_counts",
                    "null_value_counts",
                    "nan_value_counts",
                )
            }
            stats |= {
                name: {c: r.bytes(int(r.integers(0, 20))) for c in own}
                for name in ("lower_bounds", "upper_bounds")
            }
            stats = {name: v for name, v in stats.items() if r.random() < 0.9}
            more = {"equality_ids": [1, 2]} if content == 2 else {"split_offsets": [4, 100]}
            file = data_file(
                f"/data/é{i}.parquet",
                partition,
                int(r.integers(0, 10**6)),
                content,
                size=int(r.integers(1, 10**9)),
                **stats,
                **more,
            )
            status = (
                ManifestEntryStatus(int(r.integers(3)))
                if writer is not ManifestWriterV1
                else ManifestEntryStatus.ADDED
            )
            number = (
                None
                if status == ManifestEntryStatus.ADDED and writer is not ManifestWriterV1
                else i
            )
            w.add_entry(
                ManifestEntry.from_args(
                    status=status,
                    snapshot_id=77,
                    sequence_number=number,
                    file_sequence_number=number,
                    data_file=file,
                )
            )
    return out.data


def bases():
    """Manifests to damage."""
    plain = PartitionSpec()
    return {
        "deflate, a block each": written(6),
        "null": written(6, codec="null", seed=1),
        "null, one block": written(8, codec="null", block=100, seed=2),
        "deflate, blocks of 3": written(7, block=3, seed=3),
        "zstandard": written(4, codec="zstd", seed=4, block=2),
        "version 1": written(4, ManifestWriterV1, "null", seed=5),
        "unpartitioned": written(5, codec="null", spec=plain, seed=6, block=2),
        "equality deletes": written(4, DeleteWriter, "null", spec=plain, seed=7, content=2),
    }


def mutated(data, r):
    """A manifest with some damage."""
    out = bytearray(data)
    for _ in range(int(r.choice([1, 1, 1, 2, 4]))):
        at = int(r.integers(len(out))) if len(out) else 0
        match int(r.integers(8)):
            case 0:
                out[at : at + 1] = bytes([out[at] ^ (1 << int(r.integers(8)))]) if out else b""
            case 1:
                del out[at:]
            case 2:
                out[at:at] = r.bytes(int(r.integers(1, 9)))
            case 3:
                del out[at : at + int(r.integers(1, 9))]
            case 4:
                out[at : at + 1] = bytes([int(r.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]))])
            case 5:
                out[at:at] = b"\xff" * int(r.integers(1, 12)) + b"\x01"  # a great number
            case 6:
                n = int(r.integers(1, 64))
                out[at:at] = out[at : at + n]
            case 7:
                out[at : at + 10] = r.bytes(10)
    return bytes(out)


def theirs(data):
    """What pyiceberg reads: a row for each entry that lives."""
    file = AvroFile(
        Memory(data), MANIFEST_ENTRY_SCHEMAS[2], {-1: ManifestEntry, 2: DataFile},
        {0: ManifestEntryStatus, 101: str, 134: DataFileContent},
    )  # fmt: skip
    out = []
    with file as reader:
        for e in reader:
            f = e.data_file
            if e.status == ManifestEntryStatus.DELETED:
                continue
            maps = [
                f.value_counts,
                f.null_value_counts,
                f.nan_value_counts,
                f.lower_bounds,
                f.upper_bounds,
            ]
            inherited = e.sequence_number is None and e.status == ManifestEntryStatus.ADDED
            row = [
                f.file_path,
                str(f.file_format),
                int(f.content),
                f.record_count,
                f.file_size_in_bytes,
                9 if inherited else e.sequence_number,
            ]
            row += [
                tuple(signed({signed(k): v for k, v in (m or {}).items()}.get(k)) for k in KEYS)
                for m in maps
            ]
            row += [list(map(signed, f.equality_ids or [])), [normal(v) for v in f.partition._data]]
            out.append(row)
    return out


def signed(v):
    """Its compiled decoder takes the numbers of maps for unsigned ones."""
    return v - 2**64 if isinstance(v, int) and v >= 2**63 else v


def normal(v):
    return v.bytes if hasattr(v, "bytes") else v


def ours(manifest: Manifest):
    """The same of our own."""
    n = len(manifest)
    maps = []
    for number in (VALUES, NULLS, NANS):
        found = [manifest.counts(number, k) for k in KEYS]
        maps.append(
            list(zip(*([None] * n if a is None else a.to_pylist() for a in found), strict=True))
        )
    for number in (LOWER, UPPER):
        entries = [manifest.bounds(number, k) for k in KEYS]
        maps.append(
            list(
                zip(
                    *([None] * n if e is None else e.texts().to_pylist() for e in entries),
                    strict=True,
                )
            )
        )
    out = []
    for i in range(n):
        row = [
            manifest.paths[i].as_py(),
            manifest.formats[i].as_py(),
            int(manifest.contents[i]),
            int(manifest.rows[i]),
            int(manifest.sizes[i]),
        ]
        row += [
            None if manifest.sequences[i] == -1 else int(manifest.sequences[i]),
            *(m[i] for m in maps),
            manifest.equality_ids(i),
        ]
        out.append(row)
    return out


def check(data):
    """Judge one file: "refused", "same", "unknown", or AssertionError."""
    start = time.monotonic()
    try:
        manifest = decode(data, "m.avro", 0, 9)
        found = ours(manifest)
    except SourceError:
        found = None
    assert time.monotonic() - start < LIMIT, "took too long"
    if found is None:
        return "refused"
    try:
        expected = [row[:-1] for row in theirs(data)]
    except (
        UnicodeDecodeError,
        decimal.InvalidOperation,
        KeyError,
    ):  # of a partition's value, which is unknown to us then
        return "unknown"
    except (ValueError, ResolveError) as e:
        if not str(e).startswith(STRICTER):
            raise
        return "unknown"
    for row in (*expected, *found):
        row[5] = None if row[5] is not None and row[5] < 0 else row[5]
    assert found == expected, f"differs: {found[:2]} and {expected[:2]}"
    return "same"


def written_list(seed=0, codec="deflate", version=2):
    """A manifest list, by pyiceberg's writer."""
    r, out = np.random.default_rng(seed), Memory()
    with write_manifest_list(version, out, 1, None, 5, codec) as w:
        for i in range(4):
            ends = [
                to_bytes(LongType(), int(v)) if r.random() < 0.8 else None
                for v in r.integers(-9, 9, 2)
            ]
            summaries = [
                PartitionFieldSummary(bool(i % 2), [None, True, False][i % 3], *ends),
                PartitionFieldSummary(True, None, None, b""),
            ]
            counts = {
                f"{kind}_{what}_count": int(r.integers(9))
                for kind in ("added", "existing", "deleted")
                for what in ("files", "rows")
            }
            w.add_manifests([
                ManifestFile.from_args(
                    manifest_path=f"/m{i}.avro", manifest_length=100 + i, partition_spec_id=i % 2, content=ManifestContent.DATA, sequence_number=i,
                    min_sequence_number=i, added_snapshot_id=1, partitions=summaries if i else None, key_metadata=None, **counts,
                )
            ])  # fmt: skip
    return out.data


def check_list(data):
    """Judge one manifest list: "refused" or "same", against pyiceberg's decoder in Python; the compiled one ends the process."""
    start = time.monotonic()
    names = [f.name for f in dataclasses.fields(Listed)]
    try:
        found = decode_list(data)
        mine = [
            [getattr(m, n) for n in names[:-1]]
            + [None if m.partitions is None else list(map(told, m.partitions))]
            for m in found
        ]
    except SourceError:
        mine = None
    assert time.monotonic() - start < LIMIT, "took too long"
    if mine is None:
        return "refused"
    try:
        theirs = fallback.manifest_list(data, Exception())
    except SourceError as e:
        if not any(text in str(e) for text in STRICTER):
            raise
        return "unknown"
    expected = [
        [getattr(m, n) for n in names[:-1]]
        + [None if m.partitions is None else list(map(told, m.partitions))]
        for m in theirs
    ]
    assert mine == expected, f"differs: {mine} and {expected}"
    return "same"


def told(s):
    return s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound


LISTS = {
    "lists": written_list(),
    "lists, null": written_list(1, "null"),
    "lists, version 1": written_list(2, "null", 1),
}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    files = [
        *((name, data, check) for name, data in bases().items()),
        *((name, data, check_list) for name, data in LISTS.items()),
    ]
    seen = {"refused": 0, "same": 0, "unknown": 0, "failed": 0}
    for case in range(given.seed, given.seed + given.cases):
        r = np.random.default_rng(case)
        name, data, judge = files[case % len(files)]
        bad = mutated(data, r)
        try:
            seen[judge(bad)] += 1
        except Exception as e:
            seen["failed"] += 1
            print(f"case {case} ({name}): {type(e).__name__}: {str(e)[:300]}")
    print(seen)
    return seen["failed"] > 0


if __name__ == "__main__":
    raise SystemExit(main())
