"""Turn paths, URIs and `filesystem=` into a pyarrow file system and a path on it."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.ir.errors import BackendMissing, SourceError

Location: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
# A pyarrow file system, one of fsspec's, the name of an fsspec protocol, or the URI of a folder.
FileSystemLike: TypeAlias = "pafs.FileSystem | str | Any"

REFUSED: Final = (OSError, pa.ArrowException, ValueError)  # how file systems refuse a path
URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(file):/")
# What Spark and Hadoop call a store, and what pyarrow calls it.
OTHER_NAMES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
# By `type_name` of pyarrow's file systems: the schemes of their URIs.
SCHEMES: Final = {
    "local": ("file",),
    "s3": ("s3", "s3a", "s3n"),
    "gcs": ("gs", "gcs"),
    "abfs": ("abfs", "abfss"),
    "hdfs": ("hdfs", "viewfs"),
}
KNOWN: Final = frozenset(scheme for several in SCHEMES.values() for scheme in several)
WAYS_OUT: Final = {
    "s3": "check the network and the AWS credentials, name the region (s3://bucket/t?region=...)",
    "gs": "check the network and the Google credentials; public data: gs://anonymous@bucket/path",
    "abfs": "check the network and the Azure credentials",
    "abfss": "check the network and the Azure credentials",
    "hdfs": "set JAVA_HOME, HADOOP_HOME and CLASSPATH for libhdfs",
    "viewfs": "set JAVA_HOME, HADOOP_HOME and CLASSPATH for libhdfs",
}
OWN_CLIENT: Final = "or pass filesystem= (storage_options= for Delta and Iceberg tables)"


def path_text(where: Any) -> str:
    """Return a path or URI as text.

    Raises:
        SourceError: it is neither text, bytes nor a path object.
    """
    if isinstance(where, str | bytes | os.PathLike):
        return os.fsdecode(where)
    if hasattr(where, "read"):
        name = getattr(where, "name", None)
        way_out = f"give its path, {shown(name)}" if isinstance(name, str) else "give a path"
        raise SourceError(f"an open file ({type(where).__name__}) is no path; {way_out}")
    raise SourceError(
        f"{type(where).__name__} is no path; expected a file, a folder, a glob, or a list of them, "
        "as text, bytes or pathlib paths"
    )


def each_path(where: Any) -> list[str]:
    """Return the paths of one location, or of a list of locations, as text.

    Raises:
        SourceError: one of them is no path.
    """
    one = isinstance(where, str | bytes | os.PathLike | Mapping) or hasattr(where, "read")
    if one or not isinstance(where, Iterable):
        return [path_text(where)]
    # Iterating a table or a data set gives columns and fragments, which are no paths either.
    if (type(where).__module__ or "").partition(".")[0] in ("pyarrow", "pandas", "polars"):
        return [path_text(where)]
    return [path_text(w) for w in where]


def options_of(given: Any) -> dict[str, str]:
    """Return `storage_options=` as a dictionary of texts.

    Raises:
        SourceError: it is none.
    """
    if not isinstance(given, Mapping | None):
        raise SourceError(
            f"storage_options is a {type(given).__name__}; expected texts by name, "
            "such as {'AWS_REGION': 'eu-central-1'}"
        )
    wrong = [
        k for k, v in (given or {}).items() if not isinstance(k, str) or not isinstance(v, str)
    ]
    if wrong:
        raise SourceError(f"storage_options[{wrong[0]!r}] is no text; expected texts by name")
    return dict(given or {})


def scheme_of(where: str) -> str | None:
    """Return the scheme of a URI; None: it is a path.

    Example:
        >>> scheme_of("S3A://bucket/t"), scheme_of("/lake/t")
        ('s3a', None)
    """
    found = URI.match(where)
    return None if found is None else (found[1] or found[2]).lower()


def filesystem_of(given: FileSystemLike | None) -> pafs.FileSystem | None:
    """Return `filesystem=` as a pyarrow file system.

    Args:
        given: A pyarrow file system; one of fsspec's; "s3", "memory", ...: the fsspec protocol of
            that name; "s3://bucket/folder": paths are then below that folder.

    Raises:
        SourceError: it is none of these, or cannot be reached.
        BackendMissing: the name of a protocol was given, and fsspec or its package is missing.
    """
    if given is None or isinstance(given, pafs.FileSystem):
        return given
    if isinstance(given, str):
        if scheme_of(given) is not None:
            found, folder = resolve(given, None)
            return found if folder == "/" else pafs.SubTreeFileSystem(folder, found)
        given = _of_protocol(given)
    fsspec = sys.modules.get("fsspec")  # who has one of its file systems has imported it
    if fsspec is None or not isinstance(given, fsspec.AbstractFileSystem):
        raise SourceError(
            f"filesystem= is of the type {type(given).__name__}; expected a file system of pyarrow "
            "or fsspec, the name of an fsspec protocol, or a URI"
        )
    if "file" in _protocols(given):
        return pafs.LocalFileSystem()
    return pafs.PyFileSystem(pafs.FSSpecHandler(given))


def _of_protocol(name: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(name)
    except ImportError as e:
        raise BackendMissing(
            f"filesystem={name!r} names an fsspec protocol, and a package is missing "
            f"({one_line(e)}); install it, or pass a pyarrow file system"
        ) from e
    except (ValueError, TypeError, OSError) as e:
        raise SourceError(
            f"filesystem={name!r} is no fsspec protocol that can be opened ({one_line(e)}); "
            "pass a file system of pyarrow or fsspec, or a URI"
        ) from e


def resolve(
    where: Location, filesystem: FileSystemLike | None = None
) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it.

    Args:
        where: A path or URI. Beside `filesystem` it is a path as that file system names it, or a
            URI of its kind.
        filesystem: As for `filesystem_of`.

    Raises:
        SourceError: it is blank or no text of UTF-8; no file system is known for it, or none can be
            reached within seconds.
    """
    text = path_text(where)
    scheme = scheme_of(text)
    if filesystem is None and not text.strip():
        raise SourceError("the path of a table is blank; expected a file, a folder or a glob")
    if "\0" in text or (not text.isascii() and text != text.encode(errors="replace").decode()):
        raise SourceError(
            f"{shown(text)}: the path holds a NUL or is no UTF-8 text, which no file system of "
            "pyarrow takes; rename the file"
        )
    if filesystem is not None:
        found = filesystem_of(filesystem)
        return found, _own_path(text, scheme, found).rstrip("/") or "/"
    if scheme is None:
        return pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(text))
    return _from_uri(text, scheme)


