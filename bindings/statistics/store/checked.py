"""An Arrow table as one checksummed file: an IPC stream, which any Arrow reads, and a tail that says whether it is whole.

    stream | checksum of the stream, its bytes, version, magic

Source: Apache Arrow, "IPC Streaming Format": a reader stops where the stream says so, before the tail.
"""

from __future__ import annotations

import struct
from typing import IO, Final

import pyarrow as pa

from skipstone.bindings.statistics.store.layout import wrong
from skipstone.ir.errors import StatisticsError, told

MAGIC: Final = b"SKIPSNAP"
VERSION: Final = 1  # whoever changes what such tables hold raises it
TAIL: Final = struct.Struct("<QQI8s")
AGAIN: Final = "call save_stats again"


def write_table(file: IO[bytes] | pa.NativeFile, table: pa.Table) -> int:
    """Write a table and its tail.

    Returns:
        The checksum.
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
    path: str, data: pa.Buffer, again: str = AGAIN, expected: int | None = None
) -> pa.Table:
    """The table in the bytes of a file.

    Args:
        path: The file, for errors.
        data: Its bytes.
        again: What to do where they are not usable, for errors.
        expected: The checksum that `write_table` gave; None: any whole file will do.

    Raises:
        StatisticsError: they are not what this version wrote, to the last bit.
    """
    import xxhash

    size = data.size - TAIL.size
    if size < 0:
        raise wrong(path, f"holds no statistics of files: {data.size} bytes", again)
    checksum, length, version, magic = TAIL.unpack(data.slice(size).to_pybytes())
    if magic != MAGIC:
        raise wrong(
            path,
            f"holds no statistics of files, or is torn: it ends with {magic!r}, and {MAGIC!r} was expected",
            again,
        )
    if version != VERSION:
        raise wrong(
            path, f"has format version {version}, and this Skipstone reads version {VERSION}", again
        )
    body = data.slice(0, size)
    if length != size or xxhash.xxh3_64_intdigest(body) != checksum:
        raise wrong(
            path, f"is damaged: {size} bytes of {length}, or others than were written", again
        )
    if expected is not None and checksum != expected:
        raise wrong(
            path,
            f"is another file than was saved: its checksum is {checksum:016x}, and {expected:016x} was expected",
            again,
        )
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)  # Arrow's functions trust lengths, offsets and indices
        return table
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as e:
        raise StatisticsError(f"{path}: is no Arrow stream ({told(e)}); {again}") from e
