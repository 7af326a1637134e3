"""Statistics of a Delta table whose partition columns are generated: what their values tell of other columns.

Delta derives a filter on the partition column from each filter on its source. Here the value of the partition
bounds the source instead, as file statistics do, and narrows these: every form of a condition gains by it, under
OR and NOT too, and nothing is rewritten. That rows obey the expression is what Delta's writers must enforce.

Source: PROTOCOL.md, "Generated Columns".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.delta.clock import told_of_time
from skipstone.bindings.tables.delta.columns import LogColumns, partition_raw
from skipstone.bindings.tables.delta.fields import TableFields
from skipstone.bindings.tables.delta.generation import (
    Cell,
    Generated,
    Same,
    Substring,
    Turn,
    generated,
)
from skipstone.ir import types as ty
from skipstone.ir.cached import cached_property
from skipstone.ir.functions.build import build
from skipstone.ir.functions.text import PAST
from skipstone.ir.node import Path, literal
from skipstone.ir.session import Session
from skipstone.ir.types import DType, whole
from skipstone.kernels.pack.bounds import Bounds, Given, Side, bounds_of, known_of
from skipstone.kernels.pack.columns import Column, Raw, column_of, pack_column, without
from skipstone.kernels.pack.counts import planes_of

Rows: TypeAlias = Given | Callable[[], pa.Array] | None


def statistics_of(
    fields: TableFields, files: int, columns: LogColumns, row_count: Rows
) -> Statistics:
    """The statistics of a table's files; of one with generated partition columns, narrowed by what they tell."""
    if not any(name in fields.generated for name in fields.partitions):
        return Statistics(fields.schema, files, columns, row_count=row_count, counts_parents=True)
    return Narrowed(fields.schema, files, columns, GeneratedBounds(fields, columns), row_count)


class Narrowed(Statistics):
    """Statistics as they came, to people; to kernels what partition values tell besides."""

    def __init__(
        self,
        schema: pa.Schema,
        files: int,
        columns: Mapping[Path, Raw],
        told: GeneratedBounds,
        row_count: Rows,
    ) -> None:
        self._told = told
        super().__init__(
            schema, files, columns, row_count=row_count, members=told, counts_parents=True
        )

    def of_partitions(self, names: Iterable[str]) -> Statistics:
        """What partition columns alone tell, of their own values and of what they were made from."""
        return Narrowed(
            self.schema,
            self.num_containers,
            {(name,): self.raw((name,)) for name in names},
            self._told,
            None,
        )

    def pack(self, path: Path, dtype: DType) -> Column:
        """Packed statistics of a column, within what partition values tell."""
        leaf = self.leaf(path)
        if leaf is None or path not in self._told:
            return super().pack(path, dtype)
        raw, rows = narrowed(self.raw(path), self._told[path]), self._given_rows()
        if dtype != ty.STRING:
            return pack_column(raw, dtype, self.num_containers, nullable=leaf.nullable, rows=rows)
        n = self.num_containers
        low, high = _text_bounds(raw.min, "min"), _text_bounds(raw.max, "max")
        known = np.zeros(n, np.bool_)
        for b in (low, high):
            if b is not None:
                known |= True if b.known is None else b.known
        *planes, wrong = planes_of(
            raw.null_count,
            raw.row_count,
            None,
            rows,
            n,
            nullable=leaf.nullable,
            floating=False,
            bounded=lambda at: known[at],
        )
        low, high = without(low, wrong, n), without(high, wrong, n)
        return column_of(dtype, low, high, *planes)


def _text_bounds(values: Given | None, side: Side) -> Bounds | None:
    """Bounds of text, which may be bytes that are none."""
    if values is None or not pa.types.is_large_binary(values.type):
        return None if values is None else bounds_of(values, ty.STRING, side)
    array = whole(values)
    return Bounds(array, known_of(array))


