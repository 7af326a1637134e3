"""Read manifests in columns: the files of a snapshot and their statistics.

Our own decoder reads them (kernels/decode/avro.py); pyiceberg's reads schemas and codecs that ours
does not support (fallback.py). A manifest never changes, so it is kept (manifest_cache.py).

Source: Iceberg's specification, "Manifests".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.progress import Track
from skipstone.bindings.statistics.coerce_inputs import MAX_ROWS
from skipstone.bindings.tables.iceberg.listing import refuse_encrypted
from skipstone.bindings.tables.iceberg.manifest_cache import ManifestCache
from skipstone.bindings.tables.iceberg.values import strings
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, null_where, scalar_of
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import MAX_PATH, SourceError, clip, describe_error
from skipstone.kernels.decode.avro import Container
from skipstone.kernels.decode.avro_program import Slot, Unsupported
from skipstone.kernels.decode.avro_records import Entry, Records
from skipstone.kernels.run.pool import ContextPool

MAX_READERS: Final = 16  # manifests fetched at once: most of the time they wait for storage
EXISTING, ADDED, DELETED = range(3)
DATA, POSITIONS, EQUALITY = range(3)
# Ids of the fields of manifest entries.
STATUS, SEQUENCE, CONTENT, PATH, FORMAT, PARTITION, ROWS, SIZE = 0, 3, 134, 100, 101, 102, 103, 104
VALUES, NULLS, NANS, LOWER, UPPER = 109, 110, 137, 125, 128
EQUALITY_IDS, SORT_ORDER, REFERENCED, OFFSET, LENGTH = 135, 140, 143, 144, 145
SPLITS: Final = 132
# Snapshot, file sequence number, column sizes, key metadata: these are not decoded.
UNUSED: Final = frozenset({1, 4, 108, 131})
# The split offsets of a Parquet file of one row group, which begins at byte 4: a block of one item,
# 4, and the end of the blocks, in Avro's variable numbers.
ONE_SPLIT: Final = (2, 8, 0)
MAPS: Final = (VALUES, NULLS, NANS, LOWER, UPPER)
# The Avro types that a field may have; pyiceberg's and Java's writers use these.
KINDS: Final = (
    (("int", "long"), (STATUS, SEQUENCE, CONTENT, ROWS, SIZE, SORT_ORDER, OFFSET, LENGTH)),
    (("string",), (PATH, FORMAT, REFERENCED)),
    (("array",), (*MAPS, EQUALITY_IDS, SPLITS)),
)
Longs = npt.NDArray[np.int64]


class Manifest:
    """The live entries of one manifest.

    Attributes:
        path: The manifest's path.
        spec: The id of the partition spec of its files.
        nbytes: The manifest's bytes.
        rows: The physical rows of each file, int64; -1 is unknown.
        sizes: The bytes of each file, int64.
        contents: What each file holds, int64: DATA, POSITIONS or EQUALITY.
        paths, formats: The path and format of each file.
    """

    def __init__(self, path: str, spec: int, sequence: int, records: Records, size: int) -> None:
        self.path, self.spec, self.nbytes = path, spec, size
        self._records = records
        for kinds, numbers in KINDS:
            for number in numbers:
                slot = records.field(number, *kinds)
                if slot is not None and number in MAPS and slot.texts != (number in (LOWER, UPPER)):
                    raise Unsupported(f"the field {number} is not a map of column statistics")
        status = self._required(STATUS)
        if ((status < EXISTING) | (status > DELETED)).any():
            raise SourceError("an entry has a status other than 0, 1 and 2")
        self._live = None if (status != DELETED).all() else np.flatnonzero(status != DELETED)
        self._status, self._sequence = self._chosen(status), sequence
        self.rows = self._plausible_rows(self._chosen(self._required(ROWS)))
        self.sizes: Longs = self._chosen(self._required(SIZE))
        self.contents: Longs = self._longs(CONTENT, DATA)
        if ((self.contents < DATA) | (self.contents > EQUALITY)).any():
            raise SourceError("a file has a content other than 0, 1 and 2")
        self.paths = self._text(PATH)
        self.formats = self._text(FORMAT)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def held_bytes(self) -> int:
        """Bytes of the decoded entries in memory."""
        return self._records.nbytes

    def _plausible_rows(self, rows: Longs) -> Longs:
        """Return the files' rows, with -1 for implausible counts.

        A count is implausible if no file can have as many rows, or if it is 0 and the file has
        bounds.
        """
        wrong = rows > MAX_ROWS
        for i in np.flatnonzero(rows == 0).tolist():
            wrong[i] = any(self._items(number, i) for number in (LOWER, UPPER))
        return np.where(wrong, -1, rows)

    def _items(self, number: int, i: int) -> list[Any]:
        """Return the items of a file's array or map."""
        slot = self._records.field(number, "array")
        row = i if self._live is None else int(self._live[i])
        known = None if slot is None else self._records.known(slot)
        if slot is None or (known is not None and not known[row]):
            return []
        return self._records.items(slot, row)

    def _chosen(self, values: Longs) -> Longs:
        return values if self._live is None else values[self._live]

    def _required(self, number: int) -> Longs:
        slot = self._records.field(number, "int", "long")
        if slot is None or slot.present is not None:
            raise Unsupported(f"the field {number} may be missing")
        values: Longs = self._records.slots[slot.at]
        return values

    def _longs(self, number: int, missing: int) -> Longs:
        """Return the numbers of a field, with `missing` where it is absent."""
        slot = self._records.field(number, "int", "long")
        if slot is None:
            return np.full(len(self), missing, np.int64)
        known = self._records.known(slot)
        values = self._records.slots[slot.at]
        return self._chosen(values if known is None else np.where(known, values, missing))

    def _text(self, number: int) -> pa.StringArray:
        slot = self._records.field(number, "string")
        if slot is None or slot.present is not None:
            raise Unsupported(f"the field {number} may be missing")
        found = strings(self._records.texts(slot, self._live))
        if found.null_count:
            raise SourceError("a path or a format is not UTF-8")
        return found

    @cached_property
    def sequences(self) -> Longs:
        """The data sequence number of each file, int64, inherited if missing; -1 is unknown.

        Source: Iceberg's specification, "Sequence Number Inheritance".
        """
        own = self._longs(SEQUENCE, -1)
        return np.where(
            (own < 0) & ((self._status == ADDED) | (self._sequence == 0)), self._sequence, own
        )

    @cached_property
    def sort_orders(self) -> Longs:
        """The id of each file's sort order, int64; -1 is unknown."""
        return self._longs(SORT_ORDER, -1)

    @cached_property
    def has_one_group(self) -> npt.NDArray[np.bool_]:
        """True for Parquet files that have one row group, by their split offsets."""
        slot = self._records.field(SPLITS, "array")
        if slot is None:
            return np.zeros(len(self), np.bool_)
        starts, known = self._chosen(self._records.slots[slot.at]), self._records.known(slot)
        data, one = (
            self._records.data,
            booleans_of(pc.equal(self.formats, scalar_of("PARQUET", pa.string()))),
        )
        if known is not None:
            one &= known if self._live is None else known[self._live]
        one &= (starts >= 0) & (starts <= len(data) - len(ONE_SPLIT))
        for k, byte in enumerate(ONE_SPLIT):
            one &= data[np.where(one, starts + k, 0)] == byte
        return one

    @cached_property
    def references(self) -> list[str | None]:
        """The one data file that each delete file applies to; None if it is not named."""
        slot = self._records.field(REFERENCED, "string")
        if slot is None:
            return [None] * len(self)
        found: list[str | None] = strings(self._records.texts(slot, self._live)).to_pylist()
        return found

    @cached_property
    def vector_spans(self) -> tuple[Longs, Longs]:
        """The offset and length of each deletion vector in its file, int64; -1 if there is none."""
        return self._longs(OFFSET, -1), self._longs(LENGTH, -1)

    def equality_ids(self, i: int) -> list[int]:
        """Return the ids of the columns that the i-th file, an equality delete, compares."""
        return self._items(EQUALITY_IDS, i)

    # Statistics of columns.

    def counts(self, number: int, column: int) -> pa.Array | None:
        """Return the counts of a column, int64; null is unknown. None if no file has one.

        Args:
            number: The field: VALUES, NULLS or NANS.
            column: The column's id.
        """
        found = self._entry(number, column)
        return None if found is None or not found.second.any() else found.numbers()

    def bounds(self, number: int, column: int) -> Entry | None:
        """Return the stored bounds of a column, or None if no file has one.

        Args:
            number: The field: LOWER or UPPER.
            column: The column's id.
        """
        return self._entry(number, column)

    def _entry(self, number: int, column: int) -> Entry | None:
        slot = self._records.field(number, "array")
        if slot is None:
            return None
        found = self._records.entry(slot, column)
        if self._live is None:
            return found
        return Entry(found.data, found.first[self._live], found.second[self._live])

    @property
    def partition_ids(self) -> Sequence[int]:
        """The ids of the partition fields."""
        return self._records.program.records.get(PARTITION, ())

    def partition(
        self, number: int
    ) -> tuple[Slot, pa.Array | Entry, npt.NDArray[np.bool_] | None] | None:
        """Return the values of a partition field; None if the manifest lacks the field.

        Returns:
            The field's type; its numbers or stored bytes; and which are not NULL (None: all).
        """
        slot = self._records.program.fields.get(number)
        if slot is None or slot.kind == "array":
            return None
        values, known = self._chosen(self._records.slots[slot.at]), self._records.known(slot)
        known = known if known is None or self._live is None else known[self._live]
        if slot.kind in ("int", "long"):
            return slot, arrow_of(values), known
        if slot.kind in ("string", "bytes"):
            sizes = self._chosen(self._records.slots[slot.at + 1])
        else:
            sizes = np.full(len(self), slot.width)
        known_sizes = sizes if known is None else np.where(known, sizes, -1)
        return slot, Entry(self._records.data, values, known_sizes), known

    @cached_property
    def keys(self) -> list[Hashable]:
        """The partition of each file, as a key.

        Two keys are equal if all values are, even if a column was promoted between the files.
        """
        columns: list[list[Hashable]] = []
        for number in self.partition_ids:
            found = self.partition(number)
            if found is not None:
                columns.append(_comparable(*found))
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)


