"""Read the row groups that a plan keeps; their rows are filtered only if the verdict is MAYBE."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.location import is_local
from skipstone.bindings.tables.char_columns import padded
from skipstone.bindings.tables.identity import identity_in
from skipstone.bindings.tables.parquet.declared_types import why_not_judged, why_not_read
from skipstone.bindings.tables.parquet.footer import footer_of
from skipstone.bindings.tables.parquet.group_tasks import (
    ARROW_ROWS,
    POLARS_ROWS,
    UNIT_BYTES,
    GroupTask,
    count_groups,
    has_many_tiny_groups,
    tasks_in,
    track_of,
    units_of,
    whole_of,
)
from skipstone.bindings.tables.parquet.heads import Heads, schema_of
from skipstone.bindings.tables.parquet.pages.decoders import uses_polars
from skipstone.bindings.tables.parquet.pages.file_read import FileRead
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.parquet.pages.read_pages import (
    groups_of,
    joined,
    read_files,
)
from skipstone.bindings.tables.partitions import values_of_folders
from skipstone.bindings.tables.read import (
    Reader,
    RowSelection,
    Tasks,
    batches_of,
    parquet_file,
    read_in_order,
)
from skipstone.bindings.tables.table_columns import file_names, to_table_columns, to_table_type
from skipstone.bindings.tables.unchanged import check_opened, check_row_counts, check_unchanged
from skipstone.ir.errors import SourceError, StaleFile, UnsupportedForm, describe_error
from skipstone.ir.node import columns_of
from skipstone.kernels import logs
from skipstone.kernels.run.pool import map_requests, units_at_once

if TYPE_CHECKING:
    from skipstone.bindings.plans.pages import FilePages
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.parquet.table import ParquetTable


def tasks_of(table: ParquetTable, wanted: RowSelection, plan: Plan) -> Tasks:
    """Return the tasks that read a plan of a Parquet table.

    Args:
        table: The table.
        wanted: The rows and columns to read.
        plan: A plan of it.

    Raises:
        SourceError: the plan keeps a file whose footer could not be read.
    """
    each, containers, sizes = tasks_in(table, plan)
    reader = GroupReader(
        wanted, table.filesystem, table.schema, table.partition_columns, plan.timezone
    )
    return Tasks(reader, each, containers, sizes)


@dataclass(frozen=True, slots=True)
class GroupReader(Reader):
    """Reads row groups of Parquet files.

    Attributes:
        wanted: The rows and columns to read.
        filesystem: The file system of the files.
        schema: The table's columns.
        partition_columns: The columns whose values come from folders' names.
        timezone: The zone in which partition values without a zone are read.
    """

    wanted: RowSelection
    filesystem: pafs.FileSystem
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    timezone: str

    def read_all(self, tasks: Sequence[GroupTask]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of all tasks, in order; several are read concurrently."""
        polars = uses_polars(UNIT_BYTES, self.wanted.reader)
        limited = self.wanted.limit is not None
        rows = POLARS_ROWS if polars else ARROW_ROWS
        units = units_of(tasks, self._columns, rows, limited=limited)
        track, workers = track_of("reading", tasks), units_at_once(local=is_local(self.filesystem))
        return read_in_order(
            self._read_together, units, track, count_groups, workers=workers, alone=limited
        )

    def read(self, task: GroupTask) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a task's row groups.

        Raises:
            SourceError: the file cannot be read, or is not the file that was planned.
            UnsupportedForm: a column of the file means something else than the table's column.
        """
        for unit in units_of([task], self._columns):
            yield from self._read_together(unit)

    @property
    def _columns(self) -> Collection[str]:
        return self.wanted.needed(True)

    def _read_together(self, tasks: Sequence[GroupTask]) -> list[pa.RecordBatch]:
        """Return the wanted rows of tasks: by pages if that is possible, else by row groups."""
        if all(task.parsed is not None for task in tasks):
            return self._read_parsed(tasks)
        heads, local = Heads(), is_local(self.filesystem)
        parsed = map_requests(
            lambda task: self._with_footer_if_any(task, heads), tasks, local=local
        )
        units = units_of(parsed, self._columns)
        return [batch for unit in units for batch in self._read_parsed(unit)]

    def _with_footer_if_any(self, task: GroupTask, heads: Heads) -> GroupTask:
        """Return a task with its file's footer, or without if Arrow has to say what is wrong."""
        try:
            return self._with_footer(task, heads)
        except StaleFile:
            raise
        except (OSError, pa.ArrowException, ValueError):
            return task

    def _read_parsed(self, tasks: Sequence[GroupTask]) -> list[pa.RecordBatch]:
        """Return the wanted rows of tasks whose files' footers were read."""
        alike = groups_of(tasks, lambda task: (id(task.parsed and task.parsed.head), task.filtered))
        if len(alike) == 1:
            return [batch for own in self._read_alike(tasks, apart=False) for batch in own]
        each = {
            id(task): own for t in alike for task, own in zip(t, self._read_alike(t), strict=True)
        }
        return joined([each[id(task)] for task in tasks])

    def _read_alike(
        self, tasks: Sequence[GroupTask], *, apart: bool = True
    ) -> list[list[pa.RecordBatch]]:
        """Return the wanted rows of each task; the tasks share a schema and a verdict.

        If `apart` is False, the first list may hold the rows of all tasks.
        """
        try:
            rows = self._by_pages(tasks, apart)
        except (OSError, pa.ArrowException, ValueError, IndexError) as e:
            if isinstance(e, StaleFile | UnsupportedForm):
                raise
            logs.fallback(f"{tasks[0].path}: read by row groups, not pages ({describe_error(e)})")
            rows = None  # Arrow decides whether the file is damaged, and raises
        return [list(self._by_row_groups(task)) for task in tasks] if rows is None else rows

    def _by_pages(
        self, tasks: Sequence[GroupTask], apart: bool
    ) -> list[list[pa.RecordBatch]] | None:
        """Return the wanted rows of alike tasks; None if they cannot be read by pages.

        Raises:
            StaleFile: a file is not the one that was planned.
            UnsupportedForm: the rows cannot be judged here.
            SourceError, OSError, ArrowException, ValueError: the pages cannot be read.
        """
        if tasks[0].parsed is None or all(
            has_many_tiny_groups(task, self._columns) for task in tasks
        ):
            return None
        with self._opened(tasks) as (files, fields, filtered):
            return read_files(files, fields, self.wanted, filtered=filtered, apart=apart)

    def judge_pages(self, tasks: Sequence[GroupTask]) -> Iterator[FilePages]:
        """Yield the row ranges that page statistics leave; judge neighbouring tasks together."""
        track = track_of("pages", tasks)
        return read_in_order(self._judge_together, units_of(tasks, None), track, count_groups)

    def _judge_together(self, tasks: Sequence[GroupTask]) -> list[FilePages]:
        """Return the row ranges that remain after page pruning."""
        heads, local = Heads(), is_local(self.filesystem)
        tasks = map_requests(lambda task: self._to_judge(task, heads), tasks, local=local)
        alike = groups_of(tasks, lambda task: (id(task.parsed and task.parsed.head), task.filtered))
        each = {id(task): p for t in alike for task, p in zip(t, self._judge_alike(t), strict=True)}
        return [each[id(task)] for task in tasks]

    def _to_judge(self, task: GroupTask, heads: Heads) -> GroupTask:
        """Return a task with its file's footer if its pages are to be judged, and if it has one.

        Raises:
            SourceError: the file cannot be read, or is not the file that was planned.
        """
        from skipstone.bindings.tables.parquet.pages.plan_pages import unreadable

        if not task.filtered or self.wanted.predicate is None:
            return task
        try:
            return self._with_footer(task, heads)
        except SourceError:
            raise
        except OSError as e:
            raise unreadable(task.path, e) from e
        except (pa.ArrowException, ValueError, IndexError):
            return task

    def _judge_alike(self, tasks: Sequence[GroupTask]) -> list[FilePages]:
        """Return the row ranges that remain after page pruning, for alike tasks.

        Raises:
            SourceError: a file cannot be read, or is not the file that was planned.
        """
        from skipstone.bindings.tables.parquet.pages.plan_pages import judge_pages, unreadable

        first, predicate = tasks[0], self.wanted.predicate
        if not first.filtered or predicate is None or first.parsed is None:
            return [whole_of(task) for task in tasks]
        try:
            with self._opened(tasks) as (files, fields, filtered):
                return judge_pages(files, fields, predicate if filtered else None)
        except SourceError:
            raise
        except OSError as e:
            raise unreadable(first.path, e) from e
        except (UnsupportedForm, pa.ArrowException, ValueError, IndexError):
            return [whole_of(task) for task in tasks]

    def _with_footer(self, task: GroupTask, heads: Heads) -> GroupTask:
        """Return a task with its file's footer. The file stays open.

        Raises:
            SourceError: the file is not the file that was planned.
        """
        if task.parsed is not None:
            return task
        ranges = self._ranges_of(task)
        parsed = footer_of(ranges, heads)
        check_row_counts(task.path, task.rows, parsed.rows.tolist())
        return task._replace(parsed=parsed, ranges=ranges)

    @contextlib.contextmanager
    def _opened(
        self, tasks: Sequence[GroupTask]
    ) -> Iterator[tuple[list[FileRead], list[pa.Field], bool]]:
        """Open the files of tasks whose footers are known.

        Yields:
            The files, the columns to read, and whether their rows are judged here.

        Raises:
            StaleFile: a file is not the one that was planned.
            UnsupportedForm: a column of the files means something else than the table's column.
        """
        first = tasks[0]
        assert first.parsed is not None
        own, needed = first.parsed.head.columns, self.wanted.needed(first.filtered)
        fields = [f for f in self.schema if f.name in needed]
        filtered = self._can_judge(first, own, fields)
        stored = [f for f in fields if f.name not in self.partition_columns]
        own_names = file_names(own, stored, first.path)
        missing = {f.name: pa.nulls(1, f.type)[0] for f in stored if f.name not in own_names}
        folders = self._constants(tasks, fields)
        constants = {folder: values | missing for folder, values in folders.items()}
        by_name = {f.name: f for f in fields}

        def convert(name: str, values: pa.Array) -> pa.Array:
            return padded(to_table_type(values, by_name[name].type), by_name[name])

        inner: Mapping[str, Sequence[str]] = {}
        structs = any(pa.types.is_struct(f.type) for f in stored)
        if structs and filtered and self.wanted.predicate is not None:
            from skipstone.bindings.tables.parquet.pages.nested.whole_columns import inner_paths

            inner = inner_paths(self.wanted.predicate, self.wanted.columns, own_names, own)
        with self._opened_ranges(tasks) as opened:
            files = []
            for task, ranges in zip(tasks, opened, strict=True):
                assert task.parsed is not None
                values = constants[task.folder[0]]
                files.append(
                    FileRead(
                        task.path,
                        task.parsed,
                        ranges,
                        task.groups,
                        own_names,
                        values,
                        convert,
                        inner=inner,
                        inner_by_name=True,
                    )
                )
            yield files, fields, filtered

    @contextlib.contextmanager
    def _opened_ranges(self, tasks: Sequence[GroupTask]) -> Iterator[list[Ranges]]:
        """Open the files of tasks, except those that are open since their footers were read."""
        fs = self.filesystem
        with contextlib.ExitStack() as open_files:
            known: Mapping[str, Ranges] = {}
            if not is_local(fs):
                from skipstone.bindings.tables.open_objects import find_open, looked_up

                known = find_open(fs, [(t.path, t.size, t.time) for t in tasks if not t.ranges])
                open_files.enter_context(looked_up(fs, known))
            opened = map_requests(
                lambda t: t.ranges or known.get(t.path) or self._ranges_of(t),
                tasks,
                local=is_local(fs),
            )
            for task, ranges in zip(tasks, opened, strict=True):
                if task.ranges is None and task.path not in known:
                    open_files.enter_context(ranges.source)
            yield opened

    def _constants(
        self, tasks: Iterable[GroupTask], fields: Iterable[pa.Field]
    ) -> dict[str, dict[str, pa.Scalar]]:
        """Return the partition values of the folders of tasks: column -> value, by folder."""
        partitions = [f for f in fields if f.name in self.partition_columns]
        return values_of_folders([task.folder for task in tasks], partitions, self.timezone)

    def _ranges_of(self, task: GroupTask) -> Ranges:
        """Open a task's file; errors as for `_open`."""
        identity = identity_in(self.filesystem, task.path)  # taken before the file is opened
        return Ranges(self._open(task), is_local(self.filesystem), identity)

    def _open(self, task: GroupTask) -> pa.NativeFile:
        """Open a task's file.

        Raises:
            StaleFile: it is not the file that was planned.
        """
        check_unchanged(self.filesystem, [task.path], [task.size], [task.time])
        source = self.filesystem.open_input_file(task.path)
        check_opened(source, task.path, task.size, task.time)
        return source

    def _by_row_groups(self, task: GroupTask) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a task's row groups.

        Raises:
            SourceError: the file cannot be read, or is not the file that was planned.
            UnsupportedForm: a column of the file means something else than the table's column.
        """
        needed, path = self.wanted.needed(task.filtered), task.path
        fields = [f for f in self.schema if f.name in needed]
        constants = self._constants([task], fields)[task.folder[0]]
        try:
            with self._open(task) as source:
                reader = parquet_file(
                    source,
                    local=is_local(self.filesystem),
                    metadata=None if task.parsed is None else task.parsed.metadata,
                )
                if task.rows is not None:
                    counts = map(reader.metadata.row_group, range(reader.metadata.num_row_groups))
                    check_row_counts(path, task.rows, [g.num_rows for g in counts])
                own = (
                    schema_of(reader.metadata) if task.parsed is None else task.parsed.head.columns
                )
                filtered = self._can_judge(task, own, fields)
                own_names = file_names(
                    reader.schema_arrow, [f for f in fields if f.name not in constants], path
                )
                for batch in batches_of(reader, path, list(own_names.values()), task.groups):
                    rows = self.wanted.select(
                        to_table_columns(batch, fields, own_names, constants, path), filtered
                    )
                    if rows.num_rows:
                        yield rows
        except (OSError, pa.ArrowException, IndexError) as e:
            if isinstance(e, SourceError):
                raise
            raise SourceError(
                f"{path}: reading row groups {task.groups[:8]} failed ({describe_error(e)}); "
                'if it was changed, scan again; else try reader="polars", or leave the file out'
            ) from e

    def _can_judge(self, task: GroupTask, own: pa.Schema, fields: list[pa.Field]) -> bool:
        """Return True if the rows of a task are filtered here; otherwise the caller judges them.

        Raises:
            UnsupportedForm: the file's columns mean something else than the table's.
        """
        judged = () if self.wanted.predicate is None else columns_of(self.wanted.predicate)
        why = why_not_judged(fields, own, judged) if task.filtered else ""
        if problem := why_not_read(fields, own) or ("" if self.wanted.lenient else why):
            raise UnsupportedForm(f"{task.path}: {problem}")
        return task.filtered and not why
