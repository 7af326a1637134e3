"""Judge manifests and files by their partition values, each by the spec that wrote it.

Source: Iceberg's specification, "Partitioning" and "Scan Planning".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.iceberg.fields import Leaf, TableFields
from skipstone.bindings.tables.iceberg.manifest import Manifest
from skipstone.bindings.tables.iceberg.values import DAY, array, typed, wide_uuids
from skipstone.bindings.tables.partition_values import constant_statistics
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, int64_of, python_array
from skipstone.ir.node import Node, Path
from skipstone.ir.outcome import Verdict
from skipstone.ir.partitioning.projection import Mode, PartitionField, project
from skipstone.ir.partitioning.transforms import Transform
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.ir.types import from_arrow
from skipstone.kernels.decode.arrays import distinct
from skipstone.kernels.decode.avro_records import Entry
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask, Verdicts

STATISTICS: Final = ("min", "max", "null_count", "row_count", "nan_count")


@dataclass(frozen=True, slots=True)
class SpecField:
    """One field of a partition spec.

    Attributes:
        id: The id of its values in manifests.
        at: Its position among all fields of the spec.
        leaf: Its source column.
        transform: Its transform.
        name: The name of its values.
        kind: The name of pyiceberg's class of its values' type.
        type: The same type in Arrow.
    """

    id: int
    at: int
    leaf: Leaf
    transform: Transform
    name: str
    kind: str
    type: pa.DataType

    @property
    def exact(self) -> bool:
        """True if each row of a partition has the partition's value."""
        return self.transform.name == "identity"


class Spec:
    """The fields of a partition spec that bound columns of a schema.

    Args:
        spec: pyiceberg's spec.
        fields: The schema's columns.
    """

    def __init__(self, spec: Any, fields: TableFields) -> None:
        found = (_field(f, i, fields) for i, f in enumerate(spec.fields))
        self.fields: tuple[SpecField, ...] = tuple(f for f in found if f is not None)
        self.partitioned = any(str(f.transform) != "void" for f in spec.fields)
        self.schema: pa.Schema = pa.schema([(f.name, f.type) for f in self.fields])
        self._projected = tuple(
            PartitionField(f.leaf.path, f.transform, f.name) for f in self.fields
        )

    def exact(self, path: Path) -> SpecField | None:
        """Return the field that holds the values of a column; None if no field does."""
        return next((f for f in self.fields if f.exact and f.leaf.path == path), None)

    def project(self, predicate: PruningPredicate, mode: Mode) -> Node:
        """Project a condition on rows to one on this spec's partition values.

        See ir/partitioning/projection.py.
        """
        return project(predicate.node, self._projected, mode)

    def may_match(self, predicate: PruningPredicate, manifests: Sequence[Any]) -> Mask:
        """Return which manifests may hold a file with a matching row.

        The summaries of their partitions in the manifest list decide.
        """
        condition = self.project(predicate, "inclusive")
        if condition == TRUE:
            return np.ones(len(manifests), np.bool_)
        known: dict[Path, ColumnStatistics] = {
            (f.name,): _summary(f, manifests) for f in self.fields
        }
        return predicate.over(condition, self.schema).prune(
            Statistics(self.schema, len(manifests), known)
        )

    def statistics(self, manifests: Sequence[Manifest]) -> Statistics:
        """Return the partition values of the files in some manifests as statistics.

        Each partition field is a column with one value in each file.
        """
        known: dict[Path, ColumnStatistics] = {
            (f.name,): concatenate(
                [partition_raw(f, m) for m in manifests], list(map(len, manifests)), f.type
            )
            for f in self.fields
        }
        return Statistics(self.schema, sum(map(len, manifests)), known)

    def judge(self, predicate: PruningPredicate, statistics: Statistics) -> Verdicts:
        """Return the verdict of each file by its partition values alone.

        Args:
            predicate: The condition.
            statistics: The partition values (`statistics`).
        """
        conditions = self.project(predicate, "inclusive"), self.project(predicate, "strict")
        if conditions == (TRUE, FALSE):
            return np.full(len(statistics), Verdict.MAYBE, np.uint8)
        may, must = (predicate.over(c, self.schema) for c in conditions)
        always = must.evaluate(statistics) == Verdict.ALWAYS
        return np.where(
            may.prune(statistics), np.where(always, Verdict.ALWAYS, Verdict.MAYBE), Verdict.NEVER
        ).astype(np.uint8)


def _field(field: Any, at: int, fields: TableFields) -> SpecField | None:
    """Return a field of a spec; None if its column was dropped or its transform is unknown."""
    leaf, transform = fields.by_id.get(field.source_id), Transform.parse(str(field.transform))
    if leaf is None or transform.name == "void":
        return None
    if leaf.kind == "UUIDType" and transform.name != "identity":
        if transform.name != "bucket":
            return None
        transform = replace(transform, uuids=True)
    if leaf.id in fields.remapped and transform.name != "identity":
        return None  # the transform saw another column
    source = from_arrow(leaf.type)
    # The transform of a promoted column saw the earlier type. Hashes stay the same; results that
    # are truncated, or that wrap at the ends of the type, do not.
    changed = fields.changed(leaf.id)
    stable = transform.name == "identity" or (
        transform.name == "bucket" and not pa.types.is_timestamp(leaf.type)
    )
    if not transform.supports(source) or (changed and not stable):
        return None
    if transform.name in ("identity", "truncate"):
        return SpecField(field.field_id, at, leaf, transform, field.name, leaf.kind, leaf.type)
    days = transform.name == "day"
    return SpecField(
        field.field_id,
        at,
        leaf,
        transform,
        field.name,
        "DateType" if days else "IntegerType",
        pa.date32() if days else pa.int32(),
    )