class GeneratedBounds(Mapping[Path, Raw]):
    """What the partition columns of some files tell of other columns, made at first use."""

    def __init__(self, fields: TableFields, columns: LogColumns) -> None:
        self._fields, self._columns = fields, columns
        self._made: dict[Path, Raw] = {}

    @cached_property
    def _by_source(self) -> dict[Path, list[Generated]]:
        out: dict[Path, list[Generated]] = {}
        for g in generated(self._fields):
            out.setdefault(g.source, []).append(g)
        return out

    def __getitem__(self, path: Path) -> Raw:
        if path not in self._made:
            self._made[path] = functools.reduce(narrowed, self._raws(path, self._by_source[path]))
        return self._made[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._by_source)

    def __len__(self) -> int:
        return len(self._by_source)

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """False: the part of no value is the partition's, so none is in the file; null: not known."""
        absent = None
        for g in self._by_source.get(path, ()):
            if isinstance(g.form, Substring) and dtype == ty.STRING:
                parts = pa.array(
                    {part_of(v, g.form) for v in values if isinstance(v, bytes)}, pa.large_binary()
                )
                texts = whole(self._columns.texts(g.name)).cast(pa.large_binary())
                none = pc.invert(
                    pc.is_in(pc.fill_null(texts, b""), value_set=parts)
                )  # an empty part is written as NULL
                absent = none if absent is None else pc.or_(absent, none)
        return None if absent is None else pc.if_else(absent, False, None)

    def _raws(self, path: Path, made: list[Generated]) -> Iterator[Raw]:
        kind = self._leaf_type(path)
        times = [
            (g.form, self._columns.texts(g.name), self._leaf_type((g.name,)))
            for g in made
            if isinstance(g.form, Cell | Turn)
        ]
        if times:
            yield told_of_time(kind, times)
        for g in made:
            texts = self._columns.texts(g.name)
            if isinstance(g.form, Substring):
                yield told_of_text(texts, g.form)
            elif isinstance(g.form, Same) and ty.from_arrow(kind) == ty.TIMESTAMP:
                yield told_of_time(kind, [(Cell("microsecond"), texts, kind)])
            elif isinstance(g.form, Same):
                yield told_by_itself(texts, kind)

    def _leaf_type(self, path: Path) -> pa.DataType:
        return next(leaf.type for leaf in self._fields.leaves if leaf.path == path)


def told_by_itself(texts: Given, kind: pa.DataType) -> Raw:
    """A column that is the partition column too. Empty text is written as NULL."""
    raw = partition_raw(texts, kind, "UTC")
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return raw
    assert raw.min is not None
    blank = pc.if_else(pc.equal(raw.null_count, 1), b"", raw.min.cast(pa.large_binary()))
    return Raw(blank, blank, pc.if_else(pc.equal(raw.null_count, 0), 0, None), raw.row_count)


def told_of_text(texts: Given, part: Substring) -> Raw:
    """A text of which the partition column is a part: the text itself if that ends before it is cut, or what it starts with.

    An empty part is written as NULL.
    """
    filled = pc.fill_null(texts, "")
    nulls = pc.if_else(pc.equal(filled, ""), None, 0)
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(texts))
    if part.at not in (0, 1) or (part.count is not None and part.count < 1):
        return Raw(null_count=nulls, row_count=ones)
    low = filled.cast(pa.large_binary())
    ends = (
        pc.is_valid(filled) if part.count is None else pc.less(pc.utf8_length(filled), part.count)
    )
    return Raw(
        low,
        pc.if_else(
            ends, low, pc.binary_join_element_wise(low, *pa.array([PAST, b""], pa.large_binary()))
        ),
        nulls,
        ones,
    )


def part_of(value: bytes, part: Substring) -> bytes:
    """The characters of a text that a part is of."""
    numbers = (part.at,) if part.count is None else (part.at, part.count)
    found = build(
        "substring",
        (literal(value, ty.STRING), *(literal(n, ty.INT32) for n in numbers)),
        Session(),
    )
    assert isinstance(found.value, bytes)
    return found.value


def narrowed(own: Raw, told: Raw) -> Raw:
    """Bounds that are within both, and counts as partition values tell them, where they do."""
    return Raw(
        _tighter(own.min, told.min, pc.max_element_wise),
        _tighter(own.max, told.max, pc.min_element_wise),
        *(
            _instead(getattr(own, key), getattr(told, key), told.null_count)
            for key in ("null_count", "row_count", "nan_count")
        ),
    )


def _tighter(own: Given | None, told: Given | None, choose: Callable[..., Any]) -> Given | None:
    if own is None or told is None:
        return told if own is None else own
    kind = own.type
    if pa.types.is_timestamp(kind):  # no kernel of Arrow's compares these
        return choose(own.cast(pa.int64()), told.cast(pa.int64())).cast(kind)
    if pa.types.is_boolean(kind):
        return pc.coalesce(told, own)
    if not pa.types.is_large_binary(told.type):
        return choose(own, told)
    try:  # text, whose bounds may be bytes that are none
        own.validate(full=True)
    except pa.ArrowInvalid:
        return told
    return choose(own.cast(told.type), told)


def _instead(own: Given | None, told: Given | None, where: Given | None) -> Given | None:
    if told is None or where is None:
        return own
    if own is None:
        own = pa.nulls(len(told), told.type)
    return pc.if_else(pc.is_valid(where), told, own)
