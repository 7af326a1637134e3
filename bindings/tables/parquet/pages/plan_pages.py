"""Judge the pages of row groups for a plan, and return the ranges of rows that may match.

`PagedRowGroups.prune` judges them as it does when rows are read, but no rows are read here. A
reader notices a wrong offset index when it decodes; here the headers of the pages at the ends of
ranges are checked instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.pages import FilePages
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.heads import Heads, common_head
from skipstone.bindings.tables.parquet.pages.chunk_pages import Pages
from skipstone.bindings.tables.parquet.pages.file_read import FileRead, nested_in, row_groups_of
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType
from skipstone.bindings.tables.parquet.pages.page_checks import have_listed_headers, header_spans
from skipstone.bindings.tables.parquet.pages.page_choice import RowGroup, Window, look_up
from skipstone.bindings.tables.parquet.pages.page_segments import tested_keys
from skipstone.bindings.tables.parquet.pages.read_pages import (
    UNREADABLE,
    Open,
    Task,
    predicate_of,
)
from skipstone.bindings.tables.parquet.pages.row_groups import PagedRowGroups
from skipstone.bindings.tables.read import RowSelection
from skipstone.ir.errors import SourceError, describe_error
from skipstone.ir.node import Node


def judge_file(
    open_file: Open[Task], task: Task, path: str, wanted: RowSelection, schema: pa.Schema
) -> FilePages:
    """Return the row ranges of a whole file that page statistics leave.

    Args:
        open_file: Opens the file of a task and reads its footer.
        task: The task.
        path: The file's path, as the plan names it.
        wanted: Holds the condition.
        schema: The table's columns.

    Raises:
        SourceError: the file cannot be read.
    """
    try:
        source, file = open_file(task, Heads())
        with source:
            needed = wanted.needed(task.filtered)
            fields = [f for f in schema if f.name in needed]
            condition = wanted.predicate if task.filtered else None
            (found,) = judge_pages([file._replace(tests_blooms=True)], fields, condition)
    except SourceError:
        raise
    except OSError as e:
        raise unreadable(path, e) from e
    except UNREADABLE:
        return FilePages(path, {})
    return found._replace(path=path)


def unreadable(path: str, e: OSError) -> SourceError:
    """Return the error that says that the pages of a file cannot be read."""
    return SourceError(f"{path}: reading its page indexes failed ({describe_error(e)})")


def whole(path: str, rows: Sequence[int], groups: Iterable[int]) -> FilePages:
    """Return all rows of row groups.

    Args:
        path: The file's path.
        rows: The rows of each row group of the file.
        groups: The row groups.
    """
    return FilePages(path, {g: [(0, rows[g])] if rows[g] > 0 else [] for g in groups})


def judge_pages(
    files: Sequence[FileRead], fields: Sequence[pa.Field], condition: Node | None
) -> list[FilePages]:
    """Return the row ranges that pages leave; row groups that cannot be judged stay whole.

    Args:
        files: The files. They share the head of their footers, and the names of columns.
        fields: The columns of the condition.
        condition: The condition; None means that every row matches.

    Raises:
        OSError: a file cannot be read.
    """
    if condition is None:
        return [_whole(file) for file in files]
    for file in files:
        file.parsed.locate_pages()
    predicate = predicate_of(condition, pa.schema(fields))
    leaves = _leaves_of(files[0], fields, predicate)
    each = [row_groups_of(file, leaves) if _is_open(file.parsed) else None for file in files]
    judged = [(f, groups) for f, groups in zip(files, each, strict=True) if groups is not None]
    for _, groups in judged:
        _read_indexes(groups)
    rows = PagedRowGroups(
        common_head([file.parsed.head for file in files]),
        leaves,
        {f.name: f.type for f in fields},
        [g for _, groups in judged for g in groups],
    )
    rows.prune(predicate, None)
    windows = {
        number: list(members)
        for number, members in itertools.groupby(rows.windows, lambda w: id(w.group))
    }
    return [
        _whole(file) if groups is None else _remaining(file, groups, windows)
        for file, groups in zip(files, each, strict=True)
    ]


def _whole(file: FileRead) -> FilePages:
    rows = file.parsed.rows.tolist()
    return whole(file.path, rows, range(len(rows)) if file.groups is None else file.groups)


def _is_open(parsed: ParsedFooter) -> bool:
    """Return True if the pages of a file can be located, and it has no legacy dates."""
    return not parsed.head.julian and parsed.page_locations is not None


def _leaves_of(
    file: FileRead, fields: Sequence[pa.Field], predicate: PruningPredicate
) -> dict[str, LeafType]:
    """Return the types of those Parquet columns of a file whose pages can be judged, by key."""
    types, names = file.parsed.head.leaf_types, file.own_names
    leaves = {f.name: types[names[f.name]] for f in fields if names.get(f.name) in types}
    nested = nested_in(file, fields)
    if nested is not None:
        leaves |= nested.tested
    return {key: leaves[key] for key in tested_keys(predicate, leaves)}


def _read_indexes(groups: Sequence[RowGroup]) -> None:
    """Read the page indexes of row groups together.

    Without an offset index, columns in remote storage count as one page: their headers lie between
    all of their bytes.
    """
    for g in groups:
        if not g.ranges.local:
            g.pages |= {name: None for name, c in g.chunks.items() if c.offset_index is None}
    look_up([(g, name) for g in groups for name in g.chunks], judged=True)


def _remaining(
    file: FileRead, groups: Sequence[RowGroup], windows: Mapping[int, Sequence[Window]]
) -> FilePages:
    """Return the row ranges of a file that lie in the windows."""
    ranges = {g.number: [(w.first, w.stop) for w in windows.get(id(g), ())] for g in groups}
    ends = [(g, *one) for g in groups for one in _listed_ends(g, ranges[g.number])]
    if not file.ranges.local:
        file.ranges.read([s for _, found, at in ends for s in header_spans(found, at)], keep=True)
    for g, found, at in ends:
        if not have_listed_headers(found, at, file.ranges):
            ranges[g.number] = [(0, g.rows)]
    pages = remaining = 0
    for g in groups:
        for known in g.pages.values():
            if known is not None:
                pages += len(known)
                remaining += _count(known.rows, ranges[g.number])
    return FilePages(file.path, ranges, pages, remaining)


def _listed_ends(g: RowGroup, kept: Sequence[tuple[int, int]]) -> Iterator[tuple[Pages, Ints]]:
    """Yield the pages that hold the first and last rows of ranges, where an index lists them."""
    if not kept or kept == [(0, g.rows)]:
        return
    firsts, stops = np.array(kept, np.int64).T
    for found in g.pages.values():
        if found is not None and found.headers is None and len(found) > 1:
            first = np.searchsorted(found.rows, firsts, "right") - 1
            last = np.searchsorted(found.rows, stops, "left") - 1
            yield found, np.union1d(first, last)


def _count(edges: Ints, kept: Sequence[tuple[int, int]]) -> int:
    """Return the number of pages that hold a row of ranges; pages lie between `edges`."""
    holds = np.zeros(len(edges), np.int64)
    for first, stop in kept:
        holds[np.searchsorted(edges, first, "right") - 1] += 1
        holds[np.searchsorted(edges, stop, "left")] -= 1
    return int(np.count_nonzero(np.cumsum(holds)[:-1]))
