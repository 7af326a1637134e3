"""Load saved statistics: the footer is checked immediately, arrays when they are first read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import KEYS, PACKED
from skipstone.bindings.statistics.membership import values_and_blooms_of
from skipstone.bindings.statistics.store.layout import MALFORMED, open_file, wrong
from skipstone.bindings.statistics.store.lazy import LazyMapping
from skipstone.bindings.statistics.store.packed import PackedReader
from skipstone.ir.errors import StatisticsError, clip, describe_error
from skipstone.ir.node import Path
from skipstone.kernels.pack.columns import ColumnStatistics

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics

V = TypeVar("V")
EXTRAS = KEYS[len(PACKED) :]  # statistics that kernels do not read packed


def load(path: str, identity: int | None = None) -> Statistics:
    """Load statistics from a file that `Statistics.save` wrote.

    Args:
        path: The file.
        identity: The expected `OpenedFile.identity`; None accepts any complete file.

    Raises:
        StatisticsError: the file is incomplete, of another version, or of another identity.
    """
    path = os.path.abspath(path)
    opened = open_file(path)
    if identity is not None and opened.identity != identity:
        raise wrong(
            path,
            f"is not the file that was saved: its checksum is {opened.identity:016x}; "
            f"expected {identity:016x}",
        )
    return _translate_errors(path, lambda: _StatisticsReader(path, opened).statistics())


class PackedFile:
    """A file that `save_packed` wrote.

    Attributes:
        note: The note that `save_packed` got.
        containers: The number of containers.
    """

    def __init__(self, path: str) -> None:
        """Open a file.

        Raises:
            StatisticsError: the file is incomplete or of another version.
        """
        path = os.path.abspath(path)
        opened = open_file(path)
        self._path = path
        self._reader = _translate_errors(path, lambda: PackedReader(path, opened))
        self.containers: int = self._reader.n
        self.note, self._tables = _translate_errors(
            path, lambda: (opened.footer["note"], dict(opened.footer["tables"]))
        )

    def table(self, name: str) -> pa.Table:
        """Verify one of the tables and read it in place.

        Raises:
            StatisticsError: the file is damaged there.
        """
        return _translate_errors(self._path, lambda: self._reader.table(self._tables[name]))

    def adopt(self, stats: Statistics) -> None:
        """Give the packed columns to statistics of the same containers and schema.

        The columns are verified when they are read.

        Raises:
            StatisticsError: the footer is malformed.
        """
        _translate_errors(
            self._path, lambda: self._reader.source(stats, self._reader.footer["packed"], None)
        )


def _translate_errors(path: str, read: Callable[[], V]) -> V:
    """Return `read()`; turn any error that a malformed footer causes into a StatisticsError."""
    try:
        return read()
    except StatisticsError:
        raise
    except (*MALFORMED, pa.ArrowException) as e:
        raise wrong(path, f"its footer is malformed ({describe_error(e)})") from e


class _StatisticsReader(PackedReader):
    """The statistics in an opened file, as they were saved."""

    def statistics(self) -> Statistics:
        """Return the statistics, with their packed columns and index."""
        from skipstone.bindings.statistics.statistics import Statistics

        rows, counts_parents = self.footer["row_count"], self.footer["counts_parents"]
        raw = {
            self.column_path(path): self.raw_reader(keys, section)
            for path, keys, section in self.footer["statistics"]
        }
        readers: dict[Path, dict[str, Callable[[], pa.Array]]] = {}
        for path, key, section in self.footer["extras"]:
            if key not in EXTRAS:
                raise wrong(
                    self.path, f"a statistic is named {key!r}; expected one of {', '.join(EXTRAS)}"
                )
            readers.setdefault(self.column_path(path), {})[key] = self.array_reader(section, 1, 0)
        extras = {path: LazyMapping(by_key, self.file.check) for path, by_key in readers.items()}
        members = values_and_blooms_of(extras, self.leaves)
        if type(counts_parents) is not bool:
            raise wrong(self.path, f"counts_parents is {counts_parents!r}; expected true or false")
        out = Statistics(
            self.schema,
            self.n,
            LazyMapping(raw, self.file.check),
            row_count=None if rows is None else self.array_reader(rows, 1, 0),
            extras=extras,
            members=members,
            counts_parents=counts_parents,
        )
        columns = self.source(out, self.footer["packed"], None)
        index = self.footer["index"]
        return out if index is None else out.with_index(self.index(out, index, columns))

    def raw_reader(self, keys: list[str], section: int | None) -> Callable[[], ColumnStatistics]:
        """Return a function that reads the original bounds and counts of a column."""
        if set(keys) - set(PACKED) or len(set(keys)) != len(keys):
            raise wrong(
                self.path,
                f"a column has the statistics {clip(', '.join(keys))}; "
                f"expected some of {', '.join(PACKED)}",
            )
        if section is None or not keys:
            return ColumnStatistics
        readers = {key: self.array_reader(section, len(keys), i) for i, key in enumerate(keys)}
        return lambda: ColumnStatistics(**{key: read() for key, read in readers.items()})
