"""Narrow the statistics of columns that generate partition columns by the partition values.

Delta derives a filter on the partition column from each filter on its source column. Here the
partition value bounds the source column instead, as file statistics do, and narrows these. So every
form of a condition gains, also under OR and NOT, and no condition is rewritten. Delta's writers
must enforce that rows obey the expression.

Source: PROTOCOL.md, "Generated Columns".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.delta.clock import bounds_from_times
from skipstone.bindings.tables.delta.columns import LogColumns, partition_raw
from skipstone.bindings.tables.delta.fields import TableFields
from skipstone.bindings.tables.delta.generation import (
    DatePart,
    GeneratedColumn,
    Same,
    Substring,
    Truncation,
    generated_columns,
)
from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.arrow import fill, known_of, null_where, repeated, scalar_of, whole
from skipstone.ir.cached import cached_property
from skipstone.ir.functions.build import build
from skipstone.ir.functions.text import PAST
from skipstone.ir.node import Path, literal
from skipstone.ir.session import Session
from skipstone.ir.types import DType
from skipstone.kernels.pack.bounds import Bounds, Given, Side, bounds_of
from skipstone.kernels.pack.columns import Column, ColumnStatistics, column_of, pack_column, without
from skipstone.kernels.pack.counts import planes_of

Rows: TypeAlias = Given | Callable[[], pa.Array] | None


def statistics_of(
    fields: TableFields, files: int, columns: LogColumns, row_count: Rows
) -> Statistics:
    """Return the statistics of a table's files.

    If partition columns are generated, their values narrow the statistics of their sources.

    Args:
        fields: The table's columns.
        files: The number of files.
        columns: The statistics in the log.
        row_count: Live rows of each file, or a function that returns them.
    """
    if not any(name in fields.generated for name in fields.partitions):
        return Statistics(fields.schema, files, columns, row_count=row_count, counts_parents=True)
    return NarrowedStatistics(
        fields.schema, files, columns, GeneratedBounds(fields, columns), row_count
    )


class NarrowedStatistics(Statistics):
    """Statistics that kernels see narrowed by partition values; public values are the log's."""

    def __init__(
        self,
        schema: pa.Schema,
        files: int,
        columns: Mapping[Path, ColumnStatistics],
        bounds: GeneratedBounds,
        row_count: Rows,
    ) -> None:
        self._generated_bounds = bounds
        super().__init__(
            schema, files, columns, row_count=row_count, members=bounds, counts_parents=True
        )

    def of_partitions(self, names: Iterable[str]) -> Statistics:
        """Return statistics from partition values alone: of partition columns and their sources."""
        return NarrowedStatistics(
            self.schema,
            self.num_containers,
            {(name,): self.raw((name,)) for name in names},
            self._generated_bounds,
            None,
        )

    def pack(self, path: Path, dtype: DType) -> Column:
        """Pack the statistics of a column, narrowed by the partition values."""
        leaf = self.leaf(path)
        if leaf is None or path not in self._generated_bounds:
            return super().pack(path, dtype)
        raw, rows = narrow(self.raw(path), self._generated_bounds[path]), self._given_rows()
        if dtype != ty.STRING:
            return pack_column(raw, dtype, self.num_containers, nullable=leaf.nullable, rows=rows)
        n = self.num_containers
        low, high = _text_bounds(raw.min, "min"), _text_bounds(raw.max, "max")
        bounded = np.zeros(n, np.bool_)
        for b in (low, high):
            if b is not None:
                bounded |= b.mask
        *planes, wrong = planes_of(
            raw.null_count,
            raw.row_count,
            None,
            rows,
            n,
            nullable=leaf.nullable,
            floating=False,
            bounded=lambda at: bounded[at],
        )
        low, high = without(low, wrong, n), without(high, wrong, n)
        return column_of(dtype, low, high, *planes)


def _text_bounds(values: Given | None, side: Side) -> Bounds | None:
    """Return bounds of text; bounds that are large_binary may not be valid UTF-8."""
    if values is None or not pa.types.is_large_binary(values.type):
        return None if values is None else bounds_of(values, ty.STRING, side)
    array = whole(values)
    return Bounds(array, known_of(array))


