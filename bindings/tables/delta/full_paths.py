"""Turn the paths of a log into full paths, spelled as tables of other formats spell them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.location import SCHEMES, in_folder, scheme_of
from skipstone.ir import compute as pc
from skipstone.ir.arrow import scalar_of

EMPTY: Final = scalar_of("", pa.string())
BUCKETS: Final = ("s3", "gcs")  # one server has all buckets, so the bucket's name says which it is


def full_paths(paths: pa.ChunkedArray, fs: pafs.FileSystem, root: str, uri: str) -> pa.ChunkedArray:
    """Return the paths of files on the file system of their table.

    Files in another store, such as those of a shallow clone, have the URIs of the log.

    Args:
        paths: Paths of a log, percent-decoded: relative to the table, or absolute.
        fs: The table's file system.
        root: The table's folder, as `fs` names it; "" if `fs` is one of deltalake's.
        uri: The table, as the caller named it.

    Example:
        >>> paths = pa.chunked_array([["k=1/x.parquet", "file:/old/y.parquet"]])
        >>> full_paths(paths, pafs.LocalFileSystem(), "/lake/t", "t").to_pylist()
        ['/lake/t/k=1/x.parquet', '/old/y.parquet']
    """
    prefix = scalar_of(in_folder(root or _root_of(uri), ""), pa.string())
    absolute = pc.starts_with(paths, "/")
    if has_uris := any(map(_may_have_uris, paths.chunks)):
        of_file = pc.starts_with(paths, "file:/")
        absolute = pc.or_(pc.or_(absolute, of_file), pc.match_substring(paths, "://"))
    full = pc.binary_join_element_wise(prefix, paths, EMPTY)
    if pc.any(absolute).as_py():
        full = pc.if_else(absolute, paths, full)
    if not has_uris:
        return full
    store = fs.type_name if fs.type_name in SCHEMES else _store_of(uri)
    full = pc.replace_substring_regex(full, "^file:/+", "/" if store == "local" else "file:///")
    schemes = "|".join(SCHEMES.get(store, ()))
    if store in BUCKETS:
        return pc.replace_substring_regex(full, f"^({schemes})://", "")
    account = re.escape(urlsplit(uri).netloc.rpartition("@")[2])
    if store == "abfs":
        return pc.replace_substring_regex(full, f"^({schemes})://([^/@]+)@{account}/", r"\2/")
    if store == "hdfs":
        return pc.replace_substring_regex(full, f"^({schemes})://{account}/", "/")
    return full


def _may_have_uris(paths: pa.Array) -> bool:
    """Return False if certainly no path has a scheme; this is ten times as fast as Arrow's search.

    The buffer may hold more texts than the array.
    """
    texts = paths.buffers()[2]
    return texts is not None and re.search(b":/", texts) is not None


def _store_of(uri: str) -> str:
    """Return the `type_name` of pyarrow's file system of a URI; "" if it has none."""
    scheme = scheme_of(uri)
    return next((store for store, schemes in SCHEMES.items() if scheme in schemes), "")


def _root_of(uri: str) -> str:
    """Return the table's folder on pyarrow's file system; its URI if pyarrow has none for it."""
    parts, store = urlsplit(uri), _store_of(uri)
    if not store:
        return parts._replace(query="", fragment="").geturl().rstrip("/")
    user, at, host = parts.netloc.rpartition("@")
    bucket = {"hdfs": "", "abfs": user if at else host}.get(store, host)
    return bucket + unquote(parts.path).rstrip("/")
