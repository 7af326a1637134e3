"""Windows of row groups, and which pages of them to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.identity import FileIdentity
from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.pages.chunk import Chunk
from skipstone.bindings.tables.parquet.pages.chunk_pages import Pages, pages_of, part_of
from skipstone.bindings.tables.parquet.pages.page_checks import (
    ends_as_listed,
    header_spans,
    without_dictionary,
)
from skipstone.bindings.tables.parquet.pages.page_file import ChunkPages
from skipstone.bindings.tables.parquet.pages.ranges import FEW_SPANS, MIN_READ, Ranges, Span
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.lru_cache import LruCache
from skipstone.kernels.run.pool import map_requests

# Most writers end a page after 20,000 rows or 1 MB, whichever comes first.
PAGE_ROWS, PAGE_BYTES = 1 << 14, 1 << 20
# Pages are looked up if at most this share of them seems to hold a candidate row.
MAX_NEEDED: Final = 7 / 8
# The most bytes of a remote file that are read before they are known to be needed: pages, and
# indexes of pages. A further request would take as long.
MAX_AHEAD, MAX_INDEXES = 1 << 23, 1 << 20
MAX_FOLLOWING: Final = 1 << 24  # the most bytes of pages that are kept until they are decoded
GROWTH: Final = 4  # each part of windows has this many times the rows of the one before

# Memory of a known page, and of all pages that are cached for later readers, in bytes.
PAGE_NBYTES, MAX_KEPT = 1 << 9, 1 << 24
_recent: LruCache[tuple[FileIdentity, Chunk], Pages] = LruCache(MAX_KEPT)


@dataclass(slots=True)
class RowGroup:
    """A row group of an open file.

    Attributes:
        path: The file's path, for messages.
        ranges: Reads the file.
        rows: The number of its rows.
        footer, number: The file's footer, and the number of the row group there.
        chunks: The key of a Parquet column (`key_of`) -> its chunk.
        constants: The values of columns that the file lacks.
        live: The mask of the rows that are not deleted; None means all.
        own_names: Table column -> its name in the file.
        convert: Converts a column that Arrow decoded to the table's column of a name.
        inner: Table column -> the needed parts, for structs that are needed only in part.
        has_untested_blooms: True if its file has bloom filters that were not tested yet.
        has_small_chunks: True if each chunk probably has one page.
        pages: The same keys -> pages, as far as they were looked up; None means not known.
        unchecked: The keys of columns whose offset index was not compared with the last page yet.
        all_rows: The rows of all its pages.
    """

    path: str
    ranges: Ranges
    rows: int
    footer: ParsedFooter
    number: int
    chunks: Mapping[str, Chunk]
    constants: Mapping[str, pa.Scalar]
    live: Mask | None = None
    own_names: Mapping[str, str] = field(default_factory=dict)
    convert: Callable[[str, pa.Array], pa.Array] = lambda name, values: values
    inner: Mapping[str, Sequence[str]] = field(default_factory=dict)
    has_untested_blooms: bool = False
    has_small_chunks: bool = False
    pages: dict[str, Pages | None] = field(default_factory=dict)
    unchecked: set[str] = field(default_factory=set)
    all_rows: PageRows = field(init=False)

    def __post_init__(self) -> None:
        self.all_rows = [(0, self.rows)]

    def whole(self, name: str) -> Part:
        """Return all pages of a column."""
        pages = self.pages.get(name) if self.pages else None
        chunk: ChunkPages = self.chunks[name]
        if pages is not None and pages.chunk is not None:
            chunk = self.chunks[name].with_bytes(pages.chunk)
        return self.ranges, chunk, None, self.all_rows

    def pages_of(self, name: str, *, judged: bool = False) -> Pages | None:
        """Return the pages of a column; None if they are not known.

        Args:
            name: The column.
            judged: True if the condition tests it, so that most of its pages are read anyway.
        """
        if name not in self.pages:
            chunk, identity = self.chunks[name], self.ranges.identity
            found = None if identity is None else _recent.find((identity, chunk))
            if found is None:
                found = pages_of(chunk, self.ranges, judged=judged)
                if found is not None and not ends_as_listed(found, self.ranges):
                    found = None
                if found is not None and identity is not None:
                    _recent.put((identity, chunk), found.compact(), PAGE_NBYTES * len(found))
            self.pages[name] = found
        return self.pages[name]


PageRows = Sequence[tuple[int, int]]  # the rows of pages that are read, in the row group
# Pages of a chunk: their file, the pages, the same as an offset index lists them, and their rows.
Part = tuple[Ranges, ChunkPages, "tuple[Pages, Ints] | None", PageRows]


# Returns where the pages to read next lie, among the pages of a column that an index lists.
PageSpans = Callable[[RowGroup, str, Pages], Sequence[Span]]


def look_up(
    wanted: Sequence[tuple[RowGroup, str]],
    *,
    judged: bool = False,
    next_pages: PageSpans | None = None,
) -> None:
    """Locate the pages of remote columns, in several files at once.

    Args:
        wanted: Row groups and their columns.
        judged: True if the condition tests them, so that their statistics are read as well.
        next_pages: The pages that are read next; if they are short, they are read now.

    Raises:
        OSError: a file cannot be read.
    """
    by_file: dict[int, list[tuple[RowGroup, str]]] = {}
    for g, name in wanted:
        if not g.ranges.local and (name not in g.pages or next_pages is not None):
            by_file.setdefault(id(g.ranges), []).append((g, name))
    map_requests(
        lambda of_file: _look_up_in(of_file, judged=judged, next_pages=next_pages),
        list(by_file.values()),
    )


def _look_up_in(
    wanted: Sequence[tuple[RowGroup, str]], *, judged: bool, next_pages: PageSpans | None
) -> None:
    """Locate the pages of columns of one remote file.

    Their page indexes are read. A chunk without one is read whole, because its page headers are
    spread over it. So is a short chunk, because reading its last header would take as long. If the
    indexes to judge were read with the footer, nothing is read now: see `page_segments.py`.
    """
    ranges = wanted[0][0].ranges
    known = [(g, name, g.pages[name]) for g, name in wanted if name in g.pages]
    wanted = [(g, name) for g, name in wanted if name not in g.pages]
    indexed = [(g, name) for g, name in wanted if g.chunks[name].offset_index is not None]
    chunks = [g.chunks[name] for g, name in wanted]
    short = [(c.start, c.stop) for c in chunks if c.offset_index and c.nbytes <= MIN_READ]
    whole = [(c.start, c.stop) for c in chunks if c.offset_index is None]
    indexes = _index_spans(indexed, judged=judged)
    if judged and not whole and ranges.holds(indexes):
        for g, name in indexed:
            g.pages[name] = pages_of(g.chunks[name], ranges)
            g.unchecked.add(name)
        return
    if judged and len(indexed) <= FEW_SPANS:  # the ends probably hold the headers of the last pages
        own = (g.chunks[name] for g, name in indexed)
        indexes += [(c.stop - MIN_READ, c.stop) for c in own if c.nbytes > MIN_READ]
    ranges.read([*indexes, *whole, *(short if judged else ())], keep=True)
    listed = [(g, name, pages_of(g.chunks[name], ranges)) for g, name in indexed]
    headers = [s for _, _, found in listed if found for s in header_spans(found, found.last)]
    if ranges.holds(headers):
        short = []
    following: list[Span] = []
    if next_pages is not None:
        following = [
            s for g, name, found in known + listed if found for s in next_pages(g, name, found)
        ]
    if sum(stop - start for start, stop in following) > MAX_FOLLOWING:
        following = []
    ranges.read([*headers, *short, *following], keep=True, exact=bool(following))
    for g, name in wanted:
        g.pages_of(name)


def _index_spans(wanted: Sequence[tuple[RowGroup, str]], *, judged: bool) -> list[Span]:
    """Return the spans of the page indexes of columns of one file.

    If the columns are judged, the spans also hold their statistics and the indexes of the other
    columns, which are needed next, so that one request reads all of them.
    """
    chunks = [g.chunks[name] for g, name in wanted]
    spans = [c.offset_index for c in chunks if c.offset_index is not None]
    if not judged:
        return spans
    spans += [c.column_index for c in chunks if c.column_index is not None]
    groups = {id(g): g for g, _ in wanted}.values()
    others = [c.offset_index for g in groups for c in g.chunks.values() if c.offset_index]
    if sum(stop - start for start, stop in others) <= MAX_INDEXES:
        spans += others
    return spans


class Window(NamedTuple):
    """The rows `first` to `stop - 1` of a row group."""

    group: RowGroup
    first: int
    stop: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.stop - self.first

    def live(self) -> Mask:
        """Return the mask of the rows that are not deleted."""
        live = self.group.live
        return np.ones(self.rows, np.bool_) if live is None else live[self.first : self.stop]


def count_rows(windows: Sequence[Window]) -> int:
    """Return the number of rows of windows."""
    return sum(w.rows for w in windows)


def count_by_window(windows: Sequence[Window], positions: Ints | None) -> list[int]:
    """Return how many rows of each window are among some.

    Args:
        windows: The windows.
        positions: The rows, ascending, counted through all windows; None means all.
    """
    stops = np.cumsum([0, *(w.rows for w in windows)])
    if positions is not None:
        stops = np.searchsorted(positions, stops)
    counts: list[int] = np.diff(stops).tolist()
    return counts


def windows_over(groups: Sequence[RowGroup]) -> list[Window]:
    """Return a window over all rows of each row group that has any."""
    return [Window(g, 0, g.rows) for g in groups if g.rows]


def in_parts(windows: Sequence[Window], first: int) -> Iterator[list[Window]]:
    """Yield windows in parts: of `first` rows, then of `GROWTH` times as many as the last part.

    Example:
        >>> [[(w.first, w.stop) for w in part] for part in in_parts([Window(None, 0, 70)], 10)]
        [[(0, 10)], [(10, 50)], [(50, 70)]]
    """
    part: list[Window] = []
    room = size = first
    for group, start, stop in windows:
        while start < stop:
            end = min(stop, start + room)
            part.append(Window(group, start, end))
            start, room = end, room - (end - start)
            if not room:
                yield part
                part = []
                room = size = size * GROWTH
    if part:
        yield part


def first_rows(windows: Sequence[Window], n: int) -> list[Window]:
    """Return windows that hold the first n rows that are not deleted, and few others."""
    out = []
    for w in windows:
        if n <= 0:
            break
        stop, live = w.first + n, w.rows
        if w.group.live is not None:
            counts = np.cumsum(w.live())
            stop, live = w.first + int(np.searchsorted(counts, n)) + 1, int(counts[-1])
        out.append(Window(w.group, w.first, min(stop, w.stop)))
        n -= live
    return out


def pages_to_read(windows: Sequence[Window], name: str, candidates: Mask) -> Part:
    """Return the pages of a row group's column that hold candidate rows of its windows."""
    g, chunk = windows[0].group, windows[0].group.chunks[name]
    chosen = None
    pages = g.pages_of(name) if needs_pages(windows, name, candidates) else g.pages.get(name)
    if pages is not None:
        chosen = pages.needed([(w.first, w.stop) for w in windows], candidates)
    if pages is None or chosen is None or len(chosen) == len(pages):
        return g.whole(name)
    pages = without_dictionary(pages, chosen, g.ranges)
    rows = zip(pages.rows[chosen].tolist(), pages.rows[chosen + 1].tolist(), strict=True)
    trusted = pages.headers is not None and not pages.repeated
    listed = None if trusted else (pages, chosen)
    return g.ranges, part_of(chunk, pages, chosen), listed, list(rows)


