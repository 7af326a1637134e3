"""Whether bounds are values that occur (`min_exact`, `max_exact`), as far as a footer says.

pyarrow does not show these flags, and pruning does not need them: truncated bounds are bounds. So
the footers are fetched again, and only once somebody asks.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.sources.thrift import ThriftError, exact_flags

Flags = list[list[tuple[bool | None, bool | None]]]  # of row groups, of Parquet columns: of min and max


def read_flags(path: str, filesystem: pafs.FileSystem) -> tuple[Flags, int]:
    """The flags in a file's footer, and how many bytes were read; none where it cannot be read: unknown."""
    try:
        with filesystem.open_input_file(path) as source:
            size = source.size()
            length = struct.unpack("<I", source.read_at(8, size - 8)[:4])[0]
            return exact_flags(source.read_at(length, size - 8 - length)), length + 8
    except (OSError, pa.ArrowException, ThriftError, struct.error):
        return [], 0
