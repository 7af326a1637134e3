"""Describe the files of a Delta plan to pyarrow.dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from skipstone.bindings.plans.table_protocol import DatasetFile
from skipstone.bindings.tables.delta.read_files import FileReader
from skipstone.bindings.tables.parquet.dataset_files import read_metadata
from skipstone.bindings.tables.partition_values import partition_values, why_no_value
from skipstone.ir.arrow import python_array
from skipstone.ir.errors import SourceError

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.delta.table import DeltaTable


def dataset_files(table: DeltaTable, plan: Plan) -> Iterator[DatasetFile]:
    """Yield the kept files; this reads their footers.

    Raises:
        SourceError: a footer or a partition value cannot be read.
    """
    tasks, physical = table.tasks(plan), table.snapshot.fields.partitions
    reader, mapping = tasks.reader, table.column_mapping_mode
    assert isinstance(reader, FileReader)
    wanted = [table.schema.field(c) for c in plan.columns if c in physical]
    for task in tasks.each:
        fs, path = reader._locate(task.action["path"])
        if task.action["deletionVector"] is not None:
            yield DatasetFile(path, fs, None, problem="rows of the file are deleted")
            return
        if mapping != "none":
            yield DatasetFile(path, fs, None, problem=f"columns are mapped by {mapping}")
            return
        values = {}
        for f in wanted:
            text = python_array(
                [(task.action["partition"] or {}).get(physical[f.name])], pa.string()
            )
            value, empty = partition_values(text, f.type, plan.timezone)
            if not value[0].is_valid and not empty[0].as_py():
                why = why_no_value(text[0].as_py(), f.type, plan.timezone)
                raise SourceError(
                    f"the partition value {f.name}={text[0].as_py()!r} {why}; "
                    "expected a text that Spark casts to it"
                )
            values[f.name] = value[0]
        yield DatasetFile(path, fs, read_metadata(path, fs, path), None, values)
