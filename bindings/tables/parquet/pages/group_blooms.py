"""Rule out row groups by the bloom filters of files that are read.

Neither the log of a Delta table nor the manifests of an Iceberg table say which files have bloom
filters, so planning cannot test them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.membership import none_of, same_axis
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.parquet.blooms import (
    HashedValues,
    admitted_containers,
    find_filters,
    rules_out,
)
from skipstone.bindings.tables.parquet.file_schemas import BloomLocation, StoredType
from skipstone.bindings.tables.parquet.heads import Head
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType
from skipstone.bindings.tables.parquet.pages.page_choice import RowGroup, Window
from skipstone.bindings.tables.parquet.pages.page_statistics import PageBounds, segments_of
from skipstone.bindings.tables.parquet.pages.ranges import REMOTE_GAP
from skipstone.ir.node import Path, columns_of
from skipstone.ir.types import DType, from_arrow
from skipstone.kernels.run.pool import map_requests

Locations = Mapping[int, BloomLocation]


def judge_groups(
    windows: list[Window],
    predicate: PruningPredicate,
    head: Head,
    leaves: Mapping[str, LeafType],
) -> list[Window]:
    """Return the windows of the row groups that bloom filters leave.

    Args:
        windows: All rows of each row group.
        predicate: The condition.
        head: The part of the footer that the files share.
        leaves: Table column -> its type in the files.

    Raises:
        OSError: a file cannot be read.
    """
    groups = [w.group for w in windows]
    paths = columns_of(predicate.node)
    names = [path[0] for path in paths if len(path) == 1 and path[0] in leaves]
    positions = {name: leaves[name].position for name in names if not leaves[name].is_int96}
    stored = {
        name: (from_arrow(leaves[name].arrow), *head.physical[position])
        for name, position in positions.items()
    }
    found = {name: _locations(groups, name, positions[name], kind) for name, kind in stored.items()}
    if not any(found.values()):
        return windows
    bounds = segments_of(
        predicate.schema, head, positions, [(g.rows, _bounds(g, positions)) for g in groups]
    ).statistics
    evidence = GroupBlooms(groups, found, bounds)
    kept = predicate.prune(bounds.with_members(evidence)).tolist()
    return [w for w, one in zip(windows, kept, strict=True) if one]


class GroupBlooms:
    """The bloom filters of row groups of open files, as evidence that they lack values.

    Args:
        groups: The row groups.
        locations: Column -> position of a row group -> location of its filter.
        bounds: The bounds of the row groups.
    """

    def __init__(
        self, groups: Sequence[RowGroup], locations: Mapping[str, Locations], bounds: Statistics
    ) -> None:
        self._groups, self._locations, self._bounds = groups, locations, bounds

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Test which row groups may hold one of the values, as in `PruningStatistics`.

        Raises:
            OSError: a file cannot be read.
        """
        locations = self._locations.get(path[0], {}) if len(path) == 1 else {}
        stored = next((one.stored for one in locations.values()), None)
        if stored is None or not same_axis(stored[0], dtype):
            return None
        hashed = HashedValues(values, stored)
        by_file: dict[int, list[int]] = {}
        for i in admitted_containers(self._bounds, path, values, dtype):
            if i in locations:
                by_file.setdefault(id(self._groups[i].ranges), []).append(i)
        absent = np.zeros(len(self._groups), np.bool_)

        def probe(own: Sequence[int]) -> None:
            ranges = self._groups[own[0]].ranges
            filters = find_filters(ranges, [locations[i] for i in own])
            known = {i: one for i, one in zip(own, filters, strict=True) if one is not None}
            absent[list(known)] = rules_out(ranges.read, [*known.values()], hashed)

        local = all(g.ranges.local for g in self._groups)
        map_requests(probe, list(by_file.values()), local=local)
        return none_of(absent)


def _locations(
    groups: Sequence[RowGroup], name: str, position: int, stored: StoredType
) -> Locations:
    """Return position of a row group -> location of a column's filter, where reading it may pay.

    A remote filter takes another request, and a short column chunk takes no longer to read.
    """
    out = {}
    for i, g in enumerate(groups):
        if g.has_untested_blooms and (g.ranges.local or g.chunks[name].nbytes > REMOTE_GAP):
            bloom = g.footer.bloom(g.number, position)
            if bloom is not None:
                out[i] = BloomLocation(*bloom, stored)
    return out


def _bounds(g: RowGroup, positions: Mapping[str, int]) -> dict[str, PageBounds]:
    """Return the statistics of whole column chunks, as of one page, where they are known."""
    layout, rows = g.footer.layout, np.array([0, g.rows], np.int64)
    if layout is None:
        return {}
    return {
        name: PageBounds(rows, layout.chunks[g.number, position][None], g.footer.data)
        for name, position in positions.items()
    }
