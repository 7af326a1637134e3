"""Read the pages of nested columns that hold candidate rows, one Parquet column after another.

Arrow decodes them, as it decodes nested columns that are read whole. The pages of the Parquet
columns of one struct have different boundaries, so each is decoded by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from skipstone.bindings.tables.parquet.pages.candidate_rows import CandidateRows
from skipstone.bindings.tables.parquet.pages.chunk import Chunk
from skipstone.bindings.tables.parquet.pages.chunk_pages import headers_in, is_data
from skipstone.bindings.tables.parquet.pages.decoders import ArrowColumns
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType, key_of
from skipstone.bindings.tables.parquet.pages.nested.assemble import assembled
from skipstone.bindings.tables.parquet.pages.nested.nested_types import NestedColumns, NestedType
from skipstone.bindings.tables.parquet.pages.nested.whole_columns import read_whole
from skipstone.bindings.tables.parquet.pages.ranges import REMOTE_GAP, Ranges
from skipstone.bindings.tables.parquet.pages.wanted_pages import (
    CandidateGroup,
    WantedColumn,
    page_file,
    read_wanted,
    wanted_pages,
)
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.kernels.decode import footer_loops as at

# Pages are read if they have at most this share of the bytes of their column: decoding Parquet
# columns one by one, and putting them together, takes longer.
MAX_SHARE: Final = 0.75


def read_columns(
    groups: Sequence[CandidateGroup],
    schema: pa.Schema,
    nested: NestedColumns | None,
    rows: CandidateRows,
    *,
    limited: bool,
) -> dict[str, ArrowColumns]:
    """Return columns of the candidate rows: by pages where that saves much, else whole.

    Args:
        groups: The row groups with candidate rows.
        schema: The columns, as the table has them.
        nested: Those of which pages may be read.
        rows: The candidates among the rows of all windows.
        limited: True if the first rows may be enough.

    Raises:
        SourceError: the files hold other rows than their footers say, or times or days that Arrow
            misreads.
        OSError, ArrowException: a file cannot be read.
    """
    out, rest = {}, []
    for field in schema:
        kind = None if nested is None else nested.types.get(field.name)
        values = None if kind is None else _by_pages(groups, field.name, kind, rows)
        if values is None:
            rest.append(field)
        else:
            out[field.name] = ArrowColumns(pa.table([values], schema=pa.schema([field])))
    if rest:
        early = limited or all(_pages_follow(groups, f.name, nested) for f in rest)
        whole = read_whole(groups, pa.schema(rest), stop_early=early)
        if whole.rows != rows.count:
            path = groups[0].windows[0].group.path
            raise SourceError(f"{path}: expected {rows.count} rows, Arrow read {whole.rows}")
        out |= {field.name: whole for field in rest}
    return out


def _pages_follow(
    groups: Sequence[CandidateGroup], name: str, nested: NestedColumns | None
) -> bool:
    """Return True if page headers show that no value of a local column is in another place.

    Arrow passes over pages of unknown kinds, and the values after them then belong to other rows.
    """
    kind = None if nested is None else nested.types.get(name)
    if kind is None:
        return False
    keys = [key_of((name, *path)) for path in _needed(groups, name, kind)]
    return all(
        g.ranges.local and all(key in g.chunks and _follow(g.chunks[key], g.ranges) for key in keys)
        for g in (of.windows[0].group for of in groups)
    )


def _follow(chunk: Chunk, ranges: Ranges) -> bool:
    """Return True if the pages of a chunk are of known kinds, and hold all of its values."""
    found = headers_in(chunk, ranges)
    if found is None:
        return False
    of_data = is_data(found[1])
    values = found[1][of_data, at.PAGE_VALUES]
    return bool(of_data[1:].all()) and int(values.sum()) == chunk.values


def _by_pages(
    groups: Sequence[CandidateGroup], name: str, nested: NestedType, rows: CandidateRows
) -> pa.Array | None:
    """Return a nested column of the candidate rows, as the table has it.

    Args:
        groups: The row groups with candidate rows.
        name: The column.
        nested: Its type in the files.
        rows: The candidates among the rows of all windows.

    Returns:
        The column; None if it has to be read whole, or if that costs less.

    Raises:
        SourceError: the pages hold other rows than the footer says.
        OSError, ArrowException: a file cannot be read.
    """
    leaves = _needed(groups, name, nested)
    keys = {key_of((name, *path)): path for path in leaves}
    first = groups[0].windows[0].group
    if all(g.is_whole for g in groups) or not all(_can_find_pages(g, keys) for g in groups):
        return None
    wanted = wanted_pages(groups, list(keys))
    whole = sum(g.windows[0].group.chunks[key].nbytes for g in groups for key in keys)
    if sum(part.nbytes for one in wanted for _, part, *_ in one.parts) > MAX_SHARE * whole:
        return None
    read_wanted(wanted, REMOTE_GAP)
    chains = {}
    for one in wanted:
        path = keys[one.name]
        chains[path] = _decoded(one, leaves[path], rows, first.path)
    return first.convert(name, assembled(nested.arrow, chains))


def _needed(
    groups: Sequence[CandidateGroup], name: str, nested: NestedType
) -> dict[Path, LeafType]:
    """Return the Parquet columns of a column that are needed: those of the parts of a struct."""
    first = groups[0].windows[0].group
    parts = first.inner.get(name)
    if parts is None:
        return dict(nested.leaves)
    paths = [tuple(part.split(".")[1:]) for part in parts]
    return {
        path: leaf
        for path, leaf in nested.leaves.items()
        if any(path[: len(part)] == part for part in paths)
    }


def _can_find_pages(group: CandidateGroup, keys: Iterable[str]) -> bool:
    """Return True if the pages of Parquet columns may be found without reading whole columns."""
    g = group.windows[0].group
    chunks = [g.chunks.get(key) for key in keys]
    return all(c is not None and (c.offset_index or g.ranges.local) for c in chunks)


def _decoded(one: WantedColumn, leaf: LeafType, rows: CandidateRows, path: str) -> pa.Array:
    """Return the candidate rows of a Parquet column, within the levels around it."""
    keep = one.placement.keep(None if rows.all else rows.mask)
    with page_file([one], {one.name: leaf}, keep, path) as file:
        found = ArrowColumns.of(file)
    if found.rows != rows.count:
        raise SourceError(f"{path}: expected {rows.count} rows, its pages have {found.rows}")
    return found.select(file.names, None).column(0).combine_chunks()