def _own_path(text: str, scheme: str | None, filesystem: Any) -> str:
    """Return the path of a location as a file system names it."""
    if scheme is None:
        return text
    kind = filesystem.type_name
    handler = getattr(filesystem, "handler", None)
    if isinstance(handler, pafs.FSSpecHandler):
        if scheme in _protocols(handler.fs):
            return str(handler.fs._strip_protocol(text))
    elif kind not in SCHEMES:
        return text  # a handler of the caller's, which may take URIs
    elif scheme in SCHEMES[kind]:
        parts = urlsplit(text)
        bucket = "" if kind in ("local", "hdfs") else parts.netloc.rpartition("@")[2]
        if kind == "abfs":  # abfss://container@account.dfs.core.windows.net/path
            bucket = parts.netloc.partition("@")[0]
        return bucket + unquote(parts.path)
    raise SourceError(
        f"{shown(text)} is a URI of {scheme}, and filesystem= is of {kind}; give the path as "
        "that file system names it, or leave filesystem= out"
    )


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _from_uri(text: str, scheme: str) -> tuple[pafs.FileSystem, str]:
    name = OTHER_NAMES.get(scheme, scheme)
    uri = f"{name}{text[len(scheme) :]}"
    asked = parse_qs(urlsplit(uri).query)
    try:
        if name == "s3":
            _look_up(asked)
        fs, path = pafs.FileSystem.from_uri(uri)
        if name == "gs" and "retry_limit_seconds" not in asked:
            _probe(uri, path)
    except REFUSED as e:
        raise unreachable(text, e) from e
    return fs, path.rstrip("/") or "/"


