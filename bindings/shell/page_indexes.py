"""Count the files and row groups that have page indexes, from footers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import page_layout as layout

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.table import ParquetTable

INDEXES = tuple(
    1 << slot
    for slot in (
        layout.OFFSET_INDEX,
        layout.OFFSET_INDEX_SIZE,
        layout.COLUMN_INDEX,
        layout.COLUMN_INDEX_SIZE,
    )
)


@dataclass(frozen=True, slots=True)
class PageIndexCounts:
    """Counts of files and row groups that have both a column index and an offset index.

    Attributes:
        files: Files with page indexes of at least one column.
        row_groups: Row groups with page indexes of at least one column.
        unknown: Files whose own footer was not read.
    """

    files: int
    row_groups: int
    unknown: int


def count_page_indexes(table: ParquetTable) -> PageIndexCounts:
    """Return the counts of a table; nothing is read."""
    files = row_groups = unknown = 0
    for path in table.all_files:
        indexed = _indexed_groups(table.footers.get(path))
        if indexed is None:
            unknown += 1
            continue
        files += indexed > 0
        row_groups += indexed
    return PageIndexCounts(files, row_groups, unknown)


def _indexed_groups(parsed: ParsedFooter | None) -> int | None:
    """Return the number of a file's row groups with page indexes; None if it is not known."""
    if parsed is None:
        return None
    parsed.locate_pages()
    if parsed.page_locations is None:
        return None
    said, every = parsed.page_locations[:, :, at.FLAGS], sum(INDEXES)
    return int(np.count_nonzero(((said & every) == every).any(axis=1)))
