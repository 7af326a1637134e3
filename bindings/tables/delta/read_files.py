"""Read the files that a plan of a Delta table kept.

Rows are live ones; columns have the table's logical names and types.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.location import is_local
from skipstone.bindings.tables.bitmaps import VectorFiles
from skipstone.bindings.tables.char_columns import padded
from skipstone.bindings.tables.delta.fields import TableFields, physical_name
from skipstone.bindings.tables.delta.full_paths import full_paths
from skipstone.bindings.tables.delta.replay import absolute
from skipstone.bindings.tables.delta.vectors import deleted_rows
from skipstone.bindings.tables.identity import identity_in
from skipstone.bindings.tables.parquet.footer import footer_of
from skipstone.bindings.tables.parquet.heads import Heads
from skipstone.bindings.tables.parquet.pages.file_read import FileRead, MatchedColumns
from skipstone.bindings.tables.parquet.pages.plan_pages import judge_file
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.parquet.pages.read_pages import (
    read_by_pages,
)
from skipstone.bindings.tables.partition_values import partition_values, why_no_value
from skipstone.bindings.tables.read import (
    Reader,
    RowSelection,
    Tasks,
    batches_of,
    judge_files_in_order,
    parquet_file,
    read_files_in_order,
)
from skipstone.bindings.tables.row_ranges import RowRanges
from skipstone.bindings.tables.table_columns import (
    FIELD_ID,
    PARTS,
    are_lists_or_maps,
    variants,
    with_parts,
)
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, python_array
from skipstone.ir.errors import SourceError, clip, describe_error
from skipstone.ir.outcome import Verdict

if TYPE_CHECKING:
    from skipstone.bindings.plans.pages import FilePages
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.delta.table import DeltaTable


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file to read.

    Attributes:
        action: The file's add action: path, size, deletionVector, partition.
        filtered: True if its rows must be filtered by the condition.
    """

    action: Mapping[str, Any]
    filtered: bool


def tasks_of(table: DeltaTable, wanted: RowSelection, plan: Plan) -> Tasks:
    """Return the tasks that read a plan's rows, one per file.

    Args:
        table: The table.
        wanted: The rows and columns to read.
        plan: A plan of it.
    """
    kept, snapshot = plan.kept.tolist(), table.snapshot
    wanted_columns = snapshot.files.select(["path", "size", "deletionVector", "partition"])
    actions = pc.take(wanted_columns, arrow_of(plan.kept)).to_pylist()
    each = [
        FileTask(action, bool(plan.verdicts[i] == Verdict.MAYBE))
        for i, action in zip(kept, actions, strict=True)
    ]
    reader = FileReader(
        wanted,
        snapshot.fs,
        snapshot.root,
        snapshot.uri,
        snapshot.fields,
        plan.timezone,
        table.column_mapping_mode == "id",
    )
    return Tasks(reader, each, [[i] for i in kept], [int(a["size"] or 0) for a in actions])


