"""List the files of a table on any pyarrow file system: a file, a folder, a glob or a list."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.listing import entries_of
from skipstone.bindings.location import (
    REFUSED,
    FileSystemLike,
    ListedFolder,
    Location,
    each_path,
    filesystem_of,
    in_folder,
    info_at,
    is_glob,
    is_local,
    missing,
    resolve,
    shown,
    unreachable,
)
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.detect import name_in, refuse_other_formats, without_metadata
from skipstone.bindings.tables.identity import etag_of_file, etags_of
from skipstone.bindings.tables.partitions import Texts, partition_texts
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, numbers_of, python_array
from skipstone.ir.errors import SourceError, describe_error
from skipstone.kernels.decode.arrays import ranks, texts
from skipstone.kernels.run.pool import map_requests

Ints = npt.NDArray[np.int64]
Where: TypeAlias = "Location | Iterable[Location]"
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """The n files of a table, in table order.

    Attributes:
        paths: Paths on the file system; strings, length n.
        sizes: Bytes, int64, shape (n,); -1 is unknown.
        times: Times of the last change in ns since 1970, int64, shape (n,); -1 is unknown.
        etags: The file system's identifier of the present content; strings, length n. Null is
            unknown.
        folders: The folders that hold the files: path, and texts of the partition values in it.
        folder: The index in `folders` of each file's folder, int64, shape (n,).
    """

    paths: pa.StringArray
    sizes: Ints
    times: Ints
    etags: pa.StringArray
    folders: tuple[tuple[str, Texts], ...]
    folder: Ints

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, which: Ints) -> Files:
        """Return the files at these positions, in this order."""
        at = arrow_of(which)
        return Files(
            pc.take(self.paths, at),
            self.sizes[which],
            self.times[which],
            pc.take(self.etags, at),
            self.folders,
            self.folder[which],
        )

    def by_path(self) -> Files:
        """Return the files sorted by path."""
        return self if len(self) < 2 else self.take(ranks(self.paths))


def files_from_listing(
    infos: Iterable[pafs.FileInfo], root: str, base: str | None, etags: Mapping[str, str]
) -> Files:
    """Return the listed files that are not hidden below `root`, sorted by path.

    Args:
        infos: The listing.
        root: The folder below which hidden folders and files are skipped.
        base: The folder below which folders `key=value` give partition texts; None if none.
        etags: Path without slashes around it -> etag.
    """
    return _in_listed_order(infos, root, base, etags).by_path()


def _in_listed_order(
    infos: Iterable[pafs.FileInfo], root: str | None, base: str | None, etags: Mapping[str, str]
) -> Files:
    """Return `files_from_listing` in the listing's order; a root of None hides no folder."""
    hidden_folders: dict[str, bool] = {}
    rows: list[tuple[str, int | None, int | None]] = []
    folder_of_row: list[str] = []
    for f in infos:
        path = f.path
        folder, _, name = path.rpartition("/")
        if folder not in hidden_folders:
            hidden_folders[folder] = root is not None and is_hidden_path(folder, root)
        if not hidden_folders[folder] and not is_hidden(name):
            rows.append((path, f.size, f.mtime_ns))
            folder_of_row.append(folder)
    numbers = {name: i for i, name in enumerate(sorted(set(folder_of_row)))}
    paths = [path for path, _, _ in rows]
    return Files(
        texts(paths),
        np.array([UNKNOWN if size is None else size for _, size, _ in rows], np.int64),
        np.array([UNKNOWN if time is None else time for _, _, time in rows], np.int64),
        python_array([etags.get(p.strip("/")) for p in paths], pa.string())
        if etags
        else pa.nulls(len(paths), pa.string()),
        tuple(
            (path, {} if base is None else partition_texts(in_folder(path, "file"), base))
            for path in numbers
        ),
        np.array([numbers[folder] for folder in folder_of_row], np.int64),
    )


