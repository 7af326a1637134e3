"""Find the format of a table by what lies in its folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.location import (
    KNOWN,
    REFUSED,
    FileSystemLike,
    info_at,
    path_text,
    resolve,
    scheme_of,
    shown,
    unreachable,
)
from skipstone.ir.errors import SourceError

FORMATS: Final = ("parquet", "hive", "delta", "iceberg")
LOG: Final = "_delta_log"
HINT: Final = "version-hint.text"  # names the current metadata file of an Iceberg table


def format_of(where: Any, filesystem: FileSystemLike | None = None) -> str:
    """Return the format of what lies at a location: "parquet", "hive", "delta" or "iceberg".

    A folder with `_delta_log` is a Delta table, one with `metadata/*.metadata.json` an Iceberg
    table, one with folders `key=value` a Hive-partitioned table. All else is Parquet files: a
    list, a glob, a file, and a place where nothing is.

    Raises:
        SourceError: it is no location, or its storage cannot be reached.

    Example:
        >>> format_of("/lake/t/metadata/00001.metadata.json")
        'iceberg'
    """
    if not isinstance(where, str | bytes | os.PathLike):
        return "parquet"
    text = path_text(where)
    if text.endswith(".metadata.json"):
        return "iceberg"
    scheme = scheme_of(text)
    if filesystem is None and scheme is not None and scheme not in KNOWN:
        return "delta"  # storage that only the package deltalake reaches
    fs, root = resolve(text, filesystem)
    if info_at(fs, root, text).type != pafs.FileType.Directory:
        return "parquet"
    if is_delta(fs, root):
        return "delta"
    if metadata_files(fs, root):
        return "iceberg"
    try:
        inside = fs.get_file_info(pafs.FileSelector(root))
    except REFUSED as e:
        raise unreachable(text, e) from e
    folders = (i.base_name for i in inside if i.type == pafs.FileType.Directory)
    return "hive" if any("=" in name for name in folders) else "parquet"


def is_delta(fs: pafs.FileSystem, root: str) -> bool:
    """Return True if a folder has a Delta log."""
    return bool(info_at(fs, f"{root.rstrip('/')}/{LOG}", root).type == pafs.FileType.Directory)


def metadata_files(fs: pafs.FileSystem, root: str) -> Mapping[str, int]:
    """Return the metadata files in an Iceberg table's folder and their times, and the hint."""
    folder = f"{root.rstrip('/')}/metadata"
    try:
        found = fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    except NotADirectoryError:
        return {}
    except REFUSED as e:
        raise unreachable(folder, e) from e
    names = {i.base_name: i.mtime_ns or 0 for i in found}
    return {n: t for n, t in names.items() if n == HINT or n.endswith(".metadata.json")}


def refuse_other_formats(fs: pafs.FileSystem, root: str, inside: Iterable[str] | None) -> None:
    """Refuse to read the folder of a Delta or Iceberg table as plain Parquet files.

    It also holds files that the table removed, whose rows would come back.

    Args:
        fs: Where it is.
        root: The folder.
        inside: The paths of files below it, if they were listed; None: the folder is asked.

    Raises:
        SourceError: it is such a folder, or a partition folder of a Delta table.

    Source: Delta Lake, `DeltaTableUtils.findDeltaTableRoot` and DELTA_INVALID_FORMAT.
    """
    folder = root.rstrip("/")
    names = None if inside is None else [path.removeprefix(f"{folder}/") for path in inside]
    if is_delta(fs, root) if names is None else any(n.startswith(f"{LOG}/") for n in names):
        raise _is_table(folder, folder, "Delta", "scan_delta")
    metadata = metadata_files(fs, root) if names is None else filter(_is_metadata, names)
    if any(True for _ in metadata):
        raise _is_table(folder, folder, "Iceberg", "scan_iceberg")
    above = folder
    while "=" in os.path.basename(above):
        above = os.path.dirname(above)
        if is_delta(fs, above):
            raise _is_table(folder, above, "Delta", "scan_delta")


def _is_metadata(name: str) -> bool:
    return name.startswith("metadata/") and name.endswith(".metadata.json") and name.count("/") == 1


def _is_table(folder: str, root: str, kind: str, call: str) -> SourceError:
    of = "is" if folder == root else f"is a partition folder of {shown(root)},"
    return SourceError(
        f"{shown(folder)} {of} the folder of a {kind} table, with files that the table may have "
        f"removed; use {call}, or name the files one by one or by a glob"
    )
