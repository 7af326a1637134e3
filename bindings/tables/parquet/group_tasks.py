"""The row groups that a plan reads, as tasks, and in units that are read together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skipstone.bindings.progress import Track
from skipstone.bindings.tables.partitions import Texts
from skipstone.bindings.tables.read import together

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.footer import ParsedFooter

# The most rows, and compressed bytes of their columns, that are read together, unless one row group
# has more. Decoders split the work of one unit among threads.
UNIT_ROWS, UNIT_BYTES = 1 << 21, 1 << 26
# Row groups of a file that Arrow reads faster as a whole, and the bytes of their columns.
MANY_GROUPS, TINY_BYTES = 4, 1 << 14


class GroupTask(NamedTuple):
    """Row groups of one file that have one verdict.

    Attributes:
        path, size, time: Of the file: its path, bytes, and modification time in ns since 1970; -1
            is unknown.
        groups: The row groups.
        filtered: True if their rows are to be judged.
        folder: The folder of the file: path, and texts of the partition values.
        parsed: The file's footer; None if it was not read.
        rows: The row counts that `_metadata` has for each row group of the file; None if the counts
            come from the file's own footer.
    """

    path: str
    size: int
    time: int
    groups: list[int]
    filtered: bool
    folder: tuple[str, Texts]
    parsed: ParsedFooter | None
    rows: list[int] | None


def units_of(tasks: Iterable[GroupTask], share: float = 1) -> Iterator[list[GroupTask]]:
    """Return row groups to read together: neighbours of one schema, verdict and folder.

    Their rows and bytes are limited, to limit memory and to let threads share a large file.

    Args:
        tasks: The tasks.
        share: The share of the columns that is read.
    """
    parts = (part for task in tasks for part in _split(task, share))
    return together(parts, 1, _alike)


def _split(task: GroupTask, share: float) -> Iterator[tuple[GroupTask, float]]:
    """Yield a task in parts that fit into one unit, with their sizes; a unit has the size 1."""
    if task.parsed is None:
        yield task, 0.0
        return
    rows, nbytes = (np.maximum(n[task.groups], 0) for n in (task.parsed.rows, task.parsed.nbytes))
    sizes = np.maximum(rows / UNIT_ROWS, nbytes * (share / UNIT_BYTES)).tolist()
    first, size = 0, 0.0
    for i, own in enumerate(sizes):
        if i > first and size + own > 1:
            yield task._replace(groups=task.groups[first:i]), size
            first, size = i, 0.0
        size += own
    yield task._replace(groups=task.groups[first:]) if first else task, size


def has_many_tiny_groups(task: GroupTask, share: float) -> bool:
    """Return True if pages cost more than they save: 0.2 ms for each row group."""
    if task.parsed is None or len(task.groups) < MANY_GROUPS:
        return False
    return bool(task.parsed.nbytes[task.groups].mean() * share < TINY_BYTES)


def count_groups(tasks: Sequence[GroupTask]) -> int:
    """Return the number of row groups of tasks."""
    return sum(len(task.groups) for task in tasks)


def track_of(phase: str, tasks: Sequence[GroupTask]) -> Track:
    """Return the progress of a phase that does all row groups of tasks."""
    return Track(phase, count_groups(tasks), "row groups")


def _alike(a: GroupTask, b: GroupTask) -> bool:
    return (
        a.parsed is not None
        and b.parsed is not None
        and a.parsed.head is b.parsed.head
        and a.filtered == b.filtered
        and a.folder == b.folder
    )
