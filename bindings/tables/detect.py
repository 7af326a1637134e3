"""Detect the format of a table from the contents of its folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from typing import Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.listing import entries_of
from skipstone.bindings.location import (
    KNOWN,
    REFUSED,
    FileSystemLike,
    ListedFolder,
    info_at,
    is_glob,
    is_local,
    package_of,
    path_text,
    resolve,
    scheme_of,
    shown,
    unreachable,
)
from skipstone.ir.errors import SourceError
from skipstone.kernels.run.pool import ContextPool

FORMATS: Final = ("parquet", "hive", "delta", "iceberg")
OPENED_BY: Final = {"deltalake": "delta", "pyiceberg": "iceberg"}  # package -> format of its tables
LOG: Final = "_delta_log"
HUDI: Final = (".hoodie", ".hoodie_partition_metadata")
HINT: Final = "version-hint.text"  # names the current metadata file of an Iceberg table


def check_format(format: str | None) -> None:
    """Raise an error if a format is unknown; None stands for any.

    Raises:
        SourceError: it is none of `FORMATS`.
    """
    if format is not None and format not in FORMATS:
        raise SourceError(
            f"format is {format!r}; expected {', '.join(FORMATS)}, or None to detect it"
        )


def format_of(where: Any, filesystem: FileSystemLike | None = None) -> str:
    """Return the format of the table at a location: "parquet", "hive", "delta" or "iceberg".

    Args, errors: As for `find_format`.

    Example:
        >>> format_of("/lake/t/metadata/00001.metadata.json")
        'iceberg'
    """
    return find_format(where, filesystem)[0]


def find_format(where: Any, filesystem: FileSystemLike | None = None) -> tuple[str, Any]:
    """Return the format of the table at a location, and what opens it with fewer requests.

    A folder with `_delta_log` is a Delta table. A folder with `metadata/*.metadata.json` is an
    Iceberg table. A folder with subfolders `key=value` is a Hive-partitioned table. A table object
    of deltalake or pyiceberg has the format of its package. Everything else counts as Parquet
    files: a list, a glob, a file, and a location where nothing exists.

    Args:
        where: A path or URI, or a table that another package has open.
        filesystem: The file system of the path; None finds it from the location.

    Returns:
        "parquet", "hive", "delta" or "iceberg"; and the location, with what a listing found if it
        is a folder of Parquet files in remote storage.

    Raises:
        SourceError: the location is malformed, or its storage cannot be reached.
    """
    if not isinstance(where, str | bytes | os.PathLike):
        return OPENED_BY.get(package_of(where), "parquet"), where
    text = path_text(where)
    if text.endswith(".metadata.json"):
        return "iceberg", where
    scheme = scheme_of(text)
    if filesystem is None and scheme is not None and scheme not in KNOWN:
        return "delta", where  # only the package deltalake can reach such storage
    fs, root = resolve(text, filesystem)
    remote = not is_local(fs) and not isinstance(fs, pafs.PyFileSystem)
    if remote and not (text.endswith(".parquet") or is_glob(text)):
        found, entries = _find_remote(fs, root, text)
        return found, where if entries is None else ListedFolder(text, fs, root, entries)
    if info_at(fs, root, text).type != pafs.FileType.Directory:
        return "parquet", where
    if is_delta(fs, root):
        return "delta", where
    if metadata_files(fs, root):
        return "iceberg", where
    return _kind_of(_entries(fs, root, text)), where


def _find_remote(
    fs: pafs.FileSystem, root: str, text: str
) -> tuple[str, Sequence[pafs.FileInfo] | None]:
    """Return the format of the table at a remote location, and what lies in its folder.

    One request lists a folder. At the same time, others find out whether the location is a file,
    which Spark would read instead of a folder of that name.

    Returns:
        The format; and the entries of a folder of Parquet files, otherwise None.

    Raises:
        SourceError: the storage cannot be reached.
    """
    pool = ContextPool(3, "skipstone-requests")
    is_file = pool.submit(_is_file, fs, root, text)
    has_log = pool.submit(_has_remote_log, fs, root)
    metadata = pool.submit(metadata_files, fs, root)
    pool.shutdown(wait=False)
    try:
        if has_log.result():
            return "delta", None
        if metadata.result():
            return "iceberg", None
        entries = _entries(fs, root, text)
    except SourceError:
        if not is_file.result():  # this needs no listing
            raise
        return "parquet", None
    if is_file.result():
        return "parquet", None
    if not entries and info_at(fs, root, text).type != pafs.FileType.Directory:
        return "parquet", None
    return _kind_of(entries), entries


def _is_file(fs: pafs.FileSystem, path: str, where: str) -> bool:
    """Return True if a file has a path.

    One request shows that an object of S3 is missing; `info_at` makes another, for a folder of that
    name.
    """
    if fs.type_name == "s3":
        try:
            fs.open_input_file(path).close()
        except FileNotFoundError:
            return False
        except REFUSED:
            pass  # `info_at` asks again, and raises an error that describes the failure
    return bool(info_at(fs, path, where).type == pafs.FileType.File)


def _has_remote_log(fs: pafs.FileSystem, root: str) -> bool:
    """Return True if a remote folder has a Delta log.

    If there is none, listing it shows this in one request. Listing a long log takes many requests,
    so `_last_checkpoint` is looked up at the same time.
    """
    log = f"{root.rstrip('/')}/{LOG}"
    pool = ContextPool(2, "skipstone-requests")
    listed = pool.submit(lambda: bool(_entries(fs, log, root)))
    pointed = pool.submit(_is_file, fs, f"{log}/_last_checkpoint", root)
    pool.shutdown(wait=False)
    for one in as_completed([listed, pointed]):
        if one is pointed and pointed.result():
            return True
        if one is listed:
            break
    return listed.result()


def _entries(fs: pafs.FileSystem, folder: str, text: str) -> list[pafs.FileInfo]:
    """Return what lies directly in a folder; nothing if it does not exist.

    Args:
        fs, folder: The folder.
        text: The location, for messages.

    Raises:
        SourceError: the storage cannot be reached.
    """
    try:
        return entries_of(fs, folder, missing_ok=True)
    except NotADirectoryError:
        return []
    except REFUSED as e:
        raise unreachable(text, e) from e


def _kind_of(entries: Iterable[pafs.FileInfo]) -> str:
    """Return the format of a folder that is neither a Delta nor an Iceberg table."""
    folders = (i.base_name for i in entries if i.type == pafs.FileType.Directory)
    return "hive" if any("=" in name for name in folders) else "parquet"


def is_delta(fs: pafs.FileSystem, root: str) -> bool:
    """Return True if a folder has a Delta log."""
    return bool(info_at(fs, f"{root.rstrip('/')}/{LOG}", root).type == pafs.FileType.Directory)


def metadata_files(fs: pafs.FileSystem, root: str) -> Mapping[str, int]:
    """Return the names of an Iceberg table's metadata files, and of its version hint.

    Args:
        fs: The file system.
        root: The table's folder.

    Returns:
        Name -> time of the last change in ns since 1970, 0 if it is unknown. Empty if the folder is
        not an Iceberg table.

    Raises:
        SourceError: the storage cannot be reached.
    """
    folder = f"{root.rstrip('/')}/metadata"
    entries = _entries(fs, folder, folder)
    times = {i.base_name: i.mtime_ns or 0 for i in entries}
    return {n: t for n, t in times.items() if n == HINT or n.endswith(".metadata.json")}


def is_hudi(fs: pafs.FileSystem, root: str) -> bool:
    """Return True if a folder has the metadata of a Hudi table, or of a partition of one."""
    found = (info_at(fs, f"{root.rstrip('/')}/{name}", root).type for name in HUDI)
    return any(kind != pafs.FileType.NotFound for kind in found)


def refuse_other_formats(fs: pafs.FileSystem, root: str, inside: Iterable[str]) -> None:
    """Raise an error if a folder belongs to a Delta, Iceberg or Hudi table.

    Such a folder also holds files that the table removed. Reading it as plain Parquet would bring
    their rows back.

    Args:
        fs: The file system.
        root: The folder.
        inside: The paths of all files below the folder, or of what lies directly in it; folders end
            with a slash.

    Raises:
        SourceError: the folder is such a table, or a partition folder of a Delta or Hudi table.

    Source: Delta Lake, `DeltaTableUtils.findDeltaTableRoot` and DELTA_INVALID_FORMAT.
    """
    folder = root.rstrip("/")
    names = [name_in(path, root) for path in inside]
    if any(n.startswith(f"{LOG}/") for n in names):
        raise _wrong_format(folder, folder, "Delta", "scan_delta")
    if any(map(_is_metadata, names)) or ("metadata/" in names and metadata_files(fs, root)):
        raise _wrong_format(folder, folder, "Iceberg", "scan_iceberg")
    if any(n.partition("/")[0] in HUDI for n in names):
        raise _wrong_format(folder, folder, "Hudi", None)
    above = folder
    while "=" in os.path.basename(above):
        above = os.path.dirname(above)
        if is_delta(fs, above):
            raise _wrong_format(folder, above, "Delta", "scan_delta")
        if is_hudi(fs, above):
            raise _wrong_format(folder, above, "Hudi", None)


def name_in(path: str, folder: str) -> str:
    """Return a listed path relative to the folder that was listed.

    Some file systems list paths with a leading slash, and others without, however the folder was
    named.

    Example:
        >>> name_in("lake/t/_delta_log/0.json", "/lake/t/")
        '_delta_log/0.json'
    """
    inner = folder.strip("/")
    return path.lstrip("/").removeprefix(f"{inner}/" if inner else "")


def without_metadata(files: Sequence[pafs.FileInfo], root: str) -> list[pafs.FileInfo]:
    """Leave out the logs and manifests of Delta and Iceberg tables from the files of a folder."""
    names = [name_in(i.path, root) for i in files]
    own = (f"{LOG}/", "metadata/") if any(map(_is_metadata, names)) else (f"{LOG}/",)
    return [i for i, name in zip(files, names, strict=True) if not name.startswith(own)]


def _is_metadata(name: str) -> bool:
    return name.startswith("metadata/") and name.endswith(".metadata.json") and name.count("/") == 1


def _wrong_format(folder: str, root: str, kind: str, call: str | None) -> SourceError:
    relation = "is" if folder == root else f"is a partition folder of {shown(root)},"
    way_out = f"use {call}" if call else f"Skipstone does not read {kind}: read it with Spark"
    return SourceError(
        f"{shown(folder)} {relation} the folder of a {kind} table, with files that the table may "
        f"have removed or replaced; {way_out}, or take all files with ignore_table_format=True"
    )
