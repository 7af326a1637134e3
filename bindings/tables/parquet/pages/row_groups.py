"""Read row groups by pages: choose rows by page statistics, then read column after column.

Page statistics leave windows of rows. A mask says which rows of the windows are still candidates.
Columns of the condition come first; of the others, only pages with a candidate row are read.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.plans.readers import ReaderName
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.parquet.heads import Head
from skipstone.bindings.tables.parquet.pages.candidate_rows import CandidateRows
from skipstone.bindings.tables.parquet.pages.chunk_pages import (
    is_as_listed,
    is_dictionary_coded,
)
from skipstone.bindings.tables.parquet.pages.columns import as_type, batches_of_rows
from skipstone.bindings.tables.parquet.pages.decoders import Decoded, decode
from skipstone.bindings.tables.parquet.pages.leaf_types import PHYSICAL, LeafType
from skipstone.bindings.tables.parquet.pages.page_choice import (
    Part,
    RowGroup,
    Window,
    look_up,
    needs_pages,
    pages_to_read,
    runs_of,
)
from skipstone.bindings.tables.parquet.pages.page_file import GroupPart, PageFile, read_pages
from skipstone.bindings.tables.parquet.pages.page_history import PageHistory
from skipstone.bindings.tables.parquet.pages.page_statistics import (
    PageBounds,
    bounds_of,
    bounds_of_chunk,
    segments_of,
)
from skipstone.bindings.tables.parquet.pages.windows import Placement, windows_of
from skipstone.bindings.tables.row_filter import Conjunct, joined
from skipstone.ir.arrow import arrow_of, repeated
from skipstone.ir.errors import SourceError
from skipstone.ir.node import columns_of

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
BYTE_ARRAY: Final = PHYSICAL["BYTE_ARRAY"]
# The share of candidate rows below which decoders return only those.
SPARSE: Final = 0.5
# The number of row groups whose pages are judged first, to learn whether the others' are worth
# judging.
PROBED: Final = 4


@dataclass(slots=True)
class _Read:
    """A column as it was decoded, and which rows of the windows it holds; None: all of them."""

    values: Decoded
    rows: Ints | None


@dataclass(slots=True)
class _Wanted:
    """A column to decode: its parts, and where their rows lie in the windows."""

    name: str
    parts: list[Part]
    placement: Placement
    text: bool = False  # may be decoded as a dictionary


class PagedRowGroups:
    """Row groups of files with one schema, which are read together, page by page.

    Args:
        head: The part of the footer that the files share.
        leaves: Table column -> its type in the files; columns that the files lack are not there.
        types: Table column -> its type in the table.
        groups: The row groups.
        reader: Decodes the pages.

    Attributes:
        leaves, types, reader: As given.
        candidates: The rows of all windows, and which no test has ruled out yet.
    """

    def __init__(
        self,
        head: Head,
        leaves: Mapping[str, LeafType],
        types: Mapping[str, pa.DataType],
        groups: Sequence[RowGroup],
        reader: ReaderName = "auto",
    ) -> None:
        self._head, self.leaves, self.types, self.reader = head, leaves, types, reader
        self._read: dict[str, _Read] = {}
        self._windows: list[Window] = []
        self.candidates = CandidateRows(np.ones(0, np.bool_))
        self._open([Window(g, 0, g.rows) for g in groups if g.rows])

    def _open(self, windows: list[Window]) -> None:
        self._windows = windows
        candidates = np.ones(sum(w.rows for w in windows), np.bool_)
        done = 0
        for w in windows:
            if w.group.live is not None:
                candidates[done : done + w.rows] = w.group.live[w.first : w.stop]
            done += w.rows
        self.candidates = CandidateRows(candidates)

    @property
    def windows(self) -> Sequence[Window]:
        """The ranges of rows that pages leave, ascending."""
        return self._windows

    def prune(self, predicate: PruningPredicate, history: PageHistory | None) -> None:
        """Leave only the windows whose pages may hold a match.

        Args:
            predicate: The condition.
            history: Says whether to look at page statistics, and learns how many rows they leave;
                None: look at all.
        """
        windows = self._windows
        if history is not None:
            if not history.is_worth_a_look():
                return
            if history.is_new and len(windows) > 2 * PROBED:
                few = windows[:: len(windows) // PROBED]
                history.add(_rows(few), _rows(self._judge_pages(predicate, few)))
                if not history.helps:
                    return
        remaining = self._judge_pages(predicate, windows)
        if remaining is not windows:
            self._open(remaining)
        if history is not None:
            history.add(_rows(windows), _rows(remaining))

    def _judge_pages(self, predicate: PruningPredicate, windows: list[Window]) -> list[Window]:
        """Return what page statistics leave of windows; the same list if that is all of them."""
        paths = columns_of(predicate.node)
        names = [path[0] for path in paths if len(path) == 1 and path[0] in self.leaves]
        look_up([(w.group, name) for w in windows for name in names], judged=True)
        found = [(w.group.rows, self._bounds(w.group, names)) for w in windows]
        if not any(bounds for _, bounds in found):
            return windows
        positions = {name: self.leaves[name].position for name in names}
        segments = segments_of(predicate.schema, self._head, positions, found)
        kept = predicate.prune(segments.statistics)
        remaining, done = [], 0
        for w, count in zip(windows, segments.counts, strict=True):
            own = slice(done, done + count)
            first = int(segments.starts[done])
            remaining += [
                Window(w.group, a - first, b - first)
                for a, b in windows_of(segments.starts[own], segments.stops[own], kept[own])
            ]
            done += count
        return remaining

    def _bounds(self, g: RowGroup, names: Sequence[str]) -> dict[str, PageBounds]:
        """Return the page statistics of columns, where there are any."""
        out = {}
        for name in names:
            pages = g.pages_of(name, judged=True)
            if pages is not None and len(pages) > 1:
                leaf = self.leaves[name]
                one = bounds_of(g.chunks[name], pages, g.ranges, leaf.physical)
                chunk = bounds_of_chunk(g.footer, g.number, leaf.position)
                if one is not None and chunk is not None:
                    out[name] = one._replace(chunk=chunk)
        return out

    def filter(self, part: Conjunct) -> Mask | None:
        """Keep only the rows for which a conjunct is TRUE, or may raise an error.

        Args:
            part: The conjunct.

        Returns:
            The mask of rows for which Spark may raise an error; None if there are none.
        """
        names = part.names
        self.fetch([name for name in names if name in self.leaves], text=part.program is None)
        read = self._read.get(names[0]) if len(names) == 1 else None
        if part.program is not None and read is not None:
            # A kernel judges all rows in less time than selecting candidates takes.
            where = read.rows
        else:
            where = self.candidates.positions
        n = len(self.candidates) if where is None else len(where)
        found = self._values(names, where, coded=True)
        truth = joined([part.judge(rows) for rows in batches_of_rows(found, n)])
        self.candidates.keep(truth.to_keep, where)
        if truth.may_raise is None or where is None:
            return truth.may_raise
        may_raise = np.zeros(len(self.candidates), np.bool_)
        may_raise[where] = truth.may_raise
        return may_raise

    def columns(self, names: Sequence[str]) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Return columns of the candidate rows, as the table has them."""
        return self._values(names, self.candidates.positions)

    def _values(
        self, names: Sequence[str], rows: Ints | None, *, coded: bool = False
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Return columns as the table has them, of some rows of the windows.

        Args:
            names: The columns.
            rows: The rows: the candidates, or all that the columns hold; None: all of the windows.
            coded: True if text may be a dictionary.
        """
        out = {}
        by_file: dict[int, list[str]] = {}
        for name in names:
            if name in self.leaves:
                by_file.setdefault(id(self._read[name].values), []).append(name)
            else:
                out[name] = self._constant(name, rows)
        for together in by_file.values():
            read = self._read[together[0]]
            keep = None
            if rows is not None and (read.rows is None or len(rows) < len(read.rows)):
                mask = self.candidates.mask
                keep = mask if read.rows is None else mask[read.rows]
            found = read.values.select(together, keep)
            for name in together:
                values = found.column(name)
                is_judged = coded and pa.types.is_dictionary(values.type)
                out[name] = values if is_judged else as_type(values, self.types[name])
        return out

    def _constant(self, name: str, rows: Ints | None) -> pa.Array:
        """Return a column that the files lack, of some rows of the windows."""
        values = [w.group.constants[name] for w in self._windows]
        counts = np.array([w.rows for w in self._windows])
        if rows is not None:
            counts = np.diff(np.searchsorted(rows, np.cumsum([0, *counts])))
        if not values or all(v is values[0] or v.equals(values[0]) for v in values[1:]):
            value = values[0] if values else pa.nulls(1, self.types[name])[0]
            return repeated(value, int(counts.sum()))
        distinct = pa.concat_arrays([repeated(v, 1) for v in values])
        return distinct.take(arrow_of(np.repeat(np.arange(len(values)), counts)))

    def fetch(self, names: Sequence[str], *, text: bool = False) -> None:
        """Read columns, as far as rows are candidates.

        Args:
            names: The columns.
            text: True if text may be decoded as dictionaries, to be judged by distinct values.

        Raises:
            SourceError: the pages hold other rows than the footer says.
        """
        wanted = self._parts([name for name in names if name not in self._read])
        together: dict[object, list[_Wanted]] = {}
        for one in wanted:
            leaf = self.leaves[one.name]
            is_text = leaf.physical == BYTE_ARRAY and leaf.arrow == self.types[one.name]
            one.text = text and is_text and not self._is_sparse
            values = tuple(part.values for _, part, _ in one.parts)
            key = one.name if one.text else (one.placement.key, values)
            together.setdefault(key, []).append(one)
        self._decode(list(together.values()))

    def _decode(self, wanted: Sequence[Sequence[_Wanted]]) -> None:
        """Decode columns; those whose decoded rows are the same are decoded together."""
        sparse = self._is_sparse
        mask = self.candidates.mask if sparse else None
        keeps = [of[0].placement.keep(mask) for of in wanted]
        with contextlib.ExitStack() as stack:
            files = [
                stack.enter_context(self._page_file(columns, keep))
                for columns, keep in zip(wanted, keeps, strict=True)
            ]
            coded = {
                columns[0].name
                for columns, file in zip(wanted, files, strict=True)
                if columns[0].text and _is_coded(columns[0], file)
            }
            decoded = decode(files, self.reader, coded)
        for columns, keep, values in zip(wanted, keeps, decoded, strict=True):
            placement = columns[0].placement
            expected = placement.rows if keep is None else int(np.count_nonzero(keep))
            if values.rows != expected:
                raise SourceError(
                    f"{self._path}: expected {expected} rows, its pages have {values.rows}"
                )
            rows = self.candidates.positions if sparse else placement.covered(len(self.candidates))
            for c in columns:
                self._read[c.name] = _Read(values, rows)

    @contextlib.contextmanager
    def _page_file(self, columns: Sequence[_Wanted], keep: Mask | None) -> Iterator[PageFile]:
        """Read the pages of columns into a file.

        Raises:
            SourceError: an offset index lists other pages.
        """
        groups = [
            GroupPart(ranges, [part for _, part, _ in parts])
            for parts in zip(*(c.parts for c in columns), strict=True)
            for ranges in [parts[0][0]]
        ]
        with read_pages([(c.name, self.leaves[c.name]) for c in columns], groups, keep) as file:
            for i, c in enumerate(columns):
                for (_, _, listed), group in zip(c.parts, file.views, strict=True):
                    if listed is not None and not is_as_listed(*listed, group[i]):
                        raise SourceError(f"{self._path}: the offset index of {c.name} is wrong")
            yield file

    @property
    def _is_sparse(self) -> bool:
        return self.candidates.count < SPARSE * len(self.candidates)

    @property
    def _path(self) -> str:
        return self._windows[0].group.path

    def _parts(self, names: Sequence[str]) -> list[_Wanted]:
        """Return the pages of columns that hold candidate rows."""
        groups = list(self.candidate_groups())
        look_up(
            [
                (windows[0].group, name)
                for windows, _, candidates in groups
                for name in names
                if needs_pages(windows, name, candidates)
            ]
        )
        out = []
        for name in names:
            parts: list[Part] = []
            runs: list[tuple[int, int, int]] = []
            decoded = 0
            for windows, first, candidates in groups:
                part, page_rows = pages_to_read(windows, name, candidates)
                parts.append(part)
                runs += runs_of(windows, page_rows, decoded, first)
                decoded += part[1].values
            out.append(_Wanted(name, parts, Placement.of(runs, decoded)))
        return out

    def sample(self, count: int) -> PagedRowGroups:
        """Return some of the row groups, spread over all."""
        groups = list({id(w.group): w.group for w in self._windows}.values())
        few = groups[:: max(len(groups) // count, 1)]
        return PagedRowGroups(self._head, self.leaves, self.types, few, self.reader)

    def candidate_groups(self) -> Iterator[tuple[list[Window], int, Mask]]:
        """Yield the windows of each row group with candidate rows, their first row and mask."""
        first = 0
        for _, members in itertools.groupby(self._windows, lambda w: id(w.group)):
            windows = list(members)
            rows = sum(w.rows for w in windows)
            candidates = self.candidates.mask[first : first + rows]
            if candidates.any():
                yield windows, first, candidates
            first += rows


def _is_coded(column: _Wanted, file: PageFile) -> bool:
    """Return True if all pages of a file's only column are coded by dictionaries."""
    return all(
        is_dictionary_coded(part, group[0])
        for (_, part, _), group in zip(column.parts, file.views, strict=True)
    )


def _rows(windows: Sequence[Window]) -> int:
    return sum(w.rows for w in windows)
