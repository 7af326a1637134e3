"""The base class of statistics that kernels read.

It packs columns at first use, and caches launches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Path
from skipstone.ir.types import DType
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import Plane
from skipstone.kernels.run.bounded_cache import BoundedCache
from skipstone.kernels.run.guard import ChecksummedFile, Guard
from skipstone.kernels.run.launch import Key, Launch
from skipstone.kernels.run.prepare import prepare

PREPARED: Final = 256  # launches cached for one set of statistics
DERIVED: Final = 16  # cached statistics of calls, and cached launches over them


class Packed(ABC):
    """A `PackedStatistics` (kernels/run/launch.py) that caches columns, calls and launches.

    Threads may share it.

    Attributes:
        files: The files that hold its arrays.
    """

    def __init__(self, files: Sequence[ChecksummedFile] = ()) -> None:
        self.files = files
        self._rows_plane: Plane | None = None
        self._rows_guard: Guard | None = None
        self._columns: BoundedCache[tuple[Path, DType], Column] = BoundedCache()
        self._calls: BoundedCache[Node, Column] = BoundedCache(DERIVED)
        self._forget_launches()

    def _forget_launches(self) -> None:
        """Drop all cached launches; a copy must not use those of its original."""
        self._launches: BoundedCache[Program, Launch] = BoundedCache(PREPARED)
        self._launches_of_calls: BoundedCache[Program, Launch] = BoundedCache(DERIVED)

    @property
    @abstractmethod
    def num_containers(self) -> int:
        """The number of containers."""

    @abstractmethod
    def pack(self, path: Path, dtype: DType) -> Column:
        """Return packed statistics of a column with its bounds read as `dtype`."""

    @abstractmethod
    def pack_rows(self) -> Plane:
        """Return the plane of containers that may hold rows."""

    def rows_plane(self) -> Plane:
        """Return the plane of containers that may hold rows; it is cached and verified."""
        if self._rows_plane is None:
            self._rows_plane = self.pack_rows()
        if self._rows_guard is not None:
            self._rows_guard.verify()
        return self._rows_plane

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Return for each container if its column holds only these axis values.

        Returns:
            true: only these values. false: none of them. null: unknown. None: unknown for all.
        """
        return None

    @property
    def has_members(self) -> bool:
        """True if `contained_in` may return an answer."""
        return False

    @property
    def bounds_elements(self) -> bool:
        """True if `column` knows the elements of arrays, and the keys and values of maps."""
        return False

    def column(self, key: Key, dtype: DType) -> Column:
        """Return packed statistics of a column with its bounds read as `dtype`.

        A call's statistics are derived.
        """
        c = self.peek(key, dtype)
        if isinstance(key, Node) or c.guards is None:
            return c
        for guard in c.guards.values():
            guard.verify()
        return self._columns.put((key, dtype), replace(c, guards=None))

    def peek(self, key: Key, dtype: DType) -> Column:
        """Return the same as `column` without verifying arrays of files.

        It serves callers that read few containers, and verify the column's guards themselves.
        """
        if isinstance(key, Node):
            from skipstone.kernels.pack.derive import derive  # few conditions have calls

            return self._calls.get(key, lambda: derive(key, self))
        return self._columns.get((key, dtype), lambda: self.pack(key, dtype))

    def made(self, path: Path, dtype: DType) -> Column | None:
        """Return packed statistics of a column if they are cached, else None."""
        return None if self._columns.find((path, dtype)) is None else self.column(path, dtype)

    def adopt(
        self,
        columns: Mapping[tuple[Path, DType], Column],
        rows: Plane,
        guard: Guard | None,
        file: ChecksummedFile,
    ) -> None:
        """Use columns and the plane of rows that were packed before.

        Args:
            columns: Columns by path and type.
            rows: The plane of containers that may hold rows.
            guard: The guard of that plane, if it needs one.
            file: The file that holds all of them.
        """
        self.files = (file,)
        for key, column in columns.items():
            self._columns.put(key, column)
        self._rows_plane, self._rows_guard = rows, guard

    def launch(self, program: Program) -> Launch:
        """Return the program's launch over these statistics; it is cached."""
        for file in self.files:
            file.check()
        kept = self._launches_of_calls if program.derived else self._launches
        return kept.get(program, lambda: self.prepared(program))

    def prepared(self, program: Program) -> Launch:
        """Return a new launch of the program over these statistics."""
        return prepare(program, self, self.peek)

    @property
    def nbytes(self) -> int:
        """Bytes of the packed columns made so far, host memory."""
        return sum(c.nbytes for kept in (self._columns, self._calls) for c in kept)

    def __getstate__(self) -> dict[str, Any]:
        own = (
            "files", "_rows_plane", "_rows_guard", "_columns", "_calls", "_launches",
            "_launches_of_calls",
        )  # fmt: skip
        return {k: v for k, v in self.__dict__.items() if k not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        Packed.__init__(self)
