"""A data file to read, as a plan describes it to readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skipstone.bindings.tables.iceberg.conform import default_of
from skipstone.bindings.tables.iceberg.deletes import Delete
from skipstone.ir.errors import SourceError


@dataclass(frozen=True, slots=True)
class FileTask:
    """A data file to read.

    Attributes:
        path, kind: Its path and format.
        rows: Its physical rows; -1 is unknown.
        size: Its bytes.
        filtered: True if its rows must be filtered by the condition.
        deletes: The deletes that may apply to it.
        partition: Column id -> the value that all its rows have, whatever the file says, as in
            Spark; a string says instead why the value cannot be read. Columns that equality deletes
            compare are there, too. Source: Java, `PartitionUtil.constantsMap`.
    """

    path: str
    kind: str
    rows: int
    size: int
    filtered: bool
    deletes: Sequence[Delete]
    partition: Mapping[int, pa.Scalar | str]

    @property
    def constants(self) -> dict[int, pa.Scalar]:
        """Column id -> the partition's value, where it can be read."""
        return {k: v for k, v in self.partition.items() if isinstance(v, pa.Scalar)}

    def value_of(self, f: Any) -> pa.Scalar:
        """Return the value of a column that is not read: its partition's, or else its default.

        Source: Iceberg's specification, "Column Projection".

        Raises:
            SourceError: the partition's value cannot be read.
        """
        value = self.partition.get(f.field_id)
        if isinstance(value, str):
            raise SourceError(value)
        return default_of(f) if value is None else value


def is_local_path(path: str) -> bool:
    """Return True if a path or URI in a table's metadata names a local file."""
    return path.startswith(("/", "file:"))