@dataclass(frozen=True, slots=True)
class FileReader(Reader):
    """Reads the files of a Delta table.

    Attributes:
        wanted: The columns to return and the rows to select.
        fs, root: The table's file system and folder.
        uri: The table, as the caller named it.
        fields: The table's columns.
        timezone: The zone of partition values that name none.
        by_id: True if files identify columns by id.
    """

    wanted: RowSelection
    fs: pafs.FileSystem
    root: str
    uri: str
    fields: TableFields
    timezone: str
    by_id: bool

    def read_all(self, tasks: Sequence[FileTask]) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of all tasks, in order; several are read concurrently."""
        sizes = [int(task.action["size"] or 0) for task in tasks]
        limited, local = self.wanted.limit is not None, is_local(self.fs)
        return read_files_in_order(self._read_together, tasks, sizes, limited=limited, local=local)

    def _read_together(self, tasks: Sequence[FileTask]) -> list[pa.RecordBatch]:
        with VectorFiles() as vectors:
            opener = functools.partial(self._open, vectors=vectors)
            schema, local = self.fields.schema, is_local(self.fs)
            by_pages = read_by_pages(opener, tasks, self.wanted, schema, local=local)
        out = []
        for task, rows in zip(tasks, by_pages, strict=True):
            out += list(self.read(task)) if rows is None else rows
        return out

    def judge_pages(self, tasks: Sequence[FileTask]) -> Iterator[FilePages]:
        """Yield the row ranges of each file that remain after page pruning."""

        def judge(task: FileTask) -> FilePages:
            with VectorFiles() as vectors:
                opener = functools.partial(self._open, vectors=vectors)
                schema, own = self.fields.schema, pa.chunked_array([[task.action["path"]]])
                path = full_paths(own, self.fs, self.root, self.uri)[0].as_py()
                return judge_file(opener, task, path, self.wanted, schema)

        return judge_files_in_order(judge, tasks, local=is_local(self.fs))

    def _open(
        self, task: FileTask, heads: Heads, vectors: VectorFiles
    ) -> tuple[pa.NativeFile, FileRead]:
        """Open a file and read its footer."""
        action, needed = task.action, self.wanted.needed(task.filtered)
        fs, path = self._locate(action["path"])
        identity = identity_in(fs, path)
        source = fs.open_input_file(path)
        ranges = Ranges(source, is_local(fs), identity)
        parsed = footer_of(ranges, heads)
        deleted = None
        if (vector := action["deletionVector"]) is not None:
            rows = int(parsed.rows.sum())
            deleted = deleted_rows(vector, self.fs, self.root, vectors, rows)
        own, missing, convert, by_name = heads.once(
            parsed.head, task.filtered, lambda file: self._columns_of(file, needed)
        )
        constants = {
            name: self._partition_value(name, action["partition"])
            if name in self.fields.partitions
            else pa.nulls(1, self.fields.schema.field(name).type)[0]
            for name in missing
        }
        return source, FileRead(
            *(path, parsed, ranges, None, own, constants, convert, deleted), inner_by_name=by_name
        )

    def _columns_of(self, file: pa.Schema, needed: Collection[str]) -> MatchedColumns:
        """Match the columns of the table with those of a file."""
        described = {f["name"]: f for f in self.fields.described if f["name"] in needed}
        names, own_names = ColumnFinder(file, self.fields.mapped, self.by_id), file.names
        at = {
            name: names.position(f)
            for name, f in described.items()
            if name not in self.fields.partitions
        }
        own = {name: own_names[i] for name, i in at.items() if i is not None}
        return MatchedColumns(
            own,
            [name for name in described if name not in own],
            lambda name, values: self._converted(values, described[name]),
            not self.fields.mapped,
        )

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of one file.

        Raises:
            SourceError: the file, its deletion vector or a partition value cannot be read.
        """
        needed, action = self.wanted.needed(task.filtered), task.action
        path = action["path"]
        try:
            fs, path = self._locate(path)
            with fs.open_input_file(path) as source:
                file = parquet_file(source, local=is_local(fs))
                deleted = None
                if (vector := action["deletionVector"]) is not None:
                    rows = file.metadata.num_rows
                    with VectorFiles() as vectors:
                        deleted = deleted_rows(vector, self.fs, self.root, vectors, rows)
                fields = [f for f in self.fields.described if f["name"] in needed]
                own = self._columns_of(file.schema_arrow, needed).own
                start = 0
                for batch in batches_of(file, path, list(own.values())):
                    whole = self._complete(batch, fields, own, action["partition"])
                    if deleted is not None:
                        whole = _live_rows(whole, deleted, start)
                    start += batch.num_rows
                    rows = self.wanted.select(whole, task.filtered)
                    if rows.num_rows:
                        yield rows
        except (OSError, pa.ArrowException) as e:
            if isinstance(e, SourceError):
                raise
            raise SourceError(
                f"{path}: reading the file failed ({describe_error(e)}); if the table was changed "
                "since, scan it again"
            ) from e

    def _locate(self, path: str) -> tuple[pafs.FileSystem, str]:
        if path.startswith("file:/") or "://" in path:
            return absolute(path)
        if path.startswith("/"):
            return self.fs, path
        if os.path.normpath(path).split("/")[0] == "..":
            raise SourceError(
                f"{clip(path)}: the file lies outside of its table; expected a path inside it"
            )
        return self.fs, f"{self.root}/{path}" if self.root else path

    def _complete(
        self,
        batch: pa.RecordBatch,
        fields: Sequence[Mapping[str, Any]],
        own: Mapping[str, str],
        partition: Mapping[str, str],
    ) -> pa.RecordBatch:
        n, schema, physical = batch.num_rows, self.fields.schema, self.fields.partitions
        columns = []
        for f in fields:
            kind = schema.field(f["name"]).type
            if f["name"] in physical:
                columns.append(pa.repeat(self._partition_value(f["name"], partition), n))
            elif f["name"] in own:
                columns.append(self._converted(batch.column(own[f["name"]]), f))
            else:
                columns.append(pa.nulls(n, kind))
        return pa.RecordBatch.from_arrays(
            columns, schema=pa.schema([schema.field(f["name"]) for f in fields])
        )

    def _converted(self, values: pa.Array, field: Mapping[str, Any]) -> pa.Array:
        """Return a file's column as the table has it."""
        own = self.fields.schema.field(field["name"])
        whole = conform(values, field["type"], own.type, self.fields.mapped, self.by_id)
        return padded(whole, own)

    def _partition_value(self, name: str, partition: Mapping[str, str]) -> pa.Scalar:
        """Return a file's value of a partition column.

        Raises:
            SourceError: its text is not a value of the column's type.
        """
        kind = self.fields.schema.field(name).type
        text = python_array([(partition or {}).get(self.fields.partitions[name])], pa.string())
        value, empty = partition_values(text, kind, self.timezone)
        if not value[0].is_valid and not empty[0].as_py():
            why = why_no_value(text[0].as_py(), kind, self.timezone)
            raise SourceError(
                f"the partition value {name}={text[0].as_py()!r} {why}; "
                "expected a text that Spark casts to it"
            )
        return padded(value, self.fields.schema.field(name))[0]


