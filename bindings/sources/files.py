"""Which files a table has: a file, a folder, a glob or a list, on any pyarrow file system; hive partition values."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.ir.errors import SourceError

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class File:
    """One file of a table.

    Attributes:
        path: As the file system names it.
        size: Bytes; None is unknown.
        partition: Texts of the partition values in its folders' names; None is NULL.
    """

    path: str
    size: int | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)


Where = str | PurePath | Sequence["str | PurePath"]


def list_files(where: Where, filesystem: pafs.FileSystem | None = None, base_path: str | None = None) -> tuple[list[File], pafs.FileSystem]:
    """The files of a table, by path, and their file system.

    Hidden ones (names that begin with `.` or `_`) are left out, as Spark does. Folders `key=value`
    below `base_path` give partition values; it is the folder itself, or a glob's part before the
    first wildcard, unless it is given. Files named one by one have none without it, as in Spark.

    Raises:
        SourceError: nothing is there.
    """
    if not isinstance(where, str | PurePath):
        parts = [list_files(w, filesystem, base_path) for w in where]
        if not parts:
            raise SourceError("the list of paths is empty; expected at least one file, folder or glob")
        if len({fs.type_name for _, fs in parts}) > 1:
            raise SourceError(f"the paths lie on different file systems ({', '.join(sorted({fs.type_name for _, fs in parts}))}); expected one")
        return list({f.path: f for files, _ in parts for f in files}.values()), parts[0][1]
    fs, path = _resolve(str(where), filesystem)
    base = None if base_path is None else _resolve(base_path, filesystem)[1]
    if any(ch in path for ch in "*?["):
        files, start = _glob(fs, path)
        base = base or start
    else:
        info = fs.get_file_info(path)
        if info.type == pafs.FileType.NotFound:
            raise SourceError(f"{where} is not there; expected a Parquet file, a folder of them, or a glob")
        if info.type == pafs.FileType.File:
            files = [info]
        else:
            files, base = _below(fs, path), base or path
    files = [f for f in files if not _hidden(f.path, base or os.path.dirname(path))]
    if not files:
        raise SourceError(f"{where} holds no files; expected Parquet files (names that begin with '.' or '_' are passed over)")
    found = [File(f.path, f.size, partition_of(f.path, base) if base else {}) for f in files]
    return sorted(found, key=lambda f: f.path), fs


def _resolve(where: str, filesystem: pafs.FileSystem | None) -> tuple[pafs.FileSystem, str]:
    if filesystem is not None:
        return filesystem, where.rstrip("/") or "/"
    try:
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where) or where.startswith("file:/"):
            fs, path = pafs.FileSystem.from_uri(where)
            return fs, path.rstrip("/") or "/"
    except (pa.ArrowInvalid, ValueError, OSError) as e:
        raise SourceError(f"{where}: no file system for it ({e}); pass filesystem=, any pyarrow.fs.FileSystem") from e
    return pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(where))


def _below(fs: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
    found = fs.get_file_info(pafs.FileSelector(folder, recursive=True))
    return [f for f in found if f.type == pafs.FileType.File]


def _glob(fs: pafs.FileSystem, pattern: str) -> tuple[list[pafs.FileInfo], str]:
    """Files that a pattern names, or that lie below a folder it names; `**` crosses folders."""
    parts = pattern.split("/")
    first = next(i for i, p in enumerate(parts) if any(ch in p for ch in "*?["))
    start = "/".join(parts[:first]) or "/"
    if fs.get_file_info(start).type != pafs.FileType.Directory:
        raise SourceError(f"{pattern}: the folder {start} is not there")
    want = parts[first:]
    return [f for f in _below(fs, start) if _matches(f.path.removeprefix(start).strip("/").split("/"), want)], start


def _matches(path: Sequence[str], want: Sequence[str]) -> bool:
    if not want:
        return True  # a folder was named: everything below it belongs
    if want[0] == "**":
        return any(_matches(path[i:], want[1:]) for i in range(len(path)))
    return bool(path) and fnmatch.fnmatchcase(path[0], want[0]) and _matches(path[1:], want[1:])


def _hidden(path: str, base: str) -> bool:
    parts = path.removeprefix(base).strip("/").split("/")
    return any(p.startswith((".", "_")) and not ("=" in p and p.startswith("_")) for p in parts)


def partition_of(path: str, base: str) -> dict[str, str | None]:
    """The partition values in a path below `base`, percent signs decoded.

    Example:
        >>> partition_of("/t/day=2013-01-01/to=a%2Fb/x.parquet", "/t")
        {'day': '2013-01-01', 'to': 'a/b'}
    """
    folders = path.removeprefix(base.rstrip("/")).strip("/").split("/")[:-1]
    pairs = (f.split("=", 1) for f in folders if "=" in f)
    return {unquote(k): None if v == HIVE_NULL else unquote(v) for k, v in pairs}


# Types of partition values, tried in this order. Source: Spark, PartitioningUtils.inferPartitionColumnValue.
_INTEGER = re.compile(r"[+-]?\d{1,38}")
_DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def partition_fields(files: Iterable[File], given: Mapping[str, pa.DataType] | None = None) -> list[pa.Field]:
    """The partition columns with the types that their values have in common.

    Args:
        files: All files of the table.
        given: Types that are known; the others are inferred as Spark does: INT, BIGINT, DECIMAL, DOUBLE, DATE, else STRING.

    Raises:
        SourceError: files have different partition columns.
    """
    values: dict[str, set[str]] = {}
    first: File | None = None
    for f in files:
        first = first or f
        if list(f.partition) != list(first.partition):
            raise SourceError(f"{f.path} has the partition columns {_names(f)}, and {first.path} has {_names(first)}; expected the same in all files")
        for k, v in f.partition.items():
            values.setdefault(k, set()).update(() if v is None else (v,))
    types = {k: (given or {}).get(k) or _common_type(texts) for k, texts in values.items()}
    return [pa.field(k, t, nullable=True) for k, t in types.items()]


def _names(f: File) -> str:
    return ", ".join(f.partition) or "none"


def _common_type(texts: set[str]) -> pa.DataType:
    if texts and all(map(_INTEGER.fullmatch, texts)):
        largest = max(abs(int(t)) for t in texts)
        if largest < 2**63:
            return pa.int32() if largest < 2**31 else pa.int64()
        return pa.decimal128(len(str(largest)), 0)
    if texts and all(_DOUBLE.fullmatch(t) for t in texts):
        return pa.float64()
    if texts and all(_DATE.fullmatch(t) for t in texts):
        try:
            pa.array(sorted(texts)).cast(pa.date32())
            return pa.date32()
        except pa.ArrowInvalid:
            pass
    return pa.string()


def partition_array(f: File, field: pa.Field) -> pa.Array:
    """A file's value of a partition column, as an array of one.

    Raises:
        SourceError: the text is not a value of the type.
    """
    text = f.partition[field.name]
    try:
        return pa.array([text], pa.string()).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise SourceError(f"{f.path}: the partition value {field.name}={text!r} is not a {field.type}") from e
