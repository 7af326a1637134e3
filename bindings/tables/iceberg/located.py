"""Where the metadata of an Iceberg table lies, and that it can be unpacked.

pyiceberg is imported when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from skipstone.ir.errors import SourceError
from skipstone.kernels.decode.avro import room
from skipstone.kernels.decode.unpack import unpacked

NAME: Final = ".metadata.json"
PACKED: Final = ".gz.metadata.json"
MAX_HINT: Final = 1024  # bytes of a version hint


def metadata_file(where: str, options: Mapping[str, str]) -> str:
    """The metadata file that is meant by one, or by a table's folder.

    Args:
        where: Path or URI.
        options: What pyiceberg's FileIO needs to reach the storage.

    Raises:
        SourceError: the folder's hint is no version, or the file unpacks to too much.

    Source: Iceberg's `HadoopTableOperations`: `version-hint.text` has the number of a version.
    """
    from pyiceberg.io import load_file_io

    if not where.endswith(NAME):
        hint = os.path.join(where, "metadata", "version-hint.text")
        with load_file_io(dict(options), hint).new_input(hint).open() as f:
            text = f.read(MAX_HINT).decode().strip()
        if "/" in text or "\\" in text or not text.isprintable() or not text:
            raise SourceError(
                f"{hint}: it says {text[:100]!r}; expected a version, or a file's name"
            )
        name = text if text.endswith(NAME) else f"{'v' if text.isnumeric() else ''}{text}{NAME}"
        where = os.path.join(where, "metadata", name)
    if where.endswith(PACKED):  # pyiceberg unpacks whatever comes
        with load_file_io(dict(options), where).new_input(where).open() as f:
            data = f.read()
        try:
            unpacked("gzip", data, room(len(data)))
        except SourceError as e:
            raise SourceError(f"{where}: the metadata cannot be read: {e}") from e
    return where
