"""Deletion vectors: which rows of a file no longer live.

Source: Delta's PROTOCOL.md, "Deletion Vector Format".
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.fs as pafs

from skipstone.bindings.sources.bitmaps import FRAME, rows_of, unframed
from skipstone.ir.errors import SourceError

Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
UUID: Final = 20  # characters of one in Z85


def deleted_rows(
    vector: Mapping[str, Any], fs: pafs.FileSystem, root: str
) -> npt.NDArray[np.int64]:
    """Numbers of the deleted rows, ascending, int64.

    Args:
        vector: storageType, pathOrInlineDv, offset, sizeInBytes, cardinality.
        fs: Where the table is.
        root: Its folder.

    Raises:
        SourceError: the vector is missing or damaged.
    """
    try:
        return _deleted(vector, fs, root)
    except (ValueError, IndexError, TypeError, KeyError, AttributeError, struct.error) as e:
        raise SourceError(
            f"the deletion vector {vector} cannot be read ({type(e).__name__}: {e})"
        ) from e


def _deleted(vector: Mapping[str, Any], fs: pafs.FileSystem, root: str) -> npt.NDArray[np.int64]:
    kind, where = vector["storageType"], vector["pathOrInlineDv"]
    name = f"the deletion vector {kind}:{where}"
    data = (
        _inline(where, vector["sizeInBytes"], name)
        if kind == "i"
        else _stored(vector, fs, root, name)
    )
    return rows_of(data, vector["cardinality"], name)


def _inline(text: str, size: int, name: str) -> bytes:
    return z85(text, name)[:size]


def _stored(vector: Mapping[str, Any], fs: pafs.FileSystem, root: str, name: str) -> bytes:
    where, size = vector["pathOrInlineDv"], vector["sizeInBytes"]
    if vector["storageType"] == "u":
        prefix, last = where[:-UUID], where[-UUID:]
        file = f"deletion_vector_{uuid.UUID(bytes=z85(last, name))}.bin"
        path = "/".join(p for p in (root, prefix, file) if p)
    elif vector["storageType"] == "p":
        fs, path = (
            pafs.FileSystem.from_uri(where)
            if "://" in where or where.startswith("file:")
            else (fs, where)
        )
    else:
        raise SourceError(
            f"{name} is stored as {vector['storageType']!r}; expected 'u', 'i' or 'p'"
        )
    try:
        with fs.open_input_file(path) as f:
            f.seek(vector["offset"] or 0)
            whole: bytes = f.read(size + FRAME)
    except OSError as e:
        raise SourceError(f"{path}: {name} cannot be read ({e})") from e
    return unframed(whole, size, f"{path}: {name}")


def z85(text: str, name: str) -> bytes:
    """Bytes of a text in ZeroMQ's base 85.

    Example:
        >>> z85("HelloWorld", "an example").hex()
        '864fd26fb559f75b'
    """
    if len(text) % 5 or not set(text) <= set(Z85):
        raise SourceError(f"{name} is no text in Z85")
    out = bytearray()
    for i in range(0, len(text), 5):
        value = 0
        for ch in text[i : i + 5]:
            value = value * 85 + Z85.index(ch)
        if value >= 1 << 32:
            raise SourceError(f"{name} is no text in Z85")
        out += value.to_bytes(4, "big")
    return bytes(out)
