"""Judge the ranges between page boundaries of row groups by their statistics."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.parquet.heads import Head
from skipstone.bindings.tables.parquet.pages.chunk_pages import pages_of
from skipstone.bindings.tables.parquet.pages.leaf_types import BETWEEN, LeafType, key_of, path_of
from skipstone.bindings.tables.parquet.pages.page_checks import ends_as_listed, header_spans
from skipstone.bindings.tables.parquet.pages.page_choice import (
    MAX_AHEAD,
    RowGroup,
    Window,
    count_rows,
    look_up,
)
from skipstone.bindings.tables.parquet.pages.page_statistics import (
    PageBounds,
    Segments,
    bounds_of,
    bounds_of_chunk,
    segments_of,
)
from skipstone.bindings.tables.parquet.pages.ranges import Span
from skipstone.bindings.tables.parquet.pages.windows import windows_of
from skipstone.ir.node import Path, columns_of, parts_of
from skipstone.ir.types import Leaf, leaves_of
from skipstone.kernels.run.lru_cache import LruCache
from skipstone.kernels.run.pool import map_requests

# Memory of a column's statistics in one segment, packed and unpacked, and of all segments that are
# cached for later readers, in bytes.
SEGMENT_NBYTES, MAX_KEPT = 1 << 8, 1 << 24
_recent: Final = LruCache[Hashable, Segments](MAX_KEPT)


def judge_windows(
    windows: list[Window],
    predicate: PruningPredicate,
    head: Head,
    leaves: Mapping[str, LeafType],
    *,
    ahead: bool = False,
) -> list[Window]:
    """Return what page statistics leave of windows; the same list if none are known.

    Args:
        windows: All rows of each row group.
        predicate: The condition.
        head: The part of the footer that the files share.
        leaves: The key of a Parquet column (`key_of`) -> its type in the files.
        ahead: True if the pages of what is left are read next: they may be read now.

    Raises:
        OSError: a file cannot be read.
    """
    left = _judged(windows, predicate, head, leaves)
    if _are_as_listed(windows, left if ahead else ()):
        return left
    return _judged(windows, predicate, head, leaves)


def _judged(
    windows: list[Window],
    predicate: PruningPredicate,
    head: Head,
    leaves: Mapping[str, LeafType],
) -> list[Window]:
    """Return what page statistics leave of windows, if offset indexes are right."""
    names = [
        key
        for key in tested_keys(predicate, leaves)
        if all(_can_find_pages(w.group, key, leaves[key]) for w in windows)
    ]
    segments = _segments_in(windows, predicate.schema, names, head, leaves)
    if segments is None:
        return windows
    kept = predicate.prune(segments.statistics)
    left, done = [], 0
    for w, count in zip(windows, segments.counts, strict=True):
        own = slice(done, done + count)
        first = int(segments.starts[done])
        left += [
            Window(w.group, a - first, b - first)
            for a, b in windows_of(segments.starts[own], segments.stops[own], kept[own])
        ]
        done += count
    return left


def tested_keys(predicate: PruningPredicate, leaves: Mapping[str, LeafType]) -> list[str]:
    """Return the keys of the Parquet columns that a condition tests, and that have bounds.

    Those of a list or map are its elements, their fields, or its keys and values.
    """
    known = leaves_of(predicate.schema)
    keys: dict[str, None] = {}
    for path in columns_of(predicate.node):
        if any(BETWEEN in name for name in path):  # its key would be that of another path
            continue
        parts = parts_of(known[path].dtype) if path in known else ()
        keys |= dict.fromkeys(key_of((*path, *part)) for part in (parts or [()]))
    return [key for key in keys if key in leaves and not leaves[key].is_int96]


def _can_find_pages(g: RowGroup, key: str, leaf: LeafType) -> bool:
    """Return True if the pages of a Parquet column may be found.

    Of nested columns, pages of remote files are found by offset indexes alone: without one, the
    whole chunk would be read here, and again if most pages are needed.
    """
    if not leaf.above:
        return True
    chunk = g.chunks.get(key)  # it may contradict its footer
    return chunk is not None and (g.ranges.local or chunk.offset_index is not None)


def _are_as_listed(windows: Sequence[Window], ahead: Sequence[Window]) -> bool:
    """Compare the offset indexes that were not checked yet with the last pages of their columns.

    Args:
        windows: Windows over whole row groups.
        ahead: The windows whose pages are read in the same request, if they are short.

    Returns:
        False if an index is wrong; its pages are then not known any more.

    Raises:
        OSError: a file cannot be read.
    """
    groups = [w.group for w in windows if w.group.unchecked]
    if not groups:
        return True
    by_file: dict[int, list[RowGroup]] = {}
    for g in groups:
        by_file.setdefault(id(g.ranges), []).append(g)
    remaining: dict[int, list[Window]] = {}
    for w in ahead:
        remaining.setdefault(id(w.group), []).append(w)
    each = [_spans_ahead(remaining.get(id(g), ())) for g in groups]
    following: dict[int, list[Span]] = {}
    for spans in ([tested + others for tested, others in each], [tested for tested, _ in each]):
        if sum(stop - start for own in spans for start, stop in own) <= MAX_AHEAD:
            following = {id(g): own for g, own in zip(groups, spans, strict=True)}
            break

    def check(own: Sequence[RowGroup]) -> bool:
        listed = [(g, name, g.pages[name]) for g in own for name in g.unchecked]
        headers = [s for _, _, pages in listed if pages for s in header_spans(pages, pages.last)]
        pages = [span for g in own for span in following.get(id(g), ())]
        own[0].ranges.read([*headers, *pages], keep=True, exact=bool(pages))
        wrong = [
            (g, name) for g, name, p in listed if p is not None and not ends_as_listed(p, g.ranges)
        ]
        for g, name in wrong:
            g.pages[name] = None
        for g in own:
            g.unchecked.clear()
        return not wrong

    return all(map_requests(check, list(by_file.values())))


def _spans_ahead(windows: Sequence[Window]) -> tuple[list[Span], list[Span]]:
    """Return where the pages of windows of a row group lie, of tested and of other columns.

    Of the other columns, it returns only those whose offset index was read, with the headers of
    their last pages; and none if the windows are the whole row group.
    """
    tested: list[Span] = []
    others: list[Span] = []
    if not windows:
        return tested, others
    g, rows = windows[0].group, [(w.first, w.stop) for w in windows]
    every = np.ones(count_rows(windows), np.bool_)
    for name, chunk in g.chunks.items():
        if name in g.unchecked:
            pages = g.pages[name]
            tested += pages.spans(pages.needed(rows, every)) if pages else ()
        elif chunk.offset_index and rows != g.all_rows and g.ranges.holds([chunk.offset_index]):
            pages = pages_of(chunk, g.ranges)
            if pages is not None:
                others += pages.spans(pages.needed(rows, every))
                others += header_spans(pages, pages.last)
    return tested, others


def _segments_in(
    windows: Sequence[Window],
    schema: pa.Schema,
    names: Sequence[str],
    head: Head,
    leaves: Mapping[str, LeafType],
) -> Segments | None:
    """Return the ranges between the page boundaries of whole row groups.

    The ranges of files that have not changed since an earlier call are reused.

    Args:
        windows: All rows of each row group.
        schema: The table's columns.
        names: The keys of the Parquet columns that the condition tests.
        head: The part of the footer that the files share.
        leaves: Key -> type in the files.

    Returns:
        The ranges; None if no page statistics are known.

    Raises:
        OSError: a file cannot be read.
    """
    groups, dtypes = [w.group for w in windows], leaves_of(schema)
    key = (
        schema,
        # Schemas are equal whatever their metadata.
        tuple(leaf for name in names for leaf in _leaves_above(path_of(name), dtypes)),
        head.orders,
        *((g.ranges.identity, g.number, *(g.chunks[name] for name in names)) for g in groups),
    )
    known = all(g.ranges.identity is not None for g in groups)
    segments = _recent.find(key) if known else None
    if segments is not None:
        for g in groups:
            for name in names:
                g.pages_of(name, judged=True)  # a cached result, too
        return segments
    look_up([(g, name) for g in groups for name in names], judged=True)
    found = [(g.rows, _bounds(g, names, leaves)) for g in groups]
    if not any(bounds for _, bounds in found):
        return None
    positions = {name: leaves[name].position for name in names}
    segments = segments_of(schema, head, positions, found)
    if known:
        _recent.put(key, segments, len(segments.starts) * (1 + len(names)) * SEGMENT_NBYTES)
    return segments


def _leaves_above(path: Path, leaves: Mapping[Path, Leaf]) -> Iterator[Leaf]:
    """Yield the leaves of a schema that are a column, or the structs, lists and maps around it."""
    for n in range(1, len(path) + 1):
        if path[:n] in leaves:
            yield leaves[path[:n]]


def _bounds(
    g: RowGroup, names: Sequence[str], leaves: Mapping[str, LeafType]
) -> dict[str, PageBounds]:
    """Return the page statistics of columns, where there are any."""
    out = {}
    for name in names:
        pages = g.pages_of(name, judged=True)
        if pages is not None and len(pages) > 1:
            leaf = leaves[name]
            one = bounds_of(g.chunks[name], pages, g.ranges, leaf.physical)
            chunk = bounds_of_chunk(g.footer, g.number, leaf.position)
            if one is not None and chunk is not None:
                out[name] = one._replace(chunk=chunk)
    return out
