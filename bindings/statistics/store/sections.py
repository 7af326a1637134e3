"""Read sections of a file of saved statistics as Arrow data; the first read verifies a section."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from skipstone.bindings.statistics.store.layout import MAGIC, MAX_CONTAINERS, OpenedFile, wrong
from skipstone.ir.errors import describe_error
from skipstone.ir.node import Path
from skipstone.ir.types import leaves_of


class SectionReader:
    """The sections of an opened file. Their positions and lengths are checked immediately.

    Args:
        path: The file, for errors.
        opened: The file.

    Raises:
        StatisticsError: sections overlap or exceed the file.
    """

    def __init__(self, path: str, opened: OpenedFile) -> None:
        self.path, self.file, self.footer = path, opened.file, opened.footer
        self.data, self.buffer = opened.data, pa.py_buffer(opened.data)
        self.n = self.footer["containers"]
        self.check_integer(self.n, MAX_CONTAINERS, "the number of containers")
        self.sections: list[tuple[str, int, int, int]] = [tuple(s) for s in self.footer["sections"]]
        end = len(MAGIC)
        for name, at, length, rows in self.sections:
            self.check_integer(at, self.file.stop, f"the start of section {name!r}")
            self.check_integer(length, self.file.stop - at, f"the length of section {name!r}")
            self.check_integer(rows, MAX_CONTAINERS, f"the rows of section {name!r}")
            if at < end:
                raise wrong(
                    path,
                    f"section {name!r} starts at byte {at}, before the end of the last one, {end}",
                )
            end = at + length
        self.schema = pa.ipc.read_schema(
            pa.py_buffer(base64.b64decode(self.footer["schema"], validate=True))
        )
        self.leaves = leaves_of(self.schema)
        self.batches: dict[int, pa.RecordBatch] = {}

    def check_integer(self, value: Any, highest: int, what: str) -> int:
        """Return `value` if it is an integer from 0 to `highest`; `what` names it in the error."""
        if type(value) is not int or not 0 <= value <= highest:
            raise wrong(self.path, f"{what} is {value!r}; expected an integer from 0 to {highest}")
        return value

    def column_path(self, names: list[str]) -> Path:
        """Return the path of a column from its names in the footer."""
        path = tuple(names)
        if not path or not all(isinstance(part, str) for part in path):
            raise wrong(self.path, f"a column is named {names!r}; expected a list of names")
        return path

    def array_reader(
        self, section: int, columns: int, i: int, rows: int | None = None
    ) -> Callable[[], pa.Array]:
        """Return a function that reads column `i` of a section.

        Args:
            section: The section's number.
            columns: How many columns the section has.
            i: The column.
            rows: How many values the column has; None means one for each container.
        """
        self.check_integer(section, len(self.sections) - 1, "the number of a section")
        name, _, _, stated = self.sections[section]
        rows = self.n if rows is None else rows
        if stated != rows:
            raise wrong(self.path, f"section {name!r} has {stated} rows; expected {rows}")
        return lambda: self.batch(section, columns).column(i)

    def batch(self, section: int, columns: int) -> pa.RecordBatch:
        """Verify a section of one record batch and read it."""
        if section in self.batches:
            self.file.check()
            return self.batches[section]
        name, at, length, rows = self.sections[section]
        self.file.verify_range(at, at + length, f"section {name!r}")
        try:
            batch = pa.ipc.open_stream(self.buffer.slice(at, length)).read_next_batch()
            for column in batch.columns:
                _validate(column)
        except (pa.ArrowException, OSError, StopIteration) as e:
            problem = f"section {name!r} is not an Arrow IPC stream ({describe_error(e)})"
            raise wrong(self.path, problem) from e
        if (batch.num_rows, batch.num_columns) != (rows, columns):
            raise wrong(
                self.path,
                f"section {name!r} has {batch.num_rows} rows of {batch.num_columns} columns; "
                f"expected {rows} of {columns}",
            )
        return self.batches.setdefault(section, batch)

    def table(self, section: int) -> pa.Table:
        """Verify a section and read it as a table."""
        self.check_integer(section, len(self.sections) - 1, "the number of a section")
        name, at, length, rows = self.sections[section]
        self.file.verify_range(at, at + length, f"section {name!r}")
        table = pa.ipc.open_stream(self.buffer.slice(at, length)).read_all()
        table.validate()
        if table.num_rows != rows:
            raise wrong(self.path, f"section {name!r} has {table.num_rows} rows; expected {rows}")
        return table


def _validate(array: pa.Array) -> None:
    """Raise ArrowInvalid if offsets or lengths are wrong.

    Text that is not UTF-8 is allowed: it was saved as given, and cannot be used as a bound.
    """
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as e:
        if "UTF8" not in str(e):
            raise