def concat_files(parts: Sequence[Files]) -> Files:
    """Concatenate files; if several have the same path, only the first one stays."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(p.folders) for p in parts)])
    paths = pa.concat_arrays([texts([]), *(p.paths for p in parts)])
    whole = Files(
        paths,
        np.concatenate([np.zeros(0, np.int64), *(p.sizes for p in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(p.times for p in parts)]),
        pa.concat_arrays([texts([]), *(p.etags for p in parts)]),
        tuple(f for p in parts for f in p.folders),
        np.concatenate(
            [
                np.zeros(0, np.int64),
                *(p.folder + start for p, start in zip(parts, starts, strict=False)),
            ]
        ),
    )
    return _without_duplicates(whole)


def _without_duplicates(files: Files) -> Files:
    """Return the files; if several have the same path, only the first one."""
    encoded = pc.dictionary_encode(files.paths)
    if len(encoded.dictionary) == len(files):
        return files
    first = np.unique(numbers_of(encoded.indices), return_index=True)[1]
    return files.take(np.sort(first).astype(np.int64))


class FileListing(NamedTuple):
    """The result of `list_files`.

    Attributes:
        files: The files.
        filesystem: Their file system.
        root: The folder that was named; None if the caller named files or a glob.
        beside: The names of hidden files that lie directly in the folder; None if they are not
            known.
    """

    files: Files
    filesystem: pafs.FileSystem
    root: str | None
    beside: frozenset[str] | None = None


def list_files(
    where: Where,
    filesystem: FileSystemLike | None = None,
    base_path: Location | None = None,
    meter: Meter | None = None,
    *,
    ignore_format: bool = False,
) -> FileListing:
    """List the files of a table, sorted by path.

    Hidden files (names that begin with `.` or `_`) are skipped, as in Spark. A path with `*`, `?`
    or `[` is a glob, unless a file or folder of that very name exists.

    Args:
        where: A file, a folder, a glob, or a list of them.
        filesystem: The file system of the paths; None finds it from `where`.
        base_path: The folder below which folders `key=value` give partition values. By default it
            is the folder itself, or the part of a glob before the first wildcard. Files that are
            named one by one have no partition values without it, as in Spark.
        meter: Counts folders and files.
        ignore_format: Whether the folder may be that of a Delta, Iceberg or Hudi table.

    Raises:
        SourceError: nothing exists there, or the paths are on several file systems.
    """
    meter, filesystem = meter or Meter(), filesystem_of(filesystem)
    if not isinstance(where, str | bytes | os.PathLike):
        return _list_each(each_path(where), filesystem, base_path, meter, ignore_format)
    fs, path = resolve(where, filesystem)
    base, root = None if base_path is None else resolve(base_path, filesystem)[1], None
    beside = None
    asked: list[Callable[[], Any]] = [
        lambda: info_at(fs, path, where),
        lambda: _list_remote_folder(fs, path, where, meter),
    ]
    info, listed = map_requests(lambda ask: ask(), asked, local=is_local(fs))
    if info.type == pafs.FileType.File:
        infos, etags = [info], etag_of_file(fs, path)
    elif info.type == pafs.FileType.Directory:
        infos, etags = listed or list_folder(fs, path, meter)
        base, root = base or _as_listed(path, infos), path
        if not is_local(fs):
            names = (name_in(i.path, path) for i in infos)
            beside = frozenset(name for name in names if name.startswith("_") and "/" not in name)
        if ignore_format:
            infos = without_metadata(infos, path)
        else:
            refuse_other_formats(fs, path, (i.path for i in infos))
    elif is_glob(path):
        infos, start, etags = _list_glob(fs, path, meter)
        base = base or start
    else:
        raise missing(where, "a Parquet file, a folder of them, or a glob", fs)
    files = files_from_listing(infos, base or os.path.dirname(path), base, etags)
    if not len(files):
        raise SourceError(
            f"{shown(where)} holds no files; expected Parquet files (names that begin with '.' or "
            "'_' are skipped)"
        )
    meter.count("files", len(files))
    return FileListing(files, fs, root, beside)


def _list_each(
    paths: Sequence[str],
    filesystem: pafs.FileSystem | None,
    base_path: Location | None,
    meter: Meter,
    ignore_format: bool,
) -> FileListing:
    """List the files of several paths; the arguments are as for `list_files`."""
    if not paths:
        raise SourceError("the list of paths is empty; expected at least one file, folder or glob")
    if base_path is None and (named := _list_named_files(paths, filesystem)) is not None:
        meter.count("files", len(paths))
        return named
    parts = [
        list_files(w, filesystem, base_path, meter, ignore_format=ignore_format) for w in paths
    ]
    kinds = {p.filesystem.type_name for p in parts}
    if len(kinds) > 1:
        raise SourceError(
            f"the paths lie on different file systems ({', '.join(sorted(kinds))}); expected one"
        )
    return FileListing(concat_files([p.files for p in parts]), parts[0].filesystem, None)


def _as_listed(folder: str, infos: Sequence[pafs.FileInfo]) -> str:
    """Return a folder's path as its listing spells it: with a slash before it, or without."""
    stripped = folder.lstrip("/")
    found = infos[0].path if infos else folder
    return stripped if not found.startswith("/") and found.startswith(stripped) else folder


