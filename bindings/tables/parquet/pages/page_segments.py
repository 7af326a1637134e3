"""The ranges between page boundaries of row groups, with their statistics, for kernels to judge."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from skipstone.bindings.tables.parquet.heads import Head
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType
from skipstone.bindings.tables.parquet.pages.page_choice import RowGroup, Window, look_up
from skipstone.bindings.tables.parquet.pages.page_statistics import (
    PageBounds,
    Segments,
    bounds_of,
    bounds_of_chunk,
    segments_of,
)
from skipstone.ir.types import leaves_of
from skipstone.kernels.run.recent import Recent

# Memory of a column's statistics in one segment, packed and unpacked, and of all segments that are
# cached for later readers, in bytes.
SEGMENT_NBYTES, MAX_KEPT = 1 << 8, 1 << 24
_recent: Final = Recent[Hashable, Segments](MAX_KEPT)


def segments_in(
    windows: Sequence[Window],
    schema: pa.Schema,
    names: Sequence[str],
    head: Head,
    leaves: Mapping[str, LeafType],
) -> Segments | None:
    """Return the ranges between the page boundaries of whole row groups.

    The ranges of files that have not changed since an earlier call are reused.

    Args:
        windows: All rows of each row group.
        schema: The table's columns.
        names: The columns of the condition that the files have.
        head: The part of the footer that the files share.
        leaves: Table column -> its type in the files.

    Returns:
        The ranges; None if no page statistics are known.

    Raises:
        OSError: a file cannot be read.
    """
    groups, dtypes = [w.group for w in windows], leaves_of(schema)
    key = (
        schema,
        tuple(dtypes[(name,)] for name in names),  # schemas are equal whatever their metadata
        head.orders,
        *((g.ranges.identity, g.number, *(g.chunks[name] for name in names)) for g in groups),
    )
    known = all(g.ranges.identity is not None for g in groups)
    segments = _recent.find(key) if known else None
    if segments is not None:
        for g in groups:
            for name in names:
                g.pages_of(name, judged=True)  # a cached result, too
        return segments
    look_up([(g, name) for g in groups for name in names], judged=True)
    found = [(g.rows, _bounds(g, names, leaves)) for g in groups]
    if not any(bounds for _, bounds in found):
        return None
    positions = {name: leaves[name].position for name in names}
    segments = segments_of(schema, head, positions, found)
    if known:
        _recent.put(key, segments, len(segments.starts) * (1 + len(names)) * SEGMENT_NBYTES)
    return segments


def _bounds(
    g: RowGroup, names: Sequence[str], leaves: Mapping[str, LeafType]
) -> dict[str, PageBounds]:
    """Return the page statistics of columns, where there are any."""
    out = {}
    for name in names:
        pages = g.pages_of(name, judged=True)
        if pages is not None and len(pages) > 1:
            leaf = leaves[name]
            one = bounds_of(g.chunks[name], pages, g.ranges, leaf.physical)
            chunk = bounds_of_chunk(g.footer, g.number, leaf.position)
            if one is not None and chunk is not None:
                out[name] = one._replace(chunk=chunk)
    return out
