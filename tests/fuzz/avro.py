"""Damaged manifests: Skipstone's decoder raises SourceError, or agrees with pyiceberg's.

`python -m tests.fuzz.avro --cases N`
"""

import argparse
import dataclasses
import decimal
import time

import numpy as np
from pyiceberg.avro.file import AvroFile
from pyiceberg.exceptions import ResolveError
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestEntryStatus,
)

from skipstone.bindings.tables.iceberg import fallback
from skipstone.bindings.tables.iceberg.listing import ListedManifest
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
from tests.fuzz.avro_files import LISTS, Memory, bases

LIMIT = 10  # seconds for one case, on any machine
# pyiceberg refuses more than Avro's specification does. By that, a missing codec means none,
# unknown annotations are ignored, and some fields may be missing, such as the counts of version 1.
STRICTER = (
    "Unsupported codec: gzip",
    "Unknown logical/physical type combination",
    "File/read schema are not aligned for map, got None",
    "_count: required int is non-optional, and not part of the file schema",
)
KEYS = (*range(0, 9), 200, 2147483546, -5)


def mutated(data, r):
    """Damage a manifest."""
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
                out[at:at] = b"\xff" * int(r.integers(1, 12)) + b"\x01"  # a large number
            case 6:
                n = int(r.integers(1, 64))
                out[at:at] = out[at : at + n]
            case 7:
                out[at : at + 10] = r.bytes(10)
    return bytes(out)


def theirs(data):
    """Return what pyiceberg reads: a row for each live entry."""
    file = AvroFile(
        Memory(data),
        MANIFEST_ENTRY_SCHEMAS[2],
        {-1: ManifestEntry, 2: DataFile},
        {0: ManifestEntryStatus, 101: str, 134: DataFileContent},
    )
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
    """Undo pyiceberg's reading of a map's numbers as unsigned, in its compiled decoder."""
    return v - 2**64 if isinstance(v, int) and v >= 2**63 else v


def normal(v):
    return v.bytes if hasattr(v, "bytes") else v


def ours(manifest: Manifest):
    """Return the same rows from Skipstone's decoder."""
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
    """Judge one file: return "refused", "same" or "unknown", or raise AssertionError."""
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
    # For a partition's value, which is then unknown to Skipstone.
    except (UnicodeDecodeError, decimal.InvalidOperation, KeyError):
        return "unknown"
    except IndexError:  # pyiceberg finds the parts of maps by their names, we by their ids
        return "unknown"
    except (ValueError, ResolveError) as e:
        if not str(e).startswith(STRICTER):
            raise
        return "unknown"
    for row in (*expected, *found):
        row[5] = None if row[5] is not None and row[5] < 0 else row[5]
    assert found == expected, f"differs: {found[:2]} and {expected[:2]}"
    return "same"


def check_list(data):
    """Judge one manifest list: return "refused", "same" or "unknown".

    The peer is pyiceberg's decoder in Python; its compiled one ends the process.
    """
    start = time.monotonic()
    names = [f.name for f in dataclasses.fields(ListedManifest)]
    try:
        found = decode_list(data)
        mine = [
            [getattr(m, n) for n in names[:-1]]
            + [None if m.partitions is None else list(map(summary_fields, m.partitions))]
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
        + [None if m.partitions is None else list(map(summary_fields, m.partitions))]
        for m in theirs
    ]
    assert mine == expected, f"differs: {mine} and {expected}"
    return "same"


def summary_fields(s):
    return s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound


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
