"""What stands where in a file of saved statistics, and how a whole file is told from anything else.

    magic | sections | checksums | footer | tail

A section is an Arrow IPC stream of one record batch, at a multiple of 64 bytes: `x.min`, `x.max`, ... as
they came, or what was packed of a column. The checksums are those of all bytes before them, in blocks
(kernels/run/guard.py), so that a section is verified where, and when, it is read. The footer, JSON, says which
section holds what and where packed arrays lie within, so that they are read in place, without Arrow. The
tail has the footer's place and checksum, the file's length, and the version. Checksums tell damage, not
forgery: who can write the file can say anything about the table.

Whoever changes the layout, or what packed columns mean (kernels/pack/columns.py and what it calls, levels.py,
coarse.py), raises `VERSION`.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np

from skipstone.ir.errors import StatisticsError, told
from skipstone.ir.types import DType
from skipstone.kernels.run.guard import SHIFT, Checked, Descriptor

MAGIC: Final = b"SKIPSTN\n"
VERSION: Final = 2  # 1: contradictions between counts and bounds were not unknown
ALIGN: Final = 64
IN_MEMORY: Final = 1 << 20  # bytes of a file up to which it is read and not mapped
# Where the footer starts, its bytes, the file's bytes, the version, 0.
TAIL: Final = struct.Struct("<QQQII")
END: Final = struct.Struct("<Q8s")  # checksum of footer and tail, magic
# What malformed values raise where they are used as well-formed ones.
MALFORMED: Final = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def wrong(
    path: str,
    what: str,
    way_out: str = "save the statistics again, or remove the file if a scan left it",
) -> StatisticsError:
    """The error for a file that cannot be used."""
    return StatisticsError(f"{path}: {what}; {way_out}")


def ending(footer: bytes, at: int) -> bytes:
    """The last bytes of a file: the footer, which starts at `at`, and the tail."""
    import xxhash

    size = at + len(footer) + TAIL.size + END.size
    body = footer + TAIL.pack(at, len(footer), size, VERSION, 0)
    return body + END.pack(xxhash.xxh3_64_intdigest(body), MAGIC)


def type_of(dtype: DType) -> list[object]:
    """A type as footers write it."""
    return [
        dtype.kind.value,
        dtype.bits,
        dtype.precision,
        dtype.scale,
        dtype.unit,
        dtype.zoned,
        dtype.name,
    ]


@dataclass(frozen=True)
class Opened:
    """A file that is whole, as far as its ends tell: its bytes, its footer, and its bytes up to the checksums.

    `identity` is the checksum of its end, which holds those of all else: two files of one identity are the same file.
    """

    data: mmap.mmap | bytes
    footer: dict[str, Any]
    file: Checked
    identity: int


def opened(path: str) -> Opened:
    """Map a file, or read a small one, and read its footer.

    Raises:
        StatisticsError: it cannot be opened, or is no whole file that this version reads.
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
        came = "is empty" if not len(data) else f"starts with {data[: len(MAGIC)]!r}"
        raise wrong(
            path,
            f"holds no saved statistics: it {came}, and {MAGIC!r} was expected",
            "name a file that Statistics.save wrote",
        )
    size = len(data)
    raw = _footer(path, data, size)
    try:
        footer = json.loads(raw)
        block, (at, count, total) = footer["block"], footer["checksums"]
        if {type(at), type(count)} != {int}:
            raise ValueError("the place of the checksums is no number")
        if block != 1 << SHIFT or count != -(-at // block) or not 0 < at <= at + count * 8 <= size:
            raise ValueError(
                f"{count} checksums of blocks of {block} bytes from {at} on, in {size} bytes"
            )
    except MALFORMED as e:
        raise wrong(
            path, f"its footer is not one that version {VERSION} of the format has ({_why(e)})"
        ) from e
    import xxhash

    table = data[at : at + count * 8]
    if xxhash.xxh3_64_intdigest(table) != total:
        raise wrong(path, f"the table of checksums, bytes {at} to {at + len(table)}, is damaged")
    return Opened(
        data,
        footer,
        Checked(path, data, np.frombuffer(table, "<u8"), at, descriptor),
        END.unpack(data[-END.size :])[0],
    )


def _bytes_of(file: IO[bytes]) -> tuple[mmap.mmap | bytes, Descriptor | None]:
    """A file's bytes; mapped, with a descriptor to ask for changes by, if they are many."""
    size = os.fstat(file.fileno()).st_size
    if size <= IN_MEMORY:
        return file.read(), None
    descriptor = Descriptor(os.dup(file.fileno()))
    return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), descriptor


def _footer(path: str, data: mmap.mmap | bytes, size: int) -> bytes:
    """The footer's bytes, if they and the tail are what was written."""
    import xxhash

    torn = "is torn or truncated"
    least = len(MAGIC) + TAIL.size + END.size
    if size < least:
        raise wrong(path, f"{torn}: {size} bytes, and the shortest such file has {least}")
    checksum, magic = END.unpack(data[-END.size :])
    if magic != MAGIC:
        raise wrong(path, f"{torn}: it ends with {magic!r}, and {MAGIC!r} was expected")
    at, length, told, version, _ = TAIL.unpack(data[-END.size - TAIL.size : -END.size])
    if version != VERSION:
        newer = (
            "a newer Skipstone wrote it: update this one, or save the statistics again"
            if version > VERSION
            else "save the statistics again"
        )
        raise wrong(
            path, f"has format version {version}, and this Skipstone reads version {VERSION}", newer
        )
    if told != size or at + length + TAIL.size + END.size != size:
        raise wrong(
            path,
            f"{torn}: {size} bytes, and {told} were written, with a footer of {length} from byte {at} on",
        )
    body = data[at : size - END.size]
    if xxhash.xxh3_64_intdigest(body) != checksum:
        raise wrong(
            path,
            f"its footer, bytes {at} to {size}, is damaged: it has another checksum than when it was saved",
        )
    return body[:length]


def _why(e: BaseException) -> str:
    return told(e)
