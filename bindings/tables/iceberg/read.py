"""Reading the files that a plan of an Iceberg table kept: live rows, columns by their ids, in the table's types."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skipstone.bindings.tables.iceberg.deletes import FILE_PATH, FILE_POSITION, Delete
from skipstone.bindings.tables.iceberg.fields import TableFields, arrow_of, field_of
from skipstone.bindings.tables.iceberg.manifest import Manifest
from skipstone.bindings.tables.iceberg.partition import partition_values
from skipstone.bindings.tables.iceberg.removed import (
    deleted_positions,
    equal_rows,
    vector_positions,
)
from skipstone.bindings.tables.read import Tasks, Wanted, batches_of, offsets_of
from skipstone.bindings.tables.row_ranges import RowRanges
from skipstone.ir.errors import SourceError
from skipstone.ir.outcome import Verdict
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.iceberg.files import IcebergFiles

FIELD_ID: Final = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class FileTask:
    """One data file.

    Attributes:
        path, kind: Where it is, and its format.
        rows: How many it has; -1 is unknown.
        filtered: Whether its rows are to be judged.
        deletes: What may take rows of it.
        partition: The values of columns that are the same in all of its rows, by name; what is no value says why it cannot be read.
    """

    path: str
    kind: str
    rows: int
    filtered: bool
    deletes: Sequence[Delete]
    partition: Mapping[str, pa.Scalar | str]


def tasks_of(files: IcebergFiles, plan: Plan, lenient: bool = False) -> Tasks:
    """How to read a plan of an Iceberg table."""
    kept, wanted = plan.kept.tolist(), Wanted.of(plan, lenient)
    each = []
    for i in kept:
        filtered = bool(plan.verdicts[i] == Verdict.MAYBE)
        manifest, row = files.at(i)
        ((_, deletes),) = files.deletes.of_files(manifest, [row])
        partition = dict(partition_of(files, manifest, row, wanted.needed(filtered)))
        each.append(
            FileTask(
                manifest.paths[row].as_py(),
                manifest.formats[row].as_py(),
                int(manifest.rows[row]),
                filtered,
                deletes,
                partition,
            )
        )
    mapping = files.table.source.name_mapping()
    fields = TableFields(files.table.fields.iceberg, dict(files.table.fields.others))
    reader = FileReader(
        wanted, files.table.source.io, fields, None if mapping is None else mapping.root
    )
    return Tasks(reader, each, [[i] for i in kept], files.sizes[kept].tolist())


def partition_of(
    files: IcebergFiles, manifest: Manifest, row: int, needed: set[str]
) -> Iterator[tuple[str, pa.Scalar | str]]:
    """What the partition of a file says of columns that are needed."""
    for name in needed:
        field = files.table.specs[manifest.spec].exact((name,))
        if field is None:
            continue
        values, known = partition_values(field, manifest)
        if values is not None and known is not None and not known[row]:
            yield name, pa.scalar(None, field.type)
        elif values is None or not values[row].is_valid:
            yield name, f"{manifest.path}: the partition value of {name} cannot be read"
        else:
            yield name, values[row]


class FileReader:
    """Reads data files of an Iceberg table.

    Attributes:
        wanted: What of them.
        storage: pyiceberg's FileIO.
        fields: The table's columns.
        mapping: Names of columns by id, for files without ids.
    """

    def __init__(
        self, wanted: Wanted, storage: Any, fields: TableFields, mapping: Sequence[Any] | None
    ) -> None:
        self.wanted, self.storage, self.fields, self.mapping = wanted, storage, fields, mapping
        self._loaded: dict[Any, Any] = {}
        self._lock = forks.lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return FileReader, (self.wanted, self.storage, self.fields, self.mapping)

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """The rows that are wanted of one file.

        Raises:
            SourceError: it, or a delete of it, cannot be read.
        """
        needed = self.wanted.needed(task.filtered)
        dead = self._dead(task)
        wanted = [f for f in self.fields.iceberg.fields if f.name in needed]
        by_value = [d for d in task.deletes if d.equality]
        compared = {number: self._field(number, d) for d in by_value for number in d.equality}
        tops = [
            top for top, _ in compared.values()
        ]  # of older schemas where a column was dropped, so that none of the wanted ones may stand for it
        start = 0
        for batch in self.batches(
            task.path, task.kind, [*wanted, *tops], lambda f: _missing(f, task)
        ):
            keys = {
                n: _within(batch.column(len(wanted) + i), below)
                for i, (n, (_, below)) in enumerate(compared.items())
            }
            live = ~dead.mask(start, batch.num_rows)
            start += batch.num_rows
            for d in by_value:
                live &= ~equal_rows([keys[n] for n in d.equality], self._rows(d, compared))
            whole = batch.select(list(range(len(wanted))))
            if not live.all():
                whole = whole.filter(pa.array(live))
            rows = self.wanted.select(whole, task.filtered)
            if rows.num_rows:
                yield rows

    def batches(
        self, path: str, kind: str, fields: Iterable[Any], missing: Any
    ) -> Iterator[pa.RecordBatch]:
        """The columns of a file, found by their ids and as the table has them.

        Args:
            path: Where it is.
            kind: Its format.
            fields: pyiceberg's top-level fields.
            missing: Gives the value of a field that the file lacks.
        """
        fields = list(fields)
        if kind.upper() != "PARQUET":
            raise SourceError(
                f"{path}: the file is of format {kind}; expected PARQUET. Plan with this table, and read it with another engine."
            )
        schema = _schema(fields)
        try:
            with self.storage.new_input(path).open() as source:
                file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
                named = not any(f.metadata and FIELD_ID in f.metadata for f in file.schema_arrow)
                mapping = self.mapping if named else None
                if named and mapping is None:
                    raise SourceError(
                        f"{path}: its columns have no ids, and the table has no name mapping (schema.name-mapping.default)"
                    )
                own = _numbered(file.schema_arrow, mapping)
                names = list(
                    dict.fromkeys(
                        file.schema_arrow.names[own[f.field_id][0]]
                        for f in fields
                        if f.field_id in own
                    )
                )
                for batch in batches_of(file, path, names):
                    here = _numbered(batch.schema, mapping)
                    columns = []
                    for f in fields:
                        if f.field_id in here:
                            at, below = here[f.field_id]
                            columns.append(
                                conform(
                                    batch.column(at),
                                    batch.schema.field(at).type,
                                    f.field_type,
                                    below,
                                )
                            )
                        else:
                            columns.append(_repeated(missing(f), batch.num_rows))
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
        except SourceError:
            raise
        except (OSError, ValueError, pa.ArrowException) as e:
            raise SourceError(
                f"{path}: reading the file failed ({str(e).splitlines()[0] if str(e) else type(e).__name__})"
            ) from e

    # Deletes.

    def _dead(self, task: FileTask) -> RowRanges:
        """The rows of a file that were deleted by position."""
        path, parts = task.path, []
        for d in task.deletes:
            if d.vector:
                parts.append(vector_positions(self.storage, d, task.rows))
            elif not d.equality:
                if d.format.upper() == "PUFFIN":
                    raise SourceError(
                        f"{d.path}: the manifest does not tell where the deletion vector of {path} is"
                    )
                parts.append(deleted_positions(*self._positions(d), path, d.path))
        return RowRanges.union(parts)

    def _positions(self, d: Delete) -> tuple[pa.Array, pa.Array]:
        from pyiceberg.types import LongType, NestedField, StringType

        fields = (
            NestedField(FILE_PATH, "file_path", StringType()),
            NestedField(FILE_POSITION, "pos", LongType()),
        )

        def load() -> tuple[pa.Array, pa.Array]:
            found = pa.Table.from_batches(
                self.batches(d.path, d.format, fields, _required), _schema(fields)
            )
            return found.column(0).combine_chunks(), found.column(1).combine_chunks()

        return self._once(d.path, load)  # type: ignore[no-any-return]

    def _rows(
        self, d: Delete, compared: Mapping[int, tuple[Any, tuple[str, ...]]]
    ) -> list[pa.Array]:
        """The columns of an equality delete."""

        def load() -> list[pa.Array]:
            tops = [compared[n][0] for n in d.equality]
            found = pa.Table.from_batches(
                self.batches(d.path, d.format, tops, _default), _schema(tops)
            )
            return [
                _within(found.column(i).combine_chunks(), compared[n][1])
                for i, n in enumerate(d.equality)
            ]

        return self._once((d.path, d.equality), load)  # type: ignore[no-any-return]

    def _once(self, key: Any, load: Any) -> Any:
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = load()
            return self._loaded[key]

    def _field(self, number: int, d: Delete) -> tuple[Any, tuple[str, ...]]:
        """The top-level field that has a compared column, and the names below it; the column may have been dropped since."""
        for schema in (self.fields.iceberg, *reversed(list(self.fields.others.values()))):
            name = schema.find_column_name(number)
            if name is None:
                continue
            for top in schema.fields:
                if (below := _path_to(top, number)) is not None:
                    return top, below
        raise SourceError(
            f"{d.path}: the equality delete compares the column {number}, which no schema of the table has at a readable place"
        )


def _missing(f: Any, task: FileTask) -> pa.Scalar:
    """The value of a column that a file lacks: that of its partition, or its default.

    Source: Iceberg's specification, "Column Projection".
    """
    value = task.partition.get(f.name)
    if isinstance(value, str):
        raise SourceError(value)
    return _default(f) if value is None else value


def _schema(fields: Iterable[Any]) -> pa.Schema:
    return pa.schema(list(map(field_of, fields)))


def _path_to(field: Any, number: int) -> tuple[str, ...] | None:
    """The names of structs' fields below a field that lead to an id; None: it is not there."""
    if field.field_id == number:
        return ()
    for child in getattr(field.field_type, "fields", ()):
        if (below := _path_to(child, number)) is not None:
            return (child.name, *below)
    return None


