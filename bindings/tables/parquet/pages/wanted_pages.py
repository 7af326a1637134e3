"""The pages of columns that hold candidate rows, and the files in memory that decoders get."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from skipstone.bindings.tables.parquet.pages.candidate_rows import CandidateRows
from skipstone.bindings.tables.parquet.pages.chunk_pages import Pages
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType
from skipstone.bindings.tables.parquet.pages.page_checks import is_as_listed, is_dictionary_coded
from skipstone.bindings.tables.parquet.pages.page_choice import (
    Part,
    RowGroup,
    Window,
    is_one_page,
    look_up,
    needs_pages,
    pages_to_read,
    runs_of,
)
from skipstone.bindings.tables.parquet.pages.page_file import GroupPart, PageFile, read_pages
from skipstone.bindings.tables.parquet.pages.ranges import Ranges, Span
from skipstone.bindings.tables.parquet.pages.windows import Placement
from skipstone.ir.errors import SourceError
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.pool import map_requests

GROUPS_AT_ONCE: Final = 4  # groups of columns of remote files; each needs requests for each file
ROUND_BYTES: Final = 1 << 25  # the most bytes of pages that are read before they are decoded


class CandidateGroup(NamedTuple):
    """A row group with candidate rows.

    Attributes:
        windows: Its windows.
        first, stop: Their rows, counted through the windows of all row groups.
        rows: The candidates among the rows of all windows.
    """

    windows: list[Window]
    first: int
    stop: int
    rows: CandidateRows

    @property
    def candidates(self) -> Mask:
        """The mask of the candidates among the rows of its windows."""
        return self.rows.mask[self.first : self.stop]

    @property
    def is_whole(self) -> bool:
        """True if every row of the row group is a candidate."""
        covered = self.stop - self.first == self.windows[0].group.rows
        return covered and (self.rows.all or bool(self.candidates.all()))

    @property
    def is_small(self) -> bool:
        """True if all pages are read whichever rows are candidates."""
        group = self.windows[0].group
        return group.has_small_chunks and not group.pages

    def in_row_group(self) -> Mask:
        """Return the mask of the candidates among all rows of the row group."""
        mask, done = np.zeros(self.windows[0].group.rows, np.bool_), 0
        for w in self.windows:
            mask[w.first : w.stop] = self.candidates[done : done + w.rows]
            done += w.rows
        return mask


@dataclass(slots=True)
class WantedColumn:
    """A column to decode.

    Attributes:
        name: The column.
        parts: Its pages, for each row group.
        placement: Where their rows lie in the windows.
        text: True if it may be decoded as a dictionary.
    """

    name: str
    parts: list[Part]
    placement: Placement
    text: bool = False


def candidate_groups(windows: Sequence[Window], rows: CandidateRows) -> list[CandidateGroup]:
    """Return the row groups of windows that hold candidate rows.

    Args:
        windows: The windows.
        rows: The candidates among the rows of all windows.
    """
    out, first = [], 0
    for _, members in itertools.groupby(windows, lambda w: id(w.group)):
        own = list(members)
        group = CandidateGroup(own, first, first + sum(w.rows for w in own), rows)
        if rows.all or group.candidates.any():
            out.append(group)
        first = group.stop
    return out


def wanted_pages(groups: Sequence[CandidateGroup], names: Sequence[str]) -> list[WantedColumn]:
    """Return the pages of columns that hold candidate rows."""
    return _wanted(groups, _chosen(groups, names))


def read_wanted(columns: Iterable[WantedColumn], largest: int | None = None) -> None:
    """Read and keep the pages of columns of remote files, all at once.

    Args:
        columns: The columns.
        largest: The most bytes of a file to read now; None means all files are read.

    Raises:
        OSError: a file cannot be read.
    """
    by_file: dict[int, tuple[Ranges, list[Span]]] = {}
    for column in columns:
        for ranges, part, *_ in column.parts:
            if part.chunk is None and not ranges.local and ranges.size <= (largest or ranges.size):
                by_file.setdefault(id(ranges), (ranges, []))[1].extend(part.spans)
    map_requests(lambda of: of[0].read(of[1], keep=True, exact=True), list(by_file.values()))


def wanted_together(groups: Sequence[CandidateGroup], names: Sequence[str]) -> list[WantedColumn]:
    """Return the pages of columns that hold candidate rows, the same rows for each column.

    A row group whose columns have different page boundaries is read as a whole.
    """
    chosen = _chosen(groups, names)
    for i, group in enumerate(groups):
        g = group.windows[0].group
        each = [chosen[name][i][-1] for name in names]
        if any(rows != each[0] for rows in each):
            for name in names:
                chosen[name][i] = g.whole(name)
    return _wanted(groups, chosen)


def _chosen(groups: Sequence[CandidateGroup], names: Sequence[str]) -> dict[str, list[Part]]:
    """Return for each column the pages to read of each row group."""
    each = [(g, None if g.is_small or g.is_whole else g.candidates) for g in groups]
    by_group = {id(g.windows[0].group): (g, c) for g, c in each if c is not None}

    def next_pages(group: RowGroup, name: str, pages: Pages) -> Sequence[Span]:
        g, candidates = by_group[id(group)]
        needed = pages.needed([(w.first, w.stop) for w in g.windows], candidates)
        return pages.spans(needed) if len(needed) < len(pages) else ()

    look_up(
        [
            (g.windows[0].group, name)
            for g, candidates in by_group.values()
            for name in names
            if name in g.windows[0].group.pages or needs_pages(g.windows, name, candidates)
        ],
        next_pages=next_pages,
    )
    if not by_group:  # all rows are candidates
        wholes = [g.windows[0].group.whole for g in groups]
        return {name: [whole(name) for whole in wholes] for name in names}
    return {name: [_pages_to_read(g, name, candidates) for g, candidates in each] for name in names}


def _pages_to_read(g: CandidateGroup, name: str, candidates: Mask | None) -> Part:
    """Return the pages of a column that hold candidate rows; None if all rows are candidates."""
    group = g.windows[0].group
    if candidates is None or (name not in group.pages and is_one_page(group.chunks[name])):
        return group.whole(name)
    return pages_to_read(g.windows, name, candidates)


def _wanted(
    groups: Sequence[CandidateGroup], chosen: Mapping[str, list[Part]]
) -> list[WantedColumn]:
    """Return columns with the pages that were chosen for them."""
    placements: dict[tuple[int, ...], Placement] = {}
    out = []
    for name, own in chosen.items():
        # Columns of which all pages are read have the same list of rows.
        key = tuple(id(page_rows) for *_, page_rows in own)
        placement = placements.get(key)
        if placement is None:
            placement = placements[key] = _placement(groups, own)
        out.append(WantedColumn(name, own, placement))
    return out


def _placement(groups: Sequence[CandidateGroup], chosen: Sequence[Part]) -> Placement:
    runs: list[tuple[int, int, int]] = []
    decoded = 0
    for g, (_, part, _, page_rows) in zip(groups, chosen, strict=True):
        runs += runs_of(g.windows, page_rows, decoded, g.first)
        decoded += part.rows
    return Placement.of(runs, decoded)


@contextlib.contextmanager
def page_file(
    columns: Sequence[WantedColumn],
    leaves: Mapping[str, LeafType],
    keep: Mask | None,
    path: str,
) -> Iterator[PageFile]:
    """Read the pages of columns into a file.

    Args:
        columns: The columns, with the same rows each.
        leaves: Column -> its type in the files.
        keep: The mask of the rows to return; None means all.
        path: A file's path, for messages.

    Raises:
        SourceError: an offset index lists other pages.
        OSError: a file cannot be read.
    """
    groups = [
        GroupPart(parts[0][0], [part for _, part, *_ in parts])
        for parts in zip(*(c.parts for c in columns), strict=True)
    ]
    with read_pages([(c.name, leaves[c.name]) for c in columns], groups, keep) as file:
        for i, c in enumerate(columns):
            for g, (_, _, listed, _) in enumerate(c.parts):
                if listed is not None and not is_as_listed(*listed, file.view(g, i)):
                    raise SourceError(f"{path}: the offset index of {c.name} is wrong")
        yield file


@contextlib.contextmanager
def page_files(
    wanted: Sequence[Sequence[WantedColumn]],
    leaves: Mapping[str, LeafType],
    keeps: Sequence[Mask | None],
    path: str,
) -> Iterator[list[PageFile]]:
    """Read the pages of several groups of columns, each into a file; remote pages concurrently.

    Args:
        wanted: The columns of each file.
        keeps: For each file, the mask of the rows to return.
        leaves, path: As for `page_file`, which also names the errors.
    """
    local = all(part[0].local for columns in wanted for part in columns[0].parts)
    with contextlib.ExitStack() as stack:
        yield map_requests(
            lambda i: stack.enter_context(page_file(wanted[i], leaves, keeps[i], path)),
            range(len(wanted)),
            local=local,
            at_once=GROUPS_AT_ONCE,
        )


def rounds_of(wanted: Sequence[Sequence[WantedColumn]]) -> list[list[Sequence[WantedColumn]]]:
    """Return the groups of columns to read before they are decoded, round by round.

    A round has at most `ROUND_BYTES`, or one column; groups of more bytes are divided. Memory for
    pages is then bounded and used again, and some columns are read while others are decoded.

    Args:
        wanted: Groups of columns.
    """
    rounds: list[list[Sequence[WantedColumn]]] = [[]]
    room = ROUND_BYTES
    for columns in wanted:
        first = 0
        for i, column in enumerate(columns):
            nbytes = sum(part.nbytes for _, part, *_ in column.parts)
            if nbytes > room and (rounds[-1] or i > first):
                if i > first:
                    rounds[-1].append(columns[first:i])
                rounds.append([])
                first, room = i, ROUND_BYTES
            room -= nbytes
        if first < len(columns):
            rounds[-1].append(columns[first:])
    return rounds if rounds[-1] else rounds[:-1]


def unpacked(wanted: Iterable[Sequence[WantedColumn]]) -> int:
    """Return the approximate bytes of columns after decompression."""
    parts = [part for columns in wanted for c in columns for _, part, *_ in c.parts]
    return sum(max(8 * part.values, part.unpacked) for part in parts)


def is_coded(column: WantedColumn, file: PageFile) -> bool:
    """Return True if all pages of a file's only column are coded by dictionaries."""
    return all(
        is_dictionary_coded(part, file.view(g, 0)) for g, (_, part, *_) in enumerate(column.parts)
    )
