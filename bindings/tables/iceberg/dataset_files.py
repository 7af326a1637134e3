"""Describe the files of an Iceberg plan to pyarrow.dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.plans.table_protocol import DatasetFile
from skipstone.bindings.tables.iceberg.conform import default_of
from skipstone.bindings.tables.parquet.dataset_files import read_metadata
from skipstone.bindings.tables.parquet.heads import schema_of
from skipstone.bindings.tables.table_columns import FIELD_ID
from skipstone.ir.errors import SourceError

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.iceberg.files import IcebergFiles


def dataset_files(files: IcebergFiles, plan: Plan) -> Iterator[DatasetFile]:
    """Yield the kept data files; this reads their footers.

    Raises:
        SourceError: a footer or a partition value cannot be read.
    """
    from pyiceberg.io.pyarrow import PyArrowFileIO

    storage = files.table.source.io
    wanted = [f for f in files.table.fields.iceberg.fields if f.name in plan.columns]
    for task in files.tasks(plan).each:
        problem = ""
        if task.deletes:
            problem = "rows of the file are deleted"
        elif task.kind.upper() != "PARQUET":
            problem = f"the file is of format {task.kind}"
        elif not isinstance(storage, PyArrowFileIO):
            problem = f"the storage is reached by {type(storage).__name__}"
        if problem:
            yield DatasetFile(task.path, None, None, problem=problem)
            return
        scheme, netloc, path_there = storage.parse_location(task.path)
        fs = storage.fs_by_scheme(scheme, netloc)
        metadata = read_metadata(path_there, fs, task.path)
        own = list(schema_of(metadata))
        yield DatasetFile(
            path_there,
            fs,
            metadata,
            None,
            _absent(own, wanted, task.partition),
            _other_ids(own, wanted),
        )


def _absent(
    own: Iterable[pa.Field], wanted: Iterable[Any], partition: Mapping[int, pa.Scalar | str]
) -> dict[str, pa.Scalar]:
    """Return the values of the columns that a file lacks."""
    here, out = {_id(f) for f in own}, {}
    for f in wanted:
        if f.field_id in here:
            continue
        value = partition.get(f.field_id, default_of(f))
        if isinstance(value, str):
            raise SourceError(value)
        out[f.name] = value
    return out


def _other_ids(own: Iterable[pa.Field], wanted: Iterable[Any]) -> str:
    """Explain which column of a file has another name or id than the table's; "" if none has."""
    by_name = {f.name: f for f in own}
    if by_name and not any(_id(f) is not None for f in by_name.values()):
        return "columns are found by the name mapping"
    names = {_id(f): name for name, f in by_name.items()}
    for f in wanted:
        mine = by_name.get(f.name)
        if (mine is not None and _id(mine) != f.field_id) or names.get(
            f.field_id, f.name
        ) != f.name:
            return f"the column {f.name} had another name"
        kind = f.field_type
        if mine is None or not pa.types.is_struct(mine.type):
            continue
        below = list(getattr(kind, "fields", ()))
        if len(below) != mine.type.num_fields or (why := _other_ids(list(mine.type), below)):
            return why or f"the fields of {f.name} changed"
    return ""


def _id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)
