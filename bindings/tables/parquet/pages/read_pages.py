"""Read row groups of several files together, by pages, where their columns and footers allow it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.tables.parquet.footer import locate_pages_together
from skipstone.bindings.tables.parquet.heads import Heads, common_head
from skipstone.bindings.tables.parquet.pages.decoders import FEW_ROWS
from skipstone.bindings.tables.parquet.pages.file_read import FileRead, nested_in, row_groups_of
from skipstone.bindings.tables.parquet.pages.filtering import (
    filtered_by_decoder,
    keep_matching,
    read_ahead,
)
from skipstone.bindings.tables.parquet.pages.known_rows import KnownRows, may_be_kept
from skipstone.bindings.tables.parquet.pages.leaf_types import leaves_among
from skipstone.bindings.tables.parquet.pages.page_choice import (
    RowGroup,
    count_by_window,
    count_rows,
    in_parts,
    windows_over,
)
from skipstone.bindings.tables.parquet.pages.row_groups import PagedRowGroups
from skipstone.bindings.tables.read import BATCH_ROWS, RowSelection
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import Node, columns_of
from skipstone.ir.session import Session
from skipstone.kernels.config import config
from skipstone.kernels.run.pool import map_requests

# If there are `FEW_LIMITS` times more rows than are wanted, they are judged in parts. The first
# part has `LOCAL_PART` or `REMOTE_PART` rows. Each part of remote files takes some rounds of
# requests.
FEW_LIMITS: Final = 8
LOCAL_PART, REMOTE_PART = 1 << 16, 1 << 18
# Errors of files that cannot be read by pages.
UNREADABLE: Final = (OSError, pa.ArrowException, ValueError, IndexError)


class FileTask(Protocol):
    """A file to read, of any table format."""

    @property
    def filtered(self) -> bool:
        """True if the condition judges its rows."""
        ...


T = TypeVar("T")
Task = TypeVar("Task", bound=FileTask)
Open = Callable[[Task, Heads], tuple[pa.NativeFile, FileRead]]


def read_by_pages(
    open_file: Open[Task],
    tasks: Sequence[Task],
    wanted: RowSelection,
    schema: pa.Schema,
    *,
    local: bool,
) -> list[list[pa.RecordBatch] | None]:
    """Return the wanted rows of files; None for those that cannot be read by pages.

    Files that share a footer's head and store the same columns are read together. Their rows may
    all be returned for the first of them.

    Args:
        open_file: Opens the file of a task and reads its footer.
        tasks: The tasks.
        wanted: The rows and columns to return.
        schema: The table's columns.
        local: True if the files are local; several remote files are opened at once.

    Raises:
        UnsupportedForm: the rows cannot be judged here.
    """
    heads = Heads()
    out: list[list[pa.RecordBatch] | None] = [None] * len(tasks)

    def opened_or_none(task: Task) -> tuple[pa.NativeFile, FileRead] | None:
        try:
            return open_file(task, heads)
        except UNREADABLE:
            return None  # the format's own reader raises the error

    with contextlib.ExitStack() as stack:
        opened: dict[int, FileRead] = {}
        for i, one in enumerate(map_requests(opened_or_none, tasks, local=local)):
            if one is not None:
                stack.enter_context(one[0])
                opened[i] = one[1]._replace(tests_blooms=True)
        # In Iceberg, a column may be stored in some files and be a partition's value in others.
        alike = groups_of(
            opened,
            lambda i: (id(opened[i].parsed.head), tasks[i].filtered, *opened[i].constants),
        )
        apart = len(alike) > 1 or len(opened) < len(tasks)
        locate_pages_together(file.parsed for file in opened.values())
        for numbers in alike:
            filtered = tasks[numbers[0]].filtered
            needed = wanted.needed(filtered)
            fields = [f for f in schema if f.name in needed]
            found = [opened[i] for i in numbers]
            try:
                rows = read_files(found, fields, wanted, filtered=filtered, apart=apart)
            except UnsupportedForm:
                raise
            except UNREADABLE:
                continue
            if rows is not None:
                for i, own in zip(numbers, rows, strict=True):
                    out[i] = own
    every = [one for one in out if one is not None]
    if len(every) == len(out):
        return [joined(every), *([] for _ in tasks[1:])]
    return out


def groups_of(members: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Group members by key, in their order; members of a group need not be neighbours."""
    out: dict[Hashable, list[T]] = {}
    for one in members:
        out.setdefault(key(one), []).append(one)
    return list(out.values())