class GeneratedBounds(Mapping[Path, ColumnStatistics]):
    """Bounds of other columns by the partition values, computed at first use."""

    def __init__(self, fields: TableFields, columns: LogColumns) -> None:
        self._fields, self._columns = fields, columns
        self._computed: dict[Path, ColumnStatistics] = {}

    @cached_property
    def _by_source(self) -> dict[Path, list[GeneratedColumn]]:
        out: dict[Path, list[GeneratedColumn]] = {}
        for g in generated_columns(self._fields):
            out.setdefault(g.source, []).append(g)
        return out

    def __getitem__(self, path: Path) -> ColumnStatistics:
        if path not in self._computed:
            self._computed[path] = functools.reduce(narrow, self._raws(path, self._by_source[path]))
        return self._computed[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._by_source)

    def __len__(self) -> int:
        return len(self._by_source)

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Return for each file whether it may contain one of some values; None if nothing is known.

        An item is False if the partition's substring is that of none of the values, so none of them
        is in the file. Otherwise it is null, unknown.
        """
        absent = None
        for g in self._by_source.get(path, ()):
            if isinstance(g.form, Substring) and dtype == ty.STRING:
                parts = pa.array(
                    {substring_of(v, g.form) for v in values if isinstance(v, bytes)},
                    pa.large_binary(),
                )
                texts = pc.cast(whole(self._columns.texts(g.name)), pa.large_binary())
                # Writers store an empty substring as NULL.
                none = pc.invert(pc.is_in(fill(texts, b""), value_set=parts))
                absent = none if absent is None else pc.or_(absent, none)
        return None if absent is None else pc.if_else(absent, False, None)

    def _raws(self, path: Path, columns: list[GeneratedColumn]) -> Iterator[ColumnStatistics]:
        kind = self._leaf_type(path)
        times = [
            (g.form, self._columns.texts(g.name), self._leaf_type((g.name,)))
            for g in columns
            if isinstance(g.form, Truncation | DatePart)
        ]
        if times:
            yield bounds_from_times(kind, times)
        for g in columns:
            texts = self._columns.texts(g.name)
            if isinstance(g.form, Substring):
                yield bounds_from_substring(texts, g.form)
            elif isinstance(g.form, Same) and ty.from_arrow(kind) == ty.TIMESTAMP:
                yield bounds_from_times(kind, [(Truncation("microsecond"), texts, kind)])
            elif isinstance(g.form, Same):
                yield bounds_from_same(texts, kind)

    def _leaf_type(self, path: Path) -> pa.DataType:
        return next(leaf.type for leaf in self._fields.leaves if leaf.path == path)


def bounds_from_same(texts: Given, arrow_type: pa.DataType) -> ColumnStatistics:
    """Bound a column that equals its partition column. Writers store an empty text as NULL."""
    raw = partition_raw(texts, arrow_type, "UTC")
    if not (pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type)):
        return raw
    assert raw.min is not None
    is_null = fill(pc.equal(raw.null_count, 1), False)
    blank = pc.if_else(is_null, b"", raw.min.cast(pa.large_binary()))
    return ColumnStatistics(
        blank, blank, pc.if_else(pc.equal(raw.null_count, 0), 0, None), raw.row_count
    )


def bounds_from_substring(texts: Given, part: Substring) -> ColumnStatistics:
    """Bound a text by the substring of it in the partition column.

    The substring is a prefix if it starts at the first character. If it is shorter than it may be,
    it is the whole text; otherwise the text starts with it. Writers store an empty substring as
    NULL.
    """
    filled = fill(texts, "")
    is_empty = pc.equal(pc.binary_length(filled), scalar_of(0, pa.int32()))
    nulls = null_where(is_empty, repeated(scalar_of(0, pa.int64()), len(texts)))
    ones = repeated(scalar_of(1, pa.int64()), len(texts))
    if part.at not in (0, 1) or (part.count is not None and part.count < 1):
        return ColumnStatistics(null_count=nulls, row_count=ones)
    low = pc.cast(filled, pa.large_binary())
    ends = (
        pc.is_valid(filled) if part.count is None else pc.less(pc.utf8_length(filled), part.count)
    )
    past = pc.binary_join_element_wise(low, *pa.array([PAST, b""], pa.large_binary()))
    return ColumnStatistics(low, pc.if_else(ends, low, past), nulls, ones)


def substring_of(value: bytes, part: Substring) -> bytes:
    """Return a part of a text, by Spark's `substring`."""
    numbers = (part.at,) if part.count is None else (part.at, part.count)
    found = build(
        "substring",
        (literal(value, ty.STRING), *(literal(n, ty.INT32) for n in numbers)),
        Session(),
    )
    assert isinstance(found.value, bytes)
    return found.value


def narrow(own: ColumnStatistics, other: ColumnStatistics) -> ColumnStatistics:
    """Intersect two sets of bounds; take the counts from `other` where it knows them."""
    return ColumnStatistics(
        _tighter(own.min, other.min, pc.max_element_wise),
        _tighter(own.max, other.max, pc.min_element_wise),
        *(
            _instead(getattr(own, key), getattr(other, key), other.null_count)
            for key in ("null_count", "row_count", "nan_count")
        ),
    )


def _tighter(own: Given | None, other: Given | None, choose: Callable[..., Any]) -> Given | None:
    if own is None or other is None:
        return other if own is None else own
    kind = own.type
    if pa.types.is_timestamp(kind):  # Arrow has no such kernel for timestamps
        return pc.cast(choose(pc.cast(own, pa.int64()), pc.cast(other, pa.int64())), kind)
    if pa.types.is_boolean(kind):
        return pc.coalesce(other, own)
    if not pa.types.is_large_binary(other.type):
        return choose(own, other)
    try:  # text, whose bounds in the log may be invalid UTF-8
        own.validate(full=True)
    except pa.ArrowInvalid:
        return other
    return choose(pc.cast(own, other.type), other)


def _instead(own: Given | None, other: Given | None, where: Given | None) -> Given | None:
    if other is None or where is None:
        return own
    if own is None:
        own = pa.nulls(len(other), other.type)
    return pc.if_else(pc.is_valid(where), other, own)