def _look_up(asked: Mapping[str, Sequence[str]]) -> None:
    """Raise OSError at once if S3 has no address here; pyarrow would try for 6 s."""
    region = asked.get("region", ["us-east-1"])[0]  # which pyarrow asks for a bucket's region
    own = "endpoint_override" in asked or any(
        name in os.environ for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
    )
    if own or region.startswith("cn-") or "iso" in region:  # their hosts have other names
        return
    host = f"s3.{region}.amazonaws.com"
    try:
        socket.getaddrinfo(host, 443)
    except OSError as e:
        raise OSError(f"the name {host} cannot be resolved: {e.strerror}") from e


def _probe(uri: str, path: str) -> None:
    """Raise OSError within seconds if Google's storage is silent; pyarrow tries for 15 minutes."""
    sign = "&" if urlsplit(uri).query else "?"
    quick, _ = pafs.FileSystem.from_uri(f"{uri}{sign}retry_limit_seconds=1")
    try:
        quick.get_file_info(path)
    except OSError as e:
        if "UNAVAILABLE" in str(e) or "Retry policy" in str(e):
            raise


def unreachable(where: str, e: Exception) -> SourceError:
    """Return the error for a location whose file system refused, with its way out."""
    scheme = scheme_of(where)
    if scheme is None:
        return SourceError(f"{shown(where)}: the path cannot be looked at ({one_line(e)})")
    if scheme not in KNOWN:
        names = ", ".join(sorted(KNOWN))
        return SourceError(
            f"{shown(where)}: no file system is known for {scheme}; expected one of {names}, "
            f"{OWN_CLIENT}"
        )
    way_out = WAYS_OUT.get(OTHER_NAMES.get(scheme, scheme), "check the URI")
    return SourceError(
        f"{shown(where)}: the storage cannot be reached ({one_line(e)}); {way_out}, {OWN_CLIENT}"
    )


def info_at(fs: pafs.FileSystem, path: str, where: Any) -> pafs.FileInfo:
    """Return what lies at a path.

    Raises:
        SourceError: the file system refuses to say.
    """
    try:
        return fs.get_file_info(path)
    except REFUSED as e:
        raise unreachable(path_text(where), e) from e


def missing(where: Any, expected: str) -> SourceError:
    """Return the error for a location where nothing is."""
    text = path_text(where)
    folded = re.match(r"([a-z][a-z0-9]+):/[^/]", text)
    if isinstance(where, PurePath) and folded is not None and folded[1] in KNOWN:
        expected = "the URI as text, for pathlib drops one of its slashes"
    return SourceError(f"{shown(text)} is not there; expected {expected}")


def shown(where: object) -> str:
    """Return a path as messages show it: one line, not too long, without user and password."""
    text = re.sub(r"(?<=://)[^/@]*:[^/@]*@", "", str(where))
    text = "".join(ch if ch.isprintable() else ascii(ch)[1:-1] for ch in text)
    return text if len(text) <= 300 else text[:300] + "..."


def one_line(e: BaseException) -> str:
    """Return the message of another library's error in one line."""
    text = re.sub(r"\x1b\[[0-9;]*m|\u21b3", "", str(e))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = ": ".join(lines) or type(e).__name__
    return found if len(found) <= 300 else found[:300] + "..."


def in_folder(folder: str, name: str) -> str:
    """A path in a folder; the root of a file system may have no name."""
    return f"{folder.rstrip('/')}/{name}" if folder else name
