"""Decompress bytes up to a size; larger results are refused before they are made.

Source: Avro's specification, "Required Codecs" and "Optional Codecs".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from skipstone.ir.errors import SourceError, describe_error


def unpacked(codec: str, block: bytes, most: int) -> bytes:
    """Decompress a block of an Avro file, or a gzip file.

    Args:
        codec: A key of CODECS.
        block: The compressed bytes.
        most: The most bytes that the result may have.

    Raises:
        SourceError: the block is damaged, or its content is larger.

    Example:
        >>> unpacked("gzip", zlib.compress(b"abc", wbits=31), 3)
        b'abc'
    """
    try:
        found = CODECS[codec](block, most + 1)
    except (zlib.error, ValueError, OSError, EOFError, pa.ArrowException) as e:
        raise SourceError(f"a block cannot be unpacked ({describe_error(e)})") from None
    if len(found) > most:
        raise SourceError(
            f"it takes more than {most} bytes unpacked; expected less from so few packed bytes"
        )
    return found


def _zlib(wbits: int) -> Callable[[bytes, int], bytes]:
    def unpack(block: bytes, most: int) -> bytes:
        stream = zlib.decompressobj(wbits)
        out = stream.decompress(block, most)
        if not stream.eof and len(out) < most:
            raise ValueError("it is cut off")
        return out

    return unpack


def _bzip2(block: bytes, most: int) -> bytes:
    import bz2

    stream = bz2.BZ2Decompressor()
    out = stream.decompress(block, most)
    if not stream.eof and len(out) < most:
        raise ValueError("it is cut off")
    return out


def _zstandard(block: bytes, most: int) -> bytes:
    if len(block) < FRAME:
        # Arrow does not notice this before a frame begins.
        raise ValueError("it is cut off")
    parts, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        while size < most and (part := stream.read(min(STEP, most - size))):
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def _snappy(block: bytes, most: int) -> bytes:
    """Decompress a raw block; the CRC-32 of its content follows it."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ValueError("it does not start with its size")
    if size >= most:
        raise ValueError(f"according to its header, it takes {size} bytes unpacked")
    out: bytes = pa.decompress(block[:-4], size, "snappy", asbytes=True)
    if zlib.crc32(out) != int.from_bytes(block[-4:], "big"):
        raise ValueError("its checksum differs")
    return out


# The fewest bytes of a zstandard frame.
FRAME: Final = 5
STEP: Final = 1 << 20  # bytes that are decompressed at a time
CODECS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = MappingProxyType(
    {
        "deflate": _zlib(-zlib.MAX_WBITS),
        "gzip": _zlib(zlib.MAX_WBITS | 16),
        "bzip2": _bzip2,
        "zstandard": _zstandard,
        "snappy": _snappy,
    }
)
