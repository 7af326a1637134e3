"""Decode the statistics of an Iceberg table's columns at first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.iceberg.fields import Leaf, TableFields, is_nanoseconds
from skipstone.bindings.tables.iceberg.manifest import LOWER, NANS, NULLS, UPPER, VALUES, Manifest
from skipstone.bindings.tables.iceberg.partition import Spec, concatenate, partition_raw
from skipstone.bindings.tables.iceberg.values import typed, wide_uuids
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, fill, int64_of, null_where, scalar_of
from skipstone.ir.node import Path
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.run.pool import run_chunks

NANOS: Final = 1000  # in a microsecond


class FileColumns(Mapping[Path, ColumnStatistics]):
    """The statistics of all columns of the files in some manifests.

    Args:
        fields: The table's columns.
        specs: The table's partition specs, by id.
        manifests: The manifests, in the order of the containers.
    """

    def __init__(
        self, fields: TableFields, specs: Mapping[int, Spec], manifests: Sequence[Manifest]
    ) -> None:
        self._fields, self._specs, self._manifests = fields, specs, manifests
        self._decoded: dict[Path, ColumnStatistics] = {}

    def __getitem__(self, path: Path) -> ColumnStatistics:
        if path not in self._decoded:
            self._decoded[path] = self._raw(self._fields.leaves[path])
        return self._decoded[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._fields.leaves)

    def __len__(self) -> int:
        return len(self._fields.leaves)

    def _raw(self, leaf: Leaf) -> ColumnStatistics:
        parts = [ColumnStatistics()] * len(self._manifests)

        def work(first: int, stop: int) -> None:
            parts[first:stop] = [self._of_manifest(leaf, m) for m in self._manifests[first:stop]]

        run_chunks(work, len(parts), 1)
        return concatenate(parts, list(map(len, self._manifests)), leaf.type)

    def _of_manifest(self, leaf: Leaf, files: Manifest) -> ColumnStatistics:
        if leaf.kind == "VariantType":  # the format does not say what is counted
            return ColumnStatistics()
        spec = self._specs.get(files.spec)
        if spec is not None and (f := spec.exact(leaf.path)) is not None:
            # Every row of a file has its partition's value, whatever the file's own statistics say.
            raw = partition_raw(f, files)
            if raw.row_count is not None:
                return raw
        if leaf.id in self._fields.remapped:
            return ColumnStatistics()
        low, high = _certain_bounds(files, leaf)
        values, nulls, nans = (files.counts(number, leaf.id) for number in (VALUES, NULLS, NANS))
        rows = arrow_of(files.rows, files.rows >= 0)
        if len(leaf.path) > 1:
            return ColumnStatistics(
                low, high, _nested_nulls(nulls, values, rows, files), rows, nans
            )
        if values is not None:
            # Every row has one value of a column, so counts that say otherwise count something
            # else.
            wrong = fill(pc.not_equal(values, rows), False)
            if pc.any(wrong).as_py():
                nulls, nans = (None if c is None else null_where(wrong, c) for c in (nulls, nans))
        return ColumnStatistics(low, high, nulls, rows, nans)


def _nested_nulls(
    nulls: pa.Array | None, values: pa.Array | None, rows: pa.Array, files: Manifest
) -> pa.Array | None:
    """Return how many rows have no value of a struct's field, their structs' NULLs included.

    Parquet's footers count such a NULL as a value and as a NULL, for required fields as well, and
    writers of Iceberg copy these counts. Java's ORC writer counts neither, so its files have fewer
    values than rows where a struct is NULL. Other counts are unknown.

    Source: Parquet's format, `Statistics.null_count`; seen in Iceberg 1.12, pyiceberg 0.12 and
    DuckDB 2.0.
    """
    if nulls is None or values is None:
        return None
    parquet = pc.equal(pc.utf8_upper(files.formats), scalar_of("PARQUET", pa.string()))
    counted = fill(pc.and_(parquet, pc.equal(values, rows)), False)
    # No value is left, whether the rows whose struct is NULL were counted or not.
    none = fill(pc.and_(pc.equal(nulls, values), pc.less_equal(values, rows)), False)
    return pc.if_else(counted, nulls, null_where(pc.invert(none), rows))


def _certain_bounds(files: Manifest, leaf: Leaf) -> tuple[pa.Array | None, pa.Array | None]:
    """Return the bounds of a column that hold for every known writer."""
    low, high = (_bounds(files, number, leaf) for number in (LOWER, UPPER))
    if low is not None and high is not None and pa.types.is_floating(leaf.type):
        # Early ORC writers let NaN into bounds; then neither bound can be trusted.
        has_nan = pc.or_(fill(pc.is_nan(low), False), fill(pc.is_nan(high), False))
        low, high = (null_where(has_nan, b) for b in (low, high))
    if leaf.kind == "UUIDType":
        low, high = _certain_uuids(low, high, files)
    if high is not None and is_nanoseconds(leaf.type):
        high = _to_end_of_microsecond(high)
    return low, high


def _certain_uuids(
    low: pa.Array | None, high: pa.Array | None, files: Manifest
) -> tuple[pa.Array | None, pa.Array | None]:
    """Return bounds of UUIDs that are right in the order of bytes.

    Parquet orders the bounds of a row group by bytes. When Java merges those of several row groups,
    a minimum in the upper half of all UUIDs may hide smaller UUIDs in the lower half, and a maximum
    in the lower half may hide greater UUIDs in the upper half.
    """
    half, one_group = scalar_of("8", pa.string()), arrow_of(files.has_one_group)
    wide_low, wide_high = wide_uuids(low, high)
    if low is not None:
        wide_low = null_where(pc.greater_equal(wide_low, half), wide_low)
        low = pc.if_else(one_group, low, wide_low)
    if high is not None:
        wide_high = null_where(pc.less(wide_high, half), wide_high)
        high = pc.if_else(one_group, high, wide_high)
    return low, high


def _to_end_of_microsecond(high: pa.Array) -> pa.Array:
    """Widen maxima in nanoseconds that a writer may have cut to microseconds, as pyiceberg does.

    Source: seen in pyiceberg 0.12, whose `StatsAggregator` takes bounds through Python's datetime.
    """
    ticks, last = int64_of(high.view(pa.int64())), np.iinfo(np.int64).max
    end = np.where(ticks > last - (NANOS - 1), last, ticks + (NANOS - 1))
    widened = np.where(ticks % NANOS == 0, end, ticks)
    return arrow_of(widened, booleans_of(pc.is_valid(high))).view(high.type)


def _bounds(files: Manifest, number: int, leaf: Leaf) -> pa.Array | None:
    found = files.bounds(number, leaf.id)
    if found is None or not np.any(found.second >= 0):
        return None
    return typed(found, leaf.kind, leaf.type)
