"""Unpacking bytes, up to a size: what would be more is refused before it is made.

Source: Avro's specification, "Required Codecs" and "Optional Codecs".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from skipstone.ir.errors import SourceError


def unpacked(codec: str, block: bytes, most: int) -> bytes:
    """Unpack a block of an Avro file, or a gzip file.

    Args:
        codec: One of CODECS.
        block: The packed bytes.
        most: Bytes that may come of it.

    Raises:
        SourceError: it is damaged, or holds more.

    Example:
        >>> unpacked("gzip", zlib.compress(b"abc", wbits=31), 3)
        b'abc'
    """
    try:
        found = CODECS[codec](block, most + 1)
    except (zlib.error, ValueError, OSError, EOFError, pa.ArrowException) as e:
        raise SourceError(f"a block cannot be unpacked ({str(e)[:200]})") from None
    if len(found) > most:
        raise SourceError(
            f"it takes more than {most} bytes unpacked; expected less of so few packed ones"
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
        raise ValueError("it is cut off")  # which Arrow does not notice before a frame begins
    parts, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        while size < most and (part := stream.read(min(STEP, most - size))):
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def _snappy(block: bytes, most: int) -> bytes:
    """Unpack a raw block; CRC-32 of what was packed follows it."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ValueError("it does not begin with its size")
    if size >= most:
        raise ValueError(f"it says that it takes {size} bytes unpacked")
    out: bytes = pa.decompress(block[:-4], size, "snappy", asbytes=True)
    if zlib.crc32(out) != int.from_bytes(block[-4:], "big"):
        raise ValueError("its checksum is another")
    return out


FRAME: Final = 5  # bytes; no frame of zstandard has less
STEP: Final = 1 << 20  # bytes that are unpacked at a time
CODECS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = MappingProxyType(
    {
        "deflate": _zlib(-zlib.MAX_WBITS),
        "gzip": _zlib(zlib.MAX_WBITS | 16),
        "bzip2": _bzip2,
        "zstandard": _zstandard,
        "snappy": _snappy,
    }
)
