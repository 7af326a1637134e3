"""List the files of a table: a file, a folder, a glob or a list, on any pyarrow file system."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from skipstone.bindings.location import (
    REFUSED,
    FileSystemLike,
    Location,
    each_path,
    filesystem_of,
    in_folder,
    info_at,
    missing,
    one_line,
    resolve,
    shown,
    unreachable,
)
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.detect import refuse_other_formats
from skipstone.bindings.tables.partitions import Texts, partition_of
from skipstone.ir.errors import SourceError, StaleFile

Ints = npt.NDArray[np.int64]
Where: TypeAlias = "Location | Iterable[Location]"
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """Files of a table, in table order, n of them.

    Attributes:
        paths: As the file system names them; strings, length n.
        sizes: Bytes, shape (n,); -1 is unknown.
        times: When each was last changed, in ns since 1970, shape (n,); -1 is unknown.
        etags: What the file system calls the present content of each, strings, length n; null is unknown.
        folders: Path, and texts of the partition values in its name, of the folders that hold them.
        folder: Which of these holds each file, shape (n,).
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
        """Some of the files, in this order."""
        at = pa.array(which, pa.int64())
        return Files(
            self.paths.take(at),
            self.sizes[which],
            self.times[which],
            self.etags.take(at),
            self.folders,
            self.folder[which],
        )

    def by_path(self) -> Files:
        """The same files, ordered by path."""
        return self.take(np.asarray(pc.sort_indices(self.paths), np.int64))


def files_of(
    infos: Iterable[pafs.FileInfo], root: str, base: str | None, etags: Mapping[str, str]
) -> Files:
    """The files that a listing gave which are not hidden below `root`, by path; folders `key=value` below `base` give partition texts."""
    return _in_order(infos, root, base, etags).by_path()


def _in_order(
    infos: Iterable[pafs.FileInfo], root: str | None, base: str | None, etags: Mapping[str, str]
) -> Files:
    """The same in the order of the listing; a root of None hides no folder."""
    seen: dict[str, bool] = {}  # folder -> whether it is hidden
    rows: list[tuple[str, int | None, int | None]] = []
    above: list[str] = []
    for f in infos:
        path = f.path
        folder, _, name = path.rpartition("/")
        if folder not in seen:
            seen[folder] = root is not None and hidden(folder, root)
        if not seen[folder] and not is_hidden(name):
            rows.append((path, f.size, f.mtime_ns))
            above.append(folder)
    names = {name: i for i, name in enumerate(sorted(set(above)))}
    paths = [path for path, _, _ in rows]
    return Files(
        pa.array(paths, pa.string()),
        np.array([UNKNOWN if size is None else size for _, size, _ in rows], np.int64),
        np.array([UNKNOWN if time is None else time for _, _, time in rows], np.int64),
        pa.array([etags.get(p.strip("/")) for p in paths], pa.string())
        if etags
        else pa.nulls(len(paths), pa.string()),
        tuple(
            (path, {} if base is None else partition_of(in_folder(path, "file"), base))
            for path in names
        ),
        np.array([names[folder] for folder in above], np.int64),
    )