def _live_rows(batch: pa.RecordBatch, deleted: RowRanges, start: int) -> pa.RecordBatch:
    is_deleted = deleted.mask(start, batch.num_rows)
    return pc.filter(batch, arrow_of(~is_deleted)) if is_deleted.any() else batch


class ColumnFinder:
    """Finds columns of Delta's schema in a file, or their fields in a struct.

    A column is found by its id, if the table maps by id and the file has any ids; otherwise by
    its physical name, first as spelled and then in any case.

    Args:
        own: The file's columns, or the struct's fields.
        mapped: True if column mapping is on.
        by_id: True if it is by id.
    """

    def __init__(self, own: Iterable[pa.Field], mapped: bool, by_id: bool) -> None:
        self._mapped, self._exact, self._near = (
            mapped,
            dict[str, list[int]](),
            dict[str, list[int]](),
        )
        self._ids: dict[bytes, int] = {}
        for i, f in enumerate(own):
            self._exact.setdefault(f.name, []).append(i)
            self._near.setdefault(f.name.lower(), []).append(i)
            if by_id and (number := (f.metadata or {}).get(FIELD_ID)):
                self._ids.setdefault(number, i)

    def position(self, field: Mapping[str, Any]) -> int | None:
        """Return the position of a column; None if it is absent, or several are meant.

        Args:
            field: The column, as the table's schema describes it.
        """
        if self._ids:
            notes = field.get("metadata") or {}
            return self._ids.get(str(notes.get("delta.columnMapping.id")).encode())
        name = physical_name(field, self._mapped)
        found = self._exact.get(name) or self._near.get(name.lower(), [])
        return found[0] if len(found) == 1 else None


def conform(
    values: pa.Array, described: Any, arrow_type: pa.DataType, mapped: bool, by_id: bool = False
) -> pa.Array:
    """Convert a file's values to the table's type.

    Struct fields get their logical names, fields that the file lacks become NULL, and types are
    widened.

    Args:
        values: The values from the file.
        described: The type as Delta's schema describes it, with physical names.
        arrow_type: The same type in Arrow.
        mapped: True if column mapping is on.
        by_id: True if it is by id.
    """
    if values.type == arrow_type and not (mapped and pa.types.is_nested(arrow_type)):
        return values
    if described == "variant":
        return variants(values, arrow_type)
    if pa.types.is_struct(arrow_type) and pa.types.is_struct(values.type):
        names, children = ColumnFinder(values.type, mapped, by_id), []
        for f, field in zip(described["fields"], arrow_type, strict=True):
            at = names.position(f)
            part = pa.nulls(len(values), field.type) if at is None else values.field(at)
            children.append(conform(part, f["type"], field.type, mapped, by_id))
        is_null = pc.is_null(values)
        return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=is_null)
    if are_lists_or_maps(values.type, arrow_type):
        return with_parts(
            values,
            arrow_type,
            lambda part, name: conform(
                part, described[f"{name}Type"], getattr(arrow_type, PARTS[name]), mapped, by_id
            ),
        )
    if (
        pa.types.is_timestamp(arrow_type)
        and pa.types.is_timestamp(values.type)
        and values.type.tz != arrow_type.tz
    ):
        ticks = pc.cast(values, pa.timestamp(arrow_type.unit, values.type.tz))
        return pc.cast(pc.cast(ticks, pa.int64()), arrow_type)
    return pc.cast(values, arrow_type, safe=not pa.types.is_floating(arrow_type))
