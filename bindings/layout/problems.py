"""Find and describe problems with a table's statistics and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.layout.bounds import ranges_of
from skipstone.ir import compute as pc
from skipstone.ir.errors import counted
from skipstone.ir.node import show_path
from skipstone.ir.types import Kind, Leaf

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

# Delta's optimized writes and Spark's partitions of a scan (`spark.sql.files.maxPartitionBytes`)
# aim at 128 MB. A file is left alone if its share of that lies within the limits of Iceberg's
# `rewrite_data_files`.
TARGET_BYTES: Final = 128 << 20
SMALL_SHARE, LARGE_SHARE = 0.75, 1.8
# Delta cuts text bounds after 32 characters, Iceberg after 16, parquet-java and others after 64.
CUT_LENGTHS: Final = (16, 32, 64)
MIN_CUT_SHARE: Final = 0.1  # the least share of bounds of such a length that is reported
ROW_GROUP_ROWS: Final = 1 << 20
# Partitions of fewer bytes, on average, are reported: each has at least one file of its own.
MIN_PARTITION_BYTES: Final = 32 << 20


def problems_of(plan: Plan, leaves: Sequence[Leaf], target: int) -> list[str]:
    """Return what keeps a table's containers from being pruned.

    Args:
        plan: A plan of the whole table.
        leaves: The columns that the workload compares.
        target: The bytes that a file should have.
    """
    out = [line for leaf in leaves for line in _statistics(plan, leaf)]
    return out + _files(plan, target)


def _statistics(plan: Plan, leaf: Leaf) -> list[str]:
    n, unit, name = len(plan.verdicts), plan.table.unit, show_path(leaf.path)
    if not leaf.dtype.ordered:
        return [f"{name}: values of {leaf.dtype} have no order, so only IS NULL can prune"]
    out = []
    ranges = ranges_of(plan.statistics, leaf.path, leaf.dtype)
    wrong = int(ranges.contradictory.sum())
    missing = int((~ranges.bounded & ~ranges.empty).sum()) - wrong
    if missing:
        hint = "write this column with statistics" if missing == n else "rewrite these files"
        if missing == n and unit == "files":
            hint = "logs keep bounds of only the first columns: move this one forward, or list it"
        out.append(f"{name}: no bounds in {missing:,} of {n:,} {unit}; {hint}")
    if wrong:
        out.append(
            f"{name}: impossible bounds in {wrong:,} of {n:,} {unit}, which are ignored; rewrite "
            "these files"
        )
    nulls = plan.table.null_counts(leaf.path)
    uncounted = int((nulls < 0).sum())
    if uncounted and leaf.nullable:
        out.append(
            f"{name}: no NULL counts in {uncounted:,} of {n:,} {unit}, so none of them can be "
            "fully matched"
        )
    if leaf.dtype.kind is Kind.STRING and (cut := _cut_at(plan, leaf)):
        length, share = cut
        out.append(
            f"{name}: {share:.0%} of the bounds end after {length} characters, where writers cut "
            f"them; values that share their first {length} characters cannot be told apart"
        )
    return out


def _cut_at(plan: Plan, leaf: Leaf) -> tuple[int, float] | None:
    """Return the length at which text bounds are cut, and the share of those that are."""
    low = plan.statistics.raw(leaf.path).min
    if low is None:
        return None
    occurs, _ = plan.table.occurring(leaf.path)
    lengths = pc.utf8_length(low.cast("large_string")).fill_null(0)
    each = np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
    longest = int(each.max(initial=0))
    share = float(((each == longest) & ~occurs).mean()) if len(each) else 0.0
    return (longest, share) if longest in CUT_LENGTHS and share >= MIN_CUT_SHARE else None


def file_sizes(table: Any) -> npt.NDArray[np.int64]:
    """Return the bytes of each file of a planned table, those that are known."""
    if hasattr(table, "groups"):
        sizes = table.groups.files.sizes
    elif hasattr(table, "sizes"):
        sizes = table.sizes
    else:
        sizes = table.files.column("size").to_numpy()
    found = np.asarray(sizes, np.int64)
    return found[found >= 0]


def _files(plan: Plan, target: int) -> list[str]:
    sizes = file_sizes(plan.table)
    if not len(sizes):
        return []
    out = []
    smallest, largest = SMALL_SHARE * target, LARGE_SHARE * target
    small = sizes[sizes < smallest]
    large = sizes[sizes > largest]
    if len(small) > 1:
        fewer = max(1, round(int(small.sum()) / target))
        out.append(
            f"{len(small):,} of {len(sizes):,} files are smaller than {shown_bytes(smallest)}"
            f" (median {shown_bytes(np.median(small))}): "
            f"{counted(fewer, f'files of {shown_bytes(target)}')} would hold the same rows, with "
            "less to list and open"
        )
    if len(large):
        out.append(
            f"{len(large):,} of {len(sizes):,} files are larger than {shown_bytes(largest)}:"
            " engines that prune by files read many rows around a match"
        )
    if plan.table.unit == "row groups" and len(plan.verdicts) < 2 * len(sizes):
        rows = plan.table.logical_rows()
        most = int(rows.max(initial=0))
        if (len(plan.verdicts) == 1 and most > 1) or most > ROW_GROUP_ROWS:
            out.append(
                f"{counted(len(plan.verdicts), 'row groups')} in {counted(len(sizes), 'files')}, "
                f"up to {most:,} rows each: smaller row groups can be pruned more finely"
            )
    return out


def shown_bytes(size: float) -> str:
    """Return a size for display: with three digits, or whole if it is a whole number of units.

    Example:
        >>> shown_bytes(128 << 20), shown_bytes(1_153_434), shown_bytes(900)
        ('128 MiB', '1.10 MiB', '900 bytes')
    """
    for unit, one in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= one:
            number = size / one
            whole = number >= 999.5 or number.is_integer()
            return f"{number:,.0f} {unit}" if whole else f"{number:#.3g}".rstrip(".") + f" {unit}"
    return f"{size:,.0f} bytes"