def _summary(f: SpecField, manifests: Sequence[Any]) -> ColumnStatistics:
    """Return the summaries of a field in the manifest list as statistics, one per manifest."""
    found = [
        m.partitions[f.at] if m.partitions and f.at < len(m.partitions) else None for m in manifests
    ]
    low, high = (
        typed(_stored([s and getattr(s, side) for s in found]), f.kind, f.type)
        for side in ("lower_bound", "upper_bound")
    )
    if f.kind == "UUIDType":
        # If UUIDs lie in both halves, Java's least one is above its greatest in the order of
        # bytes: a contradiction, so both are unknown.
        low, high = wide_uuids(low, high)
    # A count of 0 means that the flag is False; otherwise it is unknown.
    nulls, nans = (
        [None if s is None or getattr(s, flag) is not False else 0 for s in found]
        for flag in ("contains_null", "contains_nan")
    )
    return ColumnStatistics(
        low, high, python_array(nulls, pa.int64()), None, python_array(nans, pa.int64())
    )


def _stored(values: Sequence[bytes | None]) -> Entry:
    sizes = np.array([-1 if v is None else len(v) for v in values], np.int64)
    ends = np.cumsum(np.maximum(sizes, 0))
    return Entry(
        np.frombuffer(b"".join(v or b"" for v in values), np.uint8),
        ends - np.maximum(sizes, 0),
        sizes,
    )


def concatenate(
    parts: Sequence[ColumnStatistics], lengths: Sequence[int], arrow_type: pa.DataType
) -> ColumnStatistics:
    """Concatenate the statistics of one column from several lists of containers.

    Args:
        parts: The statistics of each list.
        lengths: The number of containers in each list.
        arrow_type: The column's type.
    """

    def whole(name: str) -> pa.ChunkedArray | None:
        found = [getattr(p, name) for p in parts]
        to = arrow_type if name in ("min", "max") else pa.int64()
        if all(a is None for a in found):
            return None
        return pa.chunked_array(
            [pa.nulls(n, to) if a is None else a for a, n in zip(found, lengths, strict=True)], to
        )

    return ColumnStatistics(*map(whole, STATISTICS))


def partition_raw(f: SpecField, files: Manifest) -> ColumnStatistics:
    """Return a partition field as the statistics of a column with one value in each file.

    They are unknown where the values cannot be read.
    """
    values, known = partition_values(f, files)
    if values is None:
        return ColumnStatistics()
    absent = pc.is_null(values)
    return constant_statistics(
        values, absent if known is None else pc.and_(absent, arrow_of(known))
    )


def partition_of(
    spec: Spec, manifest: Manifest, row: int, needed: Collection[str]
) -> Iterator[tuple[str, pa.Scalar | str]]:
    """Yield the names and values of needed columns that a file's partition determines.

    A string in place of a value says why it cannot be read.

    Args:
        spec: The manifest's partition spec.
        manifest: The manifest of the file.
        row: The file's position in it.
        needed: The names of the columns.
    """
    for name in needed:
        field = spec.exact((name,))
        if field is None:
            continue
        values, known = partition_values(field, manifest)
        if values is not None and known is not None and not known[row]:
            yield name, pa.nulls(1, field.type)[0]
        elif values is None or not values[row].is_valid:
            yield name, f"{manifest.path}: the partition value of {name} cannot be read"
        else:
            yield name, values[row]


def partition_values(f: SpecField, files: Manifest) -> tuple[pa.Array | None, Mask | None]:
    """Return the values of a partition field.

    Returns:
        The values, null where they are NULL or cannot be read, or None if nothing is known of the
        field; and which of them are not NULL (None: all).
    """
    found = files.partition(f.id)
    if found is None:
        return None, None
    slot, stored, known = found
    if isinstance(stored, Entry):
        return typed(stored, f.kind, f.type), known
    logical = slot.described.get("logicalType") if isinstance(slot.described, dict) else None
    return _integers(int64_of(stored), known, logical, f.type), known


def _integers(
    numbers: npt.NDArray[np.int64], known: Mask | None, logical: str | None, to: pa.DataType
) -> pa.Array | None:
    t = pa.types
    if not (t.is_integer(to) or t.is_date32(to) or t.is_timestamp(to)):
        return None
    fits = np.ones(len(numbers), np.bool_) if known is None else known.copy()
    if t.is_timestamp(to):
        if logical == "date":
            fits &= np.abs(numbers) <= np.iinfo(np.int64).max // DAY[to.unit]
            numbers = np.where(fits, numbers, 0) * DAY[to.unit]
        elif logical is not None and not logical.endswith(
            {"us": "timestamp-micros", "ns": "timestamp-nanos"}[to.unit]
        ):
            return None
        return array(numbers, fits, to)
    if to.bit_width == 32:
        fits &= (numbers >= -(2**31)) & (numbers < 2**31)
        numbers = numbers.astype(np.int32)
    return array(numbers, fits, to)


def may_match(
    predicate: PruningPredicate, listed: Sequence[Any], specs: Mapping[int, Spec]
) -> Mask:
    """Return which manifests may hold a file with a matching row, or deletes of such a row."""
    out = np.ones(len(listed), np.bool_)
    of = np.array([m.partition_spec_id for m in listed], np.int64)
    for number in distinct(of).tolist():
        if (spec := specs.get(number)) is not None and spec.fields:
            here = np.flatnonzero(of == number)
            out[here] = spec.may_match(predicate, [listed[i] for i in here.tolist()])
    return out