def _within(values: pa.Array, names: Sequence[str]) -> pa.Array:
    for name in names:
        values = pc.struct_field(values, name)
    return values


def _required(f: Any) -> pa.Scalar:
    raise SourceError(f"the position deletes have no column {f.name}")


def _default(f: Any) -> pa.Scalar:
    """What rows have that were written before a column was added."""
    to, value = arrow_of(f.field_type), f.initial_default
    if value is None:
        return pa.scalar(None, to)
    if isinstance(value, uuid.UUID):
        return pa.scalar(str(value), to)
    if isinstance(value, int) and pa.types.is_temporal(to):
        return pa.scalar(value, pa.int32() if to.bit_width == 32 else pa.int64()).cast(to)
    return pa.scalar(value, to)


def _repeated(value: pa.Scalar, n: int) -> pa.Array:
    return pa.repeat(value, n) if value.is_valid else pa.nulls(n, value.type)


def _numbered(
    fields: Iterable[pa.Field], mapping: Sequence[Any] | None
) -> dict[int, tuple[int, Sequence[Any] | None]]:
    """Columns by id: where they are, and the name mapping below them. Without a mapping, ids are those that the file has."""
    out: dict[int, tuple[int, Sequence[Any] | None]] = {}
    for i, f in enumerate(fields):
        if mapping is None:
            text = (f.metadata or {}).get(FIELD_ID)
            if text is not None:
                out[int(text)] = (i, None)
            continue
        found = next((m for m in mapping if f.name in m.names), None)
        if found is not None and found.field_id is not None:
            out[found.field_id] = (i, found.fields)
    return out


