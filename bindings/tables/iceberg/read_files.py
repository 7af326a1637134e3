"""Read the files that a plan of an Iceberg table kept.

Rows are live ones; columns are found by id and have the table's types.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.tables.bitmaps import VectorFiles
from skipstone.bindings.tables.iceberg.conform import (
    columns_by_id,
    columns_of,
    conform,
    default_of,
    has_ids,
    within,
)
from skipstone.bindings.tables.iceberg.deletes import FILE_PATH, FILE_POSITION, Delete
from skipstone.bindings.tables.iceberg.fields import (
    TableFields,
    field_of,
    name_mapping,
    path_to,
)
from skipstone.bindings.tables.iceberg.file_task import FileTask, is_local_path
from skipstone.bindings.tables.iceberg.manifest import require_parquet
from skipstone.bindings.tables.iceberg.partition import partition_of
from skipstone.bindings.tables.iceberg.removed import (
    deleted_positions,
    equal_rows,
    numbers_by_path,
    vector_positions,
)
from skipstone.bindings.tables.parquet.footer import footer_of
from skipstone.bindings.tables.parquet.heads import Heads
from skipstone.bindings.tables.parquet.pages.file_read import FileRead
from skipstone.bindings.tables.parquet.pages.plan_pages import judge_file
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.parquet.pages.read_pages import read_by_pages
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
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, repeated
from skipstone.ir.errors import SourceError, describe_error
from skipstone.ir.outcome import Verdict
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.plans.pages import FilePages
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.iceberg.files import IcebergFiles


class NotReadByPages(ValueError):
    """A file has to be read by row groups."""


def tasks_of(files: IcebergFiles, wanted: RowSelection, plan: Plan) -> Tasks:
    """Return the tasks that read a plan's rows, one per file.

    Args:
        files: The files of the plan.
        wanted: The rows and columns to read.
        plan: The plan.
    """
    kept, leaves = plan.kept.tolist(), files.table.fields.by_id
    paths, each = files.table.fields.leaves, []
    for i in kept:
        filtered, (manifest, row) = bool(plan.verdicts[i] == Verdict.MAYBE), files.at(i)
        ((_, deletes),) = files.deletes.of_files(manifest, [row])
        spec = files.table.specs[manifest.spec]
        compared = (leaves[n].path[0] for d in deletes for n in d.equality if n in leaves)
        values = partition_of(spec, manifest, row, {*wanted.needed(filtered), *compared})
        each.append(
            FileTask(
                manifest.paths[row].as_py(),
                manifest.formats[row].as_py(),
                int(manifest.rows[row]),
                int(files.sizes[i]),
                filtered,
                deletes,
                {paths[name,].id: value for name, value in values},
            )
        )
    fields = TableFields(files.table.fields.iceberg, dict(files.table.fields.others))
    reader = FileReader(wanted, files.table.files_io, fields, name_mapping(files.table.source))
    return Tasks(reader, each, [[i] for i in kept], files.sizes[kept].tolist())


class FileReader(Reader):
    """Reads the data files of an Iceberg table.

    Attributes:
        wanted: The columns to return and the rows to select.
        storage: Opens the files.
        fields: The table's columns.
        mapping: The table's name mapping, for files without ids; None if there is none.
    """

    def __init__(
        self, wanted: RowSelection, storage: Any, fields: TableFields, mapping: Sequence[Any] | None
    ) -> None:
        self.wanted, self.storage, self.fields, self.mapping = wanted, storage, fields, mapping
        self._loaded: dict[Any, Any] = {}
        self._lock, self._locks = forks.lock(), dict[Any, threading.Lock]()

    def __reduce__(self) -> tuple[Any, ...]:
        return FileReader, (self.wanted, self.storage, self.fields, self.mapping)

    def read_all(self, tasks: Sequence[FileTask]) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of all tasks, in order; several are read concurrently."""
        sizes, local = [t.size for t in tasks], all(is_local_path(t.path) for t in tasks)
        limited = self.wanted.limit is not None
        return read_files_in_order(self._read_together, tasks, sizes, limited=limited, local=local)

    def _read_together(self, tasks: Sequence[FileTask]) -> list[pa.RecordBatch]:
        schema = _schema(self.fields.iceberg.fields)
        with VectorFiles() as vectors:
            opener = functools.partial(self._open, vectors=vectors)
            local = all(is_local_path(task.path) for task in tasks)
            by_pages = read_by_pages(opener, tasks, self.wanted, schema, local=local)
        out = []
        for task, rows in zip(tasks, by_pages, strict=True):
            out += list(self.read(task)) if rows is None else rows
        return out

    def require_readable(self, tasks: Sequence[FileTask]) -> None:
        """Check that the files of some tasks, and the deletes that apply to them, are Parquet."""
        for task in tasks:
            require_parquet(task.path, task.kind)
            for d in task.deletes:
                if not d.vector and d.format.upper() != "PUFFIN":  # which `read` refuses
                    require_parquet(d.path, d.format)

    def judge_pages(self, tasks: Sequence[FileTask]) -> Iterator[FilePages]:
        """Yield the row ranges of each file that remain after page pruning."""
        schema = _schema(self.fields.iceberg.fields)

        def judge(task: FileTask) -> FilePages:
            with VectorFiles() as vectors:
                opener = functools.partial(self._open, vectors=vectors)
                return judge_file(opener, task, task.path, self.wanted, schema)

        local = all(is_local_path(task.path) for task in tasks)
        return judge_files_in_order(judge, tasks, local=local)

    def _open(
        self, task: FileTask, heads: Heads, vectors: VectorFiles
    ) -> tuple[pa.NativeFile, FileRead]:
        """Open a file and read its footer.

        Raises:
            NotReadByPages: `read` has to read it: rows are deleted by values, or the file is not
                Parquet or not open to Arrow.
            ValueError: the file's columns have neither ids nor a name mapping.
        """
        if task.kind.upper() != "PARQUET" or any(d.equality for d in task.deletes):
            raise NotReadByPages
        from skipstone.bindings.tables.iceberg.file_io import LocalInput  # needs pyiceberg

        found = self.storage.new_input(task.path)
        identity = found.identity if isinstance(found, LocalInput) else None
        source = found.open()
        if not isinstance(source, pa.NativeFile):
            source.close()
            raise NotReadByPages
        ranges = Ranges(source, is_local_path(task.path), identity)
        parsed = footer_of(ranges, heads)
        deleted = self._deleted_by_position(task, vectors) if task.deletes else None
        needed = self.wanted.needed(task.filtered)
        fields = [f for f in self.fields.iceberg.fields if f.name in needed]
        fixed = task.constants
        own, missing, convert, by_name = heads.once(
            parsed.head,
            (task.filtered, *fixed),
            lambda file: columns_of(
                file, [f for f in fields if f.field_id not in fixed], self.mapping
            ),
        )
        absent = [f for f in fields if f.name in missing or f.field_id in fixed]
        constants = {f.name: task.value_of(f) for f in absent}
        return source, FileRead(
            *(task.path, parsed, ranges, None, own, constants, convert, deleted),
            inner_by_name=by_name,
        )

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows of one file.

        Raises:
            SourceError: the file, or a delete that applies to it, cannot be read.
        """
        needed = self.wanted.needed(task.filtered)
        with VectorFiles() as vectors:
            deleted = self._deleted_by_position(task, vectors)
        wanted = [f for f in self.fields.iceberg.fields if f.name in needed]
        by_value = [d for d in task.deletes if d.equality]
        compared = {
            number: self._compared_field(number, d) for d in by_value for number in d.equality
        }
        # These may come from older schemas, where a column was dropped. So they are read beside the
        # wanted columns, which cannot replace them.
        fields, start = [*wanted, *(top for top, _ in compared.values())], 0
        for batch in self.batches(task.path, task.kind, fields, task.value_of, task.constants):
            keys = {
                n: within(batch.column(len(wanted) + i), below)
                for i, (n, (_, below)) in enumerate(compared.items())
            }
            live = ~deleted.mask(start, batch.num_rows)
            start += batch.num_rows
            for d in by_value:
                deleted_keys = self._equality_columns(d, compared)
                live &= ~equal_rows([keys[n] for n in d.equality], deleted_keys)
            whole = batch.select(list(range(len(wanted))))
            if not live.all():
                whole = pc.filter(whole, arrow_of(live))
            rows = self.wanted.select(whole, task.filtered)
            if rows.num_rows:
                yield rows

    def batches(
        self, path: str, kind: str, fields: Iterable[Any], missing: Any, fixed: Container[int] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a file, found by id and converted to the table's types.

        Args:
            path: The file's path.
            kind: The file's format.
            fields: The columns, as pyiceberg's top-level fields.
            missing: Returns the value of a field that the file lacks.
            fixed: The ids of fields that count as missing, though the file may have them.

        Raises:
            SourceError: the file cannot be read, is not Parquet, or has neither ids nor a name
                mapping.
        """
        fields = list(fields)
        require_parquet(path, kind)
        schema = _schema(fields)
        try:
            with self.storage.new_input(path).open() as source:
                file = parquet_file(source, local=is_local_path(path))
                without_ids = not has_ids(file.schema_arrow)
                mapping = self.mapping if without_ids else None
                if without_ids and mapping is None:
                    raise SourceError(
                        f"{path}: its columns have no ids, and the table has no name mapping; "
                        "set the table property schema.name-mapping.default"
                    )
                own = columns_by_id(file.schema_arrow, mapping)
                read = [f.field_id for f in fields if f.field_id not in fixed]
                found = [own[number][0] for number in read if number in own]
                own_names = file.schema_arrow.names
                names = list(dict.fromkeys(own_names[at] for at in found))
                for batch in batches_of(file, path, names):
                    by_id = columns_by_id(batch.schema, mapping)
                    columns = []
                    for f in fields:
                        if f.field_id in by_id and f.field_id not in fixed:
                            at, below = by_id[f.field_id]
                            kind = batch.schema.field(at).type
                            columns.append(conform(batch.column(at), kind, f.field_type, below))
                        else:
                            columns.append(repeated(missing(f), batch.num_rows))
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except SourceError:
            raise
        except (OSError, ValueError, pa.ArrowException) as e:
            raise SourceError(
                f"{path}: reading the file failed ({describe_error(e)}); if the table was changed "
                "since, scan it again"
            ) from e

    # Deletes.

    def _deleted_by_position(self, task: FileTask, vectors: VectorFiles) -> RowRanges:
        """Return the rows of a file that were deleted by position."""
        path, parts = task.path, []
        for delete in task.deletes:
            if delete.vector:
                parts.append(vector_positions(self.storage, delete, vectors, task.rows))
            elif not delete.equality:
                if delete.format.upper() == "PUFFIN":
                    raise SourceError(
                        f"{delete.path}: the manifest lacks the offset of the deletion vector of "
                        f"{path}"
                    )
                found = self._positions(delete).get(path)
                if found is not None:
                    parts.append(deleted_positions(found, path, delete.path))
        return RowRanges.union(parts)

    def _positions(self, delete: Delete) -> Mapping[str, pa.Array]:
        """Return the row numbers of a position delete file, by data file."""
        from pyiceberg.types import LongType, NestedField, StringType

        fields = (
            NestedField(FILE_PATH, "file_path", StringType()),
            NestedField(FILE_POSITION, "pos", LongType()),
        )

        def load() -> Mapping[str, pa.Array]:
            batches = self.batches(delete.path, delete.format, fields, _required)
            found = pa.Table.from_batches(batches, _schema(fields))
            return numbers_by_path(*(column.combine_chunks() for column in found.columns))

        return self._load_once(delete.path, load)  # type: ignore[no-any-return]

    def _equality_columns(
        self, delete: Delete, compared: Mapping[int, tuple[Any, tuple[str, ...]]]
    ) -> list[pa.Array]:
        """Return the compared columns of an equality delete."""

        def load() -> list[pa.Array]:
            top_fields = [compared[n][0] for n in delete.equality]
            found = pa.Table.from_batches(
                self.batches(delete.path, delete.format, top_fields, default_of),
                _schema(top_fields),
            )
            return [
                within(found.column(i).combine_chunks(), compared[n][1])
                for i, n in enumerate(delete.equality)
            ]

        return self._load_once((delete.path, delete.equality), load)  # type: ignore[no-any-return]

    def _load_once(self, key: Any, load: Any) -> Any:
        with self._lock:
            lock = self._locks.setdefault(key, forks.lock())
        with lock:  # other keys are loaded meanwhile
            if key not in self._loaded:
                self._loaded[key] = load()
            return self._loaded[key]

    def _compared_field(self, number: int, delete: Delete) -> tuple[Any, tuple[str, ...]]:
        """Return the top-level field that holds a compared column, and the names below it.

        The column may have been dropped since.
        """
        for schema in (self.fields.iceberg, *reversed(list(self.fields.others.values()))):
            name = schema.find_column_name(number)
            if name is None:
                continue
            for top in schema.fields:
                if (below := path_to(top, number)) is not None:
                    return top, below
        raise SourceError(
            f"{delete.path}: the equality delete compares the column {number}, which no schema of "
            "the table has outside of lists and maps"
        )


def _schema(fields: Iterable[Any]) -> pa.Schema:
    return pa.schema(list(map(field_of, fields)))


def _required(f: Any) -> pa.Scalar:
    raise SourceError(f"the position deletes have no column {f.name}; expected file_path and pos")
