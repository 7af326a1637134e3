"""Read the row groups that a plan keeps; their rows are filtered only if the verdict is MAYBE."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.tables.files import UNKNOWN, check_unchanged
from skipstone.bindings.tables.parquet.declared_types import why_not_judged, why_not_read
from skipstone.bindings.tables.parquet.footer import schema_of
from skipstone.bindings.tables.partitions import Texts, partition_column
from skipstone.bindings.tables.read import RowSelection, Tasks, batches_of
from skipstone.ir.errors import SourceError, StaleFile, UnsupportedForm, describe_error
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.parquet.footer import ParsedFooter
    from skipstone.bindings.tables.parquet.table import ParquetTable


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Row groups of one file that have one verdict.

    Attributes:
        path, size, time: Of the file: its path, bytes, and time of change in ns since 1970; -1 is
            unknown.
        groups: The row groups.
        filtered: Whether their rows are to be judged.
        folder: The folder of the file: path, and texts of the partition values.
        tail: The file's footer; None if it was not read.
        rows: The row counts that `_metadata` has for each row group of the file; None if the counts
            come from the file's own footer.
    """

    path: str
    size: int
    time: int
    groups: list[int]
    filtered: bool
    folder: tuple[str, Texts]
    tail: ParsedFooter | None
    rows: list[int] | None


def tasks_of(table: ParquetTable, plan: Plan, lenient: bool = False) -> Tasks:
    """Return the tasks that read a plan of a Parquet table.

    Args:
        table: The table.
        plan: A plan of it.
        lenient: Whether rows that cannot be judged here are returned, for the caller to judge.

    Raises:
        SourceError: the plan keeps a file whose footer could not be read.
    """
    all_groups = table.groups
    nbytes = np.where(
        all_groups.nbytes == UNKNOWN, all_groups.files.sizes[all_groups.file], all_groups.nbytes
    )
    each, containers, sizes = [], [], []
    kept = [
        (i, int(all_groups.file[i]), bool(plan.verdicts[i] == Verdict.MAYBE))
        for i in plan.kept.tolist()
    ]
    for (file, filtered), members in itertools.groupby(kept, lambda one: one[1:]):
        positions = [i for i, _, _ in members]
        path = all_groups.files.paths[file].as_py()
        if path in table.unreadable:
            raise SourceError(
                f'{table.unreadable[path]}; on_error="keep" kept it, and it may hold matching '
                "rows: leave it out of the scan by a glob such as folder/*.parquet"
            ) from table.unreadable[path]
        tail = table.footers.get(path)
        first, stop = np.searchsorted(all_groups.file, [file, file + 1]).tolist()
        rows = all_groups.rows[first:stop].tolist() if tail is None else None
        files = all_groups.files
        each.append(
            GroupTask(
                path,
                int(files.sizes[file]),
                int(files.times[file]),
                all_groups.group[positions].tolist(),
                filtered,
                files.folders[files.folder[file]],
                tail,
                rows,
            )
        )
        containers.append(positions)
        sizes.append(int(nbytes[positions].sum()))
    reader = GroupReader(
        RowSelection.of(plan, lenient),
        table.filesystem,
        table.schema,
        table.partition_columns,
        plan.timezone,
    )
    return Tasks(reader, each, containers, sizes)


