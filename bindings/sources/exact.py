"""Whether bounds are values that occur (`min_exact`, `max_exact`), as far as footers say.

pyarrow does not show these flags, and pruning does not need them: truncated bounds are bounds. So
the footers are fetched again, and only once somebody asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.sources.footers import READERS, Container, Footer, RowGroups
from skipstone.bindings.sources.thrift import ThriftError, exact_flags
from skipstone.ir.node import Path

Flags = list[list[tuple[bool | None, bool | None]]]


class ExactFlags(Mapping[Path, Mapping[str, pa.Array]]):
    """Column -> {"min_exact", "max_exact"}: bool arrays with one entry per container, null is unknown."""

    def __init__(self, footers: Sequence[Footer], containers: Sequence[Container], groups: RowGroups, filesystem: pafs.FileSystem) -> None:
        self._footers, self._containers, self._groups, self._filesystem = footers, containers, groups, filesystem
        self._flags: list[Flags] | None = None

    def __iter__(self) -> Iterator[Path]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, path: Path) -> Mapping[str, pa.Array]:
        if path not in self._groups:
            raise KeyError(path)
        if self._flags is None:
            with ThreadPoolExecutor(min(READERS, len(self._footers)) or 1, "skipstone-footers") as readers:
                self._flags = list(readers.map(self._read, self._footers))
        found = [self._at(self._flags[c.footer], c, path) for c in self._containers]
        return {"min_exact": pa.array([f[0] for f in found], pa.bool_()), "max_exact": pa.array([f[1] for f in found], pa.bool_())}

    def _at(self, flags: Flags, c: Container, path: Path) -> tuple[bool | None, bool | None]:
        index = None if c.row_group is None else self._groups.position(c.footer, path)
        if index is None or c.row_group is None or c.row_group >= len(flags) or index >= len(flags[c.row_group]):
            return None, None
        return flags[c.row_group][index]

    def _read(self, footer: Footer) -> Flags:
        if footer.metadata is None:
            return []
        try:
            with self._filesystem.open_input_file(footer.file.path) as source:
                size = source.size()
                length = struct.unpack("<I", source.read_at(8, size - 8)[:4])[0]
                return exact_flags(source.read_at(length, size - 8 - length))
        except (OSError, pa.ArrowException, ThriftError, struct.error):
            return []  # unknown
