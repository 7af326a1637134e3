"""The layout of a file of saved statistics, and the checks that a file is complete.

    magic | sections | checksums | footer | tail

- A section is an Arrow IPC stream of one record batch, at a multiple of 64 bytes: `x.min`, `x.max`,
  ... as given, or the packed arrays of a column.
- The checksums cover all bytes before them, in blocks (kernels/run/guard.py), so a section is
  verified where and when it is read.
- The footer is JSON. It names the contents of each section and the positions of packed arrays
  within, so that they are read in place, without Arrow.
- The tail holds the position and checksum of the footer, the file's length and the version.

Checksums detect damage, not forgery: whoever can write the file can claim anything about the table.

Raise `VERSION` with every change of the layout or of the meaning of packed columns
(kernels/pack/columns.py and its callees, kernels/index/levels.py, kernels/index/coarse.py).
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from typing import IO, Any, Final, NamedTuple

import numpy as np

from skipstone.ir.errors import StatisticsError, clip, describe_error
from skipstone.ir.types import DType
from skipstone.kernels.run.guard import SHIFT, ChecksummedFile, Descriptor

MAGIC: Final = b"SKIPSTN\n"
# In version 1, counts that contradict bounds were not yet unknown; in 2, planes had other names.
VERSION: Final = 3
ALIGN: Final = 64
MAX_READ_BYTES: Final = 1 << 20  # larger files are mapped into memory
MAX_CONTAINERS: Final = 64 << 32  # the containers whose 64-bit words 32 bits can number
# The start of the footer, its bytes, the bytes of the file, the version, 0.
TAIL: Final = struct.Struct("<QQQII")
END: Final = struct.Struct("<Q8s")  # checksum of footer and tail, magic
# The errors of code that takes malformed values for well-formed ones.
MALFORMED: Final = (
    LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


def wrong(
    path: str,
    what: str,
    way_out: str = "save the statistics again, or remove the file if a scan left it",
) -> StatisticsError:
    """Return the error for a file that cannot be used.

    Args:
        path: The file.
        what: The problem, as a phrase that follows the path.
        way_out: What the user can do.
    """
    return StatisticsError(f"{path}: {clip(what, 1000)}; {way_out}")  # what quotes the file


def ending(footer: bytes, at: int) -> bytes:
    """Return the last bytes of a file: the footer, which starts at byte `at`, and the tail."""
    import xxhash

    size = at + len(footer) + TAIL.size + END.size
    body = footer + TAIL.pack(at, len(footer), size, VERSION, 0)
    return body + END.pack(xxhash.xxh3_64_intdigest(body), MAGIC)


def type_as_json(dtype: DType) -> list[object]:
    """Return a type as footers store it."""
    return [
        dtype.kind.value,
        dtype.bits,
        dtype.precision,
        dtype.scale,
        dtype.unit,
        dtype.zoned,
        dtype.name,
    ]


class OpenedFile(NamedTuple):
    """A file whose magic, checksum table, footer and tail are verified.

    Attributes:
        data: All bytes.
        footer: The parsed footer.
        file: The bytes before the checksums, which verify them on request.
        identity: The checksum of the file's end, which holds the checksums of everything else: two
            files with one identity have equal contents.
    """

    data: mmap.mmap | bytes
    footer: dict[str, Any]
    file: ChecksummedFile
    identity: int


def open_file(path: str) -> OpenedFile:
    """Map a file, or read a small one, and verify its footer.

    Raises:
        StatisticsError: the file cannot be opened, is incomplete, or is of another version.
    """
    try:
        with open(path, "rb") as f:
            data, descriptor = _bytes_of(f)
    except (OSError, ValueError) as e:
        raise wrong(
            path,
            f"cannot be opened ({e.strerror if isinstance(e, OSError) else e})",
            "name a file that Statistics.save wrote",
        ) from e
    if data[: len(MAGIC)] != MAGIC:
        start = "is empty" if not len(data) else f"starts with {data[: len(MAGIC)]!r}"
        raise wrong(
            path,
            f"holds no saved statistics: it {start}; expected {MAGIC!r}",
            "name a file that Statistics.save wrote",
        )
    size = len(data)
    raw = _footer(path, data, size)
    try:
        footer = json.loads(raw)
        block, (at, count, total) = footer["block"], footer["checksums"]
        if {type(at), type(count)} != {int}:
            raise ValueError("the position of the checksums is not an integer")
        if block != 1 << SHIFT or count != -(-at // block) or not 0 < at <= at + count * 8 <= size:
            raise ValueError(
                f"{count} checksums of blocks of {block} bytes from byte {at}, in {size} bytes"
            )
    except MALFORMED as e:
        raise wrong(
            path, f"its footer does not fit version {VERSION} of the format ({describe_error(e)})"
        ) from e
    import xxhash

    table = data[at : at + count * 8]
    if xxhash.xxh3_64_intdigest(table) != total:
        raise wrong(path, f"the table of checksums, bytes {at} to {at + len(table)}, is damaged")
    return OpenedFile(
        data,
        footer,
        ChecksummedFile(path, data, np.frombuffer(table, "<u8"), at, descriptor),
        END.unpack(data[-END.size :])[0],
    )


def _bytes_of(file: IO[bytes]) -> tuple[mmap.mmap | bytes, Descriptor | None]:
    """Return a file's bytes. A large file is mapped; its descriptor serves to detect changes."""
    size = os.fstat(file.fileno()).st_size
    if size <= MAX_READ_BYTES:
        return file.read(), None
    descriptor = Descriptor(os.dup(file.fileno()))
    return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), descriptor


def _footer(path: str, data: mmap.mmap | bytes, size: int) -> bytes:
    """Return the footer's bytes once they and the tail are verified.

    Raises:
        StatisticsError: the file is torn, damaged or of another version.
    """
    import xxhash

    torn = "is torn or truncated"
    shortest = len(MAGIC) + TAIL.size + END.size
    if size < shortest:
        raise wrong(path, f"{torn}: {size} bytes; the shortest such file has {shortest}")
    checksum, magic = END.unpack(data[-END.size :])
    if magic != MAGIC:
        raise wrong(path, f"{torn}: it ends with {magic!r}; expected {MAGIC!r}")
    at, length, written, version, _ = TAIL.unpack(data[-END.size - TAIL.size : -END.size])
    if version != VERSION:
        if version > VERSION:
            newer = "a newer Skipstone wrote it: update Skipstone, or save the statistics again"
        else:
            newer = "save the statistics again"
        raise wrong(
            path, f"has format version {version}; this Skipstone reads version {VERSION}", newer
        )
    if written != size or at + length + TAIL.size + END.size != size:
        raise wrong(
            path,
            f"{torn}: {size} bytes, but {written} were written, with a footer of {length} bytes "
            f"from byte {at}",
        )
    body = data[at : size - END.size]
    if xxhash.xxh3_64_intdigest(body) != checksum:
        raise wrong(
            path,
            f"its footer, bytes {at} to {size}, is damaged: its checksum differs from the saved "
            "one",
        )
    return body[:length]
