"""Read the rows of a plan: tasks, readers and batches that all table formats share."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.plans.readers import ReaderName
from skipstone.bindings.progress import Track
from skipstone.bindings.tables.parquet.calendar import leaf_values, rebase_batch
from skipstone.bindings.tables.parquet.pages.page_history import PageHistory
from skipstone.bindings.tables.row_filter import matching_rows
from skipstone.bindings.tables.table_columns import is_misread
from skipstone.ir.errors import SourceError, UnsupportedForm
from skipstone.ir.node import Node, columns_of
from skipstone.kernels.run.pool import REQUESTS, ContextPool, threads, units_at_once

if TYPE_CHECKING:
    from skipstone.bindings.plans.pages import FilePages
    from skipstone.bindings.plans.plan import Plan

T = TypeVar("T")
Result = TypeVar("Result")
BATCH_ROWS: Final = 1 << 16
# The most bytes, and the most files, that are read together.
GROUP_BYTES: Final = 1 << 26
MAX_FILES: Final = 256
# The first group of a plan with a limit has this share of a full one.
FIRST_SHARE: Final = 64


def read_in_order(
    read: Callable[[T], list[Result]],
    tasks: Iterable[T],
    track: Track,
    count: Callable[[T], int] = lambda task: 1,
    *,
    workers: int = 0,
    alone: bool = False,
) -> Iterator[Result]:
    """Run `read` on tasks in several threads and yield the results in the order of the tasks.

    A few tasks are read ahead.

    Args:
        read: Reads a task.
        tasks: The tasks.
        track: Reports the progress.
        count: Returns how many of the progress's units a task is.
        workers: The number of threads; 0: as many as share work.
        alone: True to read the first task before the others, as its results may be enough.
    """
    with track:
        tasks = iter(tasks)
        if alone:
            for task in itertools.islice(tasks, 1):
                results = read(task)
                track.step(count(task))
                yield from results
        few = list(itertools.islice(tasks, 2))
        if len(few) < 2:  # nothing can be read ahead, so no thread is started
            for task in few:
                results = read(task)
                track.step(count(task))
                yield from results
        else:
            every, workers = itertools.chain(few, tasks), workers or threads()
            ahead = 1 if alone else workers + 1  # where few rows are enough, so are few tasks
            yield from _read_ahead(read, every, track, count, workers, ahead)


def _read_ahead(
    read: Callable[[T], list[Result]],
    tasks: Iterable[T],
    track: Track,
    count: Callable[[T], int],
    workers: int,
    ahead: int,
) -> Iterator[Result]:
    """Run `read` on tasks in several threads, at most `ahead` of them before they are needed.

    The other arguments are as for `read_in_order`.
    """
    with ContextPool(workers, "skipstone-read") as readers:
        waiting: deque[tuple[Future[list[Result]], int]] = deque()

        def first() -> list[Result]:
            found, units = waiting.popleft()
            results = found.result()
            track.step(units)
            return results

        try:
            for task in tasks:
                waiting.append((readers.submit(read, task), count(task)))
                if len(waiting) > ahead:
                    yield from first()
            while waiting:
                yield from first()
        finally:  # a caller that has enough rows does not wait for more files
            for one, _ in waiting:
                one.cancel()


def read_files_in_order(
    read: Callable[[list[T]], list[Result]],
    tasks: Sequence[T],
    sizes: Sequence[int],
    *,
    limited: bool,
    local: bool,
) -> Iterator[Result]:
    """Run `read` on groups of files of some megabytes, as `read_in_order` does.

    Args:
        read: Reads a group.
        tasks, sizes: The files, and their bytes.
        limited: True if the first rows may be enough.
        local: True if requests cost little.
    """
    track, workers = Track("reading", len(tasks), "files"), units_at_once(local=local)
    least = GROUP_BYTES / files_at_once()
    sized = zip(tasks, (max(size, least) for size in sizes), strict=True)
    groups = together(sized, GroupSize.of(GROUP_BYTES, limited=limited))
    return read_in_order(read, groups, track, len, workers=workers, alone=limited)


def judge_files_in_order(
    judge: Callable[[T], Result], tasks: Sequence[T], *, local: bool
) -> Iterator[Result]:
    """Run `judge` on files in several threads and yield the results in the order of the files."""
    track, workers = Track("pages", len(tasks), "files"), 0 if local else REQUESTS
    return read_in_order(lambda task: [judge(task)], tasks, track, workers=workers)


def files_at_once() -> int:
    """Return how many files a thread may keep open: a share of the process's limit."""
    try:
        import resource  # Windows has none, and no such limit

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError):
        return MAX_FILES
    if limit == resource.RLIM_INFINITY:
        return MAX_FILES
    return max(1, min(MAX_FILES, limit // (4 * (threads() + 1))))


@dataclass(slots=True)
class GroupSize:
    """The largest allowed size of the next group of tasks, which doubles up to a full size."""

    full: float
    next: float

    @classmethod
    def of(cls, full: float, *, limited: bool = False) -> GroupSize:
        """Return full sizes, or sizes that begin small if the first rows may be enough."""
        return cls(full, full / FIRST_SHARE if limited else full)

    def grow(self) -> None:
        """Double the size for the next group."""
        self.next = min(2 * self.next, self.full)


def together(sized: Iterable[tuple[T, float]], largest: GroupSize) -> Iterator[list[T]]:
    """Yield neighbouring tasks in groups up to a size; a task that exceeds it forms its own group.

    The last two groups get about the same size, because threads work on both at the same time;
    unless groups begin small, and the first is wanted soon.

    Args:
        sized: The tasks, and the size of each.
        largest: The largest size of each group.

    Example:
        >>> list(together([("a", 3), ("b", 3), ("c", 3), ("d", 1), ("e", 2)], GroupSize.of(9)))
        [['a', 'b'], ['c', 'd', 'e']]
    """
    held = int(largest.next == largest.full)  # the groups that wait for the last one
    waiting: list[list[tuple[T, float]]] = []
    group: list[tuple[T, float]] = []
    size = 0.0
    for task, own in sized:
        if group and size + own > largest.next:
            waiting.append(group)
            group, size = [], 0.0
            largest.grow()
            if len(waiting) > held:
                yield [t for t, _ in waiting.pop(0)]
        group.append((task, own))
        size += own
    last = _halves(waiting[0] + group) if waiting else [group]
    yield from ([t for t, _ in several] for several in last if several)


def _halves(sized: list[tuple[T, float]]) -> list[list[tuple[T, float]]]:
    """Return tasks in two groups of about the same size."""
    sums = list(itertools.accumulate(size for _, size in sized))
    cut = min(range(1, len(sized)), key=lambda i: max(sums[i - 1], sums[-1] - sums[i - 1]))
    return [sized[:cut], sized[cut:]]


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows and columns that a plan reads from each file.

    Attributes:
        columns: Top-level columns.
        predicate: The bound condition; None keeps every row.
        lenient: True if rows that cannot be judged here are returned, for the caller to judge.
        reader: Decodes the files, where it can.
        pages: The rows that page statistics have judged so far, and those that remained.
        limit: The number of rows that are enough; None if all of them are needed.
        uses_statistics: False if no statistics of pages or bloom filters may rule out rows.
    """

    columns: tuple[str, ...]
    predicate: Node | None
    lenient: bool = False
    reader: ReaderName = "auto"
    pages: PageHistory = field(default_factory=PageHistory, compare=False)
    limit: int | None = None
    uses_statistics: bool = True

    @staticmethod
    def of(plan: Plan, lenient: bool = False, reader: ReaderName = "auto") -> RowSelection:
        """Return the rows and columns that a plan reads."""
        condition = None if plan.predicate is None else plan.predicate.node
        # A caller that judges rows itself may need more of them.
        limit = None if plan.cut is None or plan.order or lenient else plan.cut.limit
        columns, skips = tuple(plan.columns), plan._uses_statistics
        return RowSelection(columns, condition, lenient, reader, PageHistory(), limit, skips)

    def needed(self, filtered: bool) -> set[str]:
        """Return the columns to read from a file; `filtered` if its rows are to be judged."""
        judged = columns_of(self.predicate) if filtered and self.predicate is not None else ()
        return {*self.columns, *(path[0] for path in judged)}

    def select(self, batch: pa.RecordBatch, filtered: bool) -> pa.RecordBatch:
        """Return the wanted columns of a batch, and if `filtered` only the matching rows.

        Raises:
            UnsupportedForm: the condition cannot be judged on rows, and `lenient` is False.
        """
        if filtered and self.predicate is not None:
            try:
                batch = matching_rows(self.predicate, batch)
            except UnsupportedForm:
                if not self.lenient:
                    raise
        return batch.select(list(self.columns))


class Reader(ABC):
    """Reads the files of a plan.

    A reader holds only what the files have in common, not the table, so that it can be pickled.

    Attributes:
        wanted: The rows and columns that it reads from each file.
    """

    wanted: RowSelection

    @abstractmethod
    def read(self, task: Any) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of one file, or of some row groups of it."""

    def require_readable(self, tasks: Sequence[Any]) -> None:
        """Check, without opening them, that the reader can read the files of some tasks.

        Raises:
            SourceError: a file is of a format that it does not read.
        """
        return None  # most readers read all files of their tables

    def read_all(self, tasks: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of all tasks, in order; several are read concurrently."""
        track = Track("reading", len(tasks), "files")
        return read_in_order(lambda task: list(self.read(task)), tasks, track)

    @abstractmethod
    def judge_pages(self, tasks: Sequence[Any]) -> Iterator[FilePages]:
        """Yield the row ranges that page statistics leave, in task order; no rows are read.

        A file may come several times, with different row groups.

        Raises:
            SourceError: a file cannot be read, or is not the file that was planned.
        """


@dataclass(frozen=True, slots=True)
class Tasks:
    """The work of reading a plan: one reader and its tasks, in table order.

    Attributes:
        reader: Reads each task.
        each: The tasks: small values of the reader's own kind, which can be pickled.
        containers: The containers of the plan that each task reads.
        nbytes: The approximate number of bytes that each task reads.
    """

    reader: Reader
    each: Sequence[Any]
    containers: Sequence[Sequence[int]]
    nbytes: Sequence[int]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in table order."""
        return self.reader.read_all(self.each)


def parquet_file(
    source: pa.NativeFile, *, local: bool, metadata: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """Open a Parquet file, to decode it by Arrow.

    Args:
        source: The open file.
        local: True if it is a local one. Arrow then fetches nothing ahead: with row groups of 1,000
            rows, that takes up to three times as long as to read them.
        metadata: Its footer, if it was read.

    Raises:
        OSError, ArrowException: it is not a Parquet file.
    """
    return pq.ParquetFile(
        source, metadata=metadata, pre_buffer=not local, coerce_int96_timestamp_unit="us"
    )


def batches_of(
    file: pq.ParquetFile,
    path: str,
    columns: list[str],
    groups: Sequence[int] | None = None,
    rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file in batches.

    Args:
        file: The file.
        path: Its path, for error messages.
        columns: The columns to read.
        groups: The row groups to read; None reads all.
        rows: The most rows of a batch.

    Raises:
        SourceError: a column holds times or days that Arrow misreads, or Arrow returns fewer rows
            than the footer counts.
    """
    parquet_columns = file.metadata.schema
    chosen = range(file.num_row_groups) if groups is None else groups
    remaining = sum(file.metadata.row_group(g).num_rows for g in chosen)
    int96 = {
        c.path.split(".")[0]
        for c in map(parquet_columns.column, range(len(parquet_columns)))
        if c.physical_type == "INT96"
    }
    # Arrow (26) does not join the dictionaries of several row groups within structs and lists.
    one_by_one = any(f.name in columns and _has_dictionary(f.type) for f in file.schema_arrow)
    parts = [[g] for g in chosen] if one_by_one else [groups]
    for batch in itertools.chain.from_iterable(
        file.iter_batches(rows, row_groups=part, columns=columns, use_threads=False)
        for part in parts
    ):
        for name in int96.intersection(batch.schema.names):
            times = (
                part for part in leaf_values(batch.column(name)) if pa.types.is_timestamp(part.type)
            )
            if any(map(is_misread, times)):
                raise SourceError(
                    f"{path}: its INT96 column {name!r} holds timestamps after the year 285,000 or "
                    "before -4713, which Arrow misreads; write it as TIMESTAMP_MICROS "
                    "(spark.sql.parquet.outputTimestampType), or read it with Spark"
                )
        remaining -= batch.num_rows
        yield rebase_batch(batch, file.metadata.metadata or {}, int96, path)
    if columns and remaining:  # pyarrow 26 reads no row where a list's pages hold one value each
        raise SourceError(
            f"{path}: Arrow read {remaining} rows fewer than the footer counts; expected all of "
            f"them. Read other columns than {', '.join(columns)}, or read it with Spark"
        )


def _has_dictionary(t: pa.DataType) -> bool:
    """Return True if a nested type contains a dictionary type."""
    inner = [t.field(i).type for i in range(t.num_fields)] if pa.types.is_nested(t) else []
    return any(pa.types.is_dictionary(i) or _has_dictionary(i) for i in inner)
