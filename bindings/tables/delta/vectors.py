"""Read Delta's deletion vectors: the rows of a file that are deleted.

Source: Delta's PROTOCOL.md, "Deletion Vector Format".
"""

from __future__ import annotations

import functools
import struct
import uuid
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.location import is_local
from skipstone.bindings.tables.bitmaps import VectorFiles, rows_of
from skipstone.bindings.tables.delta.replay import absolute, unquoted
from skipstone.bindings.tables.row_ranges import RowRanges
from skipstone.ir.errors import SourceError, clip, describe_error

Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
UUID_LENGTH: Final = 20  # characters of a UUID in Z85


def deleted_rows(
    vector: Mapping[str, Any], fs: pafs.FileSystem, root: str, files: VectorFiles, rows: int
) -> RowRanges:
    """Read the deleted rows of a file.

    Args:
        vector: storageType, pathOrInlineDv, offset, sizeInBytes, cardinality.
        fs: The file system of the table.
        root: The table's folder.
        files: The open files of vectors.
        rows: The number of rows in the file.

    Raises:
        SourceError: the vector is missing or damaged, or names rows that the file does not have.
    """
    try:
        found = _deleted(vector, fs, root, files)
    except (ValueError, IndexError, TypeError, KeyError, AttributeError, struct.error) as e:
        raise SourceError(
            f"the deletion vector {clip(str(vector))} cannot be read ({describe_error(e)})"
        ) from e
    if found.stop > rows:  # plans subtract the vector's cardinality from the file's rows
        raise SourceError(
            f"the deletion vector {vector['storageType']}:{clip(vector['pathOrInlineDv'])} names "
            f"row {found.stop - 1}; the file has {rows} rows. It belongs to another file."
        )
    return found


def _deleted(
    vector: Mapping[str, Any], fs: pafs.FileSystem, root: str, files: VectorFiles
) -> RowRanges:
    kind, where = vector["storageType"], vector["pathOrInlineDv"]
    name = f"the deletion vector {clip(kind)}:{clip(where)}"
    if kind == "i":
        data = z85(where, name)[: vector["sizeInBytes"]]
    else:
        data = _stored(vector, fs, root, files, name)
    return rows_of(data, vector["cardinality"], name)


def _stored(
    vector: Mapping[str, Any], fs: pafs.FileSystem, root: str, files: VectorFiles, name: str
) -> bytes:
    where, size = vector["pathOrInlineDv"], vector["sizeInBytes"]
    if vector["storageType"] == "u":
        prefix, last = where[:-UUID_LENGTH], where[-UUID_LENGTH:]
        if ".." in prefix.split("/") or prefix.startswith("/"):
            raise SourceError(f"{name} lies outside of its table; expected a folder in it")
        file = f"deletion_vector_{uuid.UUID(bytes=z85(last, name))}.bin"
        path = "/".join(p for p in (root, prefix, file) if p)
    elif vector["storageType"] == "p":
        if "://" in where or where.startswith("file:"):
            fs, path = absolute(unquoted(where))
        else:
            fs, path = (fs, where)
    else:
        raise SourceError(
            f"{name} is stored as {vector['storageType']!r}; expected 'u', 'i' or 'p'"
        )
    try:
        offset, named = vector["offset"] or 0, f"{clip(path)}: {name}"
        key, local = (fs.type_name, path), is_local(fs)
        opened = functools.partial(fs.open_input_file, path)
        return files.framed(key, opened, offset, size, named, local=local)
    except SourceError:
        raise
    except (OSError, pa.ArrowException) as e:
        raise SourceError(f"{clip(path)}: {name} cannot be read ({describe_error(e)})") from e


def z85(text: str, name: str) -> bytes:
    """Decode a text in Z85, ZeroMQ's base 85.

    Args:
        text: The text.
        name: The vector, for errors.

    Raises:
        SourceError: the text is not Z85.

    Example:
        >>> z85("HelloWorld", "an example").hex()
        '864fd26fb559f75b'
    """
    if len(text) % 5 or not set(text) <= set(Z85):
        raise SourceError(f"{name} is not a text in Z85")
    out = bytearray()
    for i in range(0, len(text), 5):
        value = 0
        for ch in text[i : i + 5]:
            value = value * 85 + Z85.index(ch)
        if value >= 1 << 32:
            raise SourceError(f"{name} is not a text in Z85")
        out += value.to_bytes(4, "big")
    return bytes(out)