def joined(parts: Sequence[Files]) -> Files:
    """Files one after another; of those with one path, the first."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(p.folders) for p in parts)])
    paths = pa.concat_arrays([pa.array([], pa.string()), *(p.paths for p in parts)])
    whole = Files(
        paths,
        np.concatenate([np.zeros(0, np.int64), *(p.sizes for p in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(p.times for p in parts)]),
        pa.concat_arrays([pa.array([], pa.string()), *(p.etags for p in parts)]),
        tuple(f for p in parts for f in p.folders),
        np.concatenate(
            [
                np.zeros(0, np.int64),
                *(p.folder + start for p, start in zip(parts, starts, strict=False)),
            ]
        ),
    )
    return _once(whole)


def _once(files: Files) -> Files:
    """Files, of those with one path the first."""
    named = files.paths.dictionary_encode()
    if len(named.dictionary) == len(files):
        return files
    return files.take(
        np.sort(np.unique(named.indices.to_numpy(), return_index=True)[1]).astype(np.int64)
    )


@dataclass(frozen=True, slots=True)
class Listed:
    """What `list_files` found: the files, their file system, and the folder that was named, if one was."""

    files: Files
    filesystem: pafs.FileSystem
    root: str | None


def list_files(
    where: Where,
    filesystem: FileSystemLike | None = None,
    base_path: Location | None = None,
    meter: Meter | None = None,
) -> Listed:
    """The files of a table, by path, and their file system. A path with `*`, `?` or `[` that is there is itself, and else a glob.

    Hidden ones (names that begin with `.` or `_`) are left out, as Spark does. Folders `key=value`
    below `base_path` give partition values; it is the folder itself, or a glob's part before the
    first wildcard, unless it is given. Files named one by one have none without it, as in Spark.

    Raises:
        SourceError: nothing is there.
    """
    meter, filesystem = meter or Meter(), filesystem_of(filesystem)
    if not isinstance(where, str | bytes | os.PathLike):
        paths = each_path(where)
        if not paths:
            raise SourceError(
                "the list of paths is empty; expected at least one file, folder or glob"
            )
        if base_path is None and (named := _named(paths, filesystem)) is not None:
            meter.count("files", len(paths))
            return named
        parts = [list_files(w, filesystem, base_path, meter) for w in paths]
        if len({p.filesystem.type_name for p in parts}) > 1:
            raise SourceError(
                f"the paths lie on different file systems ({', '.join(sorted({p.filesystem.type_name for p in parts}))}); expected one"
            )
        return Listed(joined([p.files for p in parts]), parts[0].filesystem, None)
    fs, path = resolve(where, filesystem)
    base, root = None if base_path is None else resolve(base_path, filesystem)[1], None
    info = info_at(fs, path, where)
    if info.type == pafs.FileType.File:
        infos, etags = [info], etags_of(fs, path)
    elif info.type == pafs.FileType.Directory:
        (infos, etags), base, root = below(fs, path, meter), base or path, path
        refuse_other_formats(fs, path, (i.path for i in infos))
    elif any(ch in path for ch in "*?["):
        infos, start, etags = _glob(fs, path, meter)
        base = base or start
    else:
        raise missing(where, "a Parquet file, a folder of them, or a glob")
    files = files_of(infos, base or os.path.dirname(path), base, etags)
    if not len(files):
        raise SourceError(
            f"{shown(where)} holds no files; expected Parquet files (names that begin with '.' or '_' "
            "are skipped)"
        )
    meter.count("files", len(files))
    return Listed(files, fs, root)


def _named(where: Sequence[str], filesystem: pafs.FileSystem | None) -> Listed | None:
    """Files that are named one by one, asked about at once; None: something else is named, or is there, and each is looked at by itself."""
    if len({location.split("://")[0] for location in where if "://" in location}) > 1:
        return None
    places = [resolve(w, filesystem) for w in where]
    if len({fs.type_name for fs, _ in places}) > 1:
        return None
    fs = places[0][0]
    if isinstance(fs, pafs.PyFileSystem):  # it may tell etags
        return None
    try:
        infos = fs.get_file_info([path for _, path in places])
    except REFUSED as e:
        raise unreachable(where[0], e) from e
    if any(not i.is_file or is_hidden(i.base_name) for i in infos):
        return None
    return Listed(_once(_in_order(infos, None, None, {})), fs, None)


def check_unchanged(
    filesystem: pafs.FileSystem, paths: Sequence[str], sizes: Sequence[int], times: Sequence[int]
) -> None:
    """Refuse files that are not those that were listed, by size and time; only local ones are
    looked at again.

    Raises:
        StaleFile: one was replaced, changed or removed.
    """
    if not isinstance(filesystem, pafs.LocalFileSystem) or not paths:
        return
    infos = filesystem.get_file_info(list(paths))
    for info, path, size, time in zip(infos, paths, sizes, times, strict=True):
        if info.type != pafs.FileType.File:
            raise StaleFile(f"{path}: was removed after it was planned; scan the table again")
        if size not in (UNKNOWN, info.size):
            raise StaleFile(
                f"{path}: was {size} bytes when it was planned, and is {info.size}; "
                "scan the table again"
            )
        if time not in (UNKNOWN, info.mtime_ns):
            raise StaleFile(f"{path}: was changed after it was planned; scan the table again")


def below(
    fs: pafs.FileSystem, folder: str, meter: Meter
) -> tuple[list[pafs.FileInfo], dict[str, str]]:
    """All files below a folder, however deep, and their etags by path, where the file system gives any.

    Raises:
        SourceError: it cannot be listed.
    """
    try:
        found = fs.get_file_info(pafs.FileSelector(folder, recursive=True))
        etags = etags_of(fs, folder)
    except REFUSED as e:
        raise SourceError(f"{shown(folder)}: the folder cannot be listed ({one_line(e)})") from e
    files = [f for f in found if f.is_file]
    meter.count("folders", 1 + len(found) - len(files))
    return files, etags


def etags_of(fs: pafs.FileSystem, path: str) -> dict[str, str]:
    """Etags by path without slashes around it. pyarrow's own file systems tell none; those of fsspec may."""
    handler = fs.handler if isinstance(fs, pafs.PyFileSystem) else None
    if not isinstance(handler, pafs.FSSpecHandler):
        return {}
    found = handler.fs.find(path, detail=True)
    tags = {name.strip("/"): info.get("ETag") or info.get("etag") for name, info in found.items()}
    return {name: str(tag) for name, tag in tags.items() if tag}


def _glob(
    fs: pafs.FileSystem, pattern: str, meter: Meter
) -> tuple[list[pafs.FileInfo], str, dict[str, str]]:
    """Files that a pattern names, or that lie below a folder it names; `**` crosses folders."""
    parts = pattern.split("/")
    first = next(i for i, p in enumerate(parts) if any(ch in p for ch in "*?["))
    start = "/".join(parts[:first]) or "/"
    if info_at(fs, start, start).type != pafs.FileType.Directory:
        raise SourceError(f"{shown(pattern)}: the folder {shown(start)} is not there")
    infos, etags = below(fs, start, meter)
    return (
        [
            f
            for f in infos
            if _matches(f.path.removeprefix(start).strip("/").split("/"), parts[first:])
        ],
        start,
        etags,
    )


def _matches(path: Sequence[str], want: Sequence[str]) -> bool:
    if not want:
        return True  # a folder was named: everything below it belongs
    if want[0] == "**":
        return any(_matches(path[i:], want[1:]) for i in range(len(path)))
    return bool(path) and fnmatch.fnmatchcase(path[0], want[0]) and _matches(path[1:], want[1:])


def hidden(path: str, base: str) -> bool:
    """Whether Spark passes over a path below a folder.

    Source: Spark, `HadoopFSUtils.shouldFilterOutPathName`.
    """
    return path != base and any(map(is_hidden, path.removeprefix(base).strip("/").split("/")))


def is_hidden(name: str) -> bool:
    """Whether Spark passes over files and folders of this name."""
    return (
        name.startswith(".")
        or (name.startswith("_") and "=" not in name)
        or name.endswith("._COPYING_")
    )


def partition_folders(files: Files) -> Iterable[tuple[str, Texts]]:
    """The folders that hold some of the files, in table order."""
    return (files.folders[i] for i in dict.fromkeys(files.folder.tolist()))
