"""Turn paths, URIs and `filesystem=` into a pyarrow file system and a path on it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.ir.errors import BackendMissing, SourceError, clip, describe_error, without_secrets
from skipstone.kernels.run.forks import release_imports

Location: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
# A pyarrow file system, one of fsspec's, the name of an fsspec protocol, or the URI of a folder.
FileSystemLike: TypeAlias = "pafs.FileSystem | str | Any"

REFUSED: Final = (OSError, pa.ArrowException, ValueError)  # what file systems raise for a path
URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(file):/")
# Schemes of Spark and Hadoop -> pyarrow's schemes for the same stores.
SCHEME_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
# Environment variables that name an S3 server other than Amazon's; Amazon's clients read them, too.
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
# The URI schemes of pyarrow's file systems, by their `type_name`.
SCHEMES: Final = {
    "local": ("file",),
    "s3": ("s3", "s3a", "s3n"),
    "gcs": ("gs", "gcs"),
    "abfs": ("abfs", "abfss"),
    "hdfs": ("hdfs", "viewfs"),
}
UNITY: Final = "uc"  # the scheme of names in Unity Catalog, as deltalake writes them
HTTP: Final = ("http", "https")  # read by fsspec, one file at a time: no listing
KNOWN: Final = frozenset([*HTTP, *(scheme for several in SCHEMES.values() for scheme in several)])
WAYS_OUT: Final = {
    "s3": "check the network and the AWS credentials, name the region (s3://bucket/t?region=...)",
    "gs": "check the network and the Google credentials; public data: write anonymous@ "
    "before the bucket",
    "abfs": "check the network and the Azure credentials",
    "abfss": "check the network and the Azure credentials",
    "hdfs": "set JAVA_HOME, HADOOP_HOME and CLASSPATH for libhdfs",
    "viewfs": "set JAVA_HOME, HADOOP_HOME and CLASSPATH for libhdfs",
    "http": "check the address and the network",
    "https": "check the address and the network",
}
OWN_CLIENT: Final = "or pass storage_options= or filesystem="


@dataclass(frozen=True, slots=True)
class ListedFolder(os.PathLike[str]):
    """A folder of remote storage, with what was found out about it.

    Attributes:
        text: Its URI.
        filesystem, root: Its file system, whose connections are open, and its path there.
        entries: What lies directly in it.
    """

    text: str
    filesystem: pafs.FileSystem
    root: str
    entries: Sequence[pafs.FileInfo]

    def __fspath__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


def path_text(where: Any) -> str:
    """Return a path or URI as text.

    Raises:
        SourceError: `where` is neither text, bytes nor a path object.
    """
    release_imports()  # as in `bind_source`; everything that opens a table passes through here
    if isinstance(where, str | bytes | os.PathLike):
        return os.fsdecode(where)
    if hasattr(where, "read"):
        name = getattr(where, "name", None)
        way_out = f"give its path, {shown(name)}" if isinstance(name, str) else "give a path"
        raise SourceError(f"an open file ({type(where).__name__}) is not a path; {way_out}")
    kind = type(where)  # asking a LazyFrame itself for its schema may take long, and warns
    rows = hasattr(kind, "shape") or hasattr(kind, "schema")
    way_out = "; rows in memory need no scan: write them to a Parquet file" if rows else ""
    raise SourceError(
        f"{type(where).__name__} is not a path; expected a file, a folder, a glob, or a list of "
        f"them, as text, bytes or pathlib paths{way_out}"
    )


def all_of(where: Any) -> Any:
    """Return a location, or a list of locations if it is a column or an iterator of them.

    A column is an array of Arrow or a series of Polars or pandas.
    """
    if isinstance(where, pa.Array | pa.ChunkedArray):
        return where.to_pylist()
    is_series = type(where).__name__ == "Series" and package_of(where) in ("pandas", "polars")
    is_iterator = isinstance(where, Iterator) and not hasattr(where, "read")
    return list(where) if is_series or is_iterator else where


def package_of(value: object) -> str:
    """Return the name of the package that defines the type of a value."""
    return (type(value).__module__ or "").partition(".")[0]


def each_path(where: Any) -> list[str]:
    """Return the paths of one location, or of a list of locations, as text.

    Raises:
        SourceError: one of them is not a path.
    """
    one = isinstance(where, str | bytes | os.PathLike | Mapping) or hasattr(where, "read")
    if one or not isinstance(where, Iterable):
        return [path_text(where)]
    # Tables and data sets are iterable, but they yield columns and fragments, not paths.
    if package_of(where) in ("pyarrow", "pandas", "polars"):
        return [path_text(where)]
    return [path_text(w) for w in where]


def options_of(given: Any) -> dict[str, str]:
    """Return `storage_options=` as a dictionary of strings.

    Raises:
        SourceError: `given` is not a mapping of strings.
    """
    if not isinstance(given, Mapping | None):
        raise SourceError(
            f"storage_options is a {type(given).__name__}; expected strings by name, "
            "such as {'AWS_REGION': 'eu-central-1'}"
        )
    wrong = [
        k for k, v in (given or {}).items() if not isinstance(k, str) or not isinstance(v, str)
    ]
    if wrong:
        raise SourceError(
            f"storage_options[{wrong[0]!r}] is not a string; expected strings by name"
        )
    return dict(given or {})


def chosen_filesystem(
    where: Any, filesystem: FileSystemLike | None, storage_options: Mapping[str, str] | None
) -> FileSystemLike | None:
    """Return the file system that a caller names by one of `filesystem=` and `storage_options=`.

    Args:
        where: A path or URI, or a list of them.
        filesystem: As for `filesystem_of`.
        storage_options: As for `scan_parquet`.

    Raises:
        SourceError: both are given, an option is unknown or malformed, or the store cannot be
            reached.
        BackendMissing: an option names a profile, and botocore is not installed.
    """
    if not options_of(storage_options):
        return filesystem
    if filesystem is not None:
        raise SourceError("both filesystem= and storage_options= are given; expected one of them")
    from skipstone.bindings.storage import filesystem_with

    return filesystem_with(where, storage_options)


def scheme_of(where: str) -> str | None:
    """Return the scheme of a URI in lower case; None if the text is a path.

    Example:
        >>> scheme_of("S3A://bucket/t"), scheme_of("/lake/t")
        ('s3a', None)
    """
    match = URI.match(where)
    return None if match is None else (match[1] or match[2]).lower()


def is_glob(path: str) -> bool:
    """Return True if a path has wildcards."""
    return any(ch in path for ch in "*?[")


def is_unity(where: Any) -> bool:
    """Return True for the URI of a table in Unity Catalog, `uc://catalog.schema.table`."""
    return isinstance(where, str) and scheme_of(where) == UNITY


def filesystem_of(given: FileSystemLike | None) -> pafs.FileSystem | None:
    """Return `filesystem=` as a pyarrow file system.

    Args:
        given: A file system of pyarrow or fsspec; the name of an fsspec protocol, such as "s3" or
            "memory"; or a URI such as "s3://bucket/folder", below which paths then lie.

    Raises:
        SourceError: `given` is none of these, or cannot be reached.
        BackendMissing: `given` names a protocol, and fsspec or its package is missing.
    """
    if given is None or isinstance(given, pafs.FileSystem):
        return given
    if isinstance(given, str):
        if scheme_of(given) is not None:
            base, folder = resolve(given, None)
            return base if folder == "/" else pafs.SubTreeFileSystem(folder, base)
        given = _of_protocol(given)
    fsspec = sys.modules.get("fsspec")  # a caller who has one of its file systems has imported it
    if fsspec is None or not isinstance(given, fsspec.AbstractFileSystem):
        raise SourceError(
            f"filesystem= is of the type {type(given).__name__}; expected a file system of pyarrow "
            "or fsspec, the name of an fsspec protocol, or a URI"
        )
    if "file" in _protocols(given):
        return pafs.LocalFileSystem()
    return pafs.PyFileSystem(pafs.FSSpecHandler(given))


def _of_protocol(name: str) -> Any:
    """Return fsspec's file system of a protocol."""
    try:
        import fsspec

        return fsspec.filesystem(name)
    except ImportError as e:
        raise BackendMissing(
            f"filesystem={name!r} names an fsspec protocol, but a package is missing "
            f"({describe_error(e)}); install it, or pass a pyarrow file system"
        ) from e
    except (ValueError, TypeError, OSError) as e:
        raise SourceError(
            f"filesystem={name!r} is not an fsspec protocol that can be opened "
            f"({describe_error(e)}); pass a file system of pyarrow or fsspec, or a URI"
        ) from e