def _comparable(
    slot: Slot, stored: pa.Array | Entry, known: npt.NDArray[np.bool_] | None
) -> list[Hashable]:
    """Return Python values that compare as those of a partition field do.

    They are numbers, the bits of floats, unscaled decimals, or bytes.
    """
    if isinstance(stored, Entry) and slot.kind in ("float", "double"):
        values, _ = stored.of_width("<f4" if slot.kind == "float" else "<f8")
        stored = arrow_of(values.astype(np.float64).view(np.int64))
    if isinstance(stored, Entry):
        found: list[Any] = stored.texts().to_pylist()
        digits = isinstance(slot.described, dict) and slot.described.get("logicalType") == "decimal"
        if digits:
            return [None if v is None else int.from_bytes(v, "big", signed=True) for v in found]
        return found
    return list((stored if known is None else null_where(arrow_of(~known), stored)).to_pylist())


def require_parquet(path: str, kind: str) -> None:
    """Check that a file is Parquet.

    Args:
        path: The file.
        kind: Its format, as a manifest names it.

    Raises:
        SourceError: it is of another format.
    """
    if kind.upper() != "PARQUET":
        raise SourceError(
            f"{path}: the file is of format {kind}; expected PARQUET. Plan with this table, "
            "and read it with another engine."
        )