def _below(mapping: Sequence[Any] | None, name: str) -> Sequence[Any] | None:
    return None if mapping is None else next((m.fields for m in mapping if name in m.names), ())


def conform(
    values: pa.Array, own: pa.DataType, kind: Any, mapping: Sequence[Any] | None
) -> pa.Array:
    """Values of a file as the table's type: fields by their ids, those that the file lacks their default, types promoted.

    Args:
        values: As the file has them.
        own: Their type, whose fields have the file's ids.
        kind: pyiceberg's type.
        mapping: The name mapping of fields below, where the file has no ids.
    """
    to, t = arrow_of(kind), pa.types
    if t.is_struct(to) and t.is_struct(own):
        here = _numbered([own.field(i) for i in range(own.num_fields)], mapping)
        children = []
        for f in kind.fields:
            if f.field_id in here:
                at, below = here[f.field_id]
                children.append(conform(values.field(at), own.field(at).type, f.field_type, below))
            else:
                children.append(_repeated(_default(f), len(values)))
        return pa.StructArray.from_arrays(children, fields=list(to), mask=values.is_null())
    if t.is_list(to) and t.is_list(own):
        items = conform(
            values.flatten(), own.value_type, kind.element_type, _below(mapping, "element")
        )
        return pa.ListArray.from_arrays(offsets_of(values), items, type=to, mask=values.is_null())
    if t.is_map(to) and t.is_map(own):
        whole = values if not values.offset else pa.concat_arrays([values])
        keys = conform(whole.keys, own.key_type, kind.key_type, _below(mapping, "key"))
        items = conform(whole.items, own.item_type, kind.value_type, _below(mapping, "value"))
        return pa.MapArray.from_arrays(whole.offsets, keys, items, type=to, mask=whole.is_null())
    if type(kind).__name__ == "UUIDType":
        raw = values.storage if isinstance(values, pa.ExtensionArray) else values
        return pa.array(
            [None if v is None else str(uuid.UUID(bytes=v)) for v in raw.to_pylist()], to
        )
    if t.is_timestamp(to) and t.is_timestamp(own) and own.tz != to.tz:
        values = values.cast(pa.int64()).cast(pa.timestamp(own.unit, to.tz))
    return values if values.type == to else values.cast(to)
