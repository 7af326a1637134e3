"""Reconcile actions: newer actions hide older ones of the same file and deletion vector.

Source: Delta's PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.ir import compute as pc
from skipstone.ir.arrow import booleans_of, fill, int64_of, python_array, scalar_of
from skipstone.kernels.pack.planes import Mask

AT, NEW_LINE, EMPTY = (scalar_of(text, pa.string()) for text in ("@", "\n", ""))


def paths_of(table: pa.Table) -> pa.ChunkedArray:
    """Return the percent-decoded paths of actions, relative to the table or absolute.

    Example:
        >>> paths_of(pa.table({"path": ["a%2520b", "c"]})).to_pylist()
        ['a%20b', 'c']
    """
    paths = table.column("path")
    return pa.chunked_array([_decoded(chunk) for chunk in paths.chunks], pa.string())


def _decoded(paths: pa.Array) -> pa.Array:
    coded = fill(pc.match_substring(paths, "%"), False)
    if not pc.any(coded).as_py():
        return paths
    return pc.replace_with_mask(
        paths,
        coded,
        python_array([unquoted(p) for p in pc.filter(paths, coded).to_pylist()], pa.string()),
    )


def unquoted(path: str) -> str:
    """Return a path of an action without its percent-encoding."""
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError:  # stay encoded, so that two such paths stay distinct
        return path


def absolute(path: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of an absolute URI that is percent-decoded, and the path on it."""
    if path.startswith("file:/"):
        return pafs.LocalFileSystem(), re.sub(r"^file:/+", "/", path)
    fs, found = pafs.FileSystem.from_uri(quote(path, safe=":/"))
    return fs, found


def keys_of(table: pa.Table, *, decoded: bool = False) -> pa.ChunkedArray:
    """Return the key of each action: its file's path, and its vector's `storageType path @offset`.

    Actions with equal keys are about the same file.

    Args:
        table: Actions, with `path` and `deletionVector`.
        decoded: True if the paths are percent-decoded already.
    """
    paths = table.column("path") if decoded else paths_of(table)
    vectors = table.column("deletionVector")
    if pc.any(pc.starts_with(paths, "file:/")).as_py():
        paths = pc.replace_substring_regex(paths, r"^file:/+", "file:/")
    if vectors.null_count == len(vectors):
        return paths
    where = pc.struct_field(vectors, "pathOrInlineDv")
    offset = pc.struct_field(vectors, "offset")
    offset = pc.if_else(
        pc.is_valid(offset),
        pc.binary_join_element_wise(AT, pc.cast(offset, pa.string()), EMPTY),
        EMPTY,
    )
    # A vector's name has no line break, so no path with a vector equals another path.
    keyed = pc.binary_join_element_wise(
        paths, NEW_LINE, pc.struct_field(vectors, "storageType"), where, offset, EMPTY
    )
    return pc.if_else(pc.is_valid(where), keyed, paths)


def last_adds(adds: pa.Table, removes: pa.Table) -> tuple[Mask, Any]:
    """Return which adds of some commits are live after them, and the keys of all their actions.

    The keys hide the actions of older commits and checkpoints (`hidden`).

    Args:
        adds, removes: Actions with the column `order`: a later action has a greater number.

    Returns:
        A boolean array with one item per add, and the distinct keys as an Arrow array.
    """
    keys = pa.chunked_array([*keys_of(adds).chunks, *keys_of(removes).chunks], pa.string())
    if not len(keys):
        return np.ones(0, np.bool_), keys
    order = np.concatenate([int64_of(t.column("order")) for t in (adds, removes)])
    coded = pc.dictionary_encode(keys).unify_dictionaries().combine_chunks()
    coded = coded if isinstance(coded, pa.DictionaryArray) else coded.chunk(0)
    code = int64_of(coded.indices)
    latest = np.full(len(coded.dictionary), -1, np.int64)
    np.maximum.at(latest, code, order)
    live: Mask = order[: adds.num_rows] == latest[code[: adds.num_rows]]
    return live, coded.dictionary


def hidden(older: pa.Table, keys: Any, *, decoded: bool = False) -> Mask:
    """Return which adds newer actions hide.

    Args:
        older: The adds.
        keys: The keys of the newer actions.
        decoded: True if the paths of `older` are percent-decoded already.
    """
    if not len(keys) or not older.num_rows:
        return np.zeros(older.num_rows, np.bool_)
    return booleans_of(pc.is_in(keys_of(older, decoded=decoded), value_set=keys))
