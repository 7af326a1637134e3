"""Find the metadata file of an Iceberg table, and check that it is not too large to unpack.

pyiceberg is imported at first use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import pyarrow.fs as pafs

from skipstone.bindings.location import KNOWN, info_at, missing, resolve, scheme_of, shown
from skipstone.bindings.tables.detect import HINT, metadata_files
from skipstone.ir.errors import SourceError
from skipstone.kernels.decode.avro import max_unpacked_bytes
from skipstone.kernels.decode.unpack import unpacked

NAME: Final = ".metadata.json"
PACKED: Final = ".gz.metadata.json"
MAX_HINT: Final = 1024  # bytes of a version hint


def existing_location(where: str, options: Mapping[str, str]) -> str:
    """Check that a location holds an Iceberg table, where pyarrow can list it, and return it.

    Args:
        where: The path or URI of a metadata file or of a table's folder.
        options: The storage options; with any, the location is not checked.

    Returns:
        The location for pyiceberg.

    Raises:
        SourceError: nothing is there, or no Iceberg table, or only the table's catalog knows its
            current metadata file.
    """
    scheme = scheme_of(where)
    if options or (scheme is not None and scheme not in KNOWN):
        return where
    fs, path = resolve(where)
    found = info_at(fs, path, where).type
    if found == pafs.FileType.NotFound:
        expected = "the metadata file of an Iceberg table, or its folder"
        if "/" not in where:
            expected += "; for a table's name, give catalog="
        raise missing(where, expected, fs)
    if found == pafs.FileType.File:
        return os.path.expanduser(where)
    names = metadata_files(fs, path)
    if not names:
        raise SourceError(
            f"{shown(where)}: not an Iceberg table: no *.metadata.json in its metadata folder; "
            "expected a table's folder or its metadata file"
        )
    if HINT not in names:
        raise SourceError(
            f"{shown(where)}: only the catalog of this Iceberg table knows its current metadata "
            f"file; load the table from its catalog, or name the file, such as {max(names)}"
        )
    return os.path.expanduser(where)


def metadata_file(where: str, options: Mapping[str, str]) -> str:
    """Return the metadata file that a location names.

    Args:
        where: The path or URI of a metadata file, or of a table's folder.
        options: The options that pyiceberg's FileIO needs to reach the storage.

    Raises:
        SourceError: the folder's hint names no version, or the file is too large once unpacked.

    Source: Iceberg's `HadoopTableOperations`: `version-hint.text` has the number of a version.
    """
    from skipstone.bindings.tables.iceberg.file_io import FileIO

    if not where.endswith(NAME):
        hint = os.path.join(where, "metadata", "version-hint.text")
        with FileIO(options, location=hint).new_input(hint).open() as f:
            text = f.read(MAX_HINT).decode().strip()
        if "/" in text or "\\" in text or not text.isprintable() or not text:
            raise SourceError(
                f"{hint}: it holds {text[:100]!r}; expected a version, or a file's name"
            )
        name = text if text.endswith(NAME) else f"{'v' if text.isnumeric() else ''}{text}{NAME}"
        where = os.path.join(where, "metadata", name)
    if where.endswith(PACKED):  # pyiceberg unpacks without a limit
        with FileIO(options, location=where).new_input(where).open() as f:
            data = f.read()
        try:
            unpacked("gzip", data, max_unpacked_bytes(len(data)))
        except SourceError as e:
            raise SourceError(f"{where}: the metadata cannot be read ({e})") from e
    return where