def joined(apart: Sequence[Sequence[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    """Return the rows of several files one after another; small batches become larger ones."""
    batches = [batch for own in apart for batch in own if batch.num_rows]
    if sum(b.num_rows for b in batches) >= len(batches) * FEW_ROWS or len(batches) < 2:
        return batches
    # The decoder's batches do not say which columns are never NULL.
    schema = batches[0].schema
    alike = [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches]
    larger: list[pa.RecordBatch] = (
        pa.Table.from_batches(alike).combine_chunks().to_batches(BATCH_ROWS)
    )
    return larger


def read_files(
    files: Sequence[FileRead],
    fields: Sequence[pa.Field],
    wanted: RowSelection,
    *,
    filtered: bool,
    apart: bool = False,
) -> list[list[pa.RecordBatch]] | None:
    """Return the wanted rows of each of several files; None if they cannot be read by pages.

    Args:
        files: The files. They share the head of their footers, and the names of columns.
        fields: The table's columns that are needed.
        wanted: The rows and columns to return.
        filtered: True if the rows are judged by the condition.
        apart: False allows the rows of all files to be returned for the first one.

    Raises:
        UnsupportedForm: the rows cannot be judged here.
        SourceError, OSError, ArrowException, ValueError: the pages cannot be read.
    """
    first = files[0]
    if first.parsed.page_locations is None:
        return None
    leaves = leaves_among(fields, first.own_names, first.parsed.head)
    whole = {f.name for f in fields if f.name in first.own_names and f.name not in leaves}
    nested = nested_in(first, fields) if whole else None
    groups: list[RowGroup] = []
    file_of: dict[int, int] = {}
    for i, file in enumerate(files):
        own = row_groups_of(file, leaves, nested)
        if own is None:
            return None
        groups += own
        file_of |= {id(g): i for g in own}
    types = {f.name: f.type for f in fields}
    head = common_head([file.parsed.head for file in files])
    limited = wanted.limit is not None
    rows = PagedRowGroups(head, leaves, types, groups, wanted.reader, whole, nested, limited)
    found = None
    if wanted.predicate is not None and filtered:
        found = _filter(rows, groups, fields, wanted, wanted.predicate)
    elif wanted.limit is not None:
        rows.keep_first(wanted.limit)
    if found is None:
        found = _wanted_columns(rows, fields, wanted)
    if not apart or not found:
        return [found, *([] for _ in files[1:])]
    counts = np.zeros(len(files), np.int64)
    by_window = count_by_window(rows.windows, rows.candidates.positions)
    for window, count in zip(rows.windows, by_window, strict=True):
        counts[file_of[id(window.group)]] += count
    table, stops = pa.Table.from_batches(found), np.cumsum(counts).tolist()
    return [
        table.slice(stop - count, count).to_batches()
        for stop, count in zip(stops, counts.tolist(), strict=True)
    ]


def _wanted_columns(
    rows: PagedRowGroups, fields: Sequence[pa.Field], wanted: RowSelection
) -> list[pa.RecordBatch]:
    """Return the wanted columns of the candidate rows."""
    if not rows.candidates.count:
        return []
    rows.fetch([name for name in wanted.columns if rows.is_stored(name)])
    columns = rows.columns(wanted.columns)
    by_name = {f.name: f for f in fields}
    schema = pa.schema([by_name[name] for name in wanted.columns])
    rows_found = pa.Table.from_arrays([columns[name] for name in wanted.columns], schema=schema)
    chunks = max((c.num_chunks for c in rows_found.columns), default=0)
    if chunks > 1 and rows_found.num_rows < chunks * FEW_ROWS:
        rows_found = rows_found.combine_chunks()
    return rows_found.to_batches(BATCH_ROWS)  # type: ignore[no-any-return]


def _filter(
    rows: PagedRowGroups,
    groups: Sequence[RowGroup],
    fields: Sequence[pa.Field],
    wanted: RowSelection,
    predicate: Node,
) -> list[pa.RecordBatch] | None:
    """Leave only the rows that match, or return the wanted columns of them.

    Args:
        rows: The row groups to filter.
        groups: The same row groups.
        fields: The table's columns that are needed.
        wanted: The rows and columns to return.
        predicate: The condition.
    """
    bound = predicate_of(predicate, pa.schema(fields))
    kept = (
        not wanted.lenient
        and wanted.uses_statistics  # rows that statistics ruled out are not among those kept
        and config.keep_matches
        and may_be_kept(predicate)
        and rows.whole.isdisjoint(path[0] for path in columns_of(predicate))
    )
    known = KnownRows(groups, predicate if kept else None, rows.leaves)
    if not known.matches:
        if wanted.uses_statistics:
            rows.prune(bound, wanted.pages)
        if wanted.limit is not None and count_rows(rows.windows) > FEW_LIMITS * wanted.limit:
            _keep_first_matches(rows, groups, wanted, known)
            return None
        read_ahead(rows, wanted.needed(True))
        found = filtered_by_decoder(rows, wanted)
        if found is None:
            keep_matching(rows, predicate, lenient=wanted.lenient)
        known.add(groups, rows.windows, rows.candidates.mask)
        return found
    if unknown := known.unknown:
        others = rows.of(windows_over(unknown))
        others.prune(bound, wanted.pages)
        keep_matching(others, predicate, lenient=False)
        known.add(unknown, others.windows, others.candidates.mask)
    rows.keep_known(known.matches)
    return None


def _keep_first_matches(
    rows: PagedRowGroups, groups: Sequence[RowGroup], wanted: RowSelection, known: KnownRows
) -> None:
    """Leave only the first rows that match, as many as are wanted.

    Rows are judged in parts, until there are enough.

    Args:
        rows: The row groups to filter.
        groups: The same row groups, before page statistics ruled out rows of them.
        wanted: The rows and columns to return.
        known: Learns the rows that match, if all are judged.
    """
    predicate, room = wanted.predicate, wanted.limit
    assert predicate is not None
    assert room is not None
    local = all(w.group.ranges.local for w in rows.windows)
    mask, done = np.zeros(count_rows(rows.windows), np.bool_), 0
    for windows in in_parts(rows.windows, LOCAL_PART if local else REMOTE_PART):
        part = rows.of(windows)
        read_ahead(part, wanted.needed(True))
        keep_matching(part, predicate, lenient=wanted.lenient)
        part.candidates.keep_first(room)
        mask[done : done + len(part.candidates)] = part.candidates.mask
        done, room = done + len(part.candidates), room - part.candidates.count
        if not room:
            break
    else:
        known.add(groups, rows.windows, mask)
    rows.candidates.keep(mask, None)


@functools.lru_cache(maxsize=64)
def predicate_of(node: Node, schema: pa.Schema) -> PruningPredicate:
    """Return the predicate of a bound condition."""
    return PruningPredicate._from_bound(node, schema, Session())
