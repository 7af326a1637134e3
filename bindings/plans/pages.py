"""Hold the row ranges that remain after page pruning, and counts of pages."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

from skipstone.bindings.plans.table_protocol import DataSize, Sizes

# Number of a row group -> half-open ranges of its rows, ascending. None touches the next.
GroupRanges = dict[int, list[tuple[int, int]]]


class FilePages(NamedTuple):
    """The row ranges of a file, or of some of its row groups, that remain after page pruning.

    Attributes:
        path: The file's path, as the plan names it.
        ranges: The ranges of rows of each row group; empty if only the whole file can be kept.
        pages: The pages of the condition's columns that were found.
        remaining: Those that hold a row of a range.
    """

    path: str
    ranges: GroupRanges
    pages: int = 0
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class PlanPages:
    """The row ranges of a plan's files that remain after page pruning.

    Attributes:
        ranges: Path -> row group -> ranges of rows.
        pages, remaining: As in `FilePages`, for all files.
    """

    ranges: dict[str, GroupRanges]
    pages: int
    remaining: int

    @property
    def row_groups(self) -> tuple[int, int]:
        """The number of row groups whose rows are known, and of those with a range."""
        groups = [ranges for file in self.ranges.values() for ranges in file.values()]
        return len(groups), sum(map(bool, groups))

    def within(self, sizes: Sizes) -> Sizes:
        """Return the sizes of the plan, with those of its pages."""
        files, rows = 0, 0
        for groups in self.ranges.values():
            files += not groups or any(groups.values())
            rows += sum(stop - first for each in groups.values() for first, stop in each)
        known = all(self.ranges.values())
        is_live = known and sizes.scan.rows == sizes.scan.logical_rows
        remaining = DataSize(
            files, None, rows if known else None, rows if is_live else None, self.remaining
        )  # fmt: skip
        return dataclasses.replace(
            sizes, scan=dataclasses.replace(sizes.scan, pages=self.pages), pages=remaining
        )