def resolve(
    where: Location, filesystem: FileSystemLike | None = None
) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path or URI, and the path on it.

    Args:
        where: A path or URI. With `filesystem`, a path on that file system, or a URI of its kind.
        filesystem: As for `filesystem_of`.

    Raises:
        SourceError: the path is blank or not UTF-8 text; no file system is known for it, or the
            file system cannot be reached within seconds.
        BackendMissing: as for `filesystem_of`.
    """
    if filesystem is None and isinstance(where, ListedFolder):
        return where.filesystem, where.root
    text = path_text(where)
    scheme = scheme_of(text)
    if filesystem is None and not text.strip():
        raise SourceError("the path of a table is blank; expected a file, a folder or a glob")
    if "\0" in text or (not text.isascii() and text != text.encode(errors="replace").decode()):
        raise SourceError(
            f"{shown(text)}: the path holds a NUL or is not UTF-8 text, which no file system of "
            "pyarrow accepts; rename the file"
        )
    if filesystem is not None:
        fs = filesystem_of(filesystem)
        return fs, _path_on(text, scheme, fs).rstrip("/") or "/"
    if scheme is None:
        return pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(text))
    from skipstone.bindings.uris import filesystem_at

    return filesystem_at(text, scheme)


def _path_on(text: str, scheme: str | None, filesystem: Any) -> str:
    """Return the path of a location on a given file system."""
    if scheme is None:
        return text
    kind = filesystem.type_name
    handler = getattr(filesystem, "handler", None)
    if isinstance(handler, pafs.FSSpecHandler):
        if scheme in _protocols(handler.fs):
            return str(handler.fs._strip_protocol(text))
    elif kind not in SCHEMES:
        return text  # the caller's own handler, which may accept URIs
    elif scheme in SCHEMES[kind]:
        parts = urlsplit(text)
        bucket = "" if kind in ("local", "hdfs") else parts.netloc.rpartition("@")[2]
        if kind == "abfs":  # abfss://container@account.dfs.core.windows.net/path
            bucket = parts.netloc.partition("@")[0]
        return bucket + unquote(parts.path)
    raise SourceError(
        f"{shown(text)} is a URI of {scheme}, but filesystem= is of {kind}; give the path on "
        "that file system, or omit filesystem="
    )


def _protocols(fs: Any) -> tuple[str, ...]:
    """Return the protocols of an fsspec file system."""
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def unreachable(where: str, e: Exception) -> SourceError:
    """Return the error for a location whose file system raised `e`, with the way out."""
    scheme = scheme_of(where)
    if scheme is None:
        return SourceError(f"{shown(where)}: the path cannot be examined ({describe_error(e)})")
    if scheme == UNITY:
        return SourceError(
            f"{shown(where)}: only scan and scan_delta open tables of Unity Catalog by their names"
        )
    if scheme not in KNOWN:
        names = ", ".join(sorted(KNOWN))
        return SourceError(
            f"{shown(where)}: no file system is known for {scheme}; expected one of {names}, "
            "or pass filesystem="
        )
    way_out = WAYS_OUT.get(SCHEME_ALIASES.get(scheme, scheme), "check the URI")
    return SourceError(
        f"{shown(where)}: the storage cannot be reached ({describe_error(e)}); {way_out}, "
        f"{OWN_CLIENT}"
    )


def is_local(filesystem: pafs.FileSystem) -> bool:
    """Return True if the files of a file system are local."""
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        return is_local(filesystem.base_fs)
    return isinstance(filesystem, pafs.LocalFileSystem)


def info_at(fs: pafs.FileSystem, path: str, where: Any) -> pafs.FileInfo:
    """Return the file, folder or absence at a path.

    Args:
        fs: The file system.
        path: The path on it.
        where: The location as the user gave it, for errors.

    Raises:
        SourceError: the file system raises an error.
    """
    if isinstance(where, ListedFolder) and where.root == path:
        return pafs.FileInfo(path, pafs.FileType.Directory)
    try:
        return fs.get_file_info(path)
    except REFUSED as e:
        raise unreachable(path_text(where), e) from e


def missing(where: Any, expected: str, fs: pafs.FileSystem) -> SourceError:
    """Return the error for a location that does not exist.

    Args:
        where: The location as the user gave it.
        expected: What may be there.
        fs: The file system.
    """
    text = path_text(where)
    folded = re.match(r"([a-z][a-z0-9]+):/[^/]", text)
    if folded is not None and folded[1] in KNOWN:
        expected = f"two slashes after {folded[1]}:"
        if isinstance(where, PurePath):
            expected = "the URI as text, as pathlib drops one of its slashes"
    elif folded is not None and folded[1] == "dbfs":
        expected = "the path below /dbfs, where Databricks mounts dbfs:/"
    elif (braces := re.search(r"\{[^/{}]*,[^/{}]*\}", text)) is not None:
        expected = f"a list of paths or globs, as a glob has no {braces[0]}"
    elif re.fullmatch(r"\w+(\.\w+)+", text) and not text.endswith(".parquet"):
        expected += ", or scan(.., catalog=..) for a table of a catalog"
    relative = isinstance(fs, pafs.LocalFileSystem) and not os.path.isabs(os.path.expanduser(text))
    inside = f" in {shown(os.getcwd())}" if relative and scheme_of(text) is None else ""
    return SourceError(f"{shown(text)} does not exist{inside}; expected {expected}")


def shown(where: object) -> str:
    """Return a path for messages: one printable line, at most 300 characters, no credentials."""
    return clip(without_secrets(str(where)), 300)


def in_folder(folder: str, name: str) -> str:
    """Return the path of a file in a folder; the root of a file system may have an empty name."""
    return f"{folder.rstrip('/')}/{name}" if folder else name
