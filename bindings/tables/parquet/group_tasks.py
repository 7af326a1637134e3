"""Divide the row groups that a plan reads into tasks, and tasks into units of reading."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from skipstone.bindings.progress import Track
from skipstone.bindings.tables.files import UNKNOWN
from skipstone.bindings.tables.parquet.footer import ParsedFooter, locate_pages_together
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.partitions import Texts
from skipstone.bindings.tables.read import GroupSize, files_at_once, together
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.errors import SourceError
from skipstone.ir.outcome import Verdict
from skipstone.kernels.decode import footer_loops as at

if TYPE_CHECKING:
    from skipstone.bindings.plans.pages import FilePages
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.parquet.table import ParquetTable

Floats = npt.NDArray[np.float64]
# The most rows, and compressed bytes of their columns, that are read together, unless one row group
# has more. Polars splits the work of a unit among threads; Arrow decodes a unit in one thread.
ARROW_ROWS, POLARS_ROWS, UNIT_BYTES = 1 << 21, 1 << 23, 3 << 24
LOCATED: Final = 1 << 6  # footers whose pages are located in one call
# The most column chunks that a unit reads of a file with several row groups, because each takes 20
# us. `UNIT_GROUPS` row groups are always allowed, because opening the file again also takes time
# for each column.
UNIT_CHUNKS, UNIT_GROUPS = 1024, 64
# Arrow reads a file whole, not by pages, if it has `MANY_GROUPS` row groups or more and column
# chunks of at most `TINY_BYTES`. Where rows are judged, pages save more, because most may stay
# unread: there, a row group may have at most `TINY_JUDGED_BYTES`.
MANY_GROUPS, TINY_BYTES, TINY_JUDGED_BYTES = 4, 1 << 15, 1 << 14


class GroupTask(NamedTuple):
    """Row groups of one file that have one verdict.

    Attributes:
        path, size, time: The file's path, bytes, and modification time in ns since 1970; -1 is
            unknown.
        groups: The row groups.
        filtered: True if their rows are to be judged.
        folder: The folder of the file: path, and texts of the partition values.
        parsed: The file's footer; None if it was not read.
        rows: The row counts that `_metadata` has for each row group of the file; None if the counts
            come from the file's own footer.
        ranges: Reads the file, if it is open.
    """

    path: str
    size: int
    time: int
    groups: list[int]
    filtered: bool
    folder: tuple[str, Texts]
    parsed: ParsedFooter | None
    rows: list[int] | None
    ranges: Ranges | None = None


def tasks_in(table: ParquetTable, plan: Plan) -> tuple[list[GroupTask], list[list[int]], list[int]]:
    """Return the tasks that read a plan, the containers that each of them reads, and their bytes.

    Args:
        table: The table.
        plan: A plan of it.

    Raises:
        SourceError: the plan keeps a file whose footer could not be read.
    """
    all_groups, files = table.groups, table.groups.files
    kept, file = plan.kept, all_groups.file[plan.kept]
    filtered = plan.verdicts[kept] == Verdict.MAYBE
    # One task for the row groups of a file that have one verdict.
    is_first = np.ones(len(kept), np.bool_)
    is_first[1:] = (np.diff(file) != 0) | np.diff(filtered)
    starts = np.flatnonzero(is_first)
    stops = np.append(starts[1:], len(kept))[: len(starts)]
    nbytes = np.where(all_groups.nbytes == UNKNOWN, files.sizes[all_groups.file], all_groups.nbytes)
    sizes = np.add.reduceat(nbytes[kept], starts).tolist() if len(kept) else []
    positions, numbers, owners = kept.tolist(), all_groups.group[kept].tolist(), file[starts]
    each, containers = [], []
    for path, size, time, folder, first, stop, judged in zip(
        pc.take(files.paths, arrow_of(owners)).to_pylist(),
        files.sizes[owners].tolist(),
        files.times[owners].tolist(),
        files.folder[owners].tolist(),
        starts.tolist(),
        stops.tolist(),
        filtered[starts].tolist(),
        strict=True,
    ):
        if path in table.unreadable:
            raise SourceError(
                f'{table.unreadable[path]}; on_error="keep" kept it, and it may hold matching '
                "rows: scan a list of the other files"
            ) from table.unreadable[path]
        parsed = table.footers.get(path)
        rows = None if parsed is not None else all_groups.rows_of(int(file[first])).tolist()
        each.append(
            GroupTask(
                path, size, time, numbers[first:stop], judged, files.folders[folder], parsed, rows
            )
        )
        containers.append(positions[first:stop])
    return each, containers, sizes


def units_of(
    tasks: Iterable[GroupTask],
    columns: Collection[str] | None,
    rows: int = ARROW_ROWS,
    *,
    limited: bool = False,
) -> Iterator[list[GroupTask]]:
    """Return neighbouring row groups that are read together.

    Their rows and bytes are limited, to limit memory and to let threads share a large file.

    Args:
        tasks: The tasks.
        columns: The names of the columns that are read; None if only statistics are read.
        rows: The most rows to read together.
        limited: True if the first rows may be enough; then the first units are small.
    """
    least, largest = 1 / files_at_once(), GroupSize.of(1, limited=limited)
    parts = (
        (part, max(size, least))
        for task in _with_pages_located(tasks)
        for part, size in _split(task, columns, rows, largest)
    )
    return together(parts, largest)


def _with_pages_located(tasks: Iterable[GroupTask]) -> Iterator[GroupTask]:
    """Yield tasks after locating the pages of small files together."""
    tasks = iter(tasks)
    while several := list(itertools.islice(tasks, LOCATED)):
        locate_pages_together(task.parsed for task in several if task.parsed is not None)
        yield from several


def _split(
    task: GroupTask, columns: Collection[str] | None, limit: int, largest: GroupSize
) -> Iterator[tuple[GroupTask, float]]:
    """Yield a task in parts that fit into one unit, with their sizes; a full unit has size 1."""
    if task.parsed is None:
        yield task, task.size / UNIT_BYTES if task.size != UNKNOWN else 1.0
        return
    nbytes = _nbytes(task, columns)  # first, because it also finds the row counts
    if len(task.groups) == 1:
        yield task, max(task.parsed.rows.item(task.groups[0]) / limit, nbytes.item() / UNIT_BYTES)
        return
    rows = np.maximum(task.parsed.rows[task.groups], 0)
    by_chunks = 0 if columns is None else min(len(columns) / UNIT_CHUNKS, 1 / UNIT_GROUPS)
    sizes = np.maximum(np.maximum(rows / limit, nbytes / UNIT_BYTES), by_chunks).tolist()
    first, size = 0, 0.0
    for i, own in enumerate(sizes):
        if i > first and size + own > largest.next:
            yield task._replace(groups=task.groups[first:i]), size
            first, size = i, 0.0
        size += own
    yield task._replace(groups=task.groups[first:]) if first else task, size


def _nbytes(task: GroupTask, columns: Collection[str] | None) -> Floats:
    """Return the compressed bytes of columns in each row group of a task, at least roughly."""
    assert task.parsed is not None
    if columns is None:
        return np.zeros(len(task.groups))
    types, located = task.parsed.head.leaf_types, task.parsed.page_locations
    if located is not None and types.keys() >= set(columns):
        positions = [types[name].position for name in columns]
        if len(task.groups) == 1:
            g = task.groups[0]
            return np.array([sum(located.item(g, p, at.BYTES) for p in positions)], np.float64)
        own = located[task.groups][:, positions, at.BYTES]
        return np.asarray(own.sum(axis=1), np.float64)
    share = len(columns) / max(len(task.parsed.head.columns), 1)
    return np.maximum(task.parsed.nbytes[task.groups], 0) * share


def has_many_tiny_groups(task: GroupTask, columns: Collection[str]) -> bool:
    """Return True if pages cost more than they save."""
    if task.parsed is None or len(task.groups) < MANY_GROUPS or not columns:
        return False
    most = TINY_JUDGED_BYTES if task.filtered else TINY_BYTES * len(columns)
    return bool(_nbytes(task, columns).mean() < most)


def whole_of(task: GroupTask) -> FilePages:
    """Return all rows of a task."""
    from skipstone.bindings.tables.parquet.pages.plan_pages import whole

    rows = task.rows or [] if task.parsed is None else task.parsed.rows.tolist()
    return whole(task.path, rows, task.groups)


def count_groups(tasks: Sequence[GroupTask]) -> int:
    """Return the number of row groups of tasks."""
    return sum(len(task.groups) for task in tasks)


def track_of(phase: str, tasks: Sequence[GroupTask]) -> Track:
    """Return the progress of a phase that does all row groups of tasks."""
    return Track(phase, count_groups(tasks), "row groups")