# Reading.

_cache: Final[ManifestCache[Manifest]] = ManifestCache()
forget: Final = _cache.clear


def read_manifests(listed: Sequence[Any], storage: Any, meter: Meter) -> list[Manifest]:
    """Read the manifests of a manifest list's entries, in parallel, or take them from the cache.

    Args:
        listed: The entries: `ListedManifest` (listing.py).
        storage: pyiceberg's FileIO.
        meter: Counts the manifests that are read.

    Returns:
        The manifests, in the order of the entries.

    Raises:
        SourceError: a manifest is missing or damaged; the message names it.
    """
    keys = [
        (m.manifest_path, m.manifest_length, m.sequence_number, m.partition_spec_id) for m in listed
    ]
    found = _cache.find(keys)
    missing = [(key, m) for key, m in zip(keys, listed, strict=True) if key not in found]
    if missing:
        with (
            Track("manifests", len(missing), "manifests") as track,
            ContextPool(min(MAX_READERS, len(missing)), "skipstone-manifests") as readers,
        ):
            tasks = [readers.submit(_read_manifest, m, storage, meter) for _, m in missing]
            try:
                found.update(
                    (key, manifest)
                    for (key, _), manifest in zip(
                        missing, track.each(task.result() for task in tasks), strict=True
                    )
                )
            finally:  # after an error, stop reading the others
                for task in tasks:
                    task.cancel()
        _cache.add(found)
    return [found[key] for key in keys]


def _read_manifest(listed: Any, storage: Any, meter: Meter) -> Manifest:
    path = listed.manifest_path
    try:
        with storage.new_input(path).open() as f:
            data = f.read()
        meter.count("manifests", 1, len(data))
        if len(data) < listed.manifest_length:
            raise SourceError(
                f"it has {len(data)} bytes; the manifest list says {listed.manifest_length}"
            )
        manifest = decode(data, path, listed.partition_spec_id, listed.sequence_number or 0)
    except (OSError, ValueError, pa.ArrowException) as e:
        raise SourceError(
            f"{clip(path, MAX_PATH)}: the manifest cannot be read ({describe_error(e)})"
        ) from e
    counts = (listed.added_files_count, listed.existing_files_count)
    if all(n is not None and n >= 0 for n in counts) and sum(counts) > len(manifest):
        raise SourceError(
            f"{clip(path, MAX_PATH)}: the manifest has {len(manifest)} files; the manifest "
            f"list says {sum(counts)}. It is cut off, or was replaced."
        )
    return manifest


def decode(data: bytes, path: str, spec: int, sequence: int) -> Manifest:
    """Decode a manifest.

    Args:
        data: The manifest's bytes.
        path: The manifest's path.
        spec: The id of its partition spec.
        sequence: The sequence number that entries without one inherit.

    Raises:
        SourceError: the manifest is damaged, or neither our decoder nor pyiceberg reads it.
    """
    from skipstone.bindings.tables.iceberg import fallback

    refuse_encrypted(data)
    try:
        found = Container(data, UNUSED)
        return Manifest(path, spec, sequence, found.records(), len(data))
    except Unsupported as e:
        again = fallback.rewritten(data, e)
        try:
            return Manifest(path, spec, sequence, Container(again, UNUSED).records(), len(data))
        except Unsupported:
            raise SourceError(str(e)) from e