@dataclass(frozen=True, slots=True)
class GroupReader:
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

    def read(self, task: GroupTask) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows of a task's row groups.

        Raises:
            SourceError: the file cannot be read, or is not the file that was planned.
            UnsupportedForm: a column of the file means something else than the table's column.
        """
        needed, path = self.wanted.needed(task.filtered), task.path
        fields = [f for f in self.schema if f.name in needed]
        constants = {
            f.name: partition_column([task.folder], f, self.timezone)[0]
            for f in fields
            if f.name in self.partition_columns
        }
        check_unchanged(self.filesystem, [path], [task.size], [task.time])
        try:
            with self.filesystem.open_input_file(path) as source:
                if task.size != UNKNOWN and source.size() != task.size:
                    raise StaleFile(
                        f"{path}: was {task.size} bytes when it was planned, and is "
                        f"{source.size()}; scan the table again"
                    )
                reader = pq.ParquetFile(
                    source,
                    metadata=None if task.tail is None else task.tail.metadata,
                    coerce_int96_timestamp_unit="us",
                )
                _check_row_counts(task, reader.metadata)
                filtered = self._can_judge(task, reader, fields)
                file_names = _file_names(
                    reader.schema_arrow, [f for f in fields if f.name not in constants], path
                )
                for batch in batches_of(reader, path, list(file_names.values()), task.groups):
                    rows = self.wanted.select(
                        _to_table_columns(batch, fields, file_names, constants), filtered
                    )
                    if rows.num_rows:
                        yield rows
        except (OSError, pa.ArrowException, IndexError) as e:
            if isinstance(e, SourceError):
                raise
            raise SourceError(
                f"{path}: reading row groups {task.groups[:8]} failed ({describe_error(e)}); "
                "if the file was changed since, scan the table again, else leave the file out"
            ) from e

    def _can_judge(self, task: GroupTask, file: pq.ParquetFile, fields: list[pa.Field]) -> bool:
        """Return True if the rows of a task are filtered here; otherwise the caller judges them.

        Raises:
            UnsupportedForm: the file's columns mean something else than the table's.
        """
        own = schema_of(file.metadata) if task.tail is None else task.tail.head.columns
        judged = () if self.wanted.predicate is None else columns_of(self.wanted.predicate)
        why = why_not_judged(fields, own, judged) if task.filtered else ""
        if problem := why_not_read(fields, own) or ("" if self.wanted.lenient else why):
            raise UnsupportedForm(f"{task.path}: {problem}")
        return task.filtered and not why


def _check_row_counts(task: GroupTask, metadata: pq.FileMetaData) -> None:
    """Raise an error if the row groups are not those of `_metadata`, which may be outdated."""
    if (
        task.rows is not None
        and [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] != task.rows
    ):
        raise SourceError(
            f"{task.path}: its row groups differ from those in _metadata; write _metadata again, "
            "or scan with use_metadata=False"
        )


def _file_names(schema: pa.Schema, fields: list[pa.Field], path: str) -> dict[str, str]:
    """Return the file's names of the table's columns.

    Names match exactly or else without regard to case, as in Spark. A column that the file lacks
    has no entry.
    """
    out = {}
    for f in fields:
        matches = (
            [f.name]
            if f.name in schema.names
            else [name for name in schema.names if name.lower() == f.name.lower()]
        )
        if len(matches) > 1:
            raise SourceError(
                f"{path}: has the columns {', '.join(matches)}; expected one for {f.name!r}"
            )
        if matches:
            out[f.name] = matches[0]
    return out


def _to_table_columns(
    batch: pa.RecordBatch,
    fields: list[pa.Field],
    file_names: dict[str, str],
    constants: dict[str, pa.Scalar],
) -> pa.RecordBatch:
    """Return a batch with the table's columns.

    Partition values are repeated, absent columns are NULL, and types are widened.
    """
    n = batch.num_rows
    columns = []
    for f in fields:
        if f.name in constants:
            columns.append(pa.repeat(constants[f.name], n))
        elif f.name in file_names:
            columns.append(_cast(batch.column(file_names[f.name]), f.type))
        else:
            columns.append(pa.nulls(n, f.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values to another type.

    Fields of structs are matched by name as columns are. Arrow's cast would make a field NULL if
    its name differs in case.
    """
    if values.type == kind:
        return values
    if (
        pa.types.is_timestamp(kind)
        and pa.types.is_timestamp(values.type)
        and kind.tz is not None
        and values.type.tz is None
    ):  # INT96
        return values.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)
    if not (pa.types.is_struct(kind) and pa.types.is_struct(values.type)):
        # Integers that become floats are rounded to the nearest, as Spark's casts do.
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    wanted = [kind.field(i) for i in range(kind.num_fields)]
    names = _file_names(pa.schema(list(values.type)), wanted, "a file")
    children = dict(zip((f.name for f in values.type), values.flatten(), strict=True))
    fields = [
        _cast(children[names[f.name]], f.type) if f.name in names else pa.nulls(len(values), f.type)
        for f in wanted
    ]
    return pa.StructArray.from_arrays(
        fields, fields=[f.with_nullable(True) for f in wanted], mask=values.is_null()
    ).cast(kind)