def needs_pages(windows: Sequence[Window], name: str, candidates: Mask) -> bool:
    """Return True if the pages of a row group's column should still be looked up."""
    g, chunk = windows[0].group, windows[0].group.chunks[name]
    if name in g.pages or is_one_page(chunk):
        return False
    return windows[0].rows < g.rows or needed_share(chunk, candidates) <= MAX_NEEDED


def is_one_page(chunk: Chunk) -> bool:
    """Return True if most writers put a chunk of this size into one page."""
    return chunk.values <= PAGE_ROWS and chunk.unpacked <= PAGE_BYTES


def needed_share(chunk: Chunk, candidates: Mask) -> float:
    """Return the share of pages that seem to hold a candidate row, judged by their usual size."""
    rows = min(PAGE_ROWS, PAGE_BYTES * chunk.rows // max(chunk.unpacked, 1) + 1)
    pages = len(candidates) // rows
    if not pages:
        return 1.0
    needed = np.any(candidates[: pages * rows].reshape(pages, rows), axis=1)
    return int(np.count_nonzero(needed)) / pages


def runs_of(
    windows: Sequence[Window], pages: PageRows, decoded: int, done: int
) -> list[tuple[int, int, int]]:
    """Relate the rows of decoded pages to those of windows, both ascending.

    Args:
        windows: The windows of a row group.
        pages: The rows of the pages that were read.
        decoded: The rows that were decoded before them.
        done: The rows of the windows before them.

    Returns:
        Runs of rows that both have: the first row among the decoded ones, the first row among those
        of the windows, and the number of rows.
    """
    out, w = [], 0
    for first, stop in pages:
        while w < len(windows) and windows[w].stop <= first:
            done += windows[w].rows
            w += 1
        at, before = w, done
        while at < len(windows) and windows[at].first < stop:
            one = windows[at]
            a, b = max(first, one.first), min(stop, one.stop)
            out.append((decoded + a - first, before + a - one.first, b - a))
            before += one.rows
            at += 1
        decoded += stop - first
    return out
