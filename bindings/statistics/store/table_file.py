"""Store an Arrow table as one checksummed file: an IPC stream, and a tail that proves it complete.

    stream | checksum of the stream, its bytes, version, magic

Any Arrow library can read the file: a reader stops at the end of the stream, before the tail.

Source: Apache Arrow, "IPC Streaming Format".
"""

from __future__ import annotations

import struct
from typing import IO, Final

import pyarrow as pa

from skipstone.bindings.statistics.store.layout import wrong
from skipstone.ir.errors import StatisticsError, describe_error

MAGIC: Final = b"SKIPSNAP"
VERSION: Final = 1  # raise it when the contents of such tables change
TAIL: Final = struct.Struct("<QQI8s")
WAY_OUT: Final = "call save_stats again"


def write_table(file: IO[bytes] | pa.NativeFile, table: pa.Table) -> int:
    """Write a table and its tail.

    Returns:
        The checksum of the stream.
    """
    import xxhash

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    checksum = xxhash.xxh3_64_intdigest(data)
    file.write(data)
    file.write(TAIL.pack(checksum, data.size, VERSION, MAGIC))
    return checksum


def read_table(
    path: str, data: pa.Buffer, way_out: str = WAY_OUT, expected: int | None = None
) -> pa.Table:
    """Read the table from the bytes of a file.

    Args:
        path: The file, for errors.
        data: Its bytes.
        way_out: What the user can do about an unusable file, for errors.
        expected: The checksum that `write_table` returned; None accepts any complete file.

    Raises:
        StatisticsError: the bytes differ from what this version wrote.
    """
    import xxhash

    size = data.size - TAIL.size
    if size < 0:
        raise wrong(path, f"holds no statistics of files: {data.size} bytes", way_out)
    checksum, length, version, magic = TAIL.unpack(data.slice(size).to_pybytes())
    if magic != MAGIC:
        raise wrong(
            path,
            f"holds no statistics of files, or is torn: it ends with {magic!r}; expected {MAGIC!r}",
            way_out,
        )
    if version != VERSION:
        raise wrong(
            path, f"has format version {version}; this Skipstone reads version {VERSION}", way_out
        )
    body = data.slice(0, size)
    if length != size or xxhash.xxh3_64_intdigest(body) != checksum:
        raise wrong(path, f"is damaged: {size} bytes of {length}, or its checksum differs", way_out)
    if expected is not None and checksum != expected:
        raise wrong(
            path,
            f"is not the file that was saved: its checksum is {checksum:016x}; "
            f"expected {expected:016x}",
            way_out,
        )
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)  # Arrow trusts lengths, offsets and indices
        return table
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as e:
        raise StatisticsError(
            f"{path}: the file is not an Arrow stream ({describe_error(e)}); {way_out}"
        ) from e
