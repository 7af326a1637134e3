"""Read manifest lists: the manifests of a snapshot, and summaries of their partitions.

Source: Iceberg's specification, "Manifest Lists".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.tables.iceberg.values import strings
from skipstone.ir.errors import MAX_PATH, SourceError, clip, describe_error
from skipstone.kernels.decode.avro import Container
from skipstone.kernels.decode.avro_program import Unsupported
from skipstone.kernels.decode.avro_records import Records

# Ids of the fields of a manifest list's entries, and of partition summaries.
PATH, LENGTH, SPEC, CONTENT, SEQUENCE, PARTITIONS = 500, 501, 502, 517, 515, 507
ADDED_FILES, EXISTING_FILES, ADDED_ROWS, EXISTING_ROWS = 504, 505, 512, 513
ENCRYPTED = b"AGS1"
HAS_NULL, HAS_NAN, LOWER, UPPER = 509, 518, 510, 511


@dataclass(frozen=True, slots=True)
class Summary:
    """The values of a partition field in a manifest; None is unknown. Named as in pyiceberg."""

    contains_null: bool | None
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """An entry of a manifest list, named as pyiceberg's `ManifestFile`; unknown counts are None."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: int
    sequence_number: int
    added_files_count: int | None
    existing_files_count: int | None
    added_rows_count: int | None
    existing_rows_count: int | None
    partitions: Sequence[Summary] | None


def read_list(path: str, storage: Any) -> Sequence[Any]:
    """Read a manifest list.

    Args:
        path: The manifest list.
        storage: pyiceberg's FileIO.

    Returns:
        The manifests in the list's order: `ListedManifest`, or pyiceberg's objects, which have the
        same attributes.

    Raises:
        SourceError: the list is missing or damaged.
    """
    try:
        with storage.new_input(path).open() as f:
            data = f.read()
        return decode(data)
    except (OSError, ValueError, pa.ArrowException) as e:
        raise SourceError(
            f"{clip(path, MAX_PATH)}: the manifest list cannot be read ({describe_error(e)})"
        ) from e


def decode(data: bytes) -> Sequence[Any]:
    """Decode the bytes of a manifest list; for the result see `read_list`.

    Raises:
        SourceError: the list is damaged, or neither our decoder nor pyiceberg reads it.
    """
    from skipstone.bindings.tables.iceberg import fallback

    refuse_encrypted(data)
    try:
        return _listed(Container(data).records())
    except Unsupported as e:
        return fallback.manifest_list(data, e)


def refuse_encrypted(data: bytes) -> None:
    """Refuse the bytes of an encrypted file of metadata.

    Raises:
        SourceError: the file is encrypted.

    Source: Iceberg's "AES GCM Stream file format extension", the magic bytes.
    """
    if data[:4] == ENCRYPTED:
        raise SourceError(
            "it is encrypted, and Skipstone reads no keys; read the table with an engine that has "
            "the keys of its encryption.key-id"
        )


def _listed(found: Records) -> list[ListedManifest]:
    n = len(found)

    def numbers(number: int, missing: int | None) -> list[Any]:
        slot = found.field(number, "int", "long")
        if slot is None:
            return [missing] * n
        return [missing if v is None else v for v in found.numbers(slot).to_pylist()]

    slot = found.field(PATH, "string")
    if (
        slot is None
        or slot.present is not None
        or any(found.field(k, "int", "long") is None for k in (LENGTH, SPEC))
    ):
        raise Unsupported("the manifest list lacks the path, length or spec of manifests")
    paths = strings(found.texts(slot))
    if paths.null_count:
        raise SourceError("a path is not UTF-8")
    content = numbers(CONTENT, 0)
    if not set(content) <= {0, 1}:
        raise SourceError("a manifest has a content that is neither 0 nor 1")
    counts = (ADDED_FILES, EXISTING_FILES, ADDED_ROWS, EXISTING_ROWS)
    rows = zip(
        paths.to_pylist(),
        numbers(LENGTH, None),
        numbers(SPEC, None),
        content,
        numbers(SEQUENCE, 0),
        *(numbers(k, None) for k in counts),
        _summaries(found),
        strict=True,
    )
    return [ListedManifest(*row) for row in rows]


def _summaries(found: Records) -> list[Sequence[Summary] | None]:
    slot = found.field(PARTITIONS, "array")
    known = None if slot is None else found.known(slot)
    if slot is None:
        return [None] * len(found)
    return [
        None if known is not None and not known[i] else [_summary(s) for s in found.items(slot, i)]
        for i in range(len(found))
    ]


def _summary(fields: Any) -> Summary:
    if not isinstance(fields, dict) or fields.get(HAS_NULL) is None:
        raise Unsupported("the partitions of a manifest are not summaries")
    flags = [fields.get(k) for k in (HAS_NULL, HAS_NAN)]
    if not set(flags) <= {None, b"\0", b"\1"}:
        raise SourceError("a flag of a manifest's partitions is neither true nor false")
    bounds = (v if isinstance(v := fields.get(k), bytes) else None for k in (LOWER, UPPER))
    return Summary(*(None if v is None else v == b"\1" for v in flags), *bounds)


def listed_size(manifests: Sequence[Any], snapshot: Any) -> DataSize | None:
    """Return how much data a manifest list and its snapshot's summary report.

    Args:
        manifests: The entries of the list.
        snapshot: pyiceberg's snapshot; None if the table has none.

    Returns:
        The size, whose parts may be unknown; None if the number of files is unknown.
    """
    data, deletes = ([m for m in manifests if int(m.content) == kind] for kind in (0, 1))
    files = _sum([c for m in data for c in (m.added_files_count, m.existing_files_count)])
    rows = _sum([c for m in data for c in (m.added_rows_count, m.existing_rows_count)])
    if files is None:
        return None
    summary = None if snapshot is None else snapshot.summary
    total_size = "0" if summary is None else summary["total-files-size"]
    known = not deletes and total_size is not None and str(total_size).isdigit()
    return DataSize(files, int(total_size) if known else None, rows, None if deletes else rows)


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum of counts; None if one of them is unknown."""
    known = [c for c in counts if c is not None and c >= 0]
    return sum(known) if len(known) == len(counts) else None
