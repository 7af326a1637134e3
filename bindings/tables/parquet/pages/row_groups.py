"""Read row groups by pages: choose rows by page statistics, then read column after column.

Page statistics leave windows of rows. A mask says which rows of the windows are still alive.
Columns of the condition come first; of the others, only pages with a living row are read.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.plans.readers import ReaderName
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.parquet.footer import Head
from skipstone.bindings.tables.parquet.pages.chunk_pages import (
    is_as_listed,
    is_dictionary_coded,
)
from skipstone.bindings.tables.parquet.pages.decoders import Decoded, decode
from skipstone.bindings.tables.parquet.pages.leaf_types import PHYSICAL, LeafType
from skipstone.bindings.tables.parquet.pages.page_choice import (
    Part,
    RowGroup,
    Window,
    pages_to_read,
    runs_of,
)
from skipstone.bindings.tables.parquet.pages.page_file import GroupPart, read_pages
from skipstone.bindings.tables.parquet.pages.page_statistics import (
    PageBounds,
    bounds_of,
    segments_of,
)
from skipstone.bindings.tables.parquet.pages.windows import Placement, windows_of
from skipstone.bindings.tables.row_filter import Conjunct
from skipstone.bindings.tables.table_columns import to_table_type
from skipstone.ir.errors import SourceError
from skipstone.ir.node import columns_of

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
BYTE_ARRAY: Final = PHYSICAL["BYTE_ARRAY"]


@dataclass(slots=True)
class _Read:
    """A column as it was decoded, and where its rows lie in the windows."""

    values: Decoded
    placement: Placement
    covered: Mask | None  # the rows of windows that were decoded; None: all


@dataclass(slots=True)
class _Wanted:
    """A column to decode: its parts, and where their rows lie in the windows."""

    name: str
    parts: list[Part]
    placement: Placement
    text: bool = False  # may be decoded as a dictionary


class RowGroups:
    """Row groups of files with one schema, read together.

    Args:
        head: The part of the footer that the files share.
        leaves: Table column -> its type in the files; columns that the files lack are not there.
        types: Table column -> its type in the table.
        groups: The row groups.
        reader: Decodes the pages.

    Attributes:
        alive: The rows of all windows that are still alive.
    """

    def __init__(
        self,
        head: Head,
        leaves: Mapping[str, LeafType],
        types: Mapping[str, pa.DataType],
        groups: Sequence[RowGroup],
        reader: ReaderName = "auto",
    ) -> None:
        self._head, self._leaves, self._types, self._reader = head, leaves, types, reader
        self._read: dict[str, _Read] = {}
        self._windows: list[Window] = []
        self.alive: Mask = np.ones(0, np.bool_)
        self._open([Window(g, 0, g.rows) for g in groups if g.rows])

    def _open(self, windows: list[Window]) -> None:
        self._windows = windows
        self.alive = np.ones(sum(w.rows for w in windows), np.bool_)
        done = 0
        for w in windows:
            if w.group.live is not None:
                self.alive[done : done + w.rows] = w.group.live[w.first : w.stop]
            done += w.rows

    def prune(self, predicate: PruningPredicate) -> None:
        """Leave only the windows whose pages may hold a match."""
        paths = columns_of(predicate.node)
        names = [path[0] for path in paths if len(path) == 1 and path[0] in self._leaves]
        found = [(w.group.rows, self._bounds(w.group, names)) for w in self._windows]
        if not any(bounds for _, bounds in found):
            return
        positions = {name: self._leaves[name].position for name in names}
        segments = segments_of(predicate.schema, self._head, positions, found)
        kept = predicate.prune(segments.statistics)
        windows, done = [], 0
        for w, count in zip(self._windows, segments.counts, strict=True):
            own = slice(done, done + count)
            first = int(segments.starts[done])
            windows += [
                Window(w.group, a - first, b - first)
                for a, b in windows_of(segments.starts[own], segments.stops[own], kept[own])
            ]
            done += count
        self._open(windows)

    def _bounds(self, g: RowGroup, names: Sequence[str]) -> dict[str, PageBounds]:
        """Return the page statistics of columns, where there are any."""
        out = {}
        for name in names:
            pages = g.pages_of(name, judged=True)
            if pages is not None and len(pages) > 1:
                leaf = self._leaves[name]
                one = bounds_of(g.chunks[name], pages, g.ranges, leaf.physical)
                if one is not None:
                    layout = g.footer.layout
                    stats = None if layout is None else layout.chunks[g.number, leaf.position]
                    chunk = None if stats is None else (stats, g.footer.data)
                    out[name] = dataclasses.replace(one, chunk=chunk)
        return out

    def filter(self, part: Conjunct) -> Mask | None:
        """Let only rows live for which a conjunct is TRUE, or may raise an error.

        Args:
            part: The conjunct.

        Returns:
            The mask of rows for which Spark may raise an error; None if there are none.
        """
        names = part.names
        self.fetch([name for name in names if name in self._leaves], text=part.program is None)
        read = self._read.get(names[0]) if len(names) == 1 else None
        if part.program is not None and read is not None:
            # A kernel judges all rows in less time than it takes to choose those alive.
            where = read.covered
        else:
            where = None if self.alive.all() else self.alive.copy()
        n = len(self.alive) if where is None else int(where.sum())
        found = self._values(names, where, coded=True)
        columns = {name: _one(values) for name, values in found.items()}
        rows = pa.record_batch(columns or {"": pa.nulls(n)})
        truth = part.judge(rows)
        at = slice(None) if where is None else where
        self.alive[at] &= truth.true | truth.may_raise
        if not truth.may_raise.any():
            return None
        open_ = np.zeros(len(self.alive), np.bool_)
        open_[at] = truth.may_raise
        return open_

    def columns(self, names: Sequence[str]) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Return columns of the rows that are alive, as the table has them."""
        return self._values(names, None if self.alive.all() else self.alive)

    def _values(
        self, names: Sequence[str], rows: Mask | None, *, coded: bool = False
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Return columns as the table has them, of some rows of the windows.

        Args:
            names: The columns.
            rows: The mask of the rows.
            coded: Whether text may be a dictionary.
        """
        out = {}
        by_file: dict[int, list[str]] = {}
        for name in names:
            if name in self._leaves:
                by_file.setdefault(id(self._read[name].values), []).append(name)
            else:
                out[name] = self._constant(name, rows)
        for together in by_file.values():
            read = self._read[together[0]]
            found = read.values.select(together, read.placement.keep(rows))
            for name in together:
                values = found.column(name)
                is_judged = coded and pa.types.is_dictionary(values.type)
                out[name] = values if is_judged else _as_type(values, self._types[name])
        return out

    def _constant(self, name: str, rows: Mask | None) -> pa.Array:
        """Return a column that the files lack, of some rows of the windows."""
        values = [w.group.constants[name] for w in self._windows]
        counts = np.array([w.rows for w in self._windows])
        if rows is not None:
            firsts = np.cumsum([0, *counts[:-1]])
            counts = np.add.reduceat(rows.astype(np.int64), firsts) if len(firsts) else counts
        if not values or all(v is values[0] or v.equals(values[0]) for v in values[1:]):
            value = values[0] if values else pa.scalar(None, self._types[name])
            return _repeated(value, int(counts.sum()))
        distinct = pa.concat_arrays([_repeated(v, 1) for v in values])
        return distinct.take(pa.array(np.repeat(np.arange(len(values)), counts)))

    def fetch(self, names: Sequence[str], *, text: bool = False) -> None:
        """Read columns, as far as rows are alive.

        Args:
            names: The columns.
            text: Whether text may be decoded as dictionaries, to be judged by distinct values.

        Raises:
            SourceError: the pages hold other rows than the footer says.
        """
        wanted = self._parts([name for name in names if name not in self._read])
        together: dict[object, list[_Wanted]] = {}
        for one in wanted:
            leaf = self._leaves[one.name]
            is_text = leaf.physical == BYTE_ARRAY and leaf.arrow == self._types[one.name]
            one.text = text and is_text
            values = tuple(part.values for _, part, _ in one.parts)
            key = one.name if one.text else (one.placement.key, values)
            together.setdefault(key, []).append(one)
        for columns in together.values():
            self._decode(columns)

    def _decode(self, columns: Sequence[_Wanted]) -> None:
        groups = [
            GroupPart(ranges, [part for _, part, _ in parts])
            for parts in zip(*(c.parts for c in columns), strict=True)
            for ranges in [parts[0][0]]
        ]
        data, views = read_pages([(c.name, self._leaves[c.name]) for c in columns], groups)
        for i, c in enumerate(columns):
            for (_, _, listed), group in zip(c.parts, views, strict=True):
                if listed is not None and not is_as_listed(*listed, group[i]):
                    raise SourceError(f"{self._path}: the offset index of {c.name} is wrong")
        coded = columns[0].text and all(
            is_dictionary_coded(part, group[0])
            for (_, part, _), group in zip(columns[0].parts, views, strict=True)
        )
        size = sum(max(8 * part.values, part.unpacked) for g in groups for part in g.parts)
        values = decode(data, size, self._reader, [columns[0].name] if coded else ())
        placement = columns[0].placement
        if values.rows != placement.rows:
            raise SourceError(
                f"{self._path}: expected {placement.rows} rows, its pages have {values.rows}"
            )
        covered = placement.covered(len(self.alive))
        for c in columns:
            self._read[c.name] = _Read(values, placement, covered)

    @property
    def _path(self) -> str:
        return self._windows[0].group.path

    def _parts(self, names: Sequence[str]) -> list[_Wanted]:
        """Return the pages of columns that hold living rows."""
        out = []
        for name in names:
            parts: list[Part] = []
            runs: list[tuple[int, int, int]] = []
            decoded = done = 0
            for _, members in itertools.groupby(self._windows, lambda w: id(w.group)):
                windows = list(members)
                rows = sum(w.rows for w in windows)
                alive = self.alive[done : done + rows]
                if alive.any():
                    part, page_rows = pages_to_read(windows, name, alive)
                    parts.append(part)
                    runs += runs_of(windows, page_rows, decoded, done)
                    decoded += part[1].values
                done += rows
            out.append(_Wanted(name, parts, Placement.of(runs, decoded)))
        return out


def _as_type(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column as the table has it."""
    if values.type == kind:
        return values
    return pa.chunked_array([to_table_type(chunk, kind) for chunk in values.chunks], kind)


def _repeated(value: pa.Scalar, n: int) -> pa.Array:
    """Return an array of one value, of any type."""
    return pa.repeat(value, n) if value.is_valid else pa.nulls(n, value.type)


def _one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; dictionaries of several row groups become one."""
    if isinstance(values, pa.Array):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return values.combine_chunks()