def _list_named_files(
    where: Sequence[str], filesystem: pafs.FileSystem | None
) -> FileListing | None:
    """Look up files that are named one by one, in one request.

    Returns:
        The files; None if a location is not a plain file. The caller then lists each location by
        itself.
    """
    if len({location.split("://")[0] for location in where if "://" in location}) > 1:
        return None
    resolved = [resolve(w, filesystem) for w in where]
    if len({fs.type_name for fs, _ in resolved}) > 1:
        return None
    fs = resolved[0][0]
    if isinstance(fs, pafs.PyFileSystem):  # it may have etags, which this request does not return
        return None
    try:
        infos = fs.get_file_info([path for _, path in resolved])
    except REFUSED as e:
        raise unreachable(where[0], e) from e
    if any(not i.is_file or is_hidden(i.base_name) for i in infos):
        return None
    return FileListing(_without_duplicates(_in_listed_order(infos, None, None, {})), fs, None)


def list_folder(
    fs: pafs.FileSystem, folder: str, meter: Meter
) -> tuple[list[pafs.FileInfo], dict[str, str]]:
    """List all files below a folder, at any depth.

    Returns:
        The files, and their etags by path; no etags if the file system has none.

    Raises:
        SourceError: the folder cannot be listed.
    """
    try:
        entries = entries_of(fs, folder, recursive=True)
        etags = etags_of(fs, folder)
    except REFUSED as e:
        raise SourceError(
            f"{shown(folder)}: the folder cannot be listed ({describe_error(e)})"
        ) from e
    files = [f for f in entries if f.is_file]
    meter.count("folders", 1 + len(entries) - len(files))
    return files, etags


def _list_remote_folder(
    fs: pafs.FileSystem, path: str, where: Location, meter: Meter
) -> tuple[list[pafs.FileInfo], dict[str, str]] | None:
    """List a folder of remote storage; None if it seems to be something else.

    A request at the same time finds out whether an object has the path, too.
    """
    if is_local(fs) or path.endswith(".parquet") or is_glob(path):
        return None
    if isinstance(where, ListedFolder) and all(i.is_file for i in where.entries):
        meter.count("folders")
        return (list(where.entries), {}) if where.entries else None
    try:
        found = list_folder(fs, path, meter)
    except SourceError:
        return None
    return found if found[0] else None


def _list_glob(
    fs: pafs.FileSystem, pattern: str, meter: Meter
) -> tuple[list[pafs.FileInfo], str, dict[str, str]]:
    """List the files that match a glob, or are below a folder that does; `**` crosses folders.

    Returns:
        The files, the folder before the first wildcard, and the etags by path.
    """
    parts = pattern.split("/")
    first = next(i for i, part in enumerate(parts) if is_glob(part))
    start = "/".join(parts[:first]) or "/"
    listed = _list_remote_folder(fs, start, start, meter)
    if listed is None and info_at(fs, start, start).type != pafs.FileType.Directory:
        raise missing(start, f"the folder in which the glob {shown(pattern)} begins", fs)
    infos, etags = listed or list_folder(fs, start, meter)
    return (
        [
            f
            for f in infos
            if _matches(f.path.removeprefix(start).strip("/").split("/"), parts[first:])
        ],
        start,
        etags,
    )


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return True  # the pattern names a folder above: everything below it matches
    if pattern[0] == "**":
        return any(_matches(path[i:], pattern[1:]) for i in range(len(path)))
    return (
        bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])
    )


def is_hidden_path(path: str, base: str) -> bool:
    """Return True if Spark skips a path below `base`.

    Source: Spark, `HadoopFSUtils.shouldFilterOutPathName`.
    """
    return path != base and any(map(is_hidden, path.removeprefix(base).strip("/").split("/")))


def is_hidden(name: str) -> bool:
    """Return True if Spark skips files and folders of this name."""
    return (
        name.startswith(".")
        or (name.startswith("_") and "=" not in name)
        or name.endswith("._COPYING_")
    )


def partition_folders(files: Files) -> Iterable[tuple[str, Texts]]:
    """Return the folders that hold at least one of the files, in table order."""
    return (files.folders[i] for i in dict.fromkeys(files.folder.tolist()))
